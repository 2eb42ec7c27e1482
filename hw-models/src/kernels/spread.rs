//! How far the models of kernels are off on what nothing was fitted to.
//!
//! The rows of [`SPREADS`] are written by the code that fits the constants: errors of a class on a GPU, as logarithms of
//! `predicted / measured`, with its own constants and with those of every other GPU that has some. What all kernels of a
//! class share, its bias, and how single shapes scatter around it are told apart, as only the latter cancels in a step.
//!
//! ```text
//! own table      bias^2 = (mean^2 + scatter^2 / n) t^2 + twin^2
//! another's      bias^2 = mean over pairs of GPUs that are as near of mean^2
//! ```
//!
//! A table is of one board, one library and one laboratory: what twins, boards of one generation and about one power, are
//! off with each other's constants is what another board of the same make must expect. t widens few rows as Student does.

use std::collections::BTreeMap;
use std::mem::discriminant;

use crate::catalogue::{Catalogue, Gpu};
use crate::errors::Errors;

use super::KernelClass;
use super::parameters::kin;

/// Errors of kernels on what nothing was fitted to, `hw-models/catalogue/spreads.csv`.
pub const SPREADS: &str = include_str!("../../catalogue/spreads.csv");

/// The first line of a table of spreads.
pub const SPREADS_HEADER: &str = "device,kernel,constants,rows,bias,scatter";

/// Student's t at 95 % over the normal 1.645, for 2, 3, ... rows; from 11 on it is 1.
const FEW: [f64; 9] = [3.84, 1.78, 1.43, 1.30, 1.22, 1.18, 1.15, 1.13, 1.11];
/// Boards whose powers differ by no more than this factor hold about the same clocks, which go as the cube root.
const TWIN_POWER: f64 = 1.25;

/// A table of errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Spreads {
    rows: Vec<Row>,
    /// Of classes that were measured on the very board.
    here: BTreeMap<(String, KernelClass), Spread>,
}

/// Standard deviations of `ln(predicted / measured)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Of what all kernels of a class share.
    pub bias: f64,
    /// Of single shapes around that.
    pub scatter: f64,
}

/// Errors of a class on a GPU with constants of one.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    device: String,
    class: KernelClass,
    constants: String,
    spread: Spread,
}

/// How near a GPU is to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kinship {
    /// Of its generation and about its power.
    Twin,
    /// Of its generation.
    Sister,
    /// Of another.
    Stranger,
}

impl Spreads {
    /// Reads a table; none if a row is not as [`SPREADS_HEADER`] says.
    pub fn read(table: &str) -> Option<Self> {
        let mut lines = table.lines();
        lines.next().filter(|header| *header == SPREADS_HEADER)?;
        let rows = lines.map(Row::read).collect::<Option<_>>()?;
        Some(Self { rows, here: BTreeMap::new() })
    }

    /// Replaces what is known of a class on a GPU by what its constants, fitted to measurements of the very board, were off.
    /// Too few measurements tell nothing: what is known stays.
    pub fn replace(&mut self, device: &str, class: KernelClass, held_out: &Errors) {
        if let Some(spread) = Spread::of(held_out) {
            self.here.insert((device.to_owned(), class), spread);
        }
    }

