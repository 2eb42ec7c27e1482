//! A plan between the graph of a model and schedules: what passes read and change.

use std::ops::Range;

use crate::chain::Chain;
use crate::exchange::Exchange;
use crate::feed::FeedLane;
use crate::graph::OpGraph;
use crate::graph::part::PartKind;
use crate::host_update::HostUpdate;
use crate::order::Order;
use crate::schedule::{Multiprocessors, Schedule, StageMemory};
use crate::transfer::{Conflict, Dispositions, Medium, Transfer};

use super::host_buffers::HostBuffers;
use super::offload::adaptive::Kept;
use super::swap::Swapped;
use super::vdnn::Virtualised;

/// A plan on its way from the graph of a model to schedules.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Chunks of the model on stages.
    pub chain: Chain,
    /// What is executed.
    pub graph: OpGraph,
    /// Its layers, by position of the chain, then in the order of the forward pass.
    pub(crate) layers: Vec<LayerOps>,
    /// What data-parallel ranks exchange beside the visits.
    pub exchanges: Vec<Exchange>,
    /// What hosts update.
    pub updates: Vec<HostUpdate>,
    /// Lanes that make batches ahead of the first stage.
    pub feed: Vec<FeedLane>,
    /// Multiprocessors that kernels of that stage get beside them.
    pub training: Multiprocessors,
    /// Memory of the stages.
    pub memory: Vec<StageMemory>,
    /// Memory of hosts for copies.
    pub buffers: HostBuffers,
    /// Where activations go that leave the GPUs.
    pub away: Medium,
    /// The whole step, then the same step with fewer repeats of its micro-batches, if they repeat. Empty before the order is known.
    pub steps: Vec<Step>,
    /// By replica, its cohort. Empty: all are in the first.
    pub cohort_of: Vec<u32>,
    /// Decisions that reports tell.
    pub decided: Decided,
}

/// The operators of a layer, of the embedding or of the head, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerOps {
    /// Its stage.
    pub(crate) stage: u32,
    /// Its chunk there.
    pub(crate) chunk: u32,
    pub(crate) kind: PartKind,
    /// The forward pass.
    pub(crate) forward: Range<u32>,
    /// The whole backward pass.
    pub(crate) backward: Range<u32>,
    /// Where its MLP begins in the forward pass, and its attention in the backward pass.
    pub(crate) middle: Option<[u32; 2]>,
}

/// Decisions of techniques, as reports tell them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    /// About swapping, by stage, then cohort.
    pub swapped: Vec<Swapped>,
    /// About what ranks keep by their own profiles, by stage, then replica.
    pub kept: Vec<Kept>,
    /// About memory that vDNN manages, by stage.
    pub virtualised: Vec<Virtualised>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Visits of each stage.
    pub order: Order,
    /// Replicas that do the same.
    pub cohorts: Vec<Cohort>,
}

/// Replicas whose decisions are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cohort {
    /// Where storages are between uses.
    pub table: Dispositions,
    /// What they execute. Empty before the first realiser.
    pub schedule: Schedule,
}

/// A schedule to change, with what it is made of.
pub struct Realised<'a> {
    /// What is executed.
    pub graph: &'a OpGraph,
    /// In which order.
    pub order: &'a Order,
    /// Where storages are between uses.
    pub table: &'a Dispositions,
    /// Number of the cohort.
    pub cohort: usize,
    /// Number of cohorts.
    pub cohorts: usize,
}

impl Plan {
    /// The order of the whole step.
    ///
    /// # Panics
    /// Before the pass that generates it.
    pub fn order(&self) -> &Order {
        &self.steps[0].order
    }

    /// Decides for all cohorts of every step.
    ///
    /// # Errors
    /// The first of `decide`.
    pub fn decide<E>(
        &mut self,
        mut decide: impl FnMut(&OpGraph, &Order, &mut Dispositions) -> Result<(), E>,
    ) -> Result<(), E> {
        for Step { order, cohorts } in &mut self.steps {
            cohorts.iter_mut().try_for_each(|cohort| decide(&self.graph, order, &mut cohort.table))?;
        }
        Ok(())
    }

    /// Lets storages be away in all cohorts of every step, as `technique` decided.
    ///
    /// # Errors
    /// If one of them leaves already.
    pub fn transfer(&mut self, technique: &'static str, transfers: &[Transfer]) -> Result<(), Conflict> {
        self.decide(|graph, _, table| {
            transfers.iter().try_for_each(|transfer| table.transfer(technique, graph, transfer.clone()))
        })
    }

    /// Lets replicas decide differently: so many cohorts, which begin with the decisions so far.
    pub fn split(&mut self, cohorts: usize, cohort_of: Vec<u32>) {
        for step in &mut self.steps {
            let first = step.cohorts.first().cloned().unwrap_or_default();
            step.cohorts = vec![first; cohorts];
        }
        self.cohort_of = cohort_of;
    }

    /// Changes the schedules of all cohorts of every step.
    pub fn realise(&mut self, mut change: impl FnMut(&mut Schedule, &Realised<'_>)) {
        for Step { order, cohorts } in &mut self.steps {
            let count = cohorts.len();
            for (cohort, Cohort { table, schedule }) in cohorts.iter_mut().enumerate() {
                change(schedule, &Realised { graph: &self.graph, order, table, cohort, cohorts: count });
            }
        }
    }
}
