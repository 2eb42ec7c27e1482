//! Settings of a transformer: a preset, a Hugging Face `config.json`, or its dimensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::routing::{Capacity, Load, Routing};
use super::{
    Bias, Encoder, Experts, LatentAttention, Mlp, Norm, Positions, QueryKeyNorm, Transformer, WindowForm,
};
use hw_models::settings::{Count, Share};

/// A decoder transformer, or with `encoder` an encoder. Dimensions that are written take the place of those of the preset or the `config.json`; without
/// either `layers`, `hidden`, `heads`, `vocabulary` and `max_positions` are needed, and the rest is that of GPT-3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Transformer")]
pub struct TransformerSettings {
    /// A published model; `foretrain list models` has them.
    #[schemars(extend("examples" = ["gpt3-96b"]))]
    pub preset: Option<String>,
    /// A `config.json` of Hugging Face Transformers, relative to this file.
    #[schemars(extend("examples" = ["config.json"]))]
    pub config: Option<String>,
    /// Layers.
    #[schemars(extend("examples" = [96]))]
    pub layers: Option<Count<1, 4_096>>,
    /// Width of the residual stream.
    #[schemars(extend("examples" = [12288]))]
    pub hidden: Option<Count<1, 1_048_576>>,
    /// Attention heads.
    #[schemars(extend("examples" = [96]))]
    pub heads: Option<Count<1, 16_384>>,
    /// Heads of keys and values; equal to `heads` when absent.
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
    /// True if the output matrix is the word embedding.
    pub tied_embedding: Option<bool>,
    /// Normalisation before attention and MLP, and at the end; of encoders after them, and after the embedding.
    pub norm: Option<Norm>,
    /// The MLP of a layer.
    pub mlp: Option<Mlp>,
    /// Which linear layers have a bias.
    pub bias: Option<Bias>,
    /// How positions enter.
    pub positions: Option<Positions>,
    /// True for a model with dropout.
    pub dropout: Option<bool>,
    /// True if attention and MLP both start from the input of the layer, as in GPT-NeoX.
    pub parallel_residual: Option<bool>,
    /// Keys that a query of a layer with a window sees, its own among them; all when absent.
    #[schemars(extend("examples" = [4096]))]
    pub window: Option<Sequence>,
    /// Form of the windows; `sliding` when absent.
    pub window_form: Option<WindowForm>,
    /// Period of layers that see all keys, the last of each period; the others have a window: 2 in
    /// Gemma 2, 6 in Gemma 3. All have a window when absent.
    #[schemars(extend("examples" = [6]))]
    pub global_every: Option<Count<1, 4_096>>,
    /// True if positions enter layers that see all keys, too; Llama 4 has `false`.
    pub global_positions: Option<bool>,
    /// Norm of each head of queries and keys; none when absent.
    pub query_key_norm: Option<QueryKeyNorm>,
    /// True if each head has a learned score in its softmax that has no value (attention sinks), as
    /// in gpt-oss.
    pub sinks: Option<bool>,
    /// True if attention and MLP end with a norm, too, as in Gemma 2 and 3.
    pub post_norms: Option<bool>,
    /// True if the embedding is multiplied by a number, as in Gemma.
    pub scaled_embedding: Option<bool>,
    /// True if attention scores go through a tanh, as in Gemma 2. Kernels of `software.attention:
    /// flash` and `flash3` support it.
    pub score_cap: Option<bool>,
    /// True if logits go through a tanh, as in Gemma 2.
    pub logit_cap: Option<bool>,
    /// A mixture of experts in place of the MLP; `ffn` is that of the layers before the first with experts.
    pub experts: Option<ExpertSettings>,
    /// Queries, keys and values of all heads come from two narrow vectors of a token (multi-head latent attention);
    /// `head_dim` is without the rotated part.
    pub latent: Option<LatentSettings>,
    /// An encoder that is trained on masked words, or to tell `classes` apart: attention to all of the sequence, norms after the sums, token types.
    pub encoder: Option<Encoder>,
    /// Classes that the encoder tells sequences apart by, from their first tokens; without it, it restores masked words.
    #[schemars(extend("examples" = [2]))]
    pub classes: Option<Count<1, 1_048_576>>,
    /// Parts of the `config.json` that are not modelled, a sentence each.
    #[serde(skip)]
    pub not_modelled: Vec<String>,
}

