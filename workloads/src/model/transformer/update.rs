//! What a rank does once per step: sums of gradients over ranks, then the optimizer.
//!
//! The order and the passes are those of Megatron-LM (`distributed.py` and `optimizer.py` of
//! 2022): sums over tensor, data and embedding ranks, of gradients that were divided by the number
//! of data ranks; with loss scaling division and a search for infinities; clipping to a norm; Adam
//! on fp32 copies; a copy back in half precision. Two numbers are summed over all ranks of the
//! model, which makes its stages wait for each other.
//!
//! Last, gradients are cleared for the micro-batches that are added to them. Megatron-LM does that
//! as its step begins (`zero_grad_buffer`), which is the same over any number of steps.

use crate::graph::Phase;

use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use super::{DataParallel, Fp8, Held, RankParameters, Scaling, Sharding, States, Step};
use crate::graph::operator::{CollectiveKind, Dtype, Group, OperatorList, StreamClass};

const GRADIENTS: Name = Name::of("gradients");
const STATES: Name = Name::of("optimizer states");
const PARAMETERS: Name = Name::of("parameters");
/// Of Adam.
pub(crate) const MOMENTS: u64 = 2;

impl ShardedTransformer {
    /// The operators of a rank with `parameters`, which ranks of `data` hold or share. What those
    /// exchange beside forward and backward passes is not among them.
    pub fn update(&self, parameters: &RankParameters, data: &DataParallel) -> OperatorList {
        let mut draft = Draft::new(Phase::Update);
        let step = self.execution().step;
        if step == Step::Forward {
            return OperatorList::default();
        }
        let sharding = data.sharding;
        let parameters = &parameters.trained();
        let held = self.state_bytes(parameters, data).gradients;
        self.sum_gradients(&mut draft, parameters, held, data);
        if step == Step::Gradients {
            return draft.list();
        }
        let held_by = self.held(parameters, data);
        let updated = self.updated(parameters, data);
        match &data.hosted {
            Some(hosted) if hosted.pages => {
                let gradient = updated * self.execution().states.gradient_bytes();
                self.unscale(&mut draft, gradient);
                self.norm(&mut draft, gradient);
                let types = (self.execution().states, MOMENTS);
                hosted.page(&mut draft, updated, types, |draft, count| {
                    self.copy_gradients(draft, count);
                    self.move_parameters(draft, count);
                });
            }
            Some(hosted) => {
                self.norm(&mut draft, updated * self.execution().states.gradient_bytes());
                let types = (self.execution().states, MOMENTS);
                hosted.update(&mut draft, updated, types, |draft, count| self.move_parameters(draft, count));
            }
            None => self.optimize(&mut draft, updated),
        }
        if sharding != Sharding::None && data.gathers_beside().is_none() {
            for (held, name) in held_by.iter().zip(["gather parameters", "gather experts"]) {
                if held.is_exchanged() {
                    let bytes = held.parameters * self.execution().states.parameter_bytes();
                    let gather = (CollectiveKind::AllGather, held.group, bytes);
                    draft.collective(name, gather, Issue::Waiting, &[PARAMETERS], &[]);
                }
            }
        }
        self.narrow_weights(&mut draft, parameters, data);
        if !data.leaves_beside() {
            draft.stream("clear gradients", StreamClass::Elementwise, (0, held), &[GRADIENTS], &[]);
        }
        draft.list()
    }

    /// Parameters that the optimizer of a rank updates: all, or its share.
    pub(crate) fn updated(&self, parameters: &RankParameters, data: &DataParallel) -> u64 {
        let share = |held: &Held| match data.sharding {
            Sharding::None => held.parameters,
            _ => held.parameters.div_ceil(u64::from(held.ranks)),
        };
        self.held(&parameters.trained(), data).iter().map(share).sum()
    }

    /// Weights in 8 bits for the micro-batches to come: cast with their transposes, or for ranks
    /// that gather them only their largest values, which these agree on. Norms and biases of
    /// layers count among them. Frozen weights stay in 8 bits (`fp8_params` of NeMo).
    fn narrow_weights(&self, draft: &mut Draft, parameters: &RankParameters, data: &DataParallel) {
        let Some(Fp8 { scaling, gathers }) = self.execution().fp8.filter(|_| self.trains_weights()) else {
            return;
        };
        let half = self.execution().states.parameter_bytes() * parameters.layers;
        if scaling == Scaling::Delayed {
            let traffic = (half, 2 * parameters.layers);
            draft.stream("cast weights", StreamClass::Elementwise, traffic, &[PARAMETERS], &[]);
        }
        if gathers && data.ranks > 1 {
            let single = 4 * parameters.layers.div_ceil(u64::from(data.sharing.max(1)));
            draft.stream("largest of weights", StreamClass::Reduction, (single, 0), &[PARAMETERS], &[]);
            let agree = (CollectiveKind::AllReduce, Group::Data, 4);
            draft.collective("reduce largest of weights", agree, Issue::Waiting, &[PARAMETERS], &[]);
        }
    }

