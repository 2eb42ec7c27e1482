//! The machine of a scenario.

use hw_models::machine::{self, ClusterSpec, LinkSpec, MachineError, MemorySpec, ModelSpec, PartsSpec};
use indexmap::IndexMap;
use workloads::hardware::Hardware;
use workloads::limits::Invalid;
use workloads::plan::PlanError;

use crate::catalogue;
use crate::schema::{Degrade, Machine, Parts, Scenario, Share};

/// The machine of a scenario with one.
///
/// # Errors
/// What the check of the scenario would have found.
pub(crate) fn of(scenario: &Scenario) -> Result<machine::Machine, PlanError> {
    let invalid = |problem| Invalid { field: "machine", problem };
    match scenario.machine.as_ref().map(build) {
        Some(Ok(machine)) => Ok(machine),
        Some(Err(errors)) => {
            Err(PlanError::Invalid(errors.iter().map(|error| invalid(error.to_string())).collect()))
        }
        None => Err(PlanError::Invalid(vec![invalid("there is none: add one".to_owned())])),
    }
}

/// What is known of a machine's hardware.
pub(crate) fn hardware(machine: &machine::Machine) -> Hardware<'_> {
    Hardware {
        machine,
        catalogue: catalogue::devices(),
        kernels: catalogue::kernels(),
        collectives: catalogue::collectives(),
    }
}

/// Builds a machine.
///
/// # Errors
/// All that is wrong with its description.
pub(crate) fn build(settings: &Machine) -> Result<machine::Machine, Vec<MachineError>> {
    let catalogue = catalogue::devices();
    let degrade = |lines: &[Degrade]| lines.iter().filter_map(slowed).collect::<Vec<_>>();
    match settings {
        Machine::Cluster(cluster) => {
            let spec = ClusterSpec {
                node: cluster.node.clone(),
                gpu: cluster.gpu.clone(),
                count: cluster.count.get() as u32,
                fabric: cluster.fabric.clone(),
                degrade: degrade(&cluster.degrade),
            };
            machine::Machine::build(catalogue, &spec)
        }
        Machine::Node(node) => {
            let spec = ClusterSpec {
                node: node.name.clone(),
                gpu: node.gpu.clone(),
                count: 1,
                fabric: None,
                degrade: degrade(&node.degrade),
            };
            machine::Machine::build(catalogue, &spec)
        }
        Machine::Parts(parts) => {
            machine::Machine::from_parts(catalogue, &spelled(parts), &degrade(&parts.degrade))
        }
    }
}

/// The slow parts of a machine, and where they are written.
pub(crate) fn degraded(settings: &Machine) -> (&'static str, &[Degrade]) {
    match settings {
        Machine::Cluster(cluster) => ("machine.cluster.degrade", &cluster.degrade),
        Machine::Node(node) => ("machine.node.degrade", &node.degrade),
        Machine::Parts(parts) => ("machine.parts.degrade", &parts.degrade),
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

fn spelled(parts: &Parts) -> PartsSpec {
    let models = |parts: &IndexMap<String, String>| {
        let part = |(name, model): (&String, &String)| ModelSpec { name: name.clone(), model: model.clone() };
        parts.iter().map(part).collect()
    };
    let memory = |(name, memory): (&String, &crate::schema::HostMemory)| MemorySpec {
        name: name.clone(),
        socket: memory.socket.clone(),
        gib: memory.memory.bytes() as f64 / f64::from(1 << 30),
        gb_per_s: memory.rate.bytes_per_second() as f64 / 1e9,
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
