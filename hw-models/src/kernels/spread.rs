//! How far the models of kernels are off on what nothing was fitted to.
//!
//! The rows of [`SPREADS`] are written by the code that fits the constants: nine of ten held-out measurements of a class lie
//! within its spread, relative to the prediction; few measurements widen it as Student's t widens an interval. A class that
//! was never held out on a GPU is as uncertain as its like: the same class on GPUs of the generation, or else on any, or else
//! the same kind of kernel in another type, or else all; of several the median, of two the larger.

use std::mem::discriminant;

use crate::catalogue::Catalogue;

use super::KernelClass;

/// Held-out errors of the kernels that were measured, `hw-models/catalogue/spreads.csv`.
pub const SPREADS: &str = include_str!("../../catalogue/spreads.csv");

/// The first line of a table of spreads.
pub const SPREADS_HEADER: &str = "device,kernel,rows,spread";

/// Student's t at 95 % over the normal 1.645, for 2, 3, ... rows; from 11 on it is 1.
const FEW: [f64; 9] = [3.84, 1.78, 1.43, 1.30, 1.22, 1.18, 1.15, 1.13, 1.11];

/// A table of held-out errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Spreads(Vec<Spread>);

/// A class of kernels that was measured on a GPU.
#[derive(Clone, Debug, PartialEq)]
struct Spread {
    device: String,
    class: KernelClass,
    /// Nine of ten rows are within it, relative.
    within: f64,
}

impl Spreads {
    /// Reads a table; none if a row is not as [`SPREADS_HEADER`] says.
    pub fn read(table: &str) -> Option<Self> {
        let rows = table.lines().skip(1).map(|line| {
            let mut cells = line.split(',');
            let (device, class) = (cells.next()?.to_owned(), KernelClass::named(cells.next()?)?);
            let rows: usize = cells.next()?.parse().ok()?;
            let within: f64 = cells.next()?.parse().ok()?;
            let few = rows.checked_sub(2).map(|at| FEW.get(at).copied().unwrap_or(1.0));
            Some((device, class, few.map(|few| within * few)))
        });
        // Of a single row nothing follows.
        let told = |(device, class, within)| Some(Spread { device, class, within: within? });
        Some(Self(rows.collect::<Option<Vec<_>>>()?.into_iter().filter_map(told).collect()))
    }

    /// What nine of ten kernels of a class on a GPU are within, relative to the prediction.
    pub fn of(&self, catalogue: &Catalogue, device: &str, class: KernelClass) -> f64 {
        let generation = |name: &str| catalogue.gpus.get(name).map(|gpu| &gpu.architecture);
        let own = generation(device);
        let of_generation = |other: &str| own.is_some() && generation(other) == own;
        let told = |like: &dyn Fn(&Spread) -> bool| {
            let like = self.0.iter().filter(|spread| like(spread));
            let mut within: Vec<f64> = like.map(|spread| spread.within).collect();
            within.sort_by(f64::total_cmp);
            within.get(within.len() / 2).copied()
        };
        told(&|spread| spread.class == class && spread.device == device)
            .or_else(|| told(&|spread| spread.class == class && of_generation(&spread.device)))
            .or_else(|| told(&|spread| spread.class == class))
            .or_else(|| told(&|spread| discriminant(&spread.class) == discriminant(&class)))
            .or_else(|| told(&|_| true))
            .unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dtype, Pass, StreamClass};
    use super::*;

    const TABLE: &str = "device,kernel,rows,spread\na100-pcie-80gb,gemm-bf16,18,0.1\nb200-sxm-180gb,gemm-bf16,57,0.3\n\
                         t4,gemm-fp16,20,0.2\nb200-sxm-180gb,attention-forward,2,0.1\nt4,softmax,1,0.5\n";

    #[test]
    fn what_was_not_measured_is_as_uncertain_as_its_like() {
        let spreads = Spreads::read(TABLE).expect("a table");
        let of = |device, class| spreads.of(&Catalogue::default(), device, class);
        let gemm = KernelClass::Gemm;
        assert_eq!(of("a100-pcie-80gb", gemm(Dtype::Bf16)), 0.1);
        assert_eq!(of("h100", gemm(Dtype::Fp16)), 0.2, "fp16 on any GPU");
        assert_eq!(of("h100", gemm(Dtype::Bf16)), 0.3, "of two the larger");
        assert_eq!(of("h100", gemm(Dtype::Fp8)), 0.2, "products of any type: the median");
        assert_eq!(of("h100", KernelClass::Attention(Pass::Forward)), 0.1 * 3.84, "two rows say little");
        assert_eq!(
            of("t4", KernelClass::Stream(StreamClass::Softmax)),
            0.3,
            "a single row says nothing: all kernels"
        );
        assert!(Spreads::read("device,kernel,rows,spread\nt4,no-such,1,0.1\n").is_none());
    }
}
