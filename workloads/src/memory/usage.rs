//! What the GPUs of a plan must have when a caching allocator serves the tensors of their ranks.
//!
//! The stores of the engine and the allocator hold the same tensors, one by one; the allocator rounds them, and has segments of which
//! it cannot use all. Where it is asked its verdict is that of the plan, and the stores only count, unless who finds no room waits.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use hw_models::allocator::{Mistake, Settings, Usage, replay, sizes};
use thiserror::Error;

use crate::graph::cut::{Cut, Piece};
use crate::graph::operator::Label;
use crate::graph::{OpGraph, Phase};
use crate::model::transformer::Block;
use crate::names::kind;
use crate::order::Visit;
use crate::plan::Built;

use super::moves::Lending;
use super::ranks::Ranks;
use super::step_list::StepList;
use super::walk::Walk;
use super::{Executed, Framework, OperatorCalls, RankList, Recorded};

/// Operators that are replayed at most, over all ranks that differ, which takes some seconds.
const OPERATORS_MAX: u64 = 8_000_000;
/// Copies of the model that are replayed at most, spread evenly; the one that needs most is told.
const COPIES_MAX: u32 = 4;

/// What the GPU of a rank must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageUsage {
    /// Bytes of the GPU that the plan may use.
    pub capacity: u64,
    /// Bytes of those that are not the allocator's: driver, context, communicators.
    pub outside: Vec<(&'static str, u64)>,
    /// What the allocator makes of the requests, with the rest.
    pub usage: Usage,
    /// Bytes that the plan takes of the GPU at most, were there no limit.
    pub needed: u64,
    /// The same without fragments.
    pub unfragmented: u64,
    /// Bytes with which a rank that runs out would not, if it did all in the same order.
    pub lacking: u64,
    /// What operators take of the driver in each step, if memory is returned to it in each. `None`:
    /// nobody knows.
    pub driver: Option<Vec<OperatorCalls>>,
    /// What was executed when tensors had most bytes; none: nothing yet.
    pub allocated_in: Option<Executed<Label>>,
    /// What was executed when segments had most bytes.
    pub reserved_in: Option<Executed<Label>>,
    /// What was executed when a request could not be served.
    pub short_in: Option<Executed<Label>>,
}

/// Why nothing is known of the allocator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotReplayed {
    /// It would take too long.
    #[error(
        "the ranks that differ execute {operators} operators in two steps, more than the {OPERATORS_MAX} that are replayed"
    )]
    TooLong {
        /// Operators of all ranks that differ.
        operators: u64,
    },
    /// The allocator's settings are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Mistakes(Vec<Mistake>),
}

