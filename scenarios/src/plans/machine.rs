//! The machine of a scenario.

use hw_models::catalogue::Catalogue;
use hw_models::kernels::{Flash, Libraries};
use hw_models::machine::{
    self, ClusterSpec, LinkSpec, MachineError, MemorySpec, ModelSpec, PartChange, PartChanges, PartsSpec,
};
use indexmap::IndexMap;
use workloads::diagnostic::Diagnostic;
use workloads::hardware::Hardware;
use workloads::plan::PlanError;

use crate::schema::{
    Attention, Bytes, Cluster, Degrade, Machine, PartSettings, Parts, Rate, Scenario, Share, SingleNode,
};

/// The machine of a scenario with one.
///
/// # Errors
/// What the check of the scenario would have found.
pub(crate) fn of(scenario: &Scenario) -> Result<machine::Machine, PlanError> {
    let invalid = |problem| Diagnostic::sentence("machine", problem);
    match scenario.machine.as_ref().map(|settings| build(settings, scenario.constants.devices())) {
        Some(Ok(machine)) => Ok(machine),
        Some(Err(errors)) => {
            Err(PlanError::Invalid(errors.iter().map(|error| invalid(error.to_string())).collect()))
        }
        None => Err(PlanError::Invalid(vec![invalid("there is none: add one".to_owned())])),
    }
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
    }
}

/// What is known of the hardware of a scenario's machine.
pub(crate) fn hardware<'a>(machine: &'a machine::Machine, scenario: &'a Scenario) -> Hardware<'a> {
    let constants = &scenario.constants;
    Hardware {
        machine,
        catalogue: constants.devices(),
        kernels: constants.kernels(),
        collectives: constants.collectives(),
        host: constants.host(),
        copies: constants.copies(),
        libraries: libraries(scenario),
        memo: Some(constants.memo()),
    }
}

/// Builds a machine of the devices of a catalogue.
///
/// # Errors
/// All that is wrong with its description.
pub(crate) fn build(
    settings: &Machine,
    catalogue: &Catalogue,
) -> Result<machine::Machine, Vec<MachineError>> {
    let degrade = |lines: &[Degrade]| lines.iter().filter_map(slowed).collect::<Vec<_>>();
    let spec = match settings {
        Machine::Cluster(Cluster { node, count, fabric, gpu, set, degrade: lines }) => ClusterSpec {
            node: node.clone(),
            gpu: gpu.clone(),
            count: count.get() as u32,
            fabric: fabric.clone(),
            set: changes(set),
            degrade: degrade(lines),
        },
        Machine::Node(SingleNode { name, gpu, set, degrade: lines }) => ClusterSpec {
            node: name.clone(),
            gpu: gpu.clone(),
            count: 1,
            fabric: None,
            set: changes(set),
            degrade: degrade(lines),
        },
        Machine::Parts(parts) => {
            return machine::Machine::from_parts(catalogue, &spelled(parts), &degrade(&parts.degrade));
        }
    };
    machine::Machine::build(catalogue, &spec)
}

/// Where a machine is described, and its slow parts.
pub(crate) fn described(settings: &Machine) -> (&'static str, &[Degrade]) {
    match settings {
        Machine::Cluster(cluster) => ("machine.cluster", &cluster.degrade),
        Machine::Node(node) => ("machine.node", &node.degrade),
        Machine::Parts(parts) => ("machine.parts", &parts.degrade),
    }
}

/// A slow part; none if the line does not say clearly which and how slow.
pub(crate) fn slowed(line: &Degrade) -> Option<machine::Degrade> {
    let Degrade { link, part, rate, clock } = line;
    match (link, part, rate.map(Share::as_f64), clock.map(Share::as_f64)) {
        (Some(link), None, Some(rate), None) => Some(machine::Degrade::LinkRate(link.clone(), rate)),
        (None, Some(part), Some(rate), None) => Some(machine::Degrade::PartRate(part.clone(), rate)),
        (None, Some(part), None, Some(clock)) => Some(machine::Degrade::Clock(part.clone(), clock)),
        _ => None,
    }
}

fn changes(set: &IndexMap<String, PartSettings>) -> PartChanges {
    let change = |settings: &PartSettings| PartChange {
        model: settings.model.clone(),
        count: settings.count.map(|count| count.get() as u32),
        memory_gib: settings.memory.map(gib),
        gb_per_s: settings.rate.map(gb_per_s),
        nvlinks: settings.nvlinks.map(|links| links.get() as u32),
        class: settings.class.clone(),
        lanes: settings.lanes.map(|lanes| lanes.get() as u32),
    };
    set.iter().map(|(part, settings)| (part.clone(), change(settings))).collect()
}

fn gib(memory: Bytes) -> f64 {
    memory.bytes() as f64 / f64::from(1 << 30)
}

fn gb_per_s(rate: Rate) -> f64 {
    rate.bytes_per_second() as f64 / 1e9
}

fn spelled(parts: &Parts) -> PartsSpec {
    let models = |parts: &IndexMap<String, String>| {
        let part = |(name, model): (&String, &String)| ModelSpec { name: name.clone(), model: model.clone() };
        parts.iter().map(part).collect()
    };
    let memory = |(name, memory): (&String, &crate::schema::HostMemory)| MemorySpec {
        name: name.clone(),
        socket: memory.socket.clone(),
        gib: gib(memory.memory),
        gb_per_s: gb_per_s(memory.rate),
    };
    let link = |link: &crate::schema::PartLink| LinkSpec {
        between: link.between.0.clone(),
        class: link.class.clone(),
        lanes: link.lanes.get() as u32,
    };
    PartsSpec {
        gpus: models(&parts.gpus),
        sockets: parts.sockets.clone(),
        memories: parts.memories.iter().map(memory).collect(),
        switches: parts.switches.clone(),
        nvswitches: parts.nvswitches.clone(),
        nics: models(&parts.nics),
        network_switches: parts.network_switches.clone(),
        ssds: models(&parts.ssds),
        links: parts.links.iter().map(link).collect(),
    }
}