/// A mixture of experts: a router sends each token to a few of them. `count`, `top_k` and `ffn` are needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Experts")]
pub struct ExpertSettings {
    /// Experts of a layer.
    #[schemars(extend("examples" = [8]))]
    pub count: Option<Count<1, 16_384>>,
    /// Experts that a token goes to.
    #[schemars(extend("examples" = [2]))]
    pub top_k: Option<Count<1, 16_384>>,
    /// Inner width of an expert.
    #[schemars(extend("examples" = [14336]))]
    pub ffn: Option<Count<1, 4_194_304>>,
    /// Inner width of the shared MLP, which all tokens pass, too; none when absent.
    pub shared_ffn: Option<Count<1, 4_194_304>>,
    /// Layers before the first with experts; none when absent.
    pub dense_layers: Option<Count<0, 4_095>>,
    /// Period of layers with experts, the last of each period; all layers when absent.
    #[schemars(extend("examples" = [2]))]
    pub every: Option<Count<1, 4_096>>,
    /// Most rows of an expert, over the even share: what is more is dropped. None when absent.
    #[schemars(extend("examples" = [1.25]))]
    pub capacity_factor: Option<Share>,
    /// Pads the rows of each expert to its capacity (`capacity_factor`).
    pub pad_to_capacity: Option<bool>,
    /// Distribution of tokens over experts; even when absent. The rank whose experts get most
    /// decides.
    pub load: Option<Load>,
    /// Loss that keeps experts in balance; `true` when absent.
    pub balance_loss: Option<bool>,
    /// Loss that keeps the logits of the router small; `false` when absent.
    pub z_loss: Option<bool>,
}

/// Multi-head latent attention (DeepSeek-V2). `kv_rank`, `rotary_dim` and `value_dim` are needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "LatentAttention")]
pub struct LatentSettings {
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

impl TransformerSettings {
    /// The dimensions, where all that are needed are there; what is left out is that of GPT-3.
    pub fn dimensions(&self) -> Transformer {
        let gpt = Transformer::gpt(
            given(self.layers),
            given(self.hidden),
            given(self.heads),
            given(self.vocabulary),
            given(self.max_positions),
        );
        Transformer {
            kv_heads: number(self.kv_heads).unwrap_or(gpt.kv_heads),
            head_dim: number(self.head_dim).unwrap_or(gpt.head_dim),
            ffn: number(self.ffn).unwrap_or(gpt.ffn),
            tied_embedding: self.tied_embedding.unwrap_or(gpt.tied_embedding),
            norm: self.norm.unwrap_or(gpt.norm),
            mlp: self.mlp.unwrap_or(gpt.mlp),
            bias: self.bias.unwrap_or(gpt.bias),
            positions: self.positions.unwrap_or(gpt.positions),
            dropout: self.dropout.unwrap_or(gpt.dropout),
            parallel_residual: self.parallel_residual.unwrap_or(gpt.parallel_residual),
            window: number(self.window),
            window_form: self.window_form.unwrap_or_default(),
            global_every: number(self.global_every),
            global_positions: self.global_positions != Some(false),
            query_key_norm: self.query_key_norm,
            sinks: self.sinks == Some(true),
            post_norms: self.post_norms == Some(true),
            scaled_embedding: self.scaled_embedding == Some(true),
            score_cap: self.score_cap == Some(true),
            logit_cap: self.logit_cap == Some(true),
            experts: self.experts.as_ref().map(ExpertSettings::dimensions),
            latent: self.latent.as_ref().map(LatentSettings::dimensions),
            encoder: self.encoder,
            classes: number(self.classes),
            ..gpt
        }
    }
}

impl ExpertSettings {
    fn dimensions(&self) -> Experts {
        let pad = self.pad_to_capacity == Some(true);
        Experts {
            count: given(self.count),
            top_k: given(self.top_k),
            ffn: given(self.ffn),
            shared_ffn: number(self.shared_ffn),
            dense_layers: given(self.dense_layers),
            every: number(self.every).unwrap_or(1),
            routing: Routing {
                load: self.load.unwrap_or_default(),
                capacity: self.capacity_factor.map(|factor| Capacity { factor: factor.billionths(), pad }),
                balance_loss: self.balance_loss != Some(false),
                z_loss: self.z_loss == Some(true),
            },
        }
    }
}

impl LatentSettings {
    fn dimensions(&self) -> LatentAttention {
        LatentAttention {
            query_rank: number(self.query_rank),
            kv_rank: given(self.kv_rank),
            rotary_dim: given(self.rotary_dim),
            value_dim: given(self.value_dim),
        }
    }
}

/// A model of a file of presets, which says all that is needed.
impl TryFrom<TransformerSettings> for Transformer {
    type Error = String;

    fn try_from(settings: TransformerSettings) -> Result<Self, String> {
        let model = settings.dimensions();
        let (hidden, heads) = (model.hidden, model.heads);
        if settings.head_dim.is_none() && (heads == 0 || !hidden.is_multiple_of(heads)) {
            return Err(format!(
                "{heads} heads do not divide hidden {hidden}: give `head_dim`, or other `heads`"
            ));
        }
        Ok(model)
    }
}

fn number<const MIN: u64, const MAX: u64>(count: Option<Count<MIN, MAX>>) -> Option<u32> {
    count.map(|count| count.get() as u32)
}

fn given<const MIN: u64, const MAX: u64>(count: Option<Count<MIN, MAX>>) -> u32 {
    number(count).unwrap_or_default()
}
