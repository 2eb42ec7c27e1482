//! What the allocator of the framework makes of a run, and the verdict where it runs out.

use hw_models::allocator::{Shortage, Usage, sizes};
use reports::quantity;
use reports::summary::{AllocatorPeak, Failure, FailureKind, Moment, RunSummary};
use workloads::memory::{Executed, StageUsage};

use super::failure;
use super::one::Simulation;
use super::returned::returned;
use super::words::Words;
use crate::plans;
use crate::schema::Scenario;

/// What segments hold that is in no tensor.
pub(super) const FRAGMENTS: &str = "fragments of the allocator";

/// Adds to a run that completed what the allocator of each stage takes. If one runs out the run does not fit.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn add(summary: RunSummary, simulation: &Simulation<'_>) -> Result<RunSummary, String> {
    let Simulation { scenario, built, .. } = simulation;
    let Some(ranks) = plans::memory::ranks(scenario) else { return Ok(summary) };
    let returned = if ranks.lends() { returned(simulation)? } else { Vec::new() };
    Ok(match plans::memory::used(scenario, &ranks, built, &returned) {
        Some(Ok(used)) => with(summary, scenario, &used),
        Some(Err(reason)) => RunSummary { allocator_unknown: Some(reason.to_string()), ..summary },
        None => summary,
    })
}

fn with(summary: RunSummary, scenario: &Scenario, used: &[StageUsage]) -> RunSummary {
    let short = used
        .iter()
        .enumerate()
        .find_map(|(stage, usage)| usage.usage.shortage.as_ref().map(|shortage| (stage, usage, shortage)));
    if let Some((stage, usage, shortage)) = short {
        let failure = failed(stage, usage, shortage, scenario);
        let RunSummary { activities, .. } = summary;
        return failure::failed(RunSummary { activities, ..RunSummary::default() }, failure);
    }
    RunSummary {
        allocator: used.iter().enumerate().map(|(stage, usage)| peak(stage, usage)).collect(),
        ..summary
    }
}

fn peak(stage: usize, used: &StageUsage) -> AllocatorPeak {
    let Usage { peak_allocated, peak_reserved, by_kind, retries, .. } = &used.usage;
    let (allocated, reserved) = (peak_allocated.allocated, peak_reserved.reserved);
    AllocatorPeak {
        device: Words::stage(stage),
        capacity_bytes: used.capacity,
        outside_bytes: used.outside.iter().map(|(_, bytes)| bytes).sum(),
        peak_allocated_bytes: allocated,
        peak_reserved_bytes: reserved,
        fragmentation: 1.0 - allocated as f64 / reserved.max(1) as f64,
        by_kind_bytes: by_kind.iter().map(|&(kind, bytes)| (kind.to_owned(), bytes)).collect(),
        allocated_in: used.allocated_in.map(moment),
        reserved_in: used.reserved_in.map(moment),
        retries: *retries,
    }
}

fn moment(executed: Executed) -> Moment {
    let Executed { operator, phase, chunk, block, micro_batch } = executed;
    let chunk = if chunk > 0 { format!("chunk {chunk}, ") } else { String::new() };
    Moment {
        operator: operator.to_owned(),
        of: format!("{} of micro-batch {micro_batch}, {chunk}block {block}", phase.name()),
    }
}

/// A request that the allocator could not serve, after it had returned to the driver all that it could.
fn failed(stage: usize, used: &StageUsage, shortage: &Shortage, scenario: &Scenario) -> Failure {
    let Shortage { moment: now, bytes, by_kind } = shortage;
    let taken = used.outside.iter().map(|(_, bytes)| bytes).sum::<u64>() + now.reserved;
    let asked = sizes::segment(sizes::block(*bytes, &plans::memory::settings(scenario)));
    let fragments = (FRAGMENTS, now.reserved - now.allocated);
    let mut holders: Vec<(&str, u64)> =
        by_kind.iter().chain(&used.outside).copied().chain([fragments]).collect();
    holders.retain(|(_, bytes)| *bytes > 0);
    holders.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let stage = Words::stage(stage);
    Failure {
        message: format!(
            "memory of {stage} runs out in the allocator: {} of tensors are in {} of segments",
            quantity::bytes(now.allocated),
            quantity::bytes(now.reserved)
        ),
        operation: used.short_in.map(|executed| moment(executed).words()),
        store: Some(format!("memory of {stage}")),
        stream: Some(stage),
        requested_bytes: Some(*bytes),
        short_bytes: Some((taken + asked).saturating_sub(used.capacity)),
        capacity_bytes: Some(used.capacity),
        holders_bytes: holders.into_iter().map(|(kind, bytes)| (kind.to_owned(), bytes)).collect(),
        kind: FailureKind::OutOfMemory,
        ..Failure::default()
    }
}
