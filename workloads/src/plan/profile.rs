//! A step in which all leaves that may, simulated to learn what passes and copies take on each rank; then it is decided what stays.

use std::collections::BTreeMap;
use std::ops::Range;

use sim_core::fold::fold;
use sim_core::observe::{Look, Observer};
use sim_core::outcome::{End, Place};
use sim_core::program::Op;
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};

use crate::account::TaskKind;
use crate::lower::{Cohorts, Lowered, StreamRole, lower};
use crate::order::Order;
use crate::schedule::LaneKind;
use crate::techniques::offload::adaptive::{Kept, Profile, Tracked};
use crate::techniques::offload::{self, ActivationOffload};

use super::decided::Decided;
use super::grounds::Grounds;
use super::{Checked, Pipelining, PlanError, Staged, realised};

/// The micro-batch that is measured, counted over all steps from 0: the third, as what comes first is not yet steady (FlashTrain).
const MEASURED: u32 = 2;

/// Steps of a profile: as many as the measured micro-batch is in.
pub(super) const fn steps(micro_batches: u32) -> u32 {
    match MEASURED.checked_div(micro_batches) {
        Some(step) => step + 1,
        None => 0,
    }
}

/// What each rank keeps by its own profile.
pub(super) fn decided(
    technique: &ActivationOffload,
    staged: &Staged,
    order: &Order,
    pipelining: &Pipelining,
    replicas: u32,
    grounds: &impl Grounds,
) -> Result<Decided, PlanError> {
    let Staged { chain, graph, layers, table, .. } = staged;
    let tracked = |stage| Tracked::of(technique, graph, layers, stage);
    let stages: Vec<Tracked> = (0..chain.stages).map(tracked).collect();
    let ranks = profiles(technique, staged, order, pipelining, (replicas, &stages), grounds)?;
    let of_rank = |(rank, profile): (usize, &Option<Profile>)| {
        stages[rank / replicas as usize].decide(profile.as_ref())
    };
    let (from, kept): (Vec<Option<usize>>, Vec<Kept>) = ranks.iter().enumerate().map(of_rank).unzip();
    // Replicas that keep the same on all stages do the same.
    let (mut known, mut tables, mut cohort_of): (Vec<Vec<Option<usize>>>, Vec<_>, Vec<u32>) =
        Default::default();
    for replica in 0..replicas as usize {
        let of_replica: Vec<Option<usize>> =
            from.iter().skip(replica).step_by(replicas as usize).copied().collect();
        let cohort = known.iter().position(|other| *other == of_replica);
        if cohort.is_none() {
            let leaving = |stage: u32, _| stages[stage as usize].leaving(of_replica[stage as usize]);
            let mut table = table.clone();
            offload::decide(technique, graph, *chain, leaving, &mut table)?;
            tables.push(table);
            known.push(of_replica);
        }
        cohort_of.push(cohort.unwrap_or(known.len() - 1) as u32);
    }
    Ok(Decided { tables, cohort_of, swapped: Vec::new(), kept })
}

