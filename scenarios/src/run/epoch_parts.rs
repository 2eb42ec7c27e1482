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
    let spent = |kinds: &[LaneKind], causes: &[&str]| {
        let lanes = lowered.streams.iter().zip(&run.streams);
        let of_kinds =
            lanes.filter(|(role, _)| role.stage == 0 && role.replica == 0 && kinds.contains(&role.kind));
        let times = of_kinds.map(|(_, stream)| of_causes(&stream.spent, causes).as_secs());
        times.sum::<f64>() * batches as f64 / f64::from(steps.max(1))
    };
    // A copy waits for its bytes.
    let moving = [&WORK[..], &[cause::TRANSFER]].concat();
    EpochParts {
        sampling_s: spent(&[LaneKind::Sample], &moving),
        features_s: spent(&[LaneKind::GatherRows, LaneKind::CopyRows], &moving),
        training_s: spent(&[LaneKind::Compute], &WORK),
    }
}

fn of_causes(spent: &ByCause, causes: &[&str]) -> Time {
    let named = cause::ALL.iter().zip(spent).filter(|(name, _)| causes.contains(name));
    Time(named.map(|(_, time)| time.0).sum())
}
