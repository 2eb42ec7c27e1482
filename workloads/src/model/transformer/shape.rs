//! The dimensions of a transformer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;

use super::{Encoder, Experts, LatentAttention, QueryKeyNorm, TransformerSettings, WindowForm};

/// A decoder or encoder transformer. In files `kv_heads`, `head_dim` and `ffn` may be left out (`heads`, `hidden / heads` and
/// `4 hidden`), and what is not a number is that of GPT-2 and GPT-3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TransformerSettings")]
pub struct Transformer {
    /// Layers, L.
    pub layers: u32,
    /// Width of the residual stream, h.
    pub hidden: u32,
    /// Attention heads, a.
    pub heads: u32,
    /// Heads of keys and values; fewer than `heads` with grouped queries.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Inner width of the MLP.
    pub ffn: u32,
    /// Entries of the vocabulary, V, before padding.
    pub vocabulary: u32,
    /// Longest sequence it is made for; rows of a learned position embedding.
    pub max_positions: u32,
    /// The output matrix is the word embedding.
    pub tied_embedding: bool,
    /// Normalisation before attention and MLP, and at the end; of encoders after them, and after the embedding.
    pub norm: Norm,
    /// The MLP.
    pub mlp: Mlp,
    /// Linear layers that have a bias.
    pub bias: Bias,
    /// How positions enter.
    pub positions: Positions,
    /// Dropout after the embedding, in the attention and after attention and MLP.
    pub dropout: bool,
    /// Attention and MLP both start from the input of the layer (GPT-NeoX) rather than one after the other.
    pub parallel_residual: bool,
    /// Keys that a query of a layer with a window sees, its own among them. `None`: all in every
    /// layer.
    pub window: Option<u32>,
    /// Form of the windows.
    #[serde(skip_serializing_if = "WindowForm::is_sliding")]
    pub window_form: WindowForm,
    /// Every how many layers one sees all keys, the last of them, where the others have a window.
    /// `None`: all have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_every: Option<u32>,
    /// Positions enter layers that see all keys, too; not so in Llama 4.
    #[serde(skip_serializing_if = "is_true")]
    pub global_positions: bool,
    /// Norm of each head of queries and keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_key_norm: Option<QueryKeyNorm>,
    /// Each head has a learned score that takes its part in the softmax and has no value (gpt-oss).
    #[serde(skip_serializing_if = "is_false")]
    pub sinks: bool,
    /// Attention and MLP end with a norm, too (Gemma 2 and 3).
    #[serde(skip_serializing_if = "is_false")]
    pub post_norms: bool,
    /// The embedding is multiplied by a number (Gemma).
    #[serde(skip_serializing_if = "is_false")]
    pub scaled_embedding: bool,
    /// Attention scores go through a tanh (Gemma 2).
    #[serde(skip_serializing_if = "is_false")]
    pub score_cap: bool,
    /// Logits go through a tanh (Gemma 2).
    #[serde(skip_serializing_if = "is_false")]
    pub logit_cap: bool,
    /// Layers whose MLP is a mixture of experts, where there are such; `ffn` is that of the others.
    pub experts: Option<Experts>,
    /// Queries, keys and values come from a latent vector, where they do; `head_dim` is without their rotated part.
    pub latent: Option<LatentAttention>,
    /// Which encoder it is, where it is no decoder.
    pub encoder: Option<Encoder>,
    /// Classes that an encoder tells sequences apart by, where it has a head for that and not for masked words.
    pub classes: Option<u32>,
}

/// What the MLP of a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// One MLP for all tokens.
    Dense,
    /// A mixture of experts.
    Experts,
}

/// How many layers of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Of [`LayerKind::Dense`].
    pub dense: u32,
    /// Of [`LayerKind::Experts`].
    pub experts: u32,
}

impl From<u32> for Layers {
    /// So many with one MLP.
    fn from(dense: u32) -> Self {
        Self { dense, experts: 0 }
    }
}

