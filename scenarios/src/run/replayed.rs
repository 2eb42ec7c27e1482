//! Recorded steps: replayed, described, drawn.

use hw_models::provenance::Origin;
use indexmap::IndexMap;
use reports::summary::{Failure, FailureKind, Forecast, LaneTime, ReplayedTrace, RunSummary, StepTime};
use reports::trace::Tracer;
use sim_core::time::Time;
use workloads::lanes::cause;
use workloads::lanes::{LanesError, Simulation};
use workloads::trace::{Replayed, Traced, simulation};

use super::one::Drawn;
use super::spent::Lane;
use super::{failure, lane_trace, spent};
use crate::catalogue;
use crate::schema::Trace;

/// Causes of time in which a stream of a device works.
const DEVICE_WORK: [&str; 3] = [cause::KERNEL, cause::COLLECTIVE, cause::COPY];

/// Replays a trace.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn outcome(trace: &Trace, drawn: Drawn) -> Result<RunSummary, String> {
    let traced = changed(trace)?;
    let first = warm_up(&traced);
    let replay = simulation(&traced, trace.launch_queue.get(), first as u32);
    let replayed = match replay.run() {
        Ok(ran) => Replayed::of(&traced, ran),
        Err(error @ LanesError::Deadlock(_)) => {
            let failure =
                Failure { kind: FailureKind::Deadlock, message: error.to_string(), ..Failure::default() };
            return Ok(failure::failed(RunSummary::default(), failure));
        }
        Err(broken) => return Err(broken.to_string()),
    };
    let lanes = spent::lanes(&replay, names(&replayed), window(&replayed, first))?;
    let mut summary = described(trace, &traced, &replayed, &lanes);
    if drawn == Drawn::Yes {
        timeline(&replay, &replayed, &traced, &mut summary)?;
    }
    Ok(summary)
}

/// Adds the last step of every lane to a run that was replayed before.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn draw(trace: &Trace, run: &mut RunSummary) -> Result<(), String> {
    let traced = changed(trace)?;
    let replay = simulation(&traced, trace.launch_queue.get(), 0);
    match replay.run() {
        Ok(ran) => timeline(&replay, &Replayed::of(&traced, ran), &traced, run),
        Err(LanesError::Deadlock(_)) => Ok(()),
        Err(broken) => Err(broken.to_string()),
    }
}

/// Writes a replay for a viewer.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn trace(trace: &Trace, tracer: &mut dyn Tracer) -> Result<(), String> {
    lane_trace::trace_replay(&changed(trace)?, trace.launch_queue.get(), tracer)
}

/// Number of steps before the measured ones. The first of several finds an empty device; from then
/// on the thread that begins steps may be ahead of the device.
fn warm_up(traced: &Traced) -> usize {
    usize::from(traced.recorded_steps.len() > 1)
}

/// The recording with its changes.
fn changed(trace: &Trace) -> Result<Traced, String> {
    let recorded = trace.recorded.as_ref().ok_or("the trace has not been read")?;
    let mut traced = Traced::clone(&recorded.traced);
    let applied = trace.what_if.apply(&mut traced, catalogue::hardware());
    applied.map_err(|faults| faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>().join("; "))?;
    Ok(traced)
}

fn names(replayed: &Replayed) -> impl Iterator<Item = String> {
    replayed.lanes.iter().map(|lane| lane.name.clone())
}

/// From the begin of step number `first` to the end of the last.
fn window(replayed: &Replayed, first: usize) -> [Time; 2] {
    [replayed.marks.get(first), replayed.marks.last()].map(|mark| mark.copied().unwrap_or_default())
}

fn described(trace: &Trace, traced: &Traced, replayed: &Replayed, lanes: &[Lane]) -> RunSummary {
    let warm_up = warm_up(traced);
    let count = replayed.steps.len().saturating_sub(warm_up).max(1) as f64;
    let on_device = |lane: &&Lane| lane.total(|cause| DEVICE_WORK.contains(&cause)) > Time::ZERO;
    let busiest = lanes.iter().filter(on_device).max_by_key(|lane| lane.works());
    let busiest = busiest.or_else(|| lanes.iter().max_by_key(|lane| lane.works()));
    let steps: Vec<StepTime> = replayed
        .steps
        .iter()
        .map(|step| StepTime {
            recorded_s: step.recorded.map(Time::as_secs),
            replayed_s: step.replayed.as_secs(),
        })
        .collect();
    let mean = StepTime::mean(steps.get(warm_up..).unwrap_or_default());
    let what_if = trace.what_if.words();
    let critical =
        replayed.critical.iter().map(|(cause, time)| (cause.clone(), time.as_secs() / count)).collect();
    let replay = ReplayedTrace {
        file: trace.file.clone(),
        devices: traced.device_names(),
        rank: traced.rank.map(|(rank, ranks)| [rank, ranks]),
        warm_up: warm_up as u64,
        recorded_step_s: mean.recorded_s,
        forecast: Forecast::of(&steps).filter(|_| what_if.is_empty()),
        what_if,
        steps,
        host_share: replayed.host_share(),
        found: traced.findings.words().map(|(what, count)| (what.to_owned(), count)).into_iter().collect(),
        unexplained_s: traced.findings.unexplained.1.as_secs(),
        busiest_lane: busiest.map(|lane| lane.name.clone()).unwrap_or_default(),
        lanes: lanes
            .iter()
            .filter(|lane| lane.works() > Time::ZERO)
            .map(|lane| LaneTime { name: lane.name.clone(), time_s: lane.per_step(count) })
            .collect(),
    };
    RunSummary {
        fits: true,
        step_time_s: Some(mean.replayed_s),
        time_breakdown_s: busiest.map(|lane| lane.per_step(count)).unwrap_or_default(),
        critical_path_s: critical,
        // Durations are recorded; the changes of a what-if are assumptions of whoever asks.
        provenance: IndexMap::from([(Origin::MeasuredElsewhere.to_string(), 1.0)]),
        activities: Some(replayed.activities),
        replay: Some(replay),
        ..RunSummary::default()
    }
}

/// Draws the last step: lanes that work in it, threads first.
fn timeline(
    replay: &Simulation<'_>,
    replayed: &Replayed,
    traced: &Traced,
    run: &mut RunSummary,
) -> Result<(), String> {
    let [.., start, end] = replayed.marks[..] else { return Ok(()) };
    let label = |name| short(traced.names.name(name));
    spent::draw(replay, names(replayed), ([start, end], replayed.stepping), label, run)
}

/// A kernel's name without its type, parameters and arguments.
fn short(name: &str) -> String {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let end = name.find(['<', '(']).filter(|&end| end > 0).unwrap_or(name.len());
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use reports::state;

    use super::*;

    #[test]
    fn kernels_have_short_names() {
        assert_eq!(short("void at::native::vectorized<4, float>(int, float)"), "at::native::vectorized");
        assert_eq!(short("ncclKernel_AllReduce"), "ncclKernel_AllReduce");
        assert_eq!(short("(anonymous)"), "(anonymous)");
    }

    /// Reports have an order and a colour for every word of a lane.
    #[test]
    fn reports_know_the_causes_of_lanes() {
        let unknown: Vec<_> = cause::ALL.iter().filter(|cause| !state::ALL.contains(cause)).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
    }
}
