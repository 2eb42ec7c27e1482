//! A step in which all leaves that may, simulated to learn what passes and copies take on each rank; then it is decided what stays.

use std::collections::BTreeMap;

use sim_core::fold::fold;
use sim_core::observe::{Look, Observer};
use sim_core::outcome::{End, Place};
use sim_core::program::Op;
use sim_core::time::Time;
use sim_core::{Options, simulate_observed};

use crate::account::TaskKind;
use crate::graph::OpId;
use crate::lower::{Lowered, StreamRole};
use crate::passes::RankProfile;
use crate::schedule::LaneKind;

/// The micro-batch that is measured, counted over all steps from 0: the third, as what comes first is not yet steady (FlashTrain).
const MEASURED: u32 = 2;

/// Steps of a profile: as many as the measured micro-batch is in.
pub(super) const fn steps(micro_batches: u32) -> u32 {
    match MEASURED.checked_div(micro_batches) {
        Some(step) => step + 1,
        None => 0,
    }
}

/// What each rank does in the micro-batch that is measured, by stage, then replica; `None` for a rank of which nothing leaves. `None`
/// where the step does not end.
pub(super) fn measure(lowered: &Lowered) -> Option<Vec<Option<RankProfile>>> {
    let folded = fold(&lowered.platform, &lowered.program, &lowered.start);
    let mut watch = Watch { lowered, lane_of: Vec::new(), seen: Vec::new() };
    for (stream, role) in folded.streams.iter().zip(&lowered.streams) {
        let streams = watch.lane_of.len().max(stream.index() + 1);
        watch.lane_of.resize(streams, 0);
        watch.lane_of[stream.index()] = role.lane as usize;
    }
    watch.seen.resize_with(watch.lane_of.len(), Seen::default);
    let run =
        simulate_observed(&folded.platform, &folded.program, &folded.start, &Options::default(), &mut watch);
    run.ok().filter(|run| run.end == End::Completed)?;
    let seen = |(stage, replica): (u32, u32), kind: LaneKind| {
        let is = |role: &StreamRole| (role.stage, role.replica, role.kind) == (stage, replica, kind);
        let stream = lowered.streams.iter().position(is)?;
        Some(&watch.seen[folded.streams[stream].index()])
    };
    let profile = |rank: (u32, u32)| {
        let rate = seen(rank, LaneKind::Offload)?.rate()?;
        Some(RankProfile { operators: seen(rank, LaneKind::Compute)?.ops.clone(), rate })
    };
    let replicas = (lowered.ranks.len() / lowered.stages.len().max(1)) as u32;
    let ranks = (0..lowered.stages.len() as u32).flat_map(|stage| (0..replicas).map(move |of| (stage, of)));
    Some(ranks.map(profile).collect())
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
    ops: BTreeMap<OpId, [Time; 2]>,
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
            TaskKind::Operator(op) => seen.ops.entry(op).or_insert([start, end])[1] = end,
            TaskKind::Transfer { returns: false, .. } => {
                seen.copies.get_or_insert([start, end])[1] = end;
                seen.bytes += task.bytes;
            }
            _ => {}
        }
    }
}

impl Seen {
    /// At which copies were made (byte/s).
    fn rate(&self) -> Option<f64> {
        let [begin, end] = self.copies.filter(|[begin, end]| end > begin)?;
        Some(self.bytes as f64 / (end - begin).as_secs())
    }
}