    /// Sums gradients, of which the rank has `held` bytes.
    fn sum_gradients(&self, draft: &mut Draft, parameters: &RankParameters, held: u64, data: &DataParallel) {
        let each = self.execution().states.gradient_bytes();
        let sum = |draft: &mut Draft, name, kind, group, count: u64| {
            draft.collective(name, (kind, group, count * each), Issue::Waiting, &[GRADIENTS], &[]);
        };
        // Under sequence parallelism each rank has seen only its part of the tokens.
        if self.sequence_parallel() && parameters.replicated > 0 {
            let count = parameters.replicated;
            sum(draft, "reduce replicated gradients", CollectiveKind::AllReduce, Group::Tensor, count);
        }
        // By the number of data ranks, even where that is one and an update follows.
        if data.ranks > 1 || self.execution().step == Step::Whole {
            draft.stream("average gradients", StreamClass::Elementwise, (held, held), &[GRADIENTS], &[]);
        }
        if !data.reduces_beside() {
            let kind = match data.sharding {
                Sharding::None => CollectiveKind::AllReduce,
                _ => CollectiveKind::ReduceScatter,
            };
            let names = ["reduce gradients", "reduce gradients of experts"];
            for (held, name) in self.held(parameters, data).iter().zip(names) {
                if held.is_exchanged() {
                    sum(draft, name, kind, held.group, held.parameters);
                }
            }
        }
        if parameters.shared > 0 {
            let count = parameters.shared;
            sum(draft, "reduce embedding gradients", CollectiveKind::AllReduce, Group::Embedding, count);
        }
    }

    /// The optimizer on `count` parameters.
    fn optimize(&self, draft: &mut Draft, count: u64) {
        self.copy_gradients(draft, count);
        let gradient = self.gradient(count);
        self.unscale(draft, gradient);
        self.norm(draft, gradient);
        self.move_parameters(draft, count);
    }

    /// Bytes of the gradients of `count` parameters that the optimizer reads.
    fn gradient(&self, count: u64) -> u64 {
        let states = self.execution().states;
        count * if states == States::CopiedGradients { 4 } else { states.gradient_bytes() }
    }

    /// Copies gradients of `count` parameters to fp32, where the optimizer reads those.
    fn copy_gradients(&self, draft: &mut Draft, count: u64) {
        let states = self.execution().states;
        if states == States::CopiedGradients {
            let traffic = (count * states.parameter_bytes(), 4 * count);
            draft.stream("copy gradients", StreamClass::Elementwise, traffic, &[GRADIENTS], &[]);
        }
    }

    /// Divides so many bytes of gradients by the loss scale, where there is one.
    fn unscale(&self, draft: &mut Draft, gradient: u64) {
        if self.execution().dtype == Dtype::Fp16 {
            let traffic = (gradient, gradient);
            draft.stream("unscale gradients", StreamClass::Elementwise, traffic, &[GRADIENTS], &[]);
            self.agree(draft, "reduce infinities found");
        }
    }
}

impl ShardedTransformer {
    /// Clipping and Adam on `count` parameters, whose gradients are unscaled.
    fn move_parameters(&self, draft: &mut Draft, count: u64) {
        let states = self.execution().states;
        let (elementwise, half) = (StreamClass::Elementwise, count * states.parameter_bytes());
        let (single, gradient) = (4 * count, self.gradient(count));
        draft.stream("clip gradients", elementwise, (gradient, gradient), &[GRADIENTS], &[]);
        if self.execution().fusion.optimizer {
            // Parameter and two moments, read and written.
            let traffic = (gradient + 3 * single, 3 * single);
            draft.stream("adam", StreamClass::Optimizer, traffic, &[GRADIENTS, STATES], &[]);
        } else {
            adam(draft, gradient, single);
        }
        if states != States::Full {
            draft.stream("copy parameters", elementwise, (single, half), &[STATES, PARAMETERS], &[]);
        }
    }

    /// The norm of so many bytes of gradients, over all ranks of the model.
    fn norm(&self, draft: &mut Draft, gradient: u64) {
        draft.stream("gradient norm", StreamClass::Reduction, (gradient, 0), &[GRADIENTS], &[]);
        self.agree(draft, "reduce gradient norm");
    }

    /// Sums a number over all ranks of the model.
    fn agree(&self, draft: &mut Draft, name: &'static str) {
        let split = &self.execution().split;
        if split.tensor > 1 || split.stages > 1 {
            let number = (CollectiveKind::AllReduce, Group::Model, 4);
            draft.collective(name, number, Issue::Waiting, &[GRADIENTS], &[]);
        }
    }
}

/// Adam operator by operator, as PyTorch's optimizers do without `fused` or `foreach`: mean and
/// mean square of gradients decay and take in the new one, the root of the latter is scaled and
/// bounded, the parameter moves by their ratio. `gradient` bytes of gradients, `single` of each
/// state.
fn adam(draft: &mut Draft, gradient: u64, single: u64) {
    let mut pass = |name, read| {
        draft.stream(name, StreamClass::Elementwise, (read, single), &[GRADIENTS, STATES], &[]);
    };
    pass("decay mean", single);
    pass("add gradient", single + gradient);
    pass("decay mean square", single);
    pass("add square of gradient", single + gradient);
    pass("root of mean square", single);
    pass("scale root", single);
    pass("bound root", single);
    pass("move parameters", 3 * single);
}
