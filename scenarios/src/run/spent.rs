//! A stretch of time of threads and streams: by cause, and drawn.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use reports::state;
use reports::summary::{DetailedTimeline, PathLeg, RunSummary, Timeline, TimelineRow};
use sim_core::time::Time;
use workloads::lanes::{NameId, Simulation, cause};

use super::picture::draw_span;

/// Causes of time in which a lane waits.
const WAITS: [&str; 10] = [
    cause::DEVICE,
    cause::THREAD,
    cause::QUEUE,
    cause::LAUNCH,
    cause::STREAM,
    cause::FEED,
    cause::PATH,
    cause::BATCH,
    cause::LOCK,
    cause::SKEW,
];

/// Time of a lane by cause.
pub(super) struct Lane {
    pub(super) name: String,
    spent: BTreeMap<&'static str, Time>,
}

impl Lane {
    pub(super) fn total(&self, counts: impl Fn(&str) -> bool) -> Time {
        let counted = self.spent.iter().filter(|(cause, _)| counts(cause));
        Time(counted.map(|(_, time)| time.0).sum())
    }

    pub(super) fn works(&self) -> Time {
        self.total(|cause| !WAITS.contains(&cause) && cause != state::IDLE)
    }

    /// One of `count` equal parts of it (s).
    pub(super) fn per_step(&self, count: f64) -> IndexMap<String, f64> {
        let in_order = cause::ALL.iter().chain([&state::IDLE]);
        let spent = in_order.filter_map(|word| Some(((*word).to_owned(), self.spent.get(word)?)));
        spent.map(|(word, time)| (word, time.as_secs() / count)).collect()
    }
}

/// Lanes of these names as they spend a stretch of time; one that has ended idles.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn lanes(
    simulation: &Simulation<'_>,
    names: impl Iterator<Item = String>,
    window: [Time; 2],
) -> Result<Vec<Lane>, String> {
    let mut lanes: Vec<Lane> = names.map(|name| Lane { name, spent: BTreeMap::new() }).collect();
    simulation
        .watch(window, |span| {
            let word = cause::ALL.iter().find(|known| **known == span.cause).copied();
            *lanes[span.lane].spent.entry(word.unwrap_or(state::IDLE)).or_default() += span.end - span.start;
        })
        .map_err(|error| error.to_string())?;
    for lane in &mut lanes {
        let idle = Time((window[1] - window[0]).0.saturating_sub(lane.total(|_| true).0));
        if idle > Time::ZERO {
            *lane.spent.entry(state::IDLE).or_default() += idle;
        }
    }
    Ok(lanes)
}

/// Adds to a run a stretch of time of lanes of these names: those that work in it, with the critical
/// path of the lane numbered `path_of`. `label` gives the words of an activity with a name.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn draw(
    simulation: &Simulation<'_>,
    names: impl Iterator<Item = String>,
    ([start, end], path_of): ([Time; 2], usize),
    label: impl Fn(NameId) -> String,
    run: &mut RunSummary,
) -> Result<(), String> {
    let mut rows: Vec<TimelineRow> = names.map(|name| TimelineRow { name, spans: Vec::new() }).collect();
    let path = simulation
        .watch_path([start, end], path_of, |span| {
            let times = ((span.start - start).as_secs(), (span.end - start).as_secs());
            let label = span.name.map(&label).unwrap_or_default();
            draw_span(&mut rows[span.lane].spans, times, span.cause.to_owned(), label);
        })
        .map_err(|error| error.to_string())?;
    let works = |row: &TimelineRow| row.spans.iter().any(|span| !WAITS.contains(&span.state.as_str()));
    let mut shown = 0..;
    let shown: Vec<Option<u32>> = rows.iter().map(|row| works(row).then(|| shown.next()).flatten()).collect();
    rows.retain(works);
    let timeline = Timeline { end_s: (end - start).as_secs(), rows };
    let legs = path.iter().filter_map(|leg| {
        let [from, to] = [leg.start, leg.end].map(|time| (time - start).0);
        Some(PathLeg { lane: shown[leg.lane]?, from, to })
    });
    run.detail = Some(DetailedTimeline { path: legs.collect(), ..DetailedTimeline::from(&timeline) });
    run.timeline = Some(timeline);
    Ok(())
}
