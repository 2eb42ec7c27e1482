//! What the time of a transformer's ranks goes to, by kind of communication and by evidence: an observer adds it up while
//! the program runs.

use std::collections::BTreeMap;
use std::ops::Range;

use indexmap::IndexMap;
use sim_core::id::{BlockId, CauseId, StreamId};
use sim_core::observe::{Look, Observer, Segment};
use sim_core::outcome::Place;
use sim_core::program::Op;
use sim_core::time::Time;
use workloads::account::{Account, Accounts, Communication};
use workloads::lower::Lowered;
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::lanes::{Lane, lanes};
use crate::plans;
use crate::schema::Scenario;

/// Time of the compute lanes of a run, by account.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    lowered: &'a Lowered,
    steps: Steps,
    /// Causes of waiting for bytes.
    under_way: [CauseId; 2],
    /// The different accounts.
    accounts: Vec<Account>,
    /// By lane of the schedule; none unless it computes.
    lanes: Vec<Option<Timed>>,
    /// By lane of the schedule, the bytes of its copies; none unless some of these may be left out.
    copies: Vec<Option<BTreeMap<BlockId, Vec<u64>>>>,
    /// By simulated stream, copies of these that it made in the measured steps.
    made: Vec<Traffic>,
    /// By simulated stream, its lane.
    lane_of: Vec<u32>,
    /// By stream of the whole program, the simulated one that stands for it.
    stands_for: Vec<StreamId>,
    /// By simulated stream, then account, in the measured steps.
    spent: Vec<Time>,
    /// By simulated stream, in collectives of its own stage in the last step, waiting for peers included.
    within_stage: Vec<Time>,
}

/// How often and how much.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Traffic {
    /// Adds a share several times.
    pub(super) fn add(&mut self, times: u64, Self { count, bytes }: Self) {
        self.count += times * count;
        self.bytes += times * bytes;
    }
}

/// The steps of a run.
#[derive(Clone, Copy, Debug)]
struct Steps {
    micro_batches: u32,
    warm_up: u32,
    all: u32,
}

/// What is timed of a lane.
#[derive(Debug)]
struct Timed {
    /// By block and operation, an index into the accounts; nothing of blocks that others call.
    accounts: Vec<Vec<Option<usize>>>,
    /// The operation that marks the begin of a step.
    begin: Option<(BlockId, u32)>,
    /// By pattern, the segments met.
    segments: Vec<Vec<Ran>>,
}

/// Operations of a lane that ran as one segment.
#[derive(Debug)]
struct Ran {
    range: Range<u32>,
    /// Time by account.
    spent: Box<[(usize, Time)]>,
    /// Time in collectives of its own stage.
    within_stage: Time,
}

impl<'a> Tally<'a> {
    /// Nothing yet, of a program of which the streams `stands_for` are simulated.
    pub(super) fn new(
        scenario: &Scenario,
        lowered: &'a Lowered,
        accounts: &Accounts,
        stands_for: &[StreamId],
    ) -> Self {
        // Without flush all steps lie between one pair of marks.
        let (warm_up, all) = match scenario.training.flush {
            true => (scenario.run.steps.warm_up.get() as u32, plans::steps(scenario)),
            false => (0, 1),
        };
        let micro_batches = plans::micro_batches_per_flush(scenario).max(1);
        let simulated = stands_for.iter().map(|stream| stream.index() + 1).max().unwrap_or(0);
        let mut lane_of = vec![0; simulated];
        for (stream, role) in stands_for.iter().zip(&lowered.streams) {
            lane_of[stream.index()] = role.lane;
        }
        let mut known = Vec::new();
        let copies = lanes(lowered).map(|lane| copies(&lane)).collect();
        let lanes: Vec<_> = lanes(lowered).map(|lane| timed(&lane, accounts, &mut known)).collect();
        let cause = |name| cause::ALL.iter().position(|&known| known == name).unwrap_or_default();
        Self {
            lowered,
            steps: Steps { micro_batches, warm_up, all },
            under_way: [cause::COMMUNICATION, cause::TRANSFER].map(|name| CauseId::from(cause(name))),
            spent: vec![Time::ZERO; simulated * known.len()],
            accounts: known,
            lanes,
            copies,
            made: vec![Traffic::default(); simulated],
            lane_of,
            stands_for: stands_for.to_vec(),
            within_stage: vec![Time::ZERO; simulated],
        }
    }

