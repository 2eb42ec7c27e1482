//! A transformer: a preset, a Hugging Face `config.json`, or its dimensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bias, Count, Encoder, Mlp, Norm, Positions, Share};

/// Layers of a transformer.
pub type Layers = Count<1, 4_096>;

/// A decoder transformer, or with `encoder` an encoder. Dimensions that are written take the place of those of the preset or the `config.json`; without
/// either `layers`, `hidden`, `heads`, `vocabulary` and `max_positions` are needed, and the rest is that of GPT-3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Transformer {
    /// A published model; `foretrain list models` has them.
    #[schemars(extend("examples" = ["gpt3-96b"]))]
    pub preset: Option<String>,
    /// A `config.json` of Hugging Face Transformers, relative to this file.
    #[schemars(extend("examples" = ["config.json"]))]
    pub config: Option<String>,
    /// Layers.
    #[schemars(extend("examples" = [96]))]
    pub layers: Option<Layers>,
    /// Width of the residual stream.
    #[schemars(extend("examples" = [12288]))]
    pub hidden: Option<Count<1, 1_048_576>>,
    /// Attention heads.
    #[schemars(extend("examples" = [96]))]
    pub heads: Option<Count<1, 16_384>>,
    /// Heads of keys and values; as many as `heads` when absent.
    pub kv_heads: Option<Count<1, 16_384>>,
    /// Width of a head; `hidden / heads` when absent.
    pub head_dim: Option<Count<1, 4_096>>,
    /// Inner width of the MLP; `4 hidden` when absent.
    pub ffn: Option<Count<1, 4_194_304>>,
    /// Entries of the vocabulary, before padding.
    #[schemars(extend("examples" = [51200]))]
    pub vocabulary: Option<Count<1, 16_777_216>>,
    /// Longest sequence that it is made for.
    #[schemars(extend("examples" = [2048]))]
    pub max_positions: Option<Sequence>,
    /// Whether the output matrix is the word embedding.
    pub tied_embedding: Option<bool>,
    /// Normalisation before attention and MLP, and at the end; of encoders after them, and after the embedding.
    pub norm: Option<Norm>,
    /// The MLP of a layer.
    pub mlp: Option<Mlp>,
    /// Which linear layers have a bias.
    pub bias: Option<Bias>,
    /// How positions enter.
    pub positions: Option<Positions>,
    /// Whether there is dropout.
    pub dropout: Option<bool>,
    /// Whether attention and MLP both start from the input of the layer, as in GPT-NeoX.
    pub parallel_residual: Option<bool>,
    /// Tokens that attention looks back at; all when absent.
    pub window: Option<Sequence>,
    /// A mixture of experts in place of the MLP; `ffn` is that of the layers before the first with experts.
    pub experts: Option<Experts>,
    /// Queries, keys and values of all heads come from two narrow vectors of a token (multi-head latent attention);
    /// `head_dim` is without the rotated part.
    pub latent: Option<LatentAttention>,
    /// An encoder that is trained on masked words, or to tell `classes` apart: attention to all of the sequence, norms after the sums, token types.
    pub encoder: Option<Encoder>,
    /// Classes that the encoder tells sequences apart by, from their first tokens; without it, it restores masked words.
    #[schemars(extend("examples" = [2]))]
    pub classes: Option<Count<1, 1_048_576>>,
}

/// A mixture of experts: a router sends each token to a few of them. `count`, `top_k` and `ffn` are needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Experts {
    /// Experts of a layer.
    #[schemars(extend("examples" = [8]))]
    pub count: Option<Count<1, 16_384>>,
    /// Experts that a token goes to.
    #[schemars(extend("examples" = [2]))]
    pub top_k: Option<Count<1, 16_384>>,
    /// Inner width of an expert.
    #[schemars(extend("examples" = [14336]))]
    pub ffn: Option<Count<1, 4_194_304>>,
    /// Inner width of the MLP that all tokens go through beside; none when absent.
    pub shared_ffn: Option<Count<1, 4_194_304>>,
    /// Layers before the first with experts; none when absent.
    pub dense_layers: Option<Count<0, 4_095>>,
    /// Most rows of an expert, over the even share: what is more is dropped. None when absent.
    #[schemars(extend("examples" = [1.25]))]
    pub capacity_factor: Option<Share>,
    /// Whether an expert gets as many rows as `capacity_factor` leaves room for, whoever chooses it.
    pub pad_to_capacity: Option<bool>,
    /// Which experts tokens choose; all alike when absent. The rank whose experts get most decides.
    pub load: Option<ExpertLoad>,
    /// Whether a loss keeps experts in balance; when absent, one does.
    pub balance_loss: Option<bool>,
    /// Whether a loss keeps the logits of the router small; when absent, none does.
    pub z_loss: Option<bool>,
}

/// Which experts tokens choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertLoad {
    /// All alike.
    Even,
    /// One gets such a share of all rows, the others as much each.
    Busiest(Share),
    /// Shares are drawn from a symmetric Dirichlet distribution.
    Drawn(DrawnLoad),
}

/// A draw of the shares of experts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnLoad {
    /// Concentration of the distribution: 1 makes all shares equally likely, 100 makes them nearly even.
    #[schemars(extend("examples" = [10]))]
    pub concentration: Share,
    /// The root of the draw; 1 when absent.
    #[serde(default = "first_seed")]
    pub seed: u64,
}

const fn first_seed() -> u64 {
    1
}

/// Multi-head latent attention (DeepSeek-V2). `kv_rank`, `rotary_dim` and `value_dim` are needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LatentAttention {
    /// Width of the vector that queries come from; without it they come from the residual stream.
    pub query_rank: Option<Count<1, 1_048_576>>,
    /// Width of the vector that keys and values come from.
    #[schemars(extend("examples" = [512]))]
    pub kv_rank: Option<Count<1, 1_048_576>>,
    /// Width of the part of a head of queries and keys that is rotated.
    #[schemars(extend("examples" = [64]))]
    pub rotary_dim: Option<Count<1, 4_096>>,
    /// Width of a head of values.
    #[schemars(extend("examples" = [128]))]
    pub value_dim: Option<Count<1, 4_096>>,
}

/// Tokens of a sequence.
pub type Sequence = Count<1, 16_777_216>;
