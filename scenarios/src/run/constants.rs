//! The constants that a run on a machine rests on, with their origins.

use hw_models::kernels::{Dtype, KernelParameters};
use hw_models::machine::Machine;
use hw_models::provenance::Provenance;
use reports::quantity;
use reports::summary::Assumption;

use super::headline::word;
use crate::catalogue;
use crate::plans;
use crate::schema::{Attention, Precision, Scenario};

/// Constants of the machine's parts and links, then of the kernels of its GPU; none for a scenario without machine.
pub(super) fn constants(scenario: &Scenario) -> Vec<Assumption> {
    let Ok(machine) = plans::machine::of(scenario) else { return Vec::new() };
    let mut constants = of_machine(&machine);
    let first = machine.gpu(0);
    if let (Some(name), Some(gpu)) = (machine.part(first).model, machine.gpu_model(first))
        && let Ok(parameters) = catalogue::kernels().parameters(name, &gpu.architecture)
    {
        constants.extend(of_kernels(scenario, name, &parameters));
    }
    constants
}

fn of_machine(machine: &Machine) -> Vec<Assumption> {
    let told = |constant: &hw_models::machine::Constant| {
        let value = quantity::significant(constant.value);
        assumption(format!("{}: {}", constant.of, constant.name), value, &constant.provenance)
    };
    machine.constants().map(told).collect()
}

fn of_kernels(scenario: &Scenario, gpu: &str, parameters: &KernelParameters) -> Vec<Assumption> {
    let dtype = match scenario.training.precision {
        Some(Precision::Fp16Mixed) => Dtype::Fp16,
        None | Some(Precision::Bf16Mixed) => Dtype::Bf16,
        Some(Precision::Fp32) => Dtype::Fp32,
    };
    let share = |share: f64| quantity::percent(share);
    let mut constants = Vec::new();
    if let Some(gemm) = parameters.gemm.get(&dtype) {
        let what = format!("{gpu}: matrix products, share of the peak of full tiles");
        constants.push(assumption(what, share(gemm.e_max), &gemm.provenance));
    }
    if scenario.software.as_ref().is_some_and(|software| software.attention == Attention::Flash) {
        let attention = &parameters.attention;
        for (pass, of_pass) in [("forward", &attention.forward), ("backward", &attention.backward)] {
            let what = format!("{gpu}: flash attention {pass}, share of the peak");
            constants.push(assumption(what, share(of_pass.e_max), &attention.provenance));
        }
    }
    for (class, stream) in &parameters.stream {
        let what = format!("{gpu}: {} kernels, share of the memory bandwidth", word(class));
        constants.push(assumption(what, share(stream.achieved), &stream.provenance));
    }
    constants
}

fn assumption(what: String, value: String, provenance: &Provenance) -> Assumption {
    let Provenance { origin, source, confidence } = provenance;
    Assumption { what, value, origin: format!("{origin}, confidence {confidence}: {source}") }
}
