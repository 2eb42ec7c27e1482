//! Linear layers in 8 bits: inputs and weights with four bits of exponent, gradients with five (Micikevicius et al. 2022),
//! weight gradients and results in 16 or 32. Tensor cores of Hopper take 8-bit operands only along the contraction, so that
//! each operand is there twice, as it is and transposed.
//!
//! | bytes of an element | tensorwise | rowwise | delayed |
//! |---|---|---|---|
//! | largest | read 2 | - | - |
//! | cast with transpose | read 2, write 1 + 1 | read 2, write 1 + 2; read 2, write 1 | read 2, write 1 + 1 |
//! | of a weight, forward | read 2; read 2, write 1 | read 2, write 1 | once a step |
//! | of a weight, backward | read 2, write 1 | read 2, write 2; read 2, write 1 | - |
//!
//! Tensorwise and rowwise: kernels that PyTorch's compiler makes of torchao's casts
//! (`get_tensor_memory_traffic_ovhd_s` of its `roofline_utils.py`). Delayed scaling is Transformer
//! Engine's: the scale is from steps before, weights are cast for the first micro-batch. What ranks
//! gather under sequence parallelism is cast before and transposed after, but for rowwise scales. A
//! largest value of parts is agreed on among the tensor ranks. Transposed inputs and gradients are
//! for gradients of weights: frozen weights need none (`backward_needs_input` of Transformer
//! Engine). A frozen weight is cast before training, and kept with its transpose in as many bytes
//! as 16 bits take.
//!
//! Products of experts are grouped ones in 8 bits: with delayed scales those of Transformer
//! Engine's `GroupedLinear`, with rowwise ones torchao's `_scaled_grouped_mm`, which torchtitan's
//! `float8` converter takes for experts; either casts rows as it does of linear layers, and neither
//! has one scale of present values for all groups. Rows for experts are padded to multiples of 16
//! there, which is left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Operand, Side};
use crate::graph::operator::{CollectiveKind, Dtype, Group, StreamClass};

/// Linear layers in 8 bits: inputs and weights with four bits of exponent, gradients with five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("examples" = [{ "scaling": "delayed" }]))]
pub struct Fp8 {
    /// Granularity of the scales of tensors in 8 bits, and when scales are found.
    pub scaling: Scaling,
    /// Sharded weights are gathered in 8 bits, too (torchao's `enable_fsdp_float8_all_gather`); with
    /// `tensorwise` scales.
    // The largest of them are found once a step.
    #[serde(rename = "gather_parameters")]
    pub gathers: bool,
}

/// Granularity of the scales of tensors in 8 bits, and when scales are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// One for a tensor, from its largest value, for which it is read before the cast: torchao's
    /// default.
    #[default]
    Tensorwise,
    /// One for each row, and each column of a transposed operand: torchao's `rowwise`.
    Rowwise,
    /// One for a tensor, from largest values of steps before; weights are cast once a step:
    /// Transformer Engine's default on Hopper.
    Delayed,
}

/// When an operand of a linear layer is cast to 8 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Never,
    /// Each rank its part.
    BeforeExchange,
    AfterExchange,
}

impl Linear {
    pub(super) fn narrow_when(&self, on: &ShardedTransformer) -> When {
        match self.scaling(on) {
            None => When::Never,
            Some(Scaling::Tensorwise | Scaling::Delayed) => When::BeforeExchange,
            Some(Scaling::Rowwise) => When::AfterExchange,
        }
    }

    /// Type that it multiplies in.
    pub(super) fn dtype(&self, on: &ShardedTransformer) -> Dtype {
        if self.scaling(on).is_some() { Dtype::Fp8 } else { on.execution().dtype }
    }

    /// The weight of the forward pass in 8 bits, where it is made for it.
    pub(super) fn weight(&self, draft: &mut Draft, on: &ShardedTransformer) -> Option<Name> {
        let (names, weights) = (self.names, self.weights());
        let half = on.bytes(weights);
        match self.cast_weight(on)? {
            Scaling::Delayed => return None,
            Scaling::Tensorwise if self.gathers_weights(on) => return None,
            Scaling::Tensorwise => {
                draft.stream(names.weight_largest, StreamClass::Reduction, (half, 0), &[], &[]);
                if self.side != Side::Whole {
                    agree(draft, on, names.weight_agree, &[]);
                }
            }
            Scaling::Rowwise => {}
        }
        let writes = [(names.weight_narrow, weights)];
        draft.stream(names.weight_cast, StreamClass::Elementwise, (half, weights), &[], &writes);
        Some(names.weight_narrow)
    }

