//! What a rank does once a step, as PyTorch does: gradients summed over the copies of the model
//! and divided by their number, unscaled in fp16, the optimizer, copies of the parameters in half
//! precision, gradients cleared.

use crate::graph::Phase;
use crate::graph::operator::{CollectiveKind, Dtype, Group, OperatorList, StreamClass};
use crate::model::draft::{Draft, Issue, Name};
use crate::model::transformer::{DataParallel, Sharding, States, Step};

use super::execution::Optimizer;
use super::model::LayeredModel;

const GRADIENTS: Name = Name::of("gradients");
const STATES: Name = Name::of("optimizer states");
const PARAMETERS: Name = Name::of("parameters");

impl LayeredModel {
    /// The operators of a rank with so many `parameters`, which ranks of `data` hold or share.
    /// What those exchange beside passes is not among them.
    pub(crate) fn update(&self, parameters: u64, data: &DataParallel) -> OperatorList {
        let states = self.execution().states;
        let DataParallel { ranks, sharding, .. } = *data;
        let mut draft = Draft::new(Phase::Update);
        let step = self.execution().step;
        if step == Step::Forward {
            return OperatorList::default();
        }
        let held = self.execution().state_bytes(parameters, sharding, ranks).gradients;
        let elementwise = StreamClass::Elementwise;
        if ranks > 1 {
            if !data.reduces_beside() {
                let kind = match sharding {
                    Sharding::None => CollectiveKind::AllReduce,
                    _ => CollectiveKind::ReduceScatter,
                };
                let sum = (kind, Group::Data, parameters * states.gradient_bytes());
                draft.collective("reduce gradients", sum, Issue::Waiting, &[GRADIENTS], &[]);
            }
            draft.stream("average gradients", elementwise, (held, held), &[GRADIENTS], &[]);
        }
        if step == Step::Gradients {
            return draft.list();
        }
        let updated = updated(parameters, data);
        match &data.hosted {
            Some(hosted) if hosted.pages => {
                let types = (states, self.execution().optimizer.moments());
                hosted.page(&mut draft, updated, types, |draft, count| self.optimize(draft, count));
            }
            Some(hosted) => {
                let types = (states, self.execution().optimizer.moments());
                hosted.update(&mut draft, updated, types, |draft, count| self.optimize(draft, count));
            }
            None => self.optimize(&mut draft, updated),
        }
        if sharding != Sharding::None && ranks > 1 && data.gathers_beside().is_none() {
            let gather = (CollectiveKind::AllGather, Group::Data, parameters * states.parameter_bytes());
            draft.collective("gather parameters", gather, Issue::Waiting, &[PARAMETERS], &[]);
        }
        if !data.leaves_beside() {
            draft.stream("clear gradients", elementwise, (0, held), &[GRADIENTS], &[]);
        }
        draft.list()
    }

    /// The optimizer on `count` parameters.
    fn optimize(&self, draft: &mut Draft, count: u64) {
        let states = self.execution().states;
        let (elementwise, half, single) =
            (StreamClass::Elementwise, count * states.parameter_bytes(), 4 * count);
        let copied = states == States::CopiedGradients;
        if copied {
            draft.stream("copy gradients", elementwise, (half, single), &[GRADIENTS], &[]);
        }
        let gradient = if copied { single } else { count * states.gradient_bytes() };
        if self.execution().dtype == Dtype::Fp16 {
            draft.stream("unscale gradients", elementwise, (gradient, gradient), &[GRADIENTS], &[]);
        }
        let reads = [GRADIENTS, STATES];
        match self.execution().optimizer {
            // Parameter and two moments, read and written in one pass.
            Optimizer::Adam => {
                let traffic = (gradient + 3 * single, 3 * single);
                draft.stream("adam", StreamClass::Optimizer, traffic, &reads, &[]);
            }
            // Three passes (torch/optim/sgd.py): the moment shrinks, takes the gradient, and is
            // added to the parameter.
            Optimizer::Momentum => {
                let class = StreamClass::Optimizer;
                draft.stream("shrink momentum", class, (single, single), &[STATES], &[]);
                draft.stream("add gradients to momentum", class, (single + gradient, single), &reads, &[]);
                draft.stream("add momentum to parameters", class, (2 * single, single), &[STATES], &[]);
            }
        }
        if states != States::Full {
            draft.stream("copy parameters", elementwise, (single, half), &[STATES, PARAMETERS], &[]);
        }
    }
}

/// Of so many parameters those that the optimizer of a rank updates: all, or its share.
pub(crate) fn updated(parameters: u64, data: &DataParallel) -> u64 {
    let shard = if data.sharding == Sharding::None { 1 } else { u64::from(data.ranks.max(1)) };
    parameters.div_ceil(shard)
}