    /// How uncertain kernels of a class on a GPU are, by its name and its entry. What it has no
    /// table for is carried over from the nearest GPU that has one; a class that no GPU has, from
    /// another of its kind, as if from a sister at best. A GPU that is described as like another is
    /// its sister at best.
    pub fn of(&self, catalogue: &Catalogue, (device, gpu): (&str, &Gpu), class: KernelClass) -> Spread {
        if let Some(&spread) = self.here.get(&(device.to_owned(), class)) {
            return spread;
        }
        let tables = || self.rows.iter().filter(|row| row.constants == row.device);
        let of_class = || tables().filter(|row| stand_in(row.class, class));
        if let Some(own) = of_class().find(|row| row.device == device) {
            let twins = self.carried(catalogue, Kinship::Twin, class);
            return Spread { bias: own.spread.bias.hypot(twins.bias), ..own.spread };
        }
        let described = !catalogue.gpus.contains_key(device);
        let kin_of = |row: &Row| {
            let known = catalogue.gpus.get(&row.device);
            let kinship = known.map_or(Kinship::Stranger, |known| kinship(gpu, known));
            if described { kinship.max(Kinship::Sister) } else { kinship }
        };
        let kinships = of_class().map(kin_of);
        let of_kind = tables().filter(|row| discriminant(&row.class) == discriminant(&class));
        let of_kind = of_kind.map(|row| kin_of(row).max(Kinship::Sister));
        let nearest = kinships.min().or_else(|| of_kind.min()).unwrap_or(Kinship::Stranger);
        self.carried(catalogue, nearest, class)
    }

    /// What GPUs so near are off with each other's constants: root mean squares over pairs that were measured with the class,
    /// or else with one of its kind, or else with any.
    fn carried(&self, catalogue: &Catalogue, near: Kinship, class: KernelClass) -> Spread {
        let pairs = || {
            let others = self.rows.iter().filter(|row| row.constants != row.device);
            let known = |name: &str| catalogue.gpus.get(name);
            others.filter(move |row| {
                let both = known(&row.device).zip(known(&row.constants));
                both.map_or(Kinship::Stranger, |(a, b)| kinship(a, b)) == near
            })
        };
        root_mean_square(pairs().filter(|row| stand_in(row.class, class)))
            .or_else(|| {
                root_mean_square(pairs().filter(|row| discriminant(&row.class) == discriminant(&class)))
            })
            .or_else(|| root_mean_square(pairs()))
            .unwrap_or_default()
    }
}

impl Spread {
    /// Of a calibration, by what it was off on what was held out: of that, nine of ten are within 1.645 standard deviations.
    fn of(held_out: &Errors) -> Option<Self> {
        let all = held_out.p90 / 1.645;
        let scatter = (all.powi(2) - held_out.bias.powi(2)).max(0.0).sqrt();
        Self::own(held_out.samples, held_out.bias, scatter)
    }

    /// Of a table; of a single row nothing follows.
    fn own(rows: usize, mean: f64, scatter: f64) -> Option<Self> {
        let few = FEW.get(rows.checked_sub(2)?).copied().unwrap_or(1.0);
        let of_mean = scatter / (rows as f64).sqrt();
        Some(Self { bias: few * mean.hypot(of_mean), scatter: few * scatter })
    }

    /// What nine of ten kernels of a shape are within.
    pub fn within(self) -> f64 {
        1.645 * self.bias.hypot(self.scatter)
    }
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let mut cells = line.split(',');
        let (device, class) = (cells.next()?.to_owned(), KernelClass::named(cells.next()?)?);
        let constants = cells.next()?.to_owned();
        let rows: usize = cells.next()?.parse().ok()?;
        let (mean, scatter): (f64, f64) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
        let spread = if constants == device {
            Spread::own(rows, mean, scatter)?
        } else {
            Spread { bias: mean.abs(), scatter }
        };
        Some(Self { device, class, constants, spread })
    }
}

/// Whether constants of a class are taken for another: the two 16-bit types run on the same units.
fn stand_in(class: KernelClass, other: KernelClass) -> bool {
    use KernelClass::{Batched, Convolution, Gemm, Grouped};
    class == other
        || match (class, other) {
            (Gemm(a), Gemm(b))
            | (Batched(a), Batched(b))
            | (Grouped(a), Grouped(b))
            | (Convolution(a), Convolution(b)) => kin(a) == b,
            _ => false,
        }
}

fn kinship(a: &Gpu, b: &Gpu) -> Kinship {
    if a.architecture != b.architecture {
        Kinship::Stranger
    } else if a.tdp_w.max(b.tdp_w) <= TWIN_POWER * a.tdp_w.min(b.tdp_w) {
        Kinship::Twin
    } else {
        Kinship::Sister
    }
}