    /// How long a rank did nothing but wait for each kind of communication, in all measured steps.
    pub(super) fn exposed(&self, rank: usize) -> impl Iterator<Item = (Communication, Time)> {
        self.spent(rank).filter_map(|(account, time)| Some((account.communication?, time)))
    }

    /// Share of a rank's work and communication that rests on each kind of evidence, the best first.
    pub(super) fn provenance(&self, rank: usize) -> IndexMap<String, f64> {
        let mut times = BTreeMap::new();
        for (account, time) in self.spent(rank).filter(|(_, time)| *time > Time::ZERO) {
            *times.entry(account.origin).or_insert(Time::ZERO) += time;
        }
        let all: u64 = times.values().map(|time| time.0).sum();
        times.into_iter().map(|(origin, time)| (origin.to_string(), time.0 as f64 / all as f64)).collect()
    }

    /// Time of a rank's last step in collectives within its stage, waiting for peers included.
    pub(super) fn within_stage(&self, rank: usize) -> Time {
        self.within_stage[self.stream(rank)]
    }

    /// What a rank's work and communication take, in all measured steps.
    pub(super) fn spent(&self, rank: usize) -> impl Iterator<Item = (Account, Time)> {
        let from = self.stream(rank) * self.accounts.len();
        self.accounts.iter().copied().zip(self.spent[from..].iter().copied())
    }

    /// Copies of a lane in the measured steps, the mean of its ranks: those that were made where it may leave some out,
    /// otherwise all that it `said` for all steps.
    pub(super) fn made(&self, lane: usize, said: Traffic) -> Traffic {
        if self.copies[lane].is_none() {
            return self.steps.measured(said);
        }
        let streams = self.stands_for.iter().zip(&self.lowered.streams);
        let of_lane = streams.filter(|(_, role)| role.lane as usize == lane);
        let made: Vec<Traffic> = of_lane.map(|(stream, _)| self.made[stream.index()]).collect();
        let mean = |of: fn(&Traffic) -> u64| made.iter().map(of).sum::<u64>() / made.len() as u64;
        Traffic { count: mean(|made| made.count), bytes: mean(|made| made.bytes) }
    }

    /// Copies of a stream of the whole program in the measured steps, likewise.
    pub(super) fn made_by(&self, stream: usize, said: Traffic) -> Traffic {
        match self.copies[self.lowered.streams[stream].lane as usize] {
            Some(_) => self.made[self.stands_for[stream].index()],
            None => self.steps.measured(said),
        }
    }

    /// The simulated stream that computes for a rank.
    fn stream(&self, rank: usize) -> usize {
        self.stands_for[self.lowered.ranks[rank].compute.index()].index()
    }
}

/// The accounts of what a lane does and waits for; new ones are added to those `known`.
fn timed(lane: &Lane<'_>, accounts: &Accounts, known: &mut Vec<Account>) -> Option<Timed> {
    if lane.kind != LaneKind::Compute {
        return None;
    }
    let mut index = |op: &Op| {
        let task = lane.done_by(op).or_else(|| lane.awaited_by(op))?;
        let account = accounts.of(task.kind);
        Some(known.iter().position(|&other| other == account).unwrap_or_else(|| {
            known.push(account);
            known.len() - 1
        }))
    };
    let blocks = lane.calls.iter().map(|call| call.block.index() + 1).max().unwrap_or(0);
    let mut of_blocks = vec![Vec::new(); blocks];
    for call in lane.calls {
        let of_block = &mut of_blocks[call.block.index()];
        if of_block.is_empty() {
            *of_block = lane.ops(call.block).iter().map(&mut index).collect();
        }
    }
    let begin = lane.calls.first().and_then(|call| {
        let mark = lane.ops(call.block).iter().position(|op| *op == Op::Mark)?;
        Some((call.block, mark as u32))
    });
    Some(Timed { accounts: of_blocks, begin, segments: Vec::new() })
}

/// By operation of each block, the bytes of the copies of a lane that may leave some out.
fn copies(lane: &Lane<'_>) -> Option<BTreeMap<BlockId, Vec<u64>>> {
    if !matches!(lane.kind, LaneKind::Offload | LaneKind::Reload) {
        return None;
    }
    let bytes = |op: &Op| lane.done_by(op).map_or(0, |task| task.bytes);
    let block = |block: BlockId| (block, lane.ops(block).iter().map(bytes).collect());
    Some(lane.calls.iter().map(|call| block(call.block)).collect())
}

