//! Leaves out sums of gradients over micro-batches: where there is one micro-batch, and gradients
//! are not cleared but released (`zero_grad(set_to_none=True)`, PyTorch's default since 2.0), the
//! first gradient of a tensor takes the place of the sum.

use crate::graph::Phase;
use crate::graph::block::Block;
use crate::graph::cut::Cut;
use crate::graph::operator::{Operator, OperatorList, StreamClass, Work};

use super::{Kind, Pass};

/// No sums of gradients.
#[derive(Clone, Copy, Debug)]
pub struct NoSums;

impl Pass for NoSums {
    fn name(&self) -> &'static str {
        "no_sums"
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    fn rewrite(&self, model: &mut Cut) {
        model.rewrite(|_| (), |block, ()| without(block));
    }
}

fn without(block: &Block) -> Block {
    let backward = block.backward.iter().filter(|operator| !is_sum(operator)).cloned().collect();
    Block { backward, ..block.clone() }
}

/// Leaves out of an update that gradients are cleared.
pub fn releasing(mut update: OperatorList) -> OperatorList {
    let clears = |op: &Operator| matches!(&op.work, Work::Stream(stream) if stream.bytes_read == 0);
    update.operators.retain(|op| !clears(op));
    update
}

/// True if an operator adds the gradient of parameters to a sum, and makes nothing of its own.
pub fn is_sum(operator: &Operator) -> bool {
    let elementwise =
        matches!(&operator.work, Work::Stream(stream) if stream.class == StreamClass::Elementwise);
    operator.phase == Phase::BackwardWeight && operator.writes.is_empty() && elementwise
}
