//! How the host issues the work of the devices, and what that costs it.

use std::collections::BTreeMap;

use hw_models::host::{HostCosts, OpClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use crate::cost::IssueCosts;
use crate::exchange::Exchange;
use crate::graph::{OpId, Phase};
use crate::model::laid::Laid;
use crate::model::transformer::{Operator, Work};

/// How the host issues the work of the GPUs.
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

/// What issuing the operators costs the host; `overhead` beyond what the catalogue says.
pub(super) fn issue(
    laid: &Laid,
    exchanges: &[Exchange],
    host: &HostCosts,
    launch: Launch,
    overhead: Time,
) -> Option<IssueCosts> {
    let exchanges = exchanges.iter().flat_map(|exchange| exchange.ops.iter().copied()).collect();
    let works = laid.graph.operators().iter();
    match launch {
        Launch::Eager => {
            let issued = |operator: &Operator| overhead.saturating_add(host.issue(class(operator), 1));
            let ops = (0u32..).map(OpId).zip(laid.graph.ops());
            let awaited = ops.filter(|&(_, op)| laid.graph.work_of(op).awaited);
            // What follows a wait is issued when the host knows of its end.
            let waited = awaited.map(|(OpId(op), _)| (OpId(op + 1), host.synchronise.time()));
            let (works, waited) = (works.map(issued).collect(), waited.collect());
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

/// What an operator is to the host. Passes of the update work on lists of all tensors.
pub(super) fn class(operator: &Operator) -> OpClass {
    match operator.work {
        Work::Gemm(_) | Work::Grouped(_) => OpClass::MatrixProduct,
        Work::Convolution(_) => OpClass::Convolution,
        Work::Attention(_) => OpClass::Attention,
        Work::Stream(_) if operator.phase == Phase::Update => OpClass::Optimizer,
        Work::Stream(stream) if stream.class.normalises() => OpClass::Normalisation,
        Work::Stream(_) => OpClass::Pointwise,
        Work::Collective(_) => OpClass::Communication,
        Work::Transfer(_) | Work::Host(_) | Work::Opaque { .. } => OpClass::Copy,
    }
}