impl FromIterator<LayerKind> for Layers {
    fn from_iter<T: IntoIterator<Item = LayerKind>>(kinds: T) -> Self {
        kinds.into_iter().fold(Self::default(), |mut layers, kind| {
            match kind {
                LayerKind::Dense => layers.dense += 1,
                LayerKind::Experts => layers.experts += 1,
            }
            layers
        })
    }
}

/// Normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// LayerNorm.
    Layer,
    /// RMSNorm.
    Rms,
}

/// The MLP of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mlp {
    /// Two matrices with GeLU between them.
    Gelu,
    /// Three matrices: SiLU of one product gates another.
    Swiglu,
    /// Three matrices: GeLU of one product gates another (Gemma).
    Geglu,
}

/// Which linear layers have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bias {
    /// None of them.
    None,
    /// Only the projection to queries, keys and values.
    Qkv,
    /// All.
    All,
}

/// How positions enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// A learned embedding, added to that of the words.
    Learned,
    /// Queries and keys are rotated.
    Rotary,
    /// Added to the attention scores (ALiBi).
    Alibi,
    /// Not at all.
    None,
}

/// Largest layers, width, ..., so that every size and every sum of sizes stays below 2^63.
const LAYERS_MAX: u32 = 4_096;
const HIDDEN_MAX: u32 = 1 << 20;
const HEADS_MAX: u32 = 1 << 14;
const HEAD_DIM_MAX: u32 = 1 << 12;
const ATTENTION_MAX: u64 = 1 << 21;
const FFN_MAX: u32 = 1 << 22;
const VOCABULARY_MAX: u32 = 1 << 24;
const POSITIONS_MAX: u32 = 1 << 24;
const CLASSES_MAX: u32 = 1 << 20;

impl Transformer {
    /// A model of the GPT-2 and GPT-3 family, with dropout and a tied embedding.
    pub const fn gpt(layers: u32, hidden: u32, heads: u32, vocabulary: u32, max_positions: u32) -> Self {
        Self {
            layers,
            hidden,
            heads,
            kv_heads: heads,
            head_dim: match hidden.checked_div(heads) {
                Some(width) => width,
                None => 0,
            },
            ffn: hidden.saturating_mul(4),
            vocabulary,
            max_positions,
            tied_embedding: true,
            norm: Norm::Layer,
            mlp: Mlp::Gelu,
            bias: Bias::All,
            positions: Positions::Learned,
            dropout: true,
            parallel_residual: false,
            window: None,
            window_form: WindowForm::Sliding,
            global_every: None,
            global_positions: true,
            query_key_norm: None,
            sinks: false,
            post_norms: false,
            scaled_embedding: false,
            score_cap: false,
            logit_cap: false,
            experts: None,
            latent: None,
            encoder: None,
            classes: None,
        }
    }

