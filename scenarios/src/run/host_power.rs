//! Power of the hosts of a run: how many cores are busy, on average over its steps.
//!
//! ```text
//! busy cores of a rank = 1  issues work, and spins where it waits for the GPU
//!                      + 1  where another process reads rows
//!                      + workers x share of the time that they draw neighbours
//!                      + threads x share of the time that they copy rows
//!                      + cores of its part of the host x share of the time that the host updates parameters
//! ```
//!
//! In line, the thread that issues work is one of those. Threads that wait for drives sleep. Ranks
//! are told by the first one, and threads of a data loader are not known.

use hw_models::machine::Machine;
use reports::summary::HostUse;
use sim_core::outcome::Run;
use workloads::feed::{Access, Features, Home, Process, SamplingPlace};
use workloads::lower::Lowered;
use workloads::schedule::LaneKind;

use super::epoch_parts::moving_s;
use crate::catalogue;
use crate::schema::Scenario;

/// Power of the hosts that ranks run on, whose boards draw `boards_w`. `None`: the processors of one
/// of them are not known.
pub(super) fn host_power(
    scenario: &Scenario,
    machine: &Machine,
    (lowered, run): (&Lowered, &Run),
    boards_w: f64,
) -> Option<HostUse> {
    let ranks = lowered.ranks.len() as u32;
    let hosts = ranks.div_ceil(machine.gpus_per_node()).max(1);
    let ranks_of_host = f64::from(ranks) / f64::from(hosts);
    let share = |kind| (moving_s(lowered, run, &[kind]) / run.time.as_secs().max(f64::MIN_POSITIVE)).min(1.0);
    let (issuing, updating) = (ranks_of_host * issuing(scenario, share), share(LaneKind::HostUpdate));
    let (mut all_w, mut busy_cores) = (0.0, 0.0);
    for host in 0..hosts {
        let processors = machine.processors_of_node(host)?;
        let cores = processors.iter().map(|processor| f64::from(processor.cores)).sum::<f64>();
        let busy = (issuing + cores * updating).min(cores);
        let memories = machine.memories_of_node(host).filter_map(|memory| machine.part(memory).capacity);
        let gib = memories.sum::<u64>() as f64 / f64::from(1 << 30);
        all_w += catalogue::host_power().drawn(&processors, gib, busy);
        busy_cores += busy;
    }
    let of_each = |sum: f64| sum / f64::from(hosts);
    Some(HostUse {
        host_power_w: of_each(all_w),
        busy_cores: of_each(busy_cores),
        system_power_w: boards_w + all_w,
    })
}

/// Cores that a rank keeps busy on average beside updates of its parameters, from the share of the
/// time in which a lane works.
fn issuing(scenario: &Scenario, share: impl Fn(LaneKind) -> f64) -> f64 {
    let sampling = scenario.model.graph().and_then(|graph| graph.sampling.as_ref());
    let Some(sampling) = sampling else { return 1.0 };
    let features = scenario.features.clone().unwrap_or_default();
    let drawing = if sampling.place == SamplingPlace::Host { sampling.workers.get() as f64 } else { 0.0 };
    let reading = if features.process == Process::Same { 0.0 } else { 1.0 };
    1.0 + reading
        + drawing * share(LaneKind::Sample)
        + f64::from(copying(&features)) * share(LaneKind::GatherRows)
}

/// Threads that copy rows beside the one that issues work.
fn copying(features: &Features) -> u32 {
    let in_memory = matches!(features.home, Home::Host | Home::HostPinned);
    match features.access {
        Access::HostGather if in_memory => features.threads.get() - u32::from(features.prefetched() == 0),
        _ => 0,
    }
}
