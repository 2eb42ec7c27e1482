//! Dimensions from a `config.json` of Hugging Face Transformers.

use std::io::Read;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{Bias, Encoder, Experts, LatentAttention, Mlp, Norm, Positions, Routing, Transformer};

/// A `config.json` that is not understood, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("config.json: {0}")]
pub struct HuggingFaceError(String);

/// Longest file that is read; real ones have a few kilobytes.
const BYTES_MAX: u64 = 1 << 20;

/// How an architecture is read.
type Reader = fn(&mut Fields) -> Transformer;

/// The architectures, by `model_type`.
const ARCHITECTURES: [(&str, Reader); 11] = [
    ("bert", bert),
    ("deepseek_v2", deepseek),
    ("deepseek_v3", deepseek),
    ("gpt2", gpt2),
    ("gpt_neox", gpt_neox),
    ("llama", llama),
    ("mistral", mistral),
    ("mixtral", mixtral),
    ("mpt", mpt),
    ("qwen2", qwen2),
    ("roberta", roberta),
];

/// Architectures that are lists of layers, with presets of their own.
const LISTS: [&str; 7] =
    ["convnext", "efficientnet", "resnet", "t5", "vit", "wav2vec2", "wav2vec2-conformer"];

impl Transformer {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// When it is no such file, or all that is missing or not supported in it.
    pub fn from_hugging_face(reader: impl Read) -> Result<Self, HuggingFaceError> {
        let mut text = Vec::new();
        let unreadable = |error: std::io::Error| HuggingFaceError(error.to_string());
        reader.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(HuggingFaceError(format!(
                "longer than {BYTES_MAX} bytes: not a model configuration"
            )));
        }
        let fields = match serde_json::from_slice(&text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => {
                return Err(HuggingFaceError("expected an object, `{ \"model_type\": ... }`".to_owned()));
            }
            Err(error) => return Err(HuggingFaceError(error.to_string())),
        };
        let name = fields.get("model_type").and_then(Value::as_str);
        let Some((_, read)) = ARCHITECTURES.iter().find(|(known, _)| Some(*known) == name) else {
            let list = name
                .filter(|name| LISTS.contains(name))
                .map_or("", |_| " (a list of layers: see `model.layers`)");
            let found = name.map_or_else(|| "missing".to_owned(), |name| format!("`{name}`{list}"));
            let names = names();
            return Err(HuggingFaceError(format!("`model_type` is {found}; supported are {names}")));
        };
        let mut fields = Fields { fields, problems: Vec::new() };
        let model = read(&mut fields);
        if fields.problems.is_empty() {
            let invalid = model.validate().err().into_iter().flatten();
            fields.problems.extend(invalid.map(|invalid| invalid.to_string()));
        }
        if fields.problems.is_empty() { Ok(model) } else { Err(HuggingFaceError(fields.problems.join("; "))) }
    }
}

fn names() -> String {
    ARCHITECTURES.map(|(name, _)| name).join(", ")
}

fn bert(fields: &mut Fields) -> Transformer {
    encoder(fields, Encoder::Bert)
}

fn roberta(fields: &mut Fields) -> Transformer {
    encoder(fields, Encoder::Roberta)
}

/// With the head of masked words, unless `architectures` says that sequences are told apart.
fn encoder(fields: &mut Fields, encoder: Encoder) -> Transformer {
    fields.activation("gelu");
    let types = encoder.token_types();
    if fields.number_or("type_vocab_size", 2) != types {
        fields.problem(format!("`type_vocab_size` must be {types}"));
    }
    if fields.value("position_embedding_type").is_some_and(|kind| kind.as_str() != Some("absolute")) {
        fields.problem("`position_embedding_type` must be \"absolute\"".to_owned());
    }
    if fields.flag_or("is_decoder", false) {
        fields.problem("`is_decoder` must be false: tokens attend to all of the sequence".to_owned());
    }
    let model = fields.decoder();
    let classes = fields.architecture_has("ForSequenceClassification").then(|| fields.labels());
    Transformer {
        classes,
        ffn: fields.number("intermediate_size"),
        tied_embedding: fields.flag_or("tie_word_embeddings", true),
        dropout: fields.any_dropout(&["attention_probs_dropout_prob", "hidden_dropout_prob"], 0.1),
        encoder: Some(encoder),
        ..model
    }
}