/// None of none.
fn root_mean_square<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Spread> {
    let (mut count, mut bias, mut scatter) = (0.0, 0.0, 0.0);
    for Row { spread, .. } in rows {
        count += 1.0;
        bias += spread.bias.powi(2);
        scatter += spread.scatter.powi(2);
    }
    (count > 0.0).then(|| Spread { bias: (bias / count).sqrt(), scatter: (scatter / count).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::super::{Dtype, Pass, StreamClass};
    use super::*;

    const TABLE: &str = "device,kernel,constants,rows,bias,scatter\n\
                         a100-pcie-40gb,gemm-fp32,a100-pcie-80gb,99,0.03,0.10\n\
                         a100-pcie-80gb,gemm-fp32,a100-pcie-40gb,99,-0.04,0.10\n\
                         a100-pcie-80gb,gemm-bf16,a100-pcie-80gb,100,0.06,0.80\n\
                         a100-pcie-80gb,gemm-bf16,a100-sxm4-80gb,99,0.20,0.12\n\
                         a100-sxm4-80gb,gemm-bf16,a100-pcie-80gb,20,-0.20,0.12\n\
                         b200-sxm-180gb,attention-forward,b200-sxm-180gb,2,0.00,0.10\n\
                         b200-sxm-180gb,attention-forward,a100-pcie-80gb,9,0.25,0.07\n";

    #[test]
    fn bias_and_scatter_go_by_how_near_the_constants_are() {
        let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).expect("it is valid");
        let spreads = Spreads::read(TABLE).expect("a table");
        let of = |device: &str, class| spreads.of(&catalogue, (device, &catalogue.gpus[device]), class);
        let gemm = KernelClass::Gemm;
        let close = |found: Spread, bias: f64, scatter: f64| {
            assert!((found.bias - bias).abs() < 1e-9 && (found.scatter - scatter).abs() < 1e-9, "{found:?}");
        };
        // The mean, its own error 0.8 / 10, and sqrt((0.03^2 + 0.04^2) / 2) of twins.
        let twins = (0.0025_f64 / 2.0).sqrt();
        close(of("a100-pcie-80gb", gemm(Dtype::Bf16)), 0.1_f64.hypot(twins), 0.8);
        close(of("a100-pcie-80gb", gemm(Dtype::Fp16)), 0.1_f64.hypot(twins), 0.8);
        close(of("a100-pcie-40gb", gemm(Dtype::Bf16)), twins, 0.1);
        close(of("a100-sxm4-40gb", gemm(Dtype::Bf16)), 0.2, 0.12);
        // On another generation, as no class of the kind was tried: as attention was.
        close(of("h100-sxm5-80gb", gemm(Dtype::Bf16)), 0.25, 0.07);
        // No GPU has it in 8 bits: at best as a sister's.
        close(of("a100-pcie-80gb", gemm(Dtype::Fp8)), 0.2, 0.12);
        // Two rows say little: t is 3.84 times the normal. The twins are those of other kinds.
        let few = 3.84 * 0.1;
        let attention = KernelClass::Attention(Pass::Forward);
        close(of("b200-sxm-180gb", attention), (few / 2_f64.sqrt()).hypot(twins), few);
        close(of("t4", KernelClass::Stream(StreamClass::Softmax)), 0.25, 0.07);
    }

    #[test]
    fn a_table_is_as_its_first_line_says() {
        assert!(Spreads::read("device,kernel,rows,spread\nt4,gemm-fp16,9,0.1\n").is_none());
        let row = |row: &str| Spreads::read(&format!("{SPREADS_HEADER}\n{row}\n"));
        assert!(row("t4,gemm-fp16,t4,9,0.1,0.1").is_some());
        assert!(row("t4,no-such,t4,9,0.1,0.1").is_none() && row("t4,gemm-fp16,t4,1,0.1,0.1").is_none());
    }
}
