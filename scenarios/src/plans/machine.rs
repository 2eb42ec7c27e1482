//! The machine of a scenario.

use std::sync::Arc;

use hw_models::catalogue::Gpu;
use hw_models::kernels::{Flash, Libraries};
use hw_models::machine::Machine;
use workloads::diagnostic::Diagnostic;
use workloads::hardware::Hardware;
use workloads::plan::PlanError;
use workloads::site::Kinds;

use crate::schema::{Accumulate, Attention, Scenario, Share};

/// The machine of a scenario with one.
///
/// # Errors
/// What the check of the scenario would have found.
pub(crate) fn of(scenario: &Scenario) -> Result<Arc<Machine>, PlanError> {
    let invalid = |problem| Diagnostic::sentence("machine", problem);
    match scenario.machine.as_ref().map(|settings| scenario.constants.machine(settings)) {
        Some(Ok(machine)) => Ok(machine),
        Some(Err(errors)) => {
            Err(PlanError::Invalid(errors.iter().map(|error| invalid(error.to_string())).collect()))
        }
        None => Err(PlanError::Invalid(vec![invalid("there is none: add one".to_owned())])),
    }
}

/// The GPU of each stage of a checked scenario: its name in the catalogue, and its entry.
pub(crate) fn gpus<'m>(machine: &'m Machine, scenario: &Scenario) -> Vec<(&'m str, &'m Gpu)> {
    let kinds = machine.gpu_kinds();
    let Some((name, gpu)) = kinds.first() else { return Vec::new() };
    let alike = vec![(name.as_str(), gpu); scenario.stages()];
    if kinds.len() == 1 {
        return alike;
    }
    let placed = super::placed(scenario);
    let kinds = placed.and_then(|(extent, placement)| Kinds::of(machine, extent, &placement).ok());
    let of_stages = |kinds: Kinds| {
        kinds.by_stage().iter().map(|&kind| kinds.gpu(machine, kind as usize)).collect::<Vec<_>>()
    };
    kinds.map_or(alike, of_stages)
}

/// Where the framework of a scenario takes its kernels from.
pub(crate) fn libraries(scenario: &Scenario) -> Libraries {
    let Some(software) = &scenario.software else { return Libraries::default() };
    Libraries {
        flash: match software.attention {
            Attention::Materialised | Attention::Flash => Flash::Second,
            Attention::FlashTriton => Flash::Triton,
            Attention::Flash3 => Flash::Third,
            Attention::Cudnn => Flash::Cudnn,
        },
        products: software.sustained_products.map(Share::as_f64),
        persistent: software.persistent_products,
        half_sums: software.products.is_some_and(|products| products.accumulate == Accumulate::Fp16),
    }
}

/// What is known of the hardware of a scenario's machine.
pub(crate) fn hardware<'a>(machine: &'a Machine, scenario: &'a Scenario) -> Hardware<'a> {
    let constants = &scenario.constants;
    let drawn = scenario.run.noise.as_ref().and_then(|noise| noise.device);
    Hardware {
        machine,
        catalogue: constants.devices(),
        kernels: constants.kernels(),
        collectives: constants.collectives(),
        host: constants.host(),
        framework: super::framework(scenario),
        copies: constants.copies(),
        libraries: libraries(scenario),
        differ: drawn.is_none().then(|| &constants.kernels().variation),
        measured: scenario.techniques.fusion.as_ref().map_or(&[], |fusion| fusion.kernels.as_slice()),
        memo: Some(constants.memo()),
    }
}