impl Ranks {
    /// Memory that a rank of each stage needs by the end of its second step, in the order of the
    /// stages; of those that run out, the one that needs most has a shortage. `recorded` goes by
    /// stage; of a stage beyond its end nothing is told. `framework` is that of a stage.
    ///
    /// # Errors
    /// Why that cannot be told.
    pub fn usage(
        &self,
        built: &Built,
        recorded: &[Recorded],
        framework: impl Fn(u32) -> Framework,
        settings: &Settings,
    ) -> Result<Vec<StageUsage>, NotReplayed> {
        let (kinds, kind_of) = self.replayed(built, framework)?;
        let nothing_told = Recorded::default();
        let needing = |kind: &Kind<'_>| {
            let recorded = recorded.get(kind.first as usize).unwrap_or(&nothing_told);
            let step = self.step_of(kind, &built.graph, recorded);
            let of_copy = |copy| {
                let (of, kept) = ((kind.first, copy), kind.lending.kept);
                let list = self.two_steps(&step, of, &kind.visits, kept, &kind.framework);
                let used = kind.used(&list, u64::MAX, settings)?;
                Ok(((list, copy), used))
            };
            let mut most = of_copy(0)?;
            for copy in self.copies().skip(1) {
                let next = of_copy(copy)?;
                if next.1.needed > most.1.needed {
                    most = next;
                }
            }
            Ok(most)
        };
        let (lists, mut usages): (Vec<_>, Vec<_>) =
            kinds.iter().map(needing).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        // A limit that is never reached changes nothing. Beyond it the allocator returns what is free, which may be enough: the
        // stage that needs most is the first to tell.
        let mut beyond: Vec<usize> = (0..kinds.len()).filter(|&n| usages[n].is_beyond()).collect();
        beyond.sort_by_key(|&n| Reverse(usages[n].needed));
        for n in beyond {
            let (list, copy) = &lists[n];
            let limited = kinds[n].used(list, kinds[n].left(), settings)?;
            let StageUsage { needed, unfragmented, .. } = usages[n];
            let is_short = kinds[n].waits && limited.usage.shortage.is_some();
            let lacking = if is_short { kinds[n].lacking(list, needed, settings)? } else { 0 };
            usages[n] = StageUsage { needed, unfragmented, lacking, ..limited };
            if usages[n].usage.shortage.is_some() {
                break;
            }
            if usages[n].usage.retries > 0 {
                let (whole, brief) = (kinds[n].whole(built), &kinds[n]);
                let recorded = recorded.get(brief.first as usize).unwrap_or(&nothing_told);
                let calls = |kind| self.steady_calls(kind, *copy, (built, recorded), settings);
                usages[n].driver = match calls(&whole)? {
                    None => calls(brief)?,
                    told => told,
                };
            }
        }
        let of_stage = |(stage, kind): (u32, usize)| {
            let usage = usages[kind].clone();
            let driver = usage
                .driver
                .map(|all| all.into_iter().filter_map(|calls| calls.on_stage(stage, &built.graph)).collect());
            StageUsage { driver, ..usage }
        };
        Ok((0..).zip(kind_of).map(of_stage).collect())
    }

    /// What a rank takes of the driver in each step. `None`: that takes too long to tell, or more
    /// memory than there is.
    fn steady_calls(
        &self,
        kind: &Kind<'_>,
        copy: u32,
        (built, recorded): (&Built, &Recorded),
        settings: &Settings,
    ) -> Result<Option<Vec<OperatorCalls>>, NotReplayed> {
        if kind.operators(&self.cut).saturating_mul(2) > OPERATORS_MAX {
            return Ok(None);
        }
        let step = self.step_of(kind, &built.graph, recorded);
        let (of, kept) = ((kind.first, copy), kind.lending.kept);
        let list = self.two_steps(&step, of, &kind.visits, kept, &kind.framework);
        let micro_batches: BTreeSet<u32> = kind.visits.iter().map(|visit| visit.micro_batch).collect();
        list.steady_calls((&step, micro_batches.len() as u32), kind.left(), settings)
    }

    /// Tells whether the first stage, on which most micro-batches are under way, is known to run out
    /// of memory before a run: then [`Self::usage`] has a shortage.
    ///
    /// # Errors
    /// Why that cannot be told.
    pub fn first_runs_out(
        &self,
        built: &Built,
        framework: &Framework,
        settings: &Settings,
    ) -> Result<bool, NotReplayed> {
        if self.need_run(built) || self.copies_differ() {
            return Ok(false);
        }
        let kind = Kind::of(self, built, 0, *framework);
        let step = self.step_of(&kind, &built.graph, &Recorded::default());
        let list = self.two_steps(&step, (0, 0), &kind.visits, kind.lending.kept, framework);
        Ok(kind.used(&list, kind.left(), settings)?.usage.shortage.is_some())
    }

    /// Requests of a rank in a step.
    fn step_of(&self, kind: &Kind<'_>, graph: &OpGraph, recorded: &Recorded) -> StepList {
        let &Kind { first, ref visits, lending, ref framework, .. } = kind;
        if lending.trips.is_empty() && *recorded == Recorded::default() {
            return self.requested(graph, (first, visits), framework);
        }
        let moves = (lending, &recorded.absences);
        StepList::of(&Walk::of((self, graph), first, visits, moves, framework.placeholder), recorded)
    }

    /// Whether the allocator can be asked about a plan.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self, built: &Built, framework: impl Fn(u32) -> Framework) -> Result<(), NotReplayed> {
        self.replayed(built, framework).map(drop)
    }

    /// The stages that differ, each with the visits that are replayed, and which of them each stage is like.
    fn replayed<'a>(
        &'a self,
        built: &'a Built,
        framework: impl Fn(u32) -> Framework,
    ) -> Result<(Vec<Kind<'a>>, Vec<usize>), NotReplayed> {
        let (kinds, kind_of) = self.kinds(built, framework);
        let in_step = kinds.iter().map(|kind| kind.operators(&self.cut)).fold(0, u64::saturating_add);
        // Two steps of each copy.
        let operators = in_step.saturating_mul(2 * self.copies().count() as u64);
        if operators > OPERATORS_MAX {
            return Err(NotReplayed::TooLong { operators });
        }
        Ok((kinds, kind_of))
    }

    /// The stages that differ, and which of them each stage is like.
    fn kinds<'a>(
        &'a self,
        built: &'a Built,
        framework: impl Fn(u32) -> Framework,
    ) -> (Vec<Kind<'a>>, Vec<usize>) {
        let mut kinds: Vec<Kind<'_>> = Vec::new();
        let mut kind_of = Vec::new();
        for stage in 0..self.chain.stages {
            let kind = Kind::of(self, built, stage, framework(stage));
            kind_of.push(kinds.iter().position(|known| known.is_like(&kind)).unwrap_or(kinds.len()));
            if kind_of.last() == Some(&kinds.len()) {
                kinds.push(kind);
            }
        }
        (kinds, kind_of)
    }

    /// Copies of the model that are replayed: their parts of the states of the optimizer fill segments differently.
    fn copies(&self) -> impl Iterator<Item = u32> {
        let ranks = self.data.ranks.max(1);
        let several = if self.copies_differ() { COPIES_MAX.min(ranks) } else { 1 };
        (0..several).map(move |n| (u64::from(n) * u64::from(ranks) / u64::from(several)) as u32)
    }
}