    /// Checks the dimensions.
    ///
    /// # Errors
    /// Every dimension that is out of range or does not fit the others.
    pub fn validate(&self) -> Result<(), Vec<Diagnostic>> {
        let mut found = Vec::new();
        let mut wrong = |field, problem| found.push(Diagnostic::sentence(field, problem));
        let extents = [
            ("layers", self.layers, LAYERS_MAX),
            ("hidden", self.hidden, HIDDEN_MAX),
            ("heads", self.heads, HEADS_MAX),
            ("kv_heads", self.kv_heads, HEADS_MAX),
            ("head_dim", self.head_dim, HEAD_DIM_MAX),
            ("ffn", self.ffn, FFN_MAX),
            ("vocabulary", self.vocabulary, VOCABULARY_MAX),
            ("max_positions", self.max_positions, POSITIONS_MAX),
        ];
        within(extents, &mut wrong);
        if self.attention_width() > ATTENTION_MAX {
            let width = self.attention_width();
            wrong(
                "head_dim",
                format!(
                    "{} heads of {} are {width} wide, more than {ATTENTION_MAX}",
                    self.heads, self.head_dim
                ),
            );
        }
        if self.kv_heads > 0 && !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, kv_heads) = (self.heads, self.kv_heads);
            let problem = format!(
                "{heads} heads cannot share {kv_heads} heads of keys and values: use a divisor of {heads}"
            );
            wrong("kv_heads", problem);
        }
        if self.positions == Positions::Rotary && !self.head_dim.is_multiple_of(2) {
            wrong("head_dim", turns_pairs(self.head_dim));
        }
        if let Some(window) = self.window
            && !(1..=POSITIONS_MAX).contains(&window)
        {
            let problem = format!(
                "{window} tokens are not between 1 and {POSITIONS_MAX}: leave it out for attention over all"
            );
            wrong("window", problem);
        }
        self.validate_windows(&mut wrong);
        if self.query_key_norm.is_some() && self.latent.is_some() {
            let problem = "latent vectors have norms of their own: leave one of them out";
            wrong("query_key_norm", problem.to_owned());
        }
        if self.post_norms && self.parallel_residual {
            let problem = "attention and MLP that both start from the input have one norm each: leave it out";
            wrong("post_norms", problem.to_owned());
        }
        if let Some(experts) = &self.experts {
            experts.validate(self.layers, &mut wrong);
        }
        if let Some(latent) = &self.latent {
            latent.validate(self, &mut wrong);
        }
        if let Some(encoder) = self.encoder {
            encoder.validate(self, &mut wrong);
        }
        match self.classes {
            Some(_) if self.encoder.is_none() => {
                wrong("classes", "a decoder ends in words: give an `encoder`, or leave it out".to_owned());
            }
            Some(count) if !(1..=CLASSES_MAX).contains(&count) => {
                wrong("classes", format!("{count} is not between 1 and {CLASSES_MAX}"));
            }
            _ => {}
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// What the MLP of a layer is, counted from 0.
    pub fn layer_kind(&self, layer: u32) -> LayerKind {
        match &self.experts {
            Some(experts) if experts.are_in(layer) => LayerKind::Experts,
            _ => LayerKind::Dense,
        }
    }

    /// Longest sequence that learned positions take.
    pub(super) fn longest_sequence(&self) -> u32 {
        self.max_positions.saturating_sub(self.encoder.map_or(0, Encoder::unused_positions))
    }

    /// Width of the queries of all heads together.
    pub fn attention_width(&self) -> u64 {
        let rotated = self.latent.as_ref().map_or(0, |latent| latent.rotary_dim);
        u64::from(self.heads) * u64::from(self.head_dim.saturating_add(rotated))
    }

    /// Width of what attention gives for all heads together.
    pub fn context_width(&self) -> u64 {
        let width = self.latent.as_ref().map_or(self.head_dim, |latent| latent.value_dim);
        u64::from(self.heads) * u64::from(width)
    }

    /// Width of the keys of all heads together, and of the values.
    pub const fn kv_width(&self) -> u64 {
        self.kv_heads as u64 * self.head_dim as u64
    }

    /// Matrices of the width of `ffn` that the MLP multiplies its input with.
    pub const fn mlp_branches(&self) -> u64 {
        match self.mlp {
            Mlp::Gelu => 1,
            Mlp::Swiglu | Mlp::Geglu => 2,
        }
    }
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Checks extents against their largest values.
pub(super) fn within(
    extents: impl IntoIterator<Item = (&'static str, u32, u32)>,
    wrong: &mut impl FnMut(&'static str, String),
) {
    for (field, value, most) in extents {
        if !(1..=most).contains(&value) {
            wrong(field, format!("{value} is not between 1 and {most}"));
        }
    }
}

/// The fault of an odd number of dimensions that have rotary positions.
pub(super) fn turns_pairs(dimensions: u32) -> String {
    format!("rotary positions turn pairs, {dimensions} is odd")
}
