//! FLOPs of a step, and the share of the peak that they are.

use hw_models::catalogue::PeakRates;
use hw_models::kernels::Dtype;
use workloads::model::flops::model_flops;

use super::{layered, machine, network, ranks, transformer};
use crate::schema::{Count, Scenario};

/// What a step computes, and what the GPUs of its ranks could.
pub(crate) struct Effort {
    /// Tokens of a step, where samples have any.
    pub(crate) tokens: Option<f64>,
    /// What the model needs for them by convention, whatever is executed [FLOP].
    model_flops: f64,
    /// Peak of all ranks in the precision of the scenario [FLOP/s]; none if a GPU has no such units.
    peak_flops_per_s: Option<f64>,
}

/// What a step of a checked scenario computes; none for a profile.
pub(crate) fn effort(scenario: &Scenario) -> Option<Effort> {
    let samples = scenario.training.global_batch.map_or(0, Count::get);
    let (tokens, forward) = if let Some(model) = scenario.model.transformer() {
        let length = scenario.training.sequence.map_or(0, Count::get);
        let forward = model.dimensions().forward_flops(samples, length);
        (Some((samples * length) as f64), forward)
    } else if let Some(settings) = scenario.model.graph() {
        (None, network::read(scenario, settings)?.forward_flops())
    } else {
        let settings = scenario.model.layers()?;
        let model = layered::read(scenario, settings).ok()?;
        let of_sample = model.forward_flops() / f64::from(model.execution().micro_batch);
        let tokens = layered::tokens(scenario, settings).map(|tokens| samples as f64 * tokens as f64);
        (tokens, samples as f64 * of_sample)
    };
    let step = transformer::step(scenario);
    Some(Effort {
        tokens,
        model_flops: model_flops(forward, step, scenario.training.adapters.is_some()),
        peak_flops_per_s: peak_flops_per_s(scenario),
    })
}

impl Effort {
    /// Model FLOPs utilisation of a step that takes so long.
    pub(crate) fn mfu(&self, step_time_s: f64) -> Option<f64> {
        self.peak_flops_per_s.map(|peak| self.model_flops / (step_time_s * peak))
    }
}

/// Peak of all ranks in the precision of the scenario.
fn peak_flops_per_s(scenario: &Scenario) -> Option<f64> {
    let machine = machine::of(scenario).ok()?;
    let gpus = machine::gpus(&machine, scenario);
    let tera = |PeakRates { fp32, fp16, bf16, fp8, .. }: &PeakRates| match transformer::dtype(scenario) {
        _ if scenario.training.fp8.is_some() => *fp8,
        Dtype::Fp16 => *fp16,
        Dtype::Bf16 => *bf16,
        _ => Some(*fp32),
    };
    let mut peak = None;
    for (_, kind) in machine.gpu_kinds() {
        let stages = gpus.iter().filter(|(_, gpu)| std::ptr::eq(*gpu, kind)).count() as u64;
        if stages > 0 {
            let ranks = ranks(scenario) * stages / gpus.len() as u64;
            peak = Some(peak.unwrap_or(0.0) + tera(&kind.peak_tflops)? * 1e12 * ranks as f64);
        }
    }
    peak
}
