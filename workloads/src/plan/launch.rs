//! How the host issues the work of the devices, and what that costs it.

use hw_models::host::{HostCosts, OpClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use crate::cost::IssueCosts;
use crate::exchange::Exchange;
use crate::graph::Phase;
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
    let graph = &laid.graph;
    let operators = graph.ops().iter().map(|op| graph.work_of(op));
    match launch {
        Launch::Eager => {
            let mut waited = Time::ZERO;
            let issued = |operator: &Operator| {
                // What follows a wait is issued when the host knows of its end.
                let after = if operator.awaited { host.synchronise.time() } else { Time::ZERO };
                let before = std::mem::replace(&mut waited, after);
                before.saturating_add(overhead).saturating_add(host.issue(class(operator), 1))
            };
            Some(IssueCosts { ops: operators.map(issued).collect(), exchanges, graph: None })
        }
        Launch::Graph => {
            let ops = vec![host.graph_node.time(); graph.ops().len()];
            Some(IssueCosts { ops, exchanges, graph: Some(host.graph_launch.time()) })
        }
        Launch::Free => None,
    }
}

/// What an operator is to the host. Passes of the update work on lists of all tensors.
fn class(operator: &Operator) -> OpClass {
    match operator.work {
        Work::Gemm(_) | Work::Grouped(_) | Work::Convolution(_) => OpClass::MatrixProduct,
        Work::Attention(_) => OpClass::Attention,
        Work::Stream(_) if operator.phase == Phase::Update => OpClass::Optimizer,
        Work::Stream(_) => OpClass::Pointwise,
        Work::Collective(_) => OpClass::Communication,
        Work::Host(_) | Work::Opaque { .. } => OpClass::Copy,
    }
}
