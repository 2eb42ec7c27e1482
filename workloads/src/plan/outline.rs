//! Plans of transformers before layers are laid on stages: their memory and their work, block by block.

use sim_core::time::Time;

use crate::chain::Chain;
use crate::graph::cut::{Cut, LayerPlace, Piece};
use crate::graph::operator::OperatorList;
use crate::hardware::Hardware;
use crate::limits;
use crate::model::hosted;
use crate::model::laid::{Laid, lay};
use crate::model::transformer::{DataParallel, MOMENTS, ShardedTransformer};

use super::deployed::{BlockTime, Deployed, Fed};
use super::floor::{Floor, Working};
use super::launch::updated_one_by_one;
use super::transformer::{parameters, validate};
use super::{PlanError, TransformerPlan};

/// Finds what a plan takes at least by its blocks alone: its memory if that is too small, otherwise
/// its work for a micro-batch, which is that of all plans that differ in stages, copies and order
/// alone. The time of a step is not known and 0.
///
/// # Errors
/// As [`super::check_on`].
pub fn sketch_on(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<Floor, PlanError> {
    let outline = Outline::of(plan, hardware)?;
    match outline.too_large(hardware)? {
        Some(floor) => Ok(floor),
        None => Ok(Floor { micro_batch: outline.work(hardware)?, ..Floor::default() }),
    }
}

/// Places of the first layer of a stage, and of one as far behind as there may be.
const PLACES: [LayerPlace; 2] =
    [LayerPlace { in_chunk: 0, on_stage: 0 }, LayerPlace { in_chunk: u32::MAX, on_stage: u32::MAX }];

/// A valid plan.
pub(super) struct Outline<'a> {
    plan: &'a TransformerPlan,
    model: ShardedTransformer,
    chain: Chain,
    data: DataParallel,
    /// By stage, parameters that hosts update.
    updated: Vec<u64>,
}

impl<'a> Outline<'a> {
    pub(super) fn of(plan: &'a TransformerPlan, hardware: &Hardware<'_>) -> Result<Self, PlanError> {
        let model = ShardedTransformer::new(&plan.model, &plan.execution).map_err(PlanError::Invalid)?;
        validate(plan, hardware)?;
        let chain = plan.deployment.pipelining.schedule.chain(plan.execution.split.stages);
        let data = plan.data_parallel();
        let updated = |stage| model.updated(&parameters(&model, chain, stage), &data);
        let updated: Vec<u64> = (0..chain.stages).map(updated).collect();
        limits::host_groups(&plan.deployment.pipelining, &updated).map_err(PlanError::Invalid)?;
        Ok(Self { plan, model, chain, data, updated })
    }

    /// Its model on its stages.
    pub(super) fn deployed(&self, hardware: &Hardware<'_>) -> Deployed<'a> {
        let Self { plan, model, chain, data, updated } = self;
        let (mut laid, exchanges) = plan.lay(model, *chain, hardware.memo);
        let states = (plan.execution.states, MOMENTS);
        let updates = hosted::updates(&mut laid, &exchanges, data.hosted, states, updated);
        let tensors = updated_one_by_one(hardware, || model.cut(*chain), *chain);
        Deployed { laid, tensors, exchanges, updates, ..self.states() }
    }

    /// Memory of its stages and hosts, where one has less than states and activations take.
    pub(super) fn too_large(&self, hardware: &Hardware<'_>) -> Result<Option<Floor>, PlanError> {
        let (states, on_hosts) = (self.states(), self.data.hosted.is_some());
        // States are told without a block being made.
        let none = vec![Working::default(); self.chain.stages as usize];
        if let Some(floor) = states.too_large_with(&none, on_hosts, hardware)? {
            return Ok(Some(floor));
        }
        let cut = self.plan.cut(&self.model, self.chain);
        let held = |stage| Working::of_activations(cut.held(self.chain.position(stage, 0)));
        let held: Vec<Working> = (0..self.chain.stages).map(held).collect();
        states.too_large_with(&held, on_hosts, hardware)
    }

    /// Time of all compute lanes together for a micro-batch, as far as it hangs on neither the number
    /// of stages nor that of copies: a layer that passes rewrite by its place counts as the fastest.
    fn work(&self, hardware: &Hardware<'_>) -> Result<Time, PlanError> {
        let pipelining = &self.plan.deployment.pipelining;
        // Who executes what of its neighbours depends on where stages are cut.
        if pipelining.crosses_blocks() {
            return Ok(Time::ZERO);
        }
        let cut = self.model.cut(self.chain);
        let mut different: Vec<(Piece, u64)> = Vec::new();
        for piece in cut.positions.iter().flatten() {
            match different.iter_mut().find(|(known, _)| known.block == piece.block) {
                Some((_, count)) => *count += 1,
                None => different.push((*piece, 1)),
            }
        }
        let placed = |&(piece, _): &(Piece, u64)| {
            PLACES.map(|place| Piece { layer: piece.layer.and(Some(place)), ..piece })
        };
        let pieces = different.iter().flat_map(placed).collect();
        let cut = pipelining.rewritten(Cut { positions: vec![pieces], ..cut });
        let (chain, nothing) = (Chain::straight(1), OperatorList::default());
        let laid = lay(&cut, chain, pipelining.schedule.splits_backward(), &nothing, |_| nothing.clone());
        let times =
            Deployed { laid, chain, boundaries: Vec::new(), ..self.states() }.block_times(hardware)?;
        let least = |(times, (_, count)): (&[BlockTime], &(Piece, u64))| {
            times.iter().map(|block| block.time.0).min().unwrap_or(0).saturating_mul(*count)
        };
        let least = times.chunks(PLACES.len()).zip(&different).map(least);
        Ok(Time(least.fold(0, u64::saturating_add)))
    }

    /// Its states on its stages, without any operator.
    fn states(&self) -> Deployed<'a> {
        let Self { plan, model, data, .. } = self;
        let chain = self.chain;
        let boundary = model.boundary(plan.scatter_gather);
        let states = |stage| {
            let bytes = model.state_bytes(&parameters(model, chain, stage), data);
            data.places(bytes.of_step(plan.execution.step), plan.execution.states, MOMENTS)
        };
        Deployed {
            laid: Laid::default(),
            tensors: Vec::new(),
            exchanges: Vec::new(),
            chain,
            boundaries: vec![boundary.bytes; chain.stages as usize],
            states: (0..chain.stages).map(states).collect(),
            updates: Vec::new(),
            feed: Fed::default(),
            extent: plan.extent(),
            deployment: &plan.deployment,
        }
    }
}