/// By rank, what was measured there; none where nothing left, or where the step does not come so far.
fn profiles(
    technique: &ActivationOffload,
    staged: &Staged,
    order: &Order,
    pipelining: &Pipelining,
    (replicas, stages): (u32, &[Tracked]),
    grounds: &impl Grounds,
) -> Result<Vec<Option<Profile>>, PlanError> {
    let mut table = staged.table.clone();
    // What has left comes back from where it went.
    let profiled = ActivationOffload { forwarding: false, ..technique.clone() };
    let leaving = profiled.leaving(&staged.layers, order);
    offload::decide(&profiled, &staged.graph, staged.chain, leaving, &mut table)?;
    staged.buffers.decide(&staged.memory, order, &staged.graph, &mut table);
    let nothing = vec![None; replicas as usize * stages.len()];
    if table.offloads().next().is_none() {
        return Ok(nothing);
    }
    let schedules = [realised(staged, &table, order, pipelining, Checked::Yes)?];
    let cohorts = Cohorts::new(&schedules, |_| 0, replicas);
    let steps = steps(pipelining.micro_batches);
    let mut lowered = lower(&cohorts, &staged.graph, &staged.costs, &grounds.site(&table)?, steps);
    grounds.slow_clocks(&mut lowered);
    let folded = fold(&lowered.platform, &lowered.program, &lowered.start);
    let mut watch = Watch { lowered: &lowered, lane_of: Vec::new(), seen: Vec::new() };
    for (stream, role) in folded.streams.iter().zip(&lowered.streams) {
        let streams = watch.lane_of.len().max(stream.index() + 1);
        watch.lane_of.resize(streams, 0);
        watch.lane_of[stream.index()] = role.lane as usize;
    }
    watch.seen.resize_with(watch.lane_of.len(), Seen::default);
    let run =
        simulate_observed(&folded.platform, &folded.program, &folded.start, &Options::default(), &mut watch);
    if !run.is_ok_and(|run| run.end == End::Completed) {
        return Ok(nothing);
    }
    let seen = |stage: usize, replica: usize, kind: LaneKind| {
        let is = |role: &StreamRole| {
            (role.stage as usize, role.replica as usize, role.kind) == (stage, replica, kind)
        };
        let stream = lowered.streams.iter().position(is)?;
        Some(&watch.seen[folded.streams[stream].index()])
    };
    let profile = |rank: usize| {
        let (stage, replica) = (rank / replicas as usize, rank % replicas as usize);
        let passes = seen(stage, replica, LaneKind::Compute)?;
        let seconds = stages[stage].parts.iter().map(|part| passes.of(&part.forward)).collect();
        let rate = seen(stage, replica, LaneKind::Offload)?.rate()?;
        Some(Profile { seconds, rate })
    };
    Ok((0..nothing.len()).map(profile).collect())
}

/// Watches the passes and the copies of one micro-batch.
struct Watch<'a> {
    lowered: &'a Lowered,
    /// By simulated stream.
    lane_of: Vec<usize>,
    seen: Vec<Seen>,
}

/// What a stream did.
#[derive(Default)]
struct Seen {
    /// When each operator began and ended.
    ops: BTreeMap<u32, [Time; 2]>,
    /// When the first copy began and the last ended.
    copies: Option<[Time; 2]>,
    /// Bytes of the copies.
    bytes: u64,
}

impl Observer for Watch<'_> {
    fn look(&self) -> Look {
        Look::Spans
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, _ready: Time, end: Time) {
        let (Op::Run { activity } | Op::Join { activity, .. }) = *op else { return };
        if place.args[0] != MEASURED as i32 {
            return;
        }
        let stream = place.stream.index();
        let task = self.lowered.tasks[self.lane_of[stream]].get(activity.base as usize);
        let Some(task) = task else { return };
        let seen = &mut self.seen[stream];
        match task.kind {
            TaskKind::Operator(op) => seen.ops.entry(op.0).or_insert([start, end])[1] = end,
            TaskKind::Offload(_) => {
                seen.copies.get_or_insert([start, end])[1] = end;
                seen.bytes += task.bytes;
            }
            _ => {}
        }
    }
}

impl Seen {
    /// From the begin of the first of some operators to the end of the last (s).
    fn of(&self, ops: &Range<u32>) -> f64 {
        let mut ends = self.ops.range(ops.clone()).map(|(_, ends)| *ends);
        let Some([begin, end]) = ends.next() else { return 0.0 };
        (ends.next_back().map_or(end, |[_, end]| end) - begin).as_secs()
    }

    /// At which copies were made (byte/s).
    fn rate(&self) -> Option<f64> {
        let [begin, end] = self.copies.filter(|[begin, end]| end > begin)?;
        Some(self.bytes as f64 / (end - begin).as_secs())
    }
}
