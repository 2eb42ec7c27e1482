//! How many parameters a transformer has, and how many of them a rank.

use super::execution::ShardedTransformer;
use super::{Bias, Norm, Positions, Transformer};

/// Parameters of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankParameters {
    /// Of its layers.
    pub layers: u64,
    /// Word and position embedding.
    pub embedding: u64,
    /// Final norm.
    pub final_norm: u64,
    /// Output matrix, where it is not the embedding of the same rank.
    pub head: u64,
    /// Those of the above that all tensor ranks hold and that see only a part of the sequence under sequence
    /// parallelism: norms, and biases that are added after a sum over ranks.
    pub replicated: u64,
    /// Those of the above that the first and the last stage both hold, because the embedding is tied.
    pub shared: u64,
}

/// The vocabulary is padded to a multiple of this for each tensor rank (Megatron-LM, `make_vocab_size_divisible_by`).
const VOCABULARY_MULTIPLE: u64 = 128;

impl RankParameters {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.layers + self.embedding + self.final_norm + self.head
    }
}

impl Transformer {
    /// Parameters of the model, without padding.
    pub fn parameters(&self) -> u64 {
        let words = u64::from(self.vocabulary) * u64::from(self.hidden);
        let head = if self.tied_embedding { 0 } else { words };
        u64::from(self.layers) * self.layer_parameters()
            + words
            + head
            + self.position_parameters()
            + self.norm_parameters()
    }

    /// Parameters of a layer.
    pub fn layer_parameters(&self) -> u64 {
        self.layer_share(1)
    }

    /// The vocabulary as `tensor` ranks share it.
    pub const fn padded_vocabulary(&self, tensor: u32) -> u64 {
        (self.vocabulary as u64).next_multiple_of(VOCABULARY_MULTIPLE * tensor as u64)
    }

    /// Parameters of a layer on each of `tensor` ranks.
    fn layer_share(&self, tensor: u64) -> u64 {
        let (hidden, ffn) = (u64::from(self.hidden), u64::from(self.ffn));
        let qkv = self.attention_width() + 2 * self.kv_width();
        let up = self.mlp_branches() * ffn;
        let weights = hidden * (qkv + self.attention_width() + up + ffn);
        let biases = match self.bias {
            Bias::None => 0,
            Bias::Qkv => qkv,
            Bias::All => qkv + up,
        };
        (weights + biases) / tensor + self.layer_replicated()
    }

    /// Those of a layer that every tensor rank holds: two norms, and the biases of the layers split by rows.
    fn layer_replicated(&self) -> u64 {
        let biases = if self.bias == Bias::All { 2 * u64::from(self.hidden) } else { 0 };
        2 * self.norm_parameters() + biases
    }

    fn norm_parameters(&self) -> u64 {
        let vectors = if self.norm == Norm::Layer && self.bias == Bias::All { 2 } else { 1 };
        vectors * u64::from(self.hidden)
    }

    pub(super) fn position_parameters(&self) -> u64 {
        match self.positions {
            Positions::Learned => u64::from(self.max_positions) * u64::from(self.hidden),
            Positions::Rotary | Positions::Alibi => 0,
        }
    }
}

impl ShardedTransformer {
    /// Parameters of a rank that holds `layers` layers, and the embedding if it is `first`, final norm and output matrix
    /// if it is `last`. The word embedding is the output matrix where one rank is both and it is tied.
    pub fn parameters(&self, layers: u32, first: bool, last: bool) -> RankParameters {
        let (model, layers) = (self.model(), u64::from(layers));
        let words = self.vocabulary_share() * self.hidden();
        let if_ = |is: bool, count: u64| if is { count } else { 0 };
        let tied = model.tied_embedding;
        let final_norm = if_(last, model.norm_parameters());
        RankParameters {
            layers: layers * model.layer_share(self.tensor()),
            embedding: if_(first, words + model.position_parameters()),
            final_norm,
            head: if_(last && !(first && tied), words),
            replicated: layers * model.layer_replicated() + final_norm,
            shared: if_(tied && first != last, words),
        }
    }

    /// Entries of the padded vocabulary on a rank.
    pub(super) fn vocabulary_share(&self) -> u64 {
        self.model().padded_vocabulary(self.execution().split.tensor) / self.tensor()
    }
}
