//! The constants that a run on a machine rests on, with their origins.

use calibration::overlay::{Laid, Overlay};
use hw_models::host::HostCosts;
use hw_models::kernels::KernelParameters;
use hw_models::machine::Machine;
use hw_models::provenance::Provenance;
use hw_models::variation::Variation;
use reports::summary::{Calibrated, ConstantOrigin};

use crate::plans;
use crate::schema::{Attention, Scenario, word};

/// Constants of the machine's parts and links, then of the kernels of its GPUs; none for a scenario
/// without machine.
pub(super) fn constants(scenario: &Scenario) -> Vec<ConstantOrigin> {
    let Ok(machine) = plans::machine::of(scenario) else { return Vec::new() };
    let mut constants = of_machine(&machine);
    let mut known: Vec<&str> = Vec::new();
    for (name, gpu) in plans::machine::gpus(&machine, scenario) {
        if known.contains(&name) {
            continue;
        }
        known.push(name);
        if let Ok(parameters) = scenario.constants.kernels().of(name, gpu) {
            let parameters = parameters.in_training(plans::machine::libraries(scenario));
            constants.extend(of_kernels(scenario, name, &parameters));
        }
    }
    constants.push(differing(
        "gpus",
        "time of products, standard deviation between cards",
        &scenario.constants.kernels().variation,
    ));
    if scenario.constants.overlay().is_some() {
        constants.extend(of_host(scenario.constants.host()));
    }
    constants
}

/// The hardware files of some variants, each with what it replaces.
pub(super) fn calibrations(variants: &[(&str, Scenario)]) -> Vec<Calibrated> {
    let mut all: Vec<Calibrated> = Vec::new();
    for (variant, scenario) in variants {
        for file in scenario.constants.overlay().into_iter().flat_map(of_overlay) {
            match all.iter_mut().find(|known| known.file == file.file) {
                Some(known) => known.variants.push((*variant).to_owned()),
                None => all.push(Calibrated { variants: vec![(*variant).to_owned()], ..file }),
            }
        }
    }
    all
}

fn of_overlay(overlay: &Overlay) -> impl Iterator<Item = Calibrated> {
    overlay.files.iter().enumerate().map(|(number, laid)| {
        let replaced = overlay.replaced.iter().filter(|(_, replaced)| replaced.file == number);
        let Laid { file, device, date, steady, untold, unused, .. } = laid.clone();
        let replaced = replaced.map(|(what, _)| what.clone()).collect();
        Calibrated { file, device, date, steady, untold, unused, replaced, ..Calibrated::default() }
    })
}

fn of_machine(machine: &Machine) -> Vec<ConstantOrigin> {
    let told = |constant: &hw_models::machine::Constant| {
        // Units are part of the names in the catalogue.
        told(&constant.of, constant.name.to_string(), constant.value, "", &constant.provenance)
    };
    machine.constants().map(told).collect()
}

fn of_kernels(scenario: &Scenario, gpu: &str, parameters: &KernelParameters) -> Vec<ConstantOrigin> {
    let share = |what: String, share: f64, provenance| told(gpu, what, 100.0 * share, "%", provenance);
    let mut constants = Vec::new();
    if let Ok(gemm) = parameters.gemm(plans::transformer::dtype(scenario)) {
        let what = "matrix products, share of the peak of full tiles".to_owned();
        constants.push(share(what, gemm.e_max, &gemm.provenance));
    }
    if scenario.software.as_ref().is_some_and(|software| software.attention != Attention::Materialised) {
        let attention = &parameters.attention;
        for (pass, of_pass) in [("forward", &attention.forward), ("backward", &attention.backward)] {
            let what = format!("flash attention {pass}, share of the peak");
            constants.push(share(what, of_pass.e_max, &attention.provenance));
        }
    }
    for (class, stream) in &parameters.stream {
        let what = format!("{} kernels, share of the memory bandwidth", word(class));
        constants.push(share(what, stream.achieved, &stream.provenance));
    }
    constants
}

/// What issuing work costs, whatever the class of the operator.
fn of_host(host: &HostCosts) -> impl Iterator<Item = ConstantOrigin> {
    let costs = [
        ("launch of a kernel", &host.launch),
        ("gap between kernels of a stream", &host.gap_in_stream),
        ("gap between kernels of a graph", &host.gap_in_graph),
        ("launch of a graph", &host.graph_launch),
        ("more for each kernel of a graph", &host.graph_node),
        ("wait for a stream", &host.synchronise),
    ];
    let costs =
        costs.into_iter().map(|(what, cost)| told("host", what.to_owned(), cost.us, "us", &cost.provenance));
    let differ = differing("host", "issue time of a step, standard deviation between hosts", &host.variation);
    costs.chain([differ])
}

/// How far parts of one kind differ.
fn differing(of: &str, what: &str, Variation { share, provenance }: &Variation) -> ConstantOrigin {
    told(of, what.to_owned(), 100.0 * share, "%", provenance)
}

fn told(of: &str, name: String, value: f64, unit: &str, provenance: &Provenance) -> ConstantOrigin {
    let Provenance { origin, source, confidence } = provenance;
    ConstantOrigin {
        of: of.to_owned(),
        name,
        value,
        unit: unit.to_owned(),
        origin: origin.to_string(),
        source: source.clone(),
        confidence: confidence.to_string(),
    }
}