impl Tally<'_> {
    /// Counts what was done at a place of a measured step: the active time, and with waiting for peers.
    #[inline]
    fn add(&mut self, place: Place, account: usize, active: Time, whole: Time) {
        let stream = place.stream.index();
        self.spent[stream * self.accounts.len() + account] += active;
        let within = self.accounts[account].communication.is_some_and(Communication::within_stage);
        if within && self.steps.is_last(place) {
            self.within_stage[stream] += whole;
        }
    }
}

impl Observer for Tally<'_> {
    fn look(&self) -> Look {
        Look::Spans
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        let stream = place.stream.index();
        let lane = self.lane_of[stream] as usize;
        if let (Op::Run { .. }, Some(copies)) = (op, &self.copies[lane]) {
            if self.steps.number(place) >= self.steps.warm_up {
                self.made[stream].count += 1;
                self.made[stream].bytes += copies[&place.block][place.op as usize];
            }
            return;
        }
        let Some(lane) = self.lanes[lane].as_ref().filter(|lane| self.steps.measure(place, lane)) else {
            return;
        };
        let Some(account) = lane.account(place).filter(|_| end > start) else { return };
        let active = match *op {
            Op::Run { .. } => end - start,
            Op::Wait { cause, .. } if self.under_way.contains(&cause) => end - start,
            _ => end - ready,
        };
        self.add(place, account, active, end - start);
    }

    fn segment(&mut self, segment: &Segment<'_>) {
        let place = segment.place;
        let lane = self.lane_of[place.stream.index()] as usize;
        if self.copies[lane].is_some() {
            segment.spans().for_each(|(place, op, start, end)| self.span(place, op, start, start, end));
            return;
        }
        let Some(lane) = self.lanes[lane].as_mut().filter(|lane| self.steps.measure(place, lane)) else {
            return;
        };
        let stream = place.stream.index();
        let spent = &mut self.spent[stream * self.accounts.len()..][..self.accounts.len()];
        let ran = lane.segment(segment, &self.accounts);
        ran.spent.iter().for_each(|&(account, time)| spent[account] += time);
        if ran.within_stage > Time::ZERO && self.steps.is_last(place) {
            self.within_stage[stream] += ran.within_stage;
        }
    }
}

impl Steps {
    /// The number of a place's step, from 0.
    const fn number(self, place: Place) -> u32 {
        place.args[0].unsigned_abs() / self.micro_batches
    }

    /// Tells the last step from those before.
    const fn is_last(self, place: Place) -> bool {
        self.number(place) + 1 == self.all
    }

    /// The part in measured steps of what is the same in all.
    fn measured(self, Traffic { count, bytes }: Traffic) -> Traffic {
        let part = |all: u64| all / u64::from(self.all) * u64::from(self.all - self.warm_up);
        Traffic { count: part(count), bytes: part(bytes) }
    }

    /// Tells measured steps from warm-up. A run without warm-up is measured from its first mark on.
    fn measure(self, place: Place, lane: &Timed) -> bool {
        let step = self.number(place);
        let before =
            step == 0 && lane.begin.is_some_and(|(block, mark)| place.block == block && place.op < mark);
        step >= self.warm_up && !before
    }
}

impl Timed {
    /// The account of an operation.
    fn account(&self, place: Place) -> Option<usize> {
        *self.accounts.get(place.block.index())?.get(place.op as usize)?
    }

    /// Times of a segment, worked out once for all that are alike.
    fn segment(&mut self, segment: &Segment<'_>, accounts: &[Account]) -> &Ran {
        let pattern = segment.pattern as usize;
        if self.segments.len() <= pattern {
            self.segments.resize_with(pattern + 1, Vec::new);
        }
        let known = self.segments[pattern].iter().position(|ran| ran.range == segment.range);
        let at = known.unwrap_or_else(|| {
            let ran = self.ran(segment, accounts);
            self.segments[pattern].push(ran);
            self.segments[pattern].len() - 1
        });
        &self.segments[pattern][at]
    }

    fn ran(&self, segment: &Segment<'_>, accounts: &[Account]) -> Ran {
        let mut spent = BTreeMap::new();
        for (place, _, start, end) in segment.spans() {
            if let Some(account) = self.account(place) {
                *spent.entry(account).or_insert(Time::ZERO) += end - start;
            }
        }
        let within =
            |&account: &usize| accounts[account].communication.is_some_and(Communication::within_stage);
        let within_stage = spent.iter().filter(|(account, _)| within(account)).map(|(_, time)| time.0).sum();
        let spent = spent.into_iter().collect();
        Ran { range: segment.range.clone(), spent, within_stage: Time(within_stage) }
    }
}
