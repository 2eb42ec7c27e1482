//! What a formula leaves unexplained, known near measured shapes.
//!
//! ```text
//! time = formula exp( sum over anchors of weight exp(-distance^2 / 2 length^2) )
//! ```
//!
//! The distance is between the logarithms of the shapes, plus one step between kinds of kernels (layouts, passes). Away
//! from the anchors the sum falls to 0 and the formula stands alone. At an anchor itself the measured time may override
//! both. No correction takes a kernel below its roofline.

use std::collections::BTreeMap;

use super::{Dtype, KernelClass, KernelCost, KernelError, KernelModel, Pass, StreamClass};

/// The committed corrections, `hw-models/catalogue/corrections.csv`.
pub const CORRECTIONS: &str = include_str!("../../catalogue/corrections.csv");

/// First line of a table of corrections.
pub const CORRECTIONS_HEADER: &str = "device,kernel,length,kind,shape,log_ratio,weight";

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
    /// Measured shapes.
    pub anchors: Vec<Anchor>,
}

/// A measured shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Anchor {
    /// The shape.
    pub shape: Shape,
    /// `ln(measured / formula)`.
    pub log_ratio: f64,
    /// Weight in the sum.
    pub weight: f64,
}

/// Dimensions that place a kernel among measured ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which kind of kernel: a layout, a pass.
    pub kind: u8,
    /// Its dimensions, all positive.
    pub dimensions: Vec<u64>,
}

impl Corrections {
    /// `ln` of the factor on the time of a shape.
    pub fn log_factor(&self, shape: &Shape, correct: Correct) -> f64 {
        if correct == Correct::Never {
            return 0.0;
        }
        let exact = self.anchors.iter().find(|anchor| correct == Correct::Exactly && anchor.shape == *shape);
        exact.map_or_else(
            || self.anchors.iter().map(|anchor| anchor.weight * self.closeness(shape, &anchor.shape)).sum(),
            |anchor| anchor.log_ratio,
        )
    }

    /// Covariance of two anchors.
    pub(crate) fn kernel(&self, a: &Anchor, b: &Anchor) -> f64 {
        self.closeness(&a.shape, &b.shape)
    }

    fn closeness(&self, a: &Shape, b: &Shape) -> f64 {
        let along = |(&a, &b): (&u64, &u64)| (a.max(1) as f64 / b.max(1) as f64).ln().powi(2);
        let kinds = f64::from(u8::from(a.kind != b.kind));
        let squared = kinds + a.dimensions.iter().zip(&b.dimensions).map(along).sum::<f64>();
        (-squared / (2.0 * self.length * self.length)).exp()
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
            let (class, length, anchor) =
                parsed(row).ok_or_else(|| KernelError::Correction { line: at + 1, row: line.to_owned() })?;
            let corrections = found.entry(class).or_default();
            corrections.length = length;
            corrections.anchors.push(anchor);
        }
        Ok(found)
    }

    /// The rows of a table of corrections, as [`Self::of_device`] reads them.
    pub fn rows<'a>(&'a self, device: &'a str, class: KernelClass) -> impl Iterator<Item = String> + 'a {
        self.anchors.iter().map(move |Anchor { shape, log_ratio, weight }| {
            let dimensions: Vec<String> = shape.dimensions.iter().map(u64::to_string).collect();
            let (length, kind, shape) = (self.length, shape.kind, dimensions.join(" "));
            format!("{device},{class},{length},{kind},{shape},{log_ratio:.4},{weight:.4}")
        })
    }
}

fn parsed(row: &str) -> Option<(KernelClass, f64, Anchor)> {
    let mut cells = row.split(',');
    let class = KernelClass::named(cells.next()?)?;
    let length = cells.next()?.parse().ok().filter(|&length: &f64| length > 0.0)?;
    let kind = cells.next()?.parse().ok()?;
    let dimensions = cells.next()?.split(' ').map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let (log_ratio, weight) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
    Some((class, length, Anchor { shape: Shape { kind, dimensions }, log_ratio, weight }))
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
        let factor = corrections.log_factor(&shape(), self.correct).exp();
        let roofline = compute.max(cost.bytes as f64 / self.facts.hbm_bytes_per_s);
        let least = roofline / cost.alone().as_secs();
        cost.stretched(if factor.is_finite() { factor.max(least) } else { 1.0 })
    }
}

impl KernelCost {
    /// The cost of a kernel that takes `factor` times as long.
    fn stretched(mut self, factor: f64) -> Self {
        self.fixed = super::picoseconds(self.fixed.as_secs() * factor);
        for row in &mut self.rows {
            row.bytes_per_s /= factor;
        }
        self
    }
}

impl KernelClass {
    /// The class of a name as [`Display`](std::fmt::Display) writes it.
    pub(super) fn named(name: &str) -> Option<Self> {
        let all = Dtype::ALL.into_iter().flat_map(|dtype| {
            [Self::Gemm(dtype), Self::Batched(dtype), Self::Grouped(dtype), Self::Convolution(dtype)]
        });
        let passes = [Pass::Forward, Pass::Backward].map(Self::Attention);
        all.chain(passes).chain(StreamClass::ALL.map(Self::Stream)).find(|class| class.to_string() == name)
    }
}
