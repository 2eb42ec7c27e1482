//! Kernels on another GPU: each class by the ratio of the rates that bound it.
//!
//! | class | time beyond its start, times |
//! |---|---|
//! | matrix products, convolutions, attention | peak of the type, recorded over new |
//! | elementwise and other kernels | bandwidth that passes over memory reach, recorded over new |
//!
//! The start of a kernel (ramp-up and drain) stays. A type that the new GPU has no units for runs
//! in fp32. Collectives, copies and hosts are as recorded.

use hw_models::kernels::{Dtype, KernelModel, StreamClass};
use sim_core::time::Time;

use super::classes::KernelClass;
use super::{Effect, scaled};
use crate::lanes::{ActivityKind, Lanes};
use crate::trace::names::Names;

/// The rates of a recorded GPU over those of another, and the starts of its kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSwap {
    /// By type in the order of [`TYPES`].
    products: [f64; TYPES.len()],
    memory: f64,
    product_start: Time,
    pass_start: Time,
    /// Multiprocessors of both.
    multiprocessors: [u32; 2],
}

const TYPES: [Dtype; 5] = [Dtype::Fp32, Dtype::Tf32, Dtype::Fp16, Dtype::Bf16, Dtype::Fp8];

impl GpuSwap {
    /// From the GPU that was recorded to another.
    pub fn between(recorded: &KernelModel, new: &KernelModel) -> Self {
        let peak = |model: &KernelModel, dtype| {
            let peaks = &model.facts.peak_flops;
            peaks.get(&dtype).or_else(|| peaks.get(&Dtype::Fp32)).copied().unwrap_or(0.0)
        };
        let pass = |model: &KernelModel| {
            let achieved = model.parameters.stream.get(&StreamClass::Elementwise);
            model.facts.hbm_bytes_per_s * achieved.map_or(1.0, |pass| pass.achieved)
        };
        let parameters = &recorded.parameters;
        let start = |us: Option<f64>| Time((us.unwrap_or(0.0) * 1e6) as u64);
        Self {
            products: TYPES.map(|dtype| ratio(peak(recorded, dtype), peak(new, dtype))),
            memory: ratio(pass(recorded), pass(new)),
            product_start: start(parameters.gemm.values().next().map(|gemm| gemm.start_us)),
            pass_start: start(parameters.stream.get(&StreamClass::Elementwise).map(|pass| pass.start_us)),
            multiprocessors: [recorded.facts.sms, new.facts.sms],
        }
    }

    /// Start and factor of a class.
    fn of(&self, class: KernelClass) -> (Time, f64) {
        match class {
            KernelClass::Product(dtype) | KernelClass::Attention(dtype) => {
                let place = TYPES.iter().position(|known| *known == dtype).unwrap_or(0);
                (self.product_start, self.products[place])
            }
            KernelClass::Elementwise | KernelClass::Other => (self.pass_start, self.memory),
        }
    }

    /// Multiprocessors and waves of as many blocks on the new GPU.
    fn occupied(&self, (units, waves): (u32, u32)) -> (u32, u32) {
        let [before, after] = self.multiprocessors.map(|count| count.max(1));
        let blocks = if units >= before { units.saturating_mul(waves) } else { units };
        (blocks.min(after), blocks.div_ceil(after))
    }
}

/// Ratio of two rates; 1 where one of them is unknown.
fn ratio(recorded: f64, new: f64) -> f64 {
    if recorded > 0.0 && new > 0.0 { recorded / new } else { 1.0 }
}

pub(super) fn swap(lanes: &mut Lanes, names: &Names, swap: &GpuSwap) -> Effect {
    let [mut products, mut attention, mut elementwise, mut other] = [0; 4];
    for item in lanes.streams.iter_mut().flat_map(|stream| &mut stream.items) {
        item.occupied = item.occupied.map(|occupied| swap.occupied(occupied));
        if item.kind != ActivityKind::Kernel {
            continue;
        }
        let class = KernelClass::of(names.name(item.name));
        let (start, factor) = swap.of(class);
        let start = start.min(item.duration);
        item.duration = start + scaled(item.duration - start, factor);
        *match class {
            KernelClass::Product(_) => &mut products,
            KernelClass::Attention(_) => &mut attention,
            KernelClass::Elementwise => &mut elementwise,
            KernelClass::Other => &mut other,
        } += 1;
    }
    lanes.multiprocessors.values_mut().for_each(|count| *count = swap.multiprocessors[1]);
    vec![
        ("matrix products and convolutions", products),
        ("attention", attention),
        ("elementwise kernels", elementwise),
        ("other kernels, taken as bound by memory", other),
    ]
}
