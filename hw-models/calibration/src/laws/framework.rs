//! What a framework costs the host: its operators, gradients, optimizer and allocator.

use super::{Constant, Law, MICRO, Unit, at_rate};
use crate::measure::{Backward, Operator, Task, Tensor, Update};
use hw_models::host::OpClass;

/// An operator by itself, and while autograd records it.
const OPERATOR: [Constant; 2] =
    [Constant::new("call", Unit::Us, 8.0), Constant::new("recorded", Unit::Us, 10.0)];
const CALL: [Constant; 1] = [Constant::new("call", Unit::Us, 10.0)];
/// What is done once, and for each operator of a chain.
const CHAIN: [Constant; 2] =
    [Constant::new("base", Unit::Us, 30.0), Constant::new("operator", Unit::Us, 10.0)];
const UPDATE: [Constant; 2] = [Constant::new("call", Unit::Us, 60.0), Constant::new("tensor", Unit::Us, 2.0)];
const FRESH: [Constant; 2] =
    [Constant::new("start", Unit::Us, 50.0), Constant::new("rate", Unit::GbPerS, 500.0)];

pub(super) const LAWS: [Law; 12] = [
    Law::new("operator.metadata", &OPERATOR, |x, task| operator(x, task, OpClass::Metadata)),
    Law::new("operator.pointwise", &OPERATOR, |x, task| operator(x, task, OpClass::Pointwise)),
    Law::new("operator.matrix-product", &OPERATOR, |x, task| operator(x, task, OpClass::MatrixProduct)),
    Law::new("operator.attention", &OPERATOR, |x, task| operator(x, task, OpClass::Attention)),
    Law::new("operator.communication", &CALL, |x, task| unrecorded(x, task, OpClass::Communication)),
    Law::new("operator.copy", &CALL, |x, task| unrecorded(x, task, OpClass::Copy)),
    Law::new("operator.optimizer", &UPDATE, update),
    Law::new("backward.pointwise", &CHAIN, |x, task| backward(x, task, OpClass::Pointwise)),
    Law::new("backward.matrix-product", &CHAIN, |x, task| backward(x, task, OpClass::MatrixProduct)),
    Law::new("backward.attention", &CHAIN, |x, task| backward(x, task, OpClass::Attention)),
    Law::new("tensor.kept", &CALL, kept),
    Law::new("tensor.fresh", &FRESH, fresh),
];

/// `call`, or `recorded` while autograd records, whatever the size: tensors are small.
fn operator(constants: &[f64], task: &Task, of: OpClass) -> Option<f64> {
    let &[call, when_recorded] = constants else { return None };
    match *task {
        Task::Operator(Operator { class, recorded, .. }) if class == of => {
            Some(if recorded { when_recorded } else { call } * MICRO)
        }
        _ => None,
    }
}

/// `call`, of what has no gradient.
fn unrecorded(constants: &[f64], task: &Task, of: OpClass) -> Option<f64> {
    let &[call] = constants else { return None };
    matches!(task, Task::Operator(Operator { class, .. }) if *class == of).then_some(call * MICRO)
}

/// `base + operators operator`.
fn backward(constants: &[f64], task: &Task, of: OpClass) -> Option<f64> {
    let &[base, operator] = constants else { return None };
    match *task {
        Task::Backward(Backward { class, operators }) if class == of => {
            Some((base + f64::from(operators) * operator) * MICRO)
        }
        _ => None,
    }
}

/// `call + tensors tensor`.
fn update(constants: &[f64], task: &Task) -> Option<f64> {
    let &[call, tensor] = constants else { return None };
    let Task::Update(Update { tensors }) = *task else { return None };
    Some((call + f64::from(tensors) * tensor) * MICRO)
}

/// `call`, whatever the bytes: the allocator has them.
fn kept(constants: &[f64], task: &Task) -> Option<f64> {
    let &[call] = constants else { return None };
    matches!(task, Task::Tensor(Tensor { kept: true, .. })).then_some(call * MICRO)
}

/// `start + bytes / rate`, from the driver.
fn fresh(constants: &[f64], task: &Task) -> Option<f64> {
    match *task {
        Task::Tensor(Tensor { kept: false, bytes }) => at_rate(constants, bytes),
        _ => None,
    }
}
