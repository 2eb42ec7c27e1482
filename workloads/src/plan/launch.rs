//! How the host issues the work of the devices, and what that costs it.

use std::collections::BTreeMap;

use hw_models::framework::UpdateStyle;
use hw_models::host::OpClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use crate::chain::Chain;
use crate::cost::IssueCosts;
use crate::exchange::Exchange;
use crate::graph::block::Block;
use crate::graph::cut::Cut;
use crate::graph::{Op, OpId, OperatorId, Phase};
use crate::hardware::Hardware;
use crate::model::laid::Laid;
use crate::model::transformer::{GroupedGemm, Operator, Work};
use crate::passes::no_sums::is_sum;

use super::Deployment;

/// Way in which the host issues the work of GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Launch {
    /// Operator by operator, as PyTorch does; small models wait for it.
    #[default]
    Eager,
    /// Every visit of a micro-batch as one captured CUDA graph.
    Graph,
    /// The host is never late.
    Free,
}

/// Costs of issuing the operators.
pub(super) fn issue(
    laid: &Laid,
    exchanges: &[Exchange],
    tensors: &[u64],
    hardware: &Hardware<'_>,
    deployment: &Deployment,
) -> Option<IssueCosts> {
    let exchanges = exchanges.iter().flat_map(|exchange| exchange.ops.iter().copied()).collect();
    let works = laid.graph.operators().iter();
    let host = hardware.host;
    match deployment.launch {
        Launch::Eager => {
            let updated = updates(laid, tensors);
            let issued = |(id, op): (OperatorId, &Operator)| {
                let times = updated.get(&id).copied().unwrap_or_else(|| op.members.into());
                eager(op, times, hardware, deployment)
            };
            let ops = (0u32..).map(OpId).zip(laid.graph.ops());
            let awaited = ops.clone().filter(|&(_, op)| laid.graph.work_of(op).awaited);
            // What follows a wait is issued when the host knows of its end.
            let waited = awaited.map(|(OpId(op), _)| (OpId(op + 1), host.synchronise.time()));
            let mut waited: BTreeMap<OpId, Time> = waited.collect();
            let taken = ops.map(|(OpId(op), at)| (op, laid.graph.work_of(at).driver));
            for (op, taken) in taken.filter(|(_, taken)| taken.count > 0) {
                for (op, call) in [(op, &host.allocation), (op + 1, &host.release)] {
                    let waited = waited.entry(OpId(op)).or_default();
                    *waited = waited.saturating_add(call.time(taken));
                }
            }
            for (&op, &time) in &deployment.driver {
                let waits = deployment.pipelining.drained.contains(&op);
                let waits = if waits { host.synchronise.time() } else { Time::ZERO };
                let waited = waited.entry(op).or_default();
                *waited = waited.saturating_add(time).saturating_add(waits);
            }
            let works = (0..).map(OperatorId).zip(works).map(issued).collect();
            Some(IssueCosts { works, waited, exchanges, graph: None })
        }
        Launch::Graph => {
            let works = works.map(|_| host.graph_node.time()).collect();
            let (waited, graph) = (BTreeMap::new(), Some(host.graph_launch.time()));
            Some(IssueCosts { works, waited, exchanges, graph })
        }
        Launch::Free => None,
    }
}

/// Tensors of parameters by stage, where a framework updates each by itself: each has its gradient
/// added to a sum, as long as no pass leaves sums out.
pub(super) fn updated_one_by_one(hardware: &Hardware<'_>, model: impl Fn() -> Cut, chain: Chain) -> Vec<u64> {
    if hardware.framework.update == UpdateStyle::Lists {
        return Vec::new();
    }
    let model = model();
    let of_block = |block: &Block| {
        let sums = block.backward.iter().filter(|operator| is_sum(operator));
        sums.map(|sum| u64::from(sum.members)).sum::<u64>()
    };
    let mut tensors = vec![0; chain.stages as usize];
    for (position, pieces) in (0..).zip(&model.positions) {
        let of_position = pieces.iter().map(|piece| of_block(&model.blocks[piece.block]));
        tensors[chain.stage(position) as usize] += of_position.sum::<u64>();
    }
    tensors
}

/// How often passes of the update are issued, where that is more than once.
fn updates(laid: &Laid, tensors: &[u64]) -> BTreeMap<OperatorId, u64> {
    let is_pass =
        |op: &&Op| op.phase == Phase::Update && matches!(laid.graph.work_of(op).work, Work::Stream(_));
    let passes = laid.graph.ops().iter().filter(is_pass);
    passes.filter_map(|op| Some((op.operator, *tensors.get(op.stage as usize)?))).collect()
}

/// Time of the host to issue an operator this often, from Python or from generated code, as
/// programs do ([`crate::program::issuer`]).
fn eager(operator: &Operator, times: u64, hardware: &Hardware<'_>, deployment: &Deployment) -> Time {
    let (framework, class) = (hardware.framework, class(operator));
    let is_called = deployment.compiled && operator.phase != Phase::Update;
    let is_backward = operator.phase.is_backward();
    let issue = framework.issue(hardware.host, class, is_backward);
    // Compiled backward passes call operators of the library: views are no nodes of autograd there.
    let view = framework.issue(hardware.host, OpClass::Metadata, is_backward && !is_called);
    let generated = is_called && class.is_generated();
    let (once, view) = if is_called {
        let called = |class, issue, generated| framework.called(class, issue, generated, true);
        let call = called(class, &issue, generated).saturating_add(issue.launching());
        (call, called(OpClass::Metadata, &view, false))
    } else {
        (issue.time(), view.python.saturating_add(view.dispatch))
    };
    // A library that calls another in a loop launches kernel after kernel in one call.
    if operator.members == 0 {
        return hardware.host.launch.time();
    }
    let views = view.0.saturating_mul(operator.views.into());
    // Transformer Engine launches the product of each group on its own; compiled layers have one
    // kernel for all.
    let groups = match operator.work {
        Work::Grouped(GroupedGemm { groups }) if !is_called => groups.batch.saturating_sub(1),
        _ => 0,
    };
    let groups = Time(hardware.host.launch.time().0.saturating_mul(groups));
    let all =
        once.saturating_add(deployment.host_overhead).saturating_add(Time(views)).saturating_add(groups);
    Time(all.0.saturating_mul(if generated { 1 } else { times }))
}

/// What an operator is to the host. Passes of the update work on lists of all tensors.
pub(super) fn class(operator: &Operator) -> OpClass {
    match operator.work.anchor() {
        Work::Gemm(_) | Work::Grouped(_) | Work::Segments(_) => OpClass::MatrixProduct,
        Work::Convolution(_) => OpClass::Convolution,
        Work::Attention(_) => OpClass::Attention,
        Work::Stream(_) if operator.phase == Phase::Update => OpClass::Optimizer,
        Work::Stream(stream) if stream.class.normalises() => OpClass::Normalisation,
        Work::Stream(_) | Work::Traversal(_) => OpClass::Pointwise,
        Work::Collective(_) => OpClass::Communication,
        Work::Fused(_) | Work::Transfer(_) | Work::Host(_) | Work::Rows(_) | Work::Opaque { .. } => {
            OpClass::Copy
        }
    }
}
