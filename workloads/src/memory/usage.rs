//! What the GPUs of a plan must have when a caching allocator serves the tensors of their ranks.
//!
//! The stores of the engine hold storages, the allocator the tensors that those stand for, one by one, and what it cannot
//! use of its segments. The stores know when techniques move what, the allocator what fragments cost: a plan fits if it
//! does in both. Most bytes of tensors and of storages are within 2 % of each other.

use hw_models::allocator::{Mistake, Settings, Usage, replay};
use thiserror::Error;

use crate::graph::Phase;
use crate::model::cut::{Cut, Piece};
use crate::model::transformer::{Block, ShardedTransformer, Sharding};
use crate::names::kind;
use crate::order::Visit;
use crate::plan::{Built, TransformerPlan, parameters};

use super::{Executed, Framework, list_of};

/// Operators that are replayed at most, over all stages that differ, which takes one or two seconds.
const OPERATORS_MAX: u64 = 4_000_000;

/// What the GPU of a rank must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageUsage {
    /// Bytes of the GPU that the plan may use.
    pub capacity: u64,
    /// Bytes of those that are not the allocator's: driver, context, communicators.
    pub outside: Vec<(&'static str, u64)>,
    /// What the allocator makes of the requests, with the rest.
    pub usage: Usage,
    /// What was executed when tensors had most bytes; none: nothing yet.
    pub allocated_in: Option<Executed>,
    /// What was executed when segments had most bytes.
    pub reserved_in: Option<Executed>,
    /// What was executed when a request could not be served.
    pub short_in: Option<Executed>,
}

/// Why nothing is known of the allocator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotReplayed {
    /// The list of a rank has no copies to other ranks.
    #[error("activations move to other stages, which the list of tensors does not follow")]
    Moves,
    /// The list of a rank has no gathered parameters.
    #[error("data-parallel ranks share gradients or parameters, which the list of tensors does not follow")]
    Shared,
    /// It would take too long.
    #[error(
        "the stages that differ execute {operators} operators a step, more than the {OPERATORS_MAX} that are replayed"
    )]
    TooLong {
        /// Operators of all stages that differ.
        operators: u64,
    },
    /// The allocator's settings are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Mistakes(Vec<Mistake>),
}

/// What a rank of each stage needs, in the order of the stages.
///
/// # Errors
/// Why that cannot be told.
pub fn usage(
    plan: &TransformerPlan,
    built: &Built,
    framework: &Framework,
    settings: &Settings,
) -> Result<Vec<StageUsage>, NotReplayed> {
    if built.evictions.iter().any(|&count| count > 0) {
        return Err(NotReplayed::Moves);
    }
    if plan.sharding >= Sharding::Gradients {
        return Err(NotReplayed::Shared);
    }
    // A plan that was built has a model.
    let Ok(model) = ShardedTransformer::new(&plan.model, &plan.execution) else { return Ok(Vec::new()) };
    let chain = built.order.shape.chain;
    let cut = model.cut(chain, plan.recompute);
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut kind_of = Vec::new();
    for stage in 0..chain.stages {
        let kind = Kind::of(built, &model, &cut, stage);
        kind_of.push(kinds.iter().position(|known| known.is_like(&kind)).unwrap_or(kinds.len()));
        if kind_of.last() == Some(&kinds.len()) {
            kinds.push(kind);
        }
    }
    let operators = kinds.iter().map(|kind| kind.operators(&cut)).fold(0, u64::saturating_add);
    if operators > OPERATORS_MAX {
        return Err(NotReplayed::TooLong { operators });
    }
    let replayed = |kind: &Kind<'_>| {
        let list = list_of(plan, &model, (chain, kind.first), kind.visits, framework);
        let memory = &built.memory[kind.first as usize];
        let usage = replay(&list.requests, memory.capacity.saturating_sub(kind.outside()), settings);
        let usage = usage.map_err(NotReplayed::Mistakes)?;
        let executing = |request| list.executing(request);
        Ok(StageUsage {
            capacity: memory.capacity,
            outside: kind.outside.clone(),
            allocated_in: executing(usage.peak_allocated.request),
            reserved_in: executing(usage.peak_reserved.request),
            short_in: usage.shortage.as_ref().and_then(|shortage| executing(shortage.moment.request)),
            usage,
        })
    };
    let usages = kinds.iter().map(replayed).collect::<Result<Vec<_>, _>>()?;
    Ok(kind_of.into_iter().map(|kind| usages[kind].clone()).collect())
}

/// What the list of a stage hangs on, but for the names of its tensors.
struct Kind<'a> {
    /// The first stage of this kind.
    first: u32,
    visits: &'a [Visit],
    /// By chunk, its blocks.
    pieces: Vec<&'a [Piece]>,
    /// By chunk, whether its input comes from another rank, and its output goes to one.
    crosses: Vec<[bool; 2]>,
    parameters: u64,
    outside: Vec<(&'static str, u64)>,
}

impl<'a> Kind<'a> {
    fn of(built: &'a Built, model: &ShardedTransformer, cut: &'a Cut, stage: u32) -> Self {
        let chain = built.order.shape.chain;
        let positions = || (0..chain.chunks).map(|chunk| chain.position(stage, chunk));
        let crosses = |position: u32| {
            let before = position.checked_sub(1).and_then(|before| chain.hop(before));
            [before.is_some(), chain.hop(position).is_some()]
        };
        let is_outside = |&&(of, _): &&(&str, u64)| [kind::COMMUNICATION, kind::RESERVED].contains(&of);
        Self {
            first: stage,
            visits: &built.order.stages[stage as usize],
            pieces: positions().map(|position| cut.positions[position as usize].as_slice()).collect(),
            crosses: positions().map(crosses).collect(),
            parameters: parameters(model, chain, stage).total(),
            outside: built.memory[stage as usize].persistent.iter().filter(is_outside).copied().collect(),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        let parts = |kind: &Self| (kind.parameters, kind.outside());
        parts(self) == parts(other)
            && self.visits == other.visits
            && self.pieces == other.pieces
            && self.crosses == other.crosses
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
