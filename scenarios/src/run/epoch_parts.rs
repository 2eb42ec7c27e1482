//! Parts of an epoch of mini-batches: how long its lanes work, whatever goes on beside them.

use reports::summary::EpochParts;
use sim_core::outcome::{ByCause, Run};
use sim_core::time::Time;
use workloads::lower::Lowered;
use workloads::names::cause;
use workloads::schedule::LaneKind;

/// Causes of time in which a lane does its own work.
const WORK: [&str; 4] = [cause::COMPUTE, cause::RECOMPUTE, cause::LAUNCH, cause::COMMUNICATION];

/// The parts of `batches` mini-batches, of the lanes of the first rank over all `steps` of a run.
pub(super) fn parts(lowered: &Lowered, run: &Run, steps: u32, batches: u64) -> EpochParts {
    let all = |of_a_run: f64| of_a_run * batches as f64 / f64::from(steps.max(1));
    EpochParts {
        sampling_s: all(moving_s(lowered, run, &[LaneKind::Sample])),
        features_s: all(moving_s(lowered, run, &[LaneKind::GatherRows, LaneKind::CopyRows])),
        training_s: all(spent_s(lowered, run, &[LaneKind::Compute], &WORK)),
    }
}

/// Time (s) of a run in which lanes of the first rank work or move bytes: a copy waits for its own.
pub(super) fn moving_s(lowered: &Lowered, run: &Run, kinds: &[LaneKind]) -> f64 {
    spent_s(lowered, run, kinds, &[&WORK[..], &[cause::TRANSFER]].concat())
}

fn spent_s(lowered: &Lowered, run: &Run, kinds: &[LaneKind], causes: &[&str]) -> f64 {
    let lanes = lowered.streams.iter().zip(&run.streams);
    let of_kinds =
        lanes.filter(|(role, _)| role.stage == 0 && role.replica == 0 && kinds.contains(&role.kind));
    of_kinds.map(|(_, stream)| of_causes(&stream.spent, causes).as_secs()).sum()
}

fn of_causes(spent: &ByCause, causes: &[&str]) -> Time {
    let named = cause::ALL.iter().zip(spent).filter(|(name, _)| causes.contains(name));
    Time(named.map(|(_, time)| time.0).sum())
}