impl StageUsage {
    /// Bytes of the GPU that the plan has too few, where it runs out: at least 1.
    pub fn missing(&self) -> Option<u64> {
        let missing = self.needed.saturating_sub(self.capacity).max(1);
        self.usage.shortage.is_some().then_some(missing)
    }

    /// Whether it takes more than there is, unless the allocator returns what is free meanwhile.
    fn is_beyond(&self) -> bool {
        self.needed > self.capacity
    }
}

/// What the list of a stage hangs on, but for the names of its tensors.
struct Kind<'a> {
    /// The first stage of this kind.
    first: u32,
    visits: Cow<'a, [Visit]>,
    /// By chunk, its blocks.
    pieces: Vec<&'a [Piece]>,
    /// By chunk, bytes that come from another rank on the way forward, and on the way back.
    crosses: Vec<[Option<u64>; 2]>,
    lending: Lending<'a>,
    /// Whether storages leave in the order that a run tells, for each stage its own.
    waits: bool,
    capacity: u64,
    outside: Vec<(&'static str, u64)>,
    /// Additions of the framework on its GPUs.
    framework: Framework,
}

impl<'a> Kind<'a> {
    fn of(ranks: &'a Ranks, built: &'a Built, stage: u32, framework: Framework) -> Self {
        let chain = ranks.chain;
        // A run tells of every micro-batch. Else repeats are left out, in which fragments may still become more: in the library by up
        // to 1.5 % of the segments.
        let (order, moves) =
            if ranks.need_run(built) { (&built.order, &*built.moves) } else { built.briefly() };
        let crosses = |position: u32| {
            let bytes = |lower: u32| chain.hop(lower).map(|_| ranks.boundaries[chain.stage(lower) as usize]);
            [position.checked_sub(1).and_then(bytes), bytes(position)]
        };
        const OUTSIDE: [&str; 3] = [kind::COMMUNICATION, kind::RESERVED, kind::FEATURES];
        let is_outside = |&&(of, _): &&(&str, u64)| OUTSIDE.contains(&of);
        let memory = &built.memory[stage as usize];
        let (lending, visits) = (Lending::of(moves, stage), &order.stages[stage as usize]);
        let is_alone = lending.trips.is_empty() && !ranks.need_run(built);
        let shortened = is_alone.then(|| order.shortened_stage(stage)).flatten();
        Self {
            first: stage,
            visits: shortened.map_or(Cow::Borrowed(visits), Cow::Owned),
            pieces: ranks.pieces(stage).collect(),
            crosses: (0..chain.chunks).map(|chunk| crosses(chain.position(stage, chunk))).collect(),
            lending,
            waits: memory.waits,
            capacity: memory.capacity,
            outside: memory.persistent.iter().filter(is_outside).copied().collect(),
            framework,
        }
    }

