//! What the allocator of the framework makes of a run, and the verdict where it can be asked.

use hw_models::allocator::{Shortage, Usage, sizes};
use reports::quantity;
use reports::summary::{AllocatorPeak, FRAGMENTS, Failure, FailureKind, Moment, RunSummary};
use workloads::graph::operator::Label;
use workloads::memory::{Executed, Ranks, Recorded, StageUsage};
use workloads::plan::Built;

use super::failure;
use super::lasting::BucketUse;
use super::one::Simulation;
use super::recorded::Recorder;
use super::window::Window;
use super::words::Words;
use crate::plans;
use crate::plans::memory::DriverTimes;
use crate::schema::Scenario;

/// Who says whether the tensors of a plan fit.
pub(super) enum Verdict {
    /// The allocator, which replays these ranks.
    Allocator(Box<Ranks>),
    /// The stores of the engine, and why the allocator is not asked; `None` for a profile, whose bytes are given.
    Stores(Option<String>),
}

impl Verdict {
    /// The verdict on a plan.
    pub(super) fn of(scenario: &Scenario, built: &Built) -> Self {
        match plans::allocating(scenario, built) {
            Ok(ranks) => Self::Allocator(Box::new(ranks)),
            Err(reason) => Self::Stores(reason),
        }
    }

    /// Why the allocator is not asked, where that is worth a word.
    pub(super) fn unknown(&self) -> Option<String> {
        match self {
            Self::Allocator(_) => None,
            Self::Stores(reason) => reason.clone(),
        }
    }

    /// Records what the allocator must know of a run; `None`: nothing.
    pub(super) fn recorder<'a>(&self, simulation: &Simulation<'a>) -> Option<Recorder<'a>> {
        let Self::Allocator(ranks) = self else { return None };
        ranks.need_run(simulation.built).then(|| Recorder::new(simulation, ranks.lends()))
    }

    /// What the allocator of each stage takes; nothing where it is not asked.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn used(&self, simulation: &Simulation<'_>) -> Result<Vec<StageUsage>, String> {
        let Self::Allocator(ranks) = self else { return Ok(Vec::new()) };
        let mut recorded = Vec::new();
        if let Some(mut recorder) = self.recorder(simulation) {
            simulation.observed(&mut recorder)?;
            recorded = recorder.recorded();
        }
        plans::memory::used(simulation.scenario, ranks, simulation.built, &recorded)
    }

    /// Tells whether a plan is known not to fit before it is run.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn refuses(&self, scenario: &Scenario, built: &Built) -> Result<bool, String> {
        match self {
            Self::Allocator(ranks) => plans::memory::first_runs_out(scenario, ranks, built),
            Self::Stores(_) => Ok(false),
        }
    }

    /// Adds to a run what the allocator of each stage takes, where it is asked; `recorded` goes by stage. If one runs out the run does
    /// not fit.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn add(
        &self,
        summary: RunSummary,
        &Simulation { scenario, built, .. }: &Simulation<'_>,
        recorded: &[Recorded],
    ) -> Result<Judged, String> {
        let Self::Allocator(ranks) = self else { return Ok(Judged::of(summary)) };
        let used = plans::memory::used(scenario, ranks, built, recorded)?;
        let lacking = used.iter().map(|used| used.lacking).collect();
        let driver = plans::memory::driver_times(scenario, &used);
        Ok(Judged { lacking, driver, ..Judged::of(with(summary, scenario, &used)) })
    }
}

/// A run on which the verdict is known.
pub(super) struct Judged {
    pub(super) summary: RunSummary,
    /// By stage, bytes that fragments take beyond what there is, where techniques have filled the rest.
    pub(super) lacking: Vec<u64>,
    /// Buckets of drives that it passed.
    pub(super) buckets: Vec<BucketUse>,
    /// Time of hosts for calls of the driver, which is not in the run; `None`: nobody knows.
    pub(super) driver: Option<DriverTimes>,
    /// The last step; `None`: nothing was simulated.
    pub(super) window: Option<Window>,
}

impl Judged {
    /// A run of which the allocator says nothing.
    pub(super) const fn of(summary: RunSummary) -> Self {
        Self { summary, lacking: Vec::new(), buckets: Vec::new(), driver: None, window: None }
    }
}

fn with(summary: RunSummary, scenario: &Scenario, used: &[StageUsage]) -> RunSummary {
    // Of stages that miss as much the first.
    let worst = used.iter().enumerate().rev().max_by_key(|(_, usage)| usage.missing());
    if let Some((stage, usage)) = worst
        && let Some(shortage) = &usage.usage.shortage
    {
        return failure::failed(summary, failed(stage, usage, shortage, scenario));
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
        allocated_in: used.allocated_in.as_ref().map(moment),
        reserved_in: used.reserved_in.as_ref().map(moment),
        retries: *retries,
    }
}

fn moment(executed: &Executed<Label>) -> Moment {
    let Executed { operator, phase, chunk, block, micro_batch } = executed;
    let chunk = if *chunk > 0 { format!("chunk {chunk}, ") } else { String::new() };
    Moment {
        operator: operator.to_string(),
        of: format!("{} of micro-batch {micro_batch}, {chunk}block {block}", phase.name()),
    }
}

/// A request that the allocator could not serve, after it had returned to the driver all that it could. What is short is what the
/// plan would take without a limit beyond what there is, not that request alone.
fn failed(stage: usize, used: &StageUsage, shortage: &Shortage, scenario: &Scenario) -> Failure {
    let Shortage { moment: now, bytes, by_kind } = shortage;
    let taken = used.outside.iter().map(|(_, bytes)| bytes).sum::<u64>() + now.reserved;
    let asked = sizes::segment(sizes::block(*bytes, &scenario.memory.allocator.unwrap_or_default()));
    let fragments = (FRAGMENTS, now.reserved - now.allocated);
    let mut holders: Vec<(&str, u64)> =
        by_kind.iter().chain(&used.outside).copied().chain([fragments]).collect();
    holders.retain(|(_, bytes)| *bytes > 0);
    holders.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let stage = Words::stage(stage);
    Failure {
        message: match now.reserved {
            0 => format!(
                "memory of {stage} has no room for the first tensor: {} are held throughout",
                quantity::bytes(taken)
            ),
            reserved => format!(
                "memory of {stage} runs out in the allocator: {} of tensors are in {} of segments",
                quantity::bytes(now.allocated),
                quantity::bytes(reserved)
            ),
        },
        operation: used.short_in.as_ref().map(|executed| moment(executed).words()),
        store: Some(format!("memory of {stage}")),
        stream: Some(stage),
        requested_bytes: Some(*bytes),
        short_bytes: used.missing().map(|missing| missing.max((taken + asked).saturating_sub(used.capacity))),
        capacity_bytes: Some(used.capacity),
        unfragmented_bytes: Some(used.unfragmented),
        holders_bytes: holders.into_iter().map(|(kind, bytes)| (kind.to_owned(), bytes)).collect(),
        kind: FailureKind::OutOfMemory,
        ..Failure::default()
    }
}
