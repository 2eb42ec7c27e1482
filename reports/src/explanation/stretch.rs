//! Stretches of a critical path: visits in a row of one rank, as people read them.

use indexmap::{IndexMap, IndexSet};

use super::Visit;

/// Visits in a row of one rank.
pub(super) struct Stretch<'a> {
    visits: &'a [Visit],
    /// The rank before.
    released_by: Option<&'a str>,
}

/// The stretches of a path, in order.
pub(super) fn stretches(path: &[Visit]) -> Vec<Stretch<'_>> {
    let mut before = None;
    let mut stretches = Vec::new();
    for visits in path.chunk_by(|a, b| a.rank == b.rank) {
        stretches.push(Stretch { visits, released_by: before });
        before = Some(visits[0].rank.as_str());
    }
    stretches
}

/// The visits of a path, each by itself.
pub(super) fn visits(path: &[Visit]) -> Vec<Stretch<'_>> {
    let alone = path.iter().map(|visit| (std::slice::from_ref(visit), visit.released_by.as_deref()));
    alone.map(|(visits, released_by)| Stretch { visits, released_by }).collect()
}

impl<'a> Stretch<'a> {
    /// The rank, or the lane where all of it is on one.
    pub(super) fn place(&self) -> &'a str {
        let first = &self.visits[0];
        if self.visits.iter().all(|visit| visit.lane == first.lane) { &first.lane } else { &first.rank }
    }

    pub(super) fn begin_s(&self) -> f64 {
        self.visits[0].begin_s
    }

    pub(super) fn time_s(&self) -> f64 {
        self.visits.iter().map(|visit| visit.time_s).sum()
    }

    pub(super) fn released_by(&self) -> Option<&'a str> {
        self.released_by
    }

    /// `forward, backward of micro-batches 0 to 7`: of a rank's own lane, if any of it is there.
    pub(super) fn what(&self) -> String {
        let own: Vec<&Visit> = self.visits.iter().filter(|visit| visit.lane == visit.rank).collect();
        let told = if own.is_empty() { self.visits.iter().collect() } else { own };
        let phases = told.iter().map(|visit| without_chunk(&visit.phase));
        let phases: IndexSet<&str> = phases.filter(|phase| !phase.is_empty()).collect();
        let phases = phases.into_iter().collect::<Vec<_>>().join(", ");
        let numbers = told.iter().filter_map(|visit| visit.micro_batch);
        match (numbers.clone().min(), numbers.max()) {
            (Some(least), Some(most)) if least == most => format!("{phases} of micro-batch {least}"),
            (Some(least), Some(most)) => format!("{phases} of micro-batches {least} to {most}"),
            _ => phases,
        }
    }

    /// `GPU 80 %, NVLink 20 %`: its resources, or where none is known its causes.
    pub(super) fn resources(&self) -> String {
        match parts(self.visits.iter().flat_map(|visit| &visit.by_resource_s), self.time_s()) {
            none if none.is_empty() => self.causes(),
            resources => resources,
        }
    }

    /// `compute 80 %, communication 20 %`.
    pub(super) fn causes(&self) -> String {
        parts(self.visits.iter().flat_map(|visit| &visit.by_cause_s), self.time_s())
    }
}

/// A phase without the number of its chunk: `forward` of `forward of chunk 1`.
fn without_chunk(phase: &str) -> &str {
    phase.split_once(" of chunk ").map_or(phase, |(phase, _)| phase)
}

/// Names with their share of a time, the largest first; those with less than a hundredth are left
/// out, and so is a share of all.
fn parts<'a>(times: impl Iterator<Item = (&'a String, &'a f64)>, all: f64) -> String {
    let mut sums: IndexMap<&str, f64> = IndexMap::new();
    for (name, time) in times {
        *sums.entry(name).or_default() += time;
    }
    sums.sort_by(|_, a, _, b| b.total_cmp(a));
    let shares: Vec<(&str, f64)> = sums.into_iter().map(|(name, time)| (name, time / all)).collect();
    let told = shares.iter().filter(|(_, share)| *share >= 0.01);
    let text = |(name, share): &(&str, f64)| match (share * 100.0).round() {
        whole if whole >= 100.0 => (*name).to_owned(),
        whole => format!("{name} {whole} %"),
    };
    told.map(text).collect::<Vec<_>>().join(", ")
}