fn gpt2(fields: &mut Fields) -> Transformer {
    let hidden = fields.number("n_embd");
    Transformer {
        ffn: fields.number_or("n_inner", hidden.saturating_mul(4)),
        tied_embedding: fields.flag_or("tie_word_embeddings", true),
        dropout: fields.any_dropout(&["embd_pdrop", "attn_pdrop", "resid_pdrop"], 0.1),
        ..Transformer::gpt(
            fields.number("n_layer"),
            hidden,
            fields.number("n_head"),
            fields.number("vocab_size"),
            fields.number_or("n_positions", 1_024),
        )
    }
    .checked(fields, "n_head")
}

fn gpt_neox(fields: &mut Fields) -> Transformer {
    Transformer {
        ffn: fields.number("intermediate_size"),
        tied_embedding: fields.flag_or("tie_word_embeddings", false),
        positions: Positions::Rotary,
        dropout: fields.any_dropout(&["attention_dropout", "hidden_dropout"], 0.0),
        parallel_residual: fields.flag_or("use_parallel_residual", true),
        ..fields.decoder()
    }
}

fn llama(fields: &mut Fields) -> Transformer {
    let (attention, mlp) = (fields.flag_or("attention_bias", false), fields.flag_or("mlp_bias", false));
    if attention || mlp {
        fields.problem(
            "`attention_bias` and `mlp_bias` must be false: Llama layers are computed without biases"
                .to_owned(),
        );
    }
    fields.activation("silu");
    let decoder = fields.decoder();
    Transformer {
        kv_heads: fields.number_or("num_key_value_heads", decoder.heads),
        head_dim: fields.number_or("head_dim", decoder.head_dim),
        ffn: fields.number("intermediate_size"),
        tied_embedding: fields.flag_or("tie_word_embeddings", false),
        norm: Norm::Rms,
        mlp: Mlp::Swiglu,
        bias: Bias::None,
        positions: Positions::Rotary,
        dropout: fields.any_dropout(&["attention_dropout"], 0.0),
        ..decoder
    }
}

fn mistral(fields: &mut Fields) -> Transformer {
    let llama = llama(fields);
    Transformer { window: fields.optional("sliding_window"), ..llama }
}

fn mixtral(fields: &mut Fields) -> Transformer {
    let mistral = mistral(fields);
    let experts = Experts {
        count: fields.number("num_local_experts"),
        top_k: fields.number("num_experts_per_tok"),
        ffn: mistral.ffn,
        shared_ffn: None,
        dense_layers: 0,
        routing: Routing::default(),
    };
    Transformer { experts: Some(experts), ..mistral }
}

/// Every layer after the first so many has experts, and shared ones are one MLP.
fn deepseek(fields: &mut Fields) -> Transformer {
    let llama = llama(fields);
    if fields.number_or("moe_layer_freq", 1) != 1 {
        fields.problem("`moe_layer_freq` must be 1: every layer after the dense ones has experts".to_owned());
    }
    let ffn = fields.number("moe_intermediate_size");
    let shared = fields.number_or("n_shared_experts", 0).saturating_mul(ffn);
    let experts = Experts {
        count: fields.number("n_routed_experts"),
        top_k: fields.number("num_experts_per_tok"),
        ffn,
        shared_ffn: (shared > 0).then_some(shared),
        dense_layers: fields.number_or("first_k_dense_replace", 0),
        routing: Routing::default(),
    };
    let latent = LatentAttention {
        query_rank: fields.optional("q_lora_rank"),
        kv_rank: fields.number("kv_lora_rank"),
        rotary_dim: fields.number("qk_rope_head_dim"),
        value_dim: fields.number("v_head_dim"),
    };
    let head_dim = fields.number("qk_nope_head_dim");
    Transformer { head_dim, experts: Some(experts), latent: Some(latent), ..llama }
}

fn qwen2(fields: &mut Fields) -> Transformer {
    let llama = llama(fields);
    let windowed = fields.flag_or("use_sliding_window", false);
    let window = if windowed { fields.optional("sliding_window") } else { None };
    Transformer { bias: Bias::Qkv, window, ..llama }
}