    /// The weight of the backward pass, transposed.
    pub(super) fn weight_turned(&self, draft: &mut Draft, on: &ShardedTransformer) -> Option<Name> {
        let (names, weights) = (self.names, self.weights());
        let half = on.bytes(weights);
        let traffic = match self.cast_weight(on)? {
            Scaling::Delayed => return None,
            Scaling::Tensorwise if self.gathers_weights(on) => (weights, weights),
            Scaling::Tensorwise => (half, weights),
            // In 16 bits first: the scales are of what are rows then.
            Scaling::Rowwise => (2 * half, half + weights),
        };
        let writes = [(names.weight_turned, weights)];
        draft.stream(names.weight_turn, StreamClass::Elementwise, traffic, &[], &writes);
        Some(names.weight_turned)
    }

    /// How it multiplies in 8 bits, if it does.
    fn scaling(&self, on: &ShardedTransformer) -> Option<Scaling> {
        on.execution().fp8.filter(|_| self.narrow).map(|fp8| fp8.scaling)
    }

    /// The same of its weight, which is in 8 bits for good where it is frozen.
    fn cast_weight(&self, on: &ShardedTransformer) -> Option<Scaling> {
        self.scaling(on).filter(|_| self.is_trained(on))
    }

    /// Whether its weight comes in 8 bits.
    fn gathers_weights(&self, on: &ShardedTransformer) -> bool {
        on.execution().fp8.is_some_and(|fp8| fp8.gathers)
    }

    /// Casts an operand, tensor `from`: what ranks gather as it is, else transposed, too. Returns the name of the result.
    pub(super) fn narrow(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        operand: &Operand,
        from: Name,
    ) -> Name {
        let &Operand { columns, gathered, in_parts, largest, cast: [cast, narrow], turn: [turn, _], .. } =
            operand;
        let (class, whole) = (StreamClass::Elementwise, self.tokens(on) * columns);
        let local = if gathered { whole / on.tensor() } else { whole };
        match self.scaling(on) {
            None => return from,
            Some(Scaling::Rowwise) => {
                let half = on.bytes(whole);
                if !self.is_trained(on) {
                    draft.stream(cast, class, (half, whole), &[from], &[(narrow, whole)]);
                    return narrow;
                }
                draft.stream(cast, class, (half, whole + half), &[from], &[(narrow, 2 * whole)]);
                draft.stream(turn, class, (half, whole), &[narrow], &[]);
                return narrow;
            }
            Some(Scaling::Tensorwise) => {
                let [largest, agreed] = largest;
                draft.stream(largest, StreamClass::Reduction, (on.bytes(local), 0), &[from], &[]);
                if in_parts {
                    agree(draft, on, agreed, &[from]);
                }
            }
            Some(Scaling::Delayed) => {}
        }
        let is_turned = self.is_trained(on) && !gathered;
        let written = if is_turned { 2 * local } else { local };
        draft.stream(cast, class, (on.bytes(local), written), &[from], &[(narrow, written)]);
        narrow
    }

    /// Transposes an operand that was gathered in 8 bits; returns the name of the result.
    pub(super) fn turned(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        &Operand { columns, gathered, turn: [turn, turned], .. }: &Operand,
        from: Name,
    ) -> Name {
        if !gathered || self.narrow_when(on) != When::BeforeExchange {
            return from;
        }
        let elements = self.tokens(on) * columns;
        draft.stream(turn, StreamClass::Elementwise, (elements, elements), &[from], &[(turned, elements)]);
        turned
    }
}

/// The largest value of all tensor ranks, one number.
fn agree(draft: &mut Draft, on: &ShardedTransformer, name: Name, reads: &[Name]) {
    if on.tensor() > 1 {
        let work = (CollectiveKind::AllReduce, Group::Tensor, Dtype::Fp32.bytes());
        draft.collective(name, work, Issue::Waiting, reads, &[]);
    }
}
