//! Context parallelism: ranks have parts of the same sequences, and exchange something for attention. With c ranks, and Q,
//! K and V the bytes of a rank's part:
//!
//! | | sent by a rank, forward | backward | a rank computes |
//! |---|---|---|---|
//! | all-to-all (Jacobs et al. 2023, DeepSpeed-Ulysses) | (c-1)/c (Q + K + V + O) | the same of gradients | some heads of whole sequences |
//! | ring (Liu et al. 2023, Ring Attention) | (c-1) (K + V) | (c-1) (K + V), and of their gradients | its queries and the keys of every part, one after the other |
//! | all-gather (Llama Team 2024, section 3.3.2) | (c-1) (K + V) | the same, and of gradients, reduced | its queries and all keys before them |
//! | gathered ring (PyTorch, `context_parallel`) | (c-1) (K + V) | the same, and c times gradients in fp32 | as in a ring |
//!
//! The passes of the first three are those of Transformer Engine (`context_parallel.py`: `AttnFuncWithCPAndQKVOA2A`,
//! `AttnFuncWithCPAndKVP2P`, `AttnFuncWithCPAndKVAllGather`). A rank r has two pieces of each sequence, number r from the front and number r from the
//! back, so that a causal mask leaves all ranks the same work. Kernels differ in shape by rank all the same: the list is that
//! of the rank in the middle.

pub(super) mod all_gather;
pub(super) mod all_to_all;
pub(super) mod gathered_ring;
pub(super) mod ring;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::names::Name;

use super::attention::{Meeting, Shape};
use super::execution::ShardedTransformer;

/// Exchange for attention between ranks that hold parts of the same sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContextExchange {
    /// All-to-all that trades parts of sequences for heads (DeepSpeed-Ulysses); `context` divides
    /// the heads of keys and values.
    #[default]
    AllToAll,
    /// Keys and values pass from rank to rank, while attention to those at hand is computed (Ring
    /// Attention).
    Ring,
    /// Keys and values of whole sequences are gathered before attention, and their gradients
    /// reduced after it (Llama 3).
    AllGather,
    /// Keys and values are gathered while attention to the rank's own is computed, and then used
    /// part by part with sums in fp32. Gradients pass from rank to rank in fp32 (PyTorch's
    /// `context_parallel`). With torchtitan's layers keys and values are repeated for each query.
    GatheredRing,
}

/// Which part of the sequences the rank in the middle has.
struct Part {
    ranks: u64,
    rank: u64,
    /// Tokens of a sequence that a rank has, in two pieces.
    tokens: u64,
    /// Queries see no later keys.
    causal: bool,
}

impl Part {
    fn of(on: &ShardedTransformer) -> Self {
        let ranks = on.context();
        Self {
            ranks,
            rank: ranks / 2,
            tokens: u64::from(on.execution().sequence) / ranks,
            causal: on.model().encoder.is_none(),
        }
    }

    /// Tokens of a piece.
    const fn piece(&self) -> u64 {
        self.tokens / 2
    }

    /// What meets in a step of a ring: the rank's own keys first, then those of the ranks before it, of which queries see the
    /// piece from the front, then those of the ranks behind it, which only the piece from the back sees.
    const fn meeting(&self, step: u64) -> Meeting {
        let (tokens, piece) = (self.tokens, self.piece());
        match step {
            _ if !self.causal => Meeting { queries: tokens, keys: tokens, causal: false },
            0 => Meeting { queries: tokens, keys: tokens, causal: true },
            _ if step <= self.rank => Meeting { queries: tokens, keys: piece, causal: false },
            _ => Meeting { queries: piece, keys: tokens, causal: false },
        }
    }
}

/// What the rank in the middle computes with in the steps of a ring.
struct Ring {
    part: Part,
    shape: Shape,
    /// Bytes of the rank's queries, keys, keys and values, and results.
    queries: u64,
    keys: u64,
    pair: u64,
    result: u64,
}

impl Ring {
    fn of(on: &ShardedTransformer) -> Self {
        let shape = Shape::of(on);
        let [queries, keys, values] = shape.widths().map(|width| on.bytes(on.tokens() * width));
        let result = on.bytes(on.tokens() * shape.context_width());
        Self { part: Part::of(on), shape, queries, keys, pair: keys + values, result }
    }

    /// Of so many bytes of all the rank's queries, those that take part.
    const fn of_queries(&self, bytes: u64, meeting: Meeting) -> u64 {
        bytes * meeting.queries / self.part.tokens
    }

    /// Of the bytes of keys and values of a rank, those that take part.
    const fn of_pair(&self, meeting: Meeting) -> u64 {
        self.pair * meeting.keys / self.part.tokens
    }
}

/// The name of what a step of a ring has of its own.
fn numbered(stem: impl Into<Name>, step: u64) -> Name {
    stem.into().numbered(step)
}
