//! What a formula leaves unexplained, known near measured shapes.
//!
//! ```text
//! time = start + blocks exp( sum over anchors of weight (1 + r) exp(-r) ),    r = sqrt(3) distance / length
//! ```
//!
//! (Matérn's covariance of 3/2, whose functions may bend sharply, as times do where a library changes its kernel.) The
//! distance is between the places of the shapes, see [`place`](super::place). Away from the anchors the sum falls to 0 and
//! the formula stands alone. At an anchor itself the measured time may override both. No correction takes a kernel below
//! its roofline.

use std::collections::BTreeMap;

use super::place::{Place, Shape};
use super::{Dtype, KernelClass, KernelCost, KernelError, KernelModel, Pass, StreamClass};

/// The committed corrections, `hw-models/catalogue/corrections.csv`.
pub const CORRECTIONS: &str = include_str!("../../catalogue/corrections.csv");

/// First line of a table of corrections.
pub const CORRECTIONS_HEADER: &str = "device,kernel,length,traits,kind,shape,log_ratio,weight";

/// How far measured shapes correct the formulas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correct {
    /// Not at all.
    Never,
    /// Near measured shapes; a measured shape itself is no exception. For judging the model on measurements.
    Near,
    /// Near measured shapes, and at a measured shape its measured time holds.
    #[default]
    Exactly,
}

/// Corrections of a class of kernels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Corrections {
    /// How far an anchor reaches (in logarithms of a dimension).
    pub length: f64,
    /// How much traits of a shape beside its dimensions count.
    pub traits: f64,
    /// Measured shapes.
    pub anchors: Vec<Anchor>,
}

/// A measured shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Anchor {
    /// The shape.
    pub shape: Shape,
    /// Where it lies among others.
    pub place: Place,
    /// `ln(measured / formula)`, both without the start of the kernel.
    pub log_ratio: f64,
    /// Weight in the sum.
    pub weight: f64,
}

impl Corrections {
    /// `ln` of the factor on the time that the blocks of a shape take.
    pub fn log_factor(&self, class: KernelClass, shape: &Shape, correct: Correct) -> f64 {
        if correct == Correct::Never {
            return 0.0;
        }
        let exact = self.anchors.iter().find(|anchor| correct == Correct::Exactly && anchor.shape == *shape);
        exact.map_or_else(
            || {
                let place = shape.place(class);
                self.anchors.iter().map(|anchor| anchor.weight * self.covariance(&place, &anchor.place)).sum()
            },
            |anchor| anchor.log_ratio,
        )
    }

    /// How alike two places are, from 1 to 0.
    pub fn covariance(&self, a: &Place, b: &Place) -> f64 {
        let distance = a.distance(b, self.traits) / self.length;
        let scaled = 3_f64.sqrt() * distance;
        (1.0 + scaled) * (-scaled).exp()
    }

    /// The rows of a table of corrections that a device has, by class.
    ///
    /// # Errors
    /// At the first row of the device that is not as [`CORRECTIONS_HEADER`] says.
    pub fn of_device(table: &str, device: &str) -> Result<BTreeMap<KernelClass, Self>, KernelError> {
        let mut found: BTreeMap<KernelClass, Self> = BTreeMap::new();
        for (at, line) in table.lines().enumerate() {
            let Some(row) = line.strip_prefix(device).and_then(|rest| rest.strip_prefix(',')) else {
                continue;
            };
            let (class, length, traits, anchor) = parsed(row).ok_or_else(|| {
                let at = at + 1;
                KernelError(format!(
                    "corrections, line {at}: `{line}` is not as its first line says: {CORRECTIONS_HEADER}"
                ))
            })?;
            let corrections = found.entry(class).or_default();
            (corrections.length, corrections.traits) = (length, traits);
            corrections.anchors.push(anchor);
        }
        Ok(found)
    }

    /// The rows of a table of corrections, as [`Self::of_device`] reads them.
    pub fn rows<'a>(&'a self, device: &'a str, class: KernelClass) -> impl Iterator<Item = String> + 'a {
        self.anchors.iter().map(move |Anchor { shape, log_ratio, weight, .. }| {
            let dimensions: Vec<String> = shape.dimensions.iter().map(u64::to_string).collect();
            let (length, traits, kind, shape) = (self.length, self.traits, shape.kind, dimensions.join(" "));
            format!("{device},{class},{length},{traits},{kind},{shape},{log_ratio:.4},{weight:.4}")
        })
    }
}

fn parsed(row: &str) -> Option<(KernelClass, f64, f64, Anchor)> {
    let mut cells = row.split(',');
    let class = KernelClass::named(cells.next()?)?;
    let length = cells.next()?.parse().ok().filter(|&length: &f64| length > 0.0)?;
    let traits = cells.next()?.parse().ok()?;
    let kind = cells.next()?.parse().ok()?;
    let dimensions = cells.next()?.split(' ').map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let (log_ratio, weight) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
    let shape = Shape { kind, dimensions };
    let place = shape.place(class);
    Some((class, length, traits, Anchor { shape, place, log_ratio, weight }))
}

impl KernelModel {
    /// A cost by formula, corrected; `compute` is the least time of its arithmetic (s).
    pub(super) fn corrected(
        &self,
        cost: KernelCost,
        compute: f64,
        shape: impl FnOnce() -> Shape,
    ) -> KernelCost {
        let Some(corrections) = self.parameters.corrections(cost.class) else { return cost };
        let factor = corrections.log_factor(cost.class, &shape(), self.correct).exp();
        let roofline = compute.max(cost.bytes as f64 / self.facts.hbm_bytes_per_s);
        let least = (roofline - cost.fixed.as_secs()) / cost.of_blocks();
        cost.stretched(if factor.is_finite() { factor.max(least) } else { 1.0 })
    }
}

impl KernelCost {
    /// The cost of a kernel whose blocks take `factor` times as long.
    fn stretched(mut self, factor: f64) -> Self {
        for row in &mut self.rows {
            row.bytes_per_s /= factor;
        }
        self
    }
}

impl KernelClass {
    /// The class of a name as [`Display`](std::fmt::Display) writes it.
    pub fn named(name: &str) -> Option<Self> {
        let all = Dtype::ALL.into_iter().flat_map(|dtype| {
            [
                Self::Gemm(dtype),
                Self::Batched(dtype),
                Self::Grouped(dtype),
                Self::Convolution(dtype),
                Self::Segments(dtype),
            ]
        });
        let passes = [Pass::Forward, Pass::Backward].map(Self::Attention);
        let streams = StreamClass::ALL.map(Self::Stream);
        let mut all = all.chain(passes).chain(streams).chain([Self::Traversal]);
        all.find(|class| class.to_string() == name)
    }
}