    /// The same with every micro-batch of the step.
    fn whole(&self, built: &'a Built) -> Self {
        let visits = Cow::Borrowed(&*built.order.stages[self.first as usize]);
        let lending = Lending::of(&built.moves, self.first);
        let (outside, pieces, crosses) = (self.outside.clone(), self.pieces.clone(), self.crosses.clone());
        Self { visits, lending, outside, pieces, crosses, ..*self }
    }

    fn is_like(&self, other: &Self) -> bool {
        !self.waits
            && (self.capacity, self.outside()) == (other.capacity, other.outside())
            && self.framework == other.framework
            && self.visits == other.visits
            && self.pieces == other.pieces
            && self.crosses == other.crosses
            && self.lending == other.lending
    }

    /// What a rank with this list takes of so much room.
    fn used(&self, list: &RankList, room: u64, settings: &Settings) -> Result<StageUsage, NotReplayed> {
        let usage = replay(&list.requests, room, settings).map_err(NotReplayed::Mistakes)?;
        let executing = |request| list.executing(request);
        Ok(StageUsage {
            capacity: self.capacity,
            outside: self.outside.clone(),
            needed: self.outside().saturating_add(usage.peak_reserved.reserved),
            unfragmented: self.outside().saturating_add(usage.peak_allocated.allocated),
            lacking: 0,
            driver: Some(Vec::new()),
            allocated_in: executing(usage.peak_allocated.request),
            reserved_in: executing(usage.peak_reserved.request),
            short_in: usage.shortage.as_ref().and_then(|shortage| executing(shortage.moment.request)),
            usage,
        })
    }

    /// Bytes with which a rank that runs out would not, to a page of a segment; with `needed` in all it takes what it likes.
    fn lacking(&self, list: &RankList, needed: u64, settings: &Settings) -> Result<u64, NotReplayed> {
        let (mut short, mut enough) = (0, needed.saturating_sub(self.capacity));
        while enough > short + sizes::LARGE_SEGMENT {
            let lacking = u64::midpoint(short, enough);
            let used =
                replay(&list.requests, self.left() + lacking, settings).map_err(NotReplayed::Mistakes)?;
            *if used.shortage.is_some() { &mut short } else { &mut enough } = lacking;
        }
        Ok(enough)
    }

    /// Bytes that the allocator may take.
    fn left(&self) -> u64 {
        self.capacity.saturating_sub(self.outside())
    }

    /// Bytes that are not the allocator's.
    fn outside(&self) -> u64 {
        self.outside.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Operators of the visits, at most.
    fn operators(&self, cut: &Cut) -> u64 {
        let of_visit = |visit: &Visit| {
            let blocks = self.pieces[visit.chunk as usize].iter().map(|piece| &cut.blocks[piece.block]);
            let of_block = |block: &Block| match visit.phase {
                Phase::Forward => block.forward.len(),
                _ => block.backward.len(),
            };
            blocks.map(of_block).sum::<usize>() as u64
        };
        self.visits.iter().map(of_visit).sum()
    }
}