fn mpt(fields: &mut Fields) -> Transformer {
    let hidden = fields.number("d_model");
    let alibi =
        fields.fields.get("attn_config").and_then(|config| config.get("alibi")).and_then(Value::as_bool);
    Transformer {
        ffn: fields.number_or("expansion_ratio", 4).saturating_mul(hidden),
        tied_embedding: fields.flag_or("tie_word_embeddings", true),
        bias: if fields.flag_or("no_bias", true) { Bias::None } else { Bias::All },
        positions: if alibi == Some(true) { Positions::Alibi } else { Positions::Learned },
        dropout: fields.any_dropout(&["emb_pdrop", "resid_pdrop"], 0.0),
        ..Transformer::gpt(
            fields.number("n_layers"),
            hidden,
            fields.number("n_heads"),
            fields.number("vocab_size"),
            fields.number_or("max_seq_len", 2_048),
        )
    }
    .checked(fields, "n_heads")
}

impl Transformer {
    /// Notes a width that the heads do not divide.
    fn checked(self, fields: &mut Fields, heads: &str) -> Self {
        if fields.problems.is_empty() && !self.hidden.is_multiple_of(self.heads.max(1)) {
            fields.problem(format!("`{heads}` {} does not divide the width {}", self.heads, self.hidden));
        }
        self
    }
}

/// The fields of a file, and what is wrong with them.
struct Fields {
    fields: Map<String, Value>,
    problems: Vec<String>,
}

impl Fields {
    /// What encoders, GPT-NeoX and the Llama family share.
    fn decoder(&mut self) -> Transformer {
        let model = Transformer::gpt(
            self.number("num_hidden_layers"),
            self.number("hidden_size"),
            self.number("num_attention_heads"),
            self.number("vocab_size"),
            self.number_or("max_position_embeddings", 2_048),
        );
        if self.optional("head_dim").is_some() { model } else { model.checked(self, "num_attention_heads") }
    }

    fn number(&mut self, name: &str) -> u32 {
        self.optional(name).unwrap_or_else(|| {
            if self.value(name).is_none() {
                self.problem(format!("`{name}` is missing"));
            }
            0
        })
    }

    fn number_or(&mut self, name: &str, default: u32) -> u32 {
        self.optional(name).unwrap_or(default)
    }

    /// A whole number; none where there is none or null.
    fn optional(&mut self, name: &str) -> Option<u32> {
        let value = self.value(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        if number.is_none() {
            let problem = format!("`{name}` must be a whole number below 2^32, not {}", abridged(value));
            self.problem(problem);
        }
        number
    }

    fn flag_or(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.value(name) else { return default };
        let flag = value.as_bool();
        if flag.is_none() {
            let problem = format!("`{name}` must be true or false, not {}", abridged(value));
            self.problem(problem);
        }
        flag.unwrap_or(default)
    }

    /// Whether any of these probabilities is above 0.
    fn any_dropout(&mut self, names: &[&str], default: f64) -> bool {
        let mut any = false;
        for name in names {
            let value = self.value(name).cloned().unwrap_or_else(|| Value::from(default));
            match value.as_f64().filter(|share| (0.0..1.0).contains(share)) {
                Some(share) => any |= share > 0.0,
                None => self.problem(format!("`{name}` must be from 0 to below 1, not {}", abridged(&value))),
            }
        }
        any
    }

    fn activation(&mut self, expected: &str) {
        if let Some(value) = self.value("hidden_act").filter(|value| value.as_str() != Some(expected)) {
            let problem = format!("`hidden_act` must be \"{expected}\", not {}", abridged(value));
            self.problem(problem);
        }
    }

    /// Whether a name of `architectures` ends so.
    fn architecture_has(&self, end: &str) -> bool {
        let names = self.value("architectures").and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).any(|name| name.ends_with(end))
    }

    /// Classes: as many as have names, two where none have.
    fn labels(&mut self) -> u32 {
        let named = self.value("id2label").and_then(Value::as_object).map(|names| names.len() as u32);
        named.unwrap_or_else(|| self.number_or("num_labels", 2))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn problem(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// A value as text, cut where it is long.
fn abridged(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
