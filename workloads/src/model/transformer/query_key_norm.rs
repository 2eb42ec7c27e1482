//! Norms of queries and keys, head by head (Henry et al. 2020; Dehghani et al. 2023).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::norm::{NormNames, Rows, norm_names};

const NORMS: [&NormNames; 2] = [norm_names!("query head norm"), norm_names!("key head norm")];

/// Norm of each head of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKeyNorm {
    /// RMSNorm with a weight for each column of a head, before positions rotate it (Qwen 3, Gemma
    /// 3).
    Weighted,
    /// Without weights, after positions have rotated it, in layers where they do (Llama 4); in one
    /// kernel.
    Plain,
}

impl QueryKeyNorm {
    /// Whether it comes before positions rotate.
    pub(super) fn precedes_rotation(self) -> bool {
        self == Self::Weighted
    }

    /// Weights of a layer for heads of a width.
    pub(super) fn parameters(self, head_dim: u64) -> u64 {
        if self == Self::Weighted { 2 * head_dim } else { 0 }
    }

    /// The forward pass from queries and keys with numbers of `columns`; returns the names of the
    /// results.
    pub(super) fn forward(
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        from: [Name; 2],
        columns: [u64; 2],
    ) -> [Name; 2] {
        [0, 1].map(|n| NORMS[n].forward_rows(draft, on, from[n], self.rows(on, columns[n])))
    }

    /// From gradients of the normalised ones to those of what they are `from`.
    pub(super) fn backward(
        self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        from: [Name; 2],
        gradients: [Name; 2],
        columns: [u64; 2],
    ) -> [Name; 2] {
        [0, 1].map(|n| NORMS[n].backward_rows(draft, on, from[n], gradients[n], self.rows(on, columns[n])))
    }

    /// The normalised queries and keys.
    pub(super) const fn outputs() -> [Name; 2] {
        [NORMS[0].output, NORMS[1].output]
    }

    fn rows(self, on: &ShardedTransformer, columns: u64) -> Rows {
        let width = u64::from(on.model().head_dim);
        Rows { count: on.tokens() * columns / width, width, weighted: self == Self::Weighted }
    }
}
