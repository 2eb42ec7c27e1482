//! How each architecture's file says its dimensions, as its `configuration_*.py` of Hugging Face
//! Transformers does.

use serde_json::Value;

use super::super::{
    Bias, Encoder, Experts, LatentAttention, Mlp, Norm, Positions, QueryKeyNorm, Routing, Transformer,
    WindowForm,
};
use super::fields::Fields;

/// How an architecture is read.
pub(super) type Reader = fn(&mut Fields) -> Transformer;

/// The architectures, by `model_type`. Those that see and hear nest what they read in
/// `text_config`.
pub(super) const ARCHITECTURES: [(&str, Reader); 20] = [
    ("bert", bert),
    ("deepseek_v2", deepseek),
    ("deepseek_v3", deepseek),
    ("gemma2", gemma2),
    ("gemma3", gemma3),
    ("gemma3_text", gemma3),
    ("gpt2", gpt2),
    ("gpt_neox", gpt_neox),
    ("gpt_oss", gpt_oss),
    ("llama", llama),
    ("llama4", llama4),
    ("llama4_text", llama4),
    ("mistral", mistral),
    ("mixtral", mixtral),
    ("mpt", mpt),
    ("phi3", phi3),
    ("qwen2", qwen2),
    ("qwen3", qwen3),
    ("qwen3_moe", qwen3_moe),
    ("roberta", roberta),
];

fn bert(fields: &mut Fields) -> Transformer {
    encoder(fields, Encoder::Bert)
}

fn roberta(fields: &mut Fields) -> Transformer {
    encoder(fields, Encoder::Roberta)
}

/// With the head of masked words, unless `architectures` says that sequences are told apart.
fn encoder(fields: &mut Fields, encoder: Encoder) -> Transformer {
    fields.word("hidden_act", "gelu");
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
    fields.word("hidden_act", "silu");
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
        every: 1,
        routing: Routing::default(),
    };
    Transformer { experts: Some(experts), ..mistral }
}

/// Layers after `first_k_dense_replace` have experts, and shared ones are one MLP.
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
        every: 1,
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
    Transformer { bias: Bias::Qkv, ..qwen(fields) }
}

fn qwen3(fields: &mut Fields) -> Transformer {
    Transformer { query_key_norm: Some(QueryKeyNorm::Weighted), ..qwen(fields) }
}

/// Layers from `max_window_layers` on have a window, where `use_sliding_window` asks for any.
fn qwen(fields: &mut Fields) -> Transformer {
    let llama = llama(fields);
    if !fields.flag_or("use_sliding_window", false) {
        fields.passed_over(&["sliding_window", "max_window_layers", "layer_types"]);
        return llama;
    }
    let first = fields.number_or("max_window_layers", 0);
    fields.passed_over(&["layer_types"]);
    match fields.optional("sliding_window") {
        Some(window) if first == 0 => Transformer { window: Some(window), ..llama },
        Some(_) if first < llama.layers => {
            fields.problem(format!(
                "`max_window_layers` must be 0 or all {} layers, not {first}: others have no pattern",
                llama.layers
            ));
            llama
        }
        _ => llama,
    }
}

/// Every `decoder_sparse_step`-th layer has experts, unless it is among `mlp_only_layers`.
fn qwen3_moe(fields: &mut Fields) -> Transformer {
    let qwen = qwen3(fields);
    let (dense_layers, every) =
        (fields.first_layers("mlp_only_layers"), fields.number_or("decoder_sparse_step", 1));
    let count = fields.optional("num_experts").unwrap_or_else(|| fields.number("num_local_experts"));
    let experts = Experts {
        count,
        top_k: fields.number("num_experts_per_tok"),
        ffn: fields.number("moe_intermediate_size"),
        shared_ffn: None,
        dense_layers,
        every,
        routing: Routing::default(),
    };
    Transformer { experts: Some(experts), ..qwen }
}

/// Every second layer sees all keys.
fn gemma2(fields: &mut Fields) -> Transformer {
    let gemma = gemma(fields, 2);
    let cap = |fields: &mut Fields, name, default| fields.number_of_any_kind(name, default) > 0.0;
    Transformer {
        score_cap: cap(fields, "attn_logit_softcapping", 50.0),
        logit_cap: cap(fields, "final_logit_softcapping", 30.0),
        ..gemma
    }
}

/// Every sixth layer sees all keys. Files of the larger models leave out what is the default of
/// `Gemma3TextConfig`.
fn gemma3(fields: &mut Fields) -> Transformer {
    fields.defaults(&[
        ("vocab_size", 262_208),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 256),
    ]);
    fields.defaults(&[("max_position_embeddings", 131_072)]);
    let every = fields.first_number(&["sliding_window_pattern", "_sliding_window_pattern"]).unwrap_or(6);
    let gemma = gemma(fields, every);
    let cap = |fields: &mut Fields, name| fields.number_of_any_kind(name, 0.0) > 0.0;
    Transformer {
        query_key_norm: Some(QueryKeyNorm::Weighted),
        score_cap: cap(fields, "attn_logit_softcapping"),
        logit_cap: cap(fields, "final_logit_softcapping"),
        ..gemma
    }
}

/// Norms before and after attention and MLP, a scaled embedding; one layer in `global_every` sees all
/// keys.
fn gemma(fields: &mut Fields, global_every: u32) -> Transformer {
    fields.passed_over(&["hidden_act"]);
    fields.word("hidden_activation", "gelu_pytorch_tanh");
    if fields.flag_or("attention_bias", false) {
        fields
            .problem("`attention_bias` must be false: Gemma's layers are computed without biases".to_owned());
    }
    if fields.flag_or("use_bidirectional_attention", false) {
        fields.problem("`use_bidirectional_attention` must be false: queries see no later keys".to_owned());
    }
    let decoder = fields.decoder();
    let (window, global_every) = fields.windows("sliding_window", global_every, decoder.layers);
    Transformer {
        kv_heads: fields.number_or("num_key_value_heads", decoder.heads),
        head_dim: fields.number_or("head_dim", 256),
        ffn: fields.number("intermediate_size"),
        tied_embedding: fields.flag_or("tie_word_embeddings", true),
        norm: Norm::Rms,
        mlp: Mlp::Geglu,
        bias: Bias::None,
        positions: Positions::Rotary,
        dropout: fields.any_dropout(&["attention_dropout"], 0.0),
        window,
        global_every,
        post_norms: true,
        scaled_embedding: true,
        ..decoder
    }
}

/// Projections of queries, keys and values, and those of an MLP, are each one product by the
/// software's choice.
fn phi3(fields: &mut Fields) -> Transformer {
    let llama = llama(fields);
    let dropout = fields.any_dropout(&["embd_pdrop", "resid_pdrop"], 0.0) || llama.dropout;
    Transformer { window: fields.optional("sliding_window"), dropout, ..llama }
}

/// Experts, routers and attention have biases, every second layer sees all keys.
fn gpt_oss(fields: &mut Fields) -> Transformer {
    fields.word("hidden_act", "silu");
    if !fields.flag_or("attention_bias", true) {
        fields.problem("`attention_bias` must be true: gpt-oss has biases everywhere".to_owned());
    }
    let decoder = fields.decoder();
    let (window, global_every) = fields.windows("sliding_window", 2, decoder.layers);
    let ffn = fields.number("intermediate_size");
    let experts = Experts {
        count: fields.number("num_local_experts"),
        top_k: fields.first_number(&["num_experts_per_tok", "experts_per_token"]).unwrap_or(4),
        ffn,
        shared_ffn: None,
        dense_layers: 0,
        every: 1,
        routing: Routing::default(),
    };
    Transformer {
        kv_heads: fields.number_or("num_key_value_heads", decoder.heads),
        head_dim: fields.number_or("head_dim", 64),
        ffn,
        tied_embedding: fields.flag_or("tie_word_embeddings", false),
        norm: Norm::Rms,
        mlp: Mlp::Swiglu,
        bias: Bias::All,
        positions: Positions::Rotary,
        dropout: fields.any_dropout(&["attention_dropout"], 0.0),
        window,
        global_every,
        sinks: true,
        experts: Some(experts),
        ..decoder
    }
}

/// Every fourth layer sees all keys and no positions, the others chunks; an expert of every token
/// is beside those it goes to.
fn llama4(fields: &mut Fields) -> Transformer {
    let llama = llama(fields);
    let interval = fields.number_or("no_rope_layer_interval", 4);
    let interval =
        fields.every_nth("no_rope_layers", interval, llama.layers, |entry| entry.as_u64() == Some(0));
    let (window, global_every) = fields.windows("attention_chunk_size", interval, llama.layers);
    let step = fields.number_or("interleave_moe_layer_step", 1);
    let step = fields.every_listed("moe_layers", step, llama.layers);
    let experts = Experts {
        count: fields.number("num_local_experts"),
        top_k: fields.number("num_experts_per_tok"),
        ffn: llama.ffn,
        shared_ffn: Some(llama.ffn),
        dense_layers: 0,
        every: step,
        routing: Routing::default(),
    };
    let norms = fields.flag_or("use_qk_norm", true);
    Transformer {
        ffn: fields.number("intermediate_size_mlp"),
        window,
        window_form: if window.is_some() { WindowForm::Chunks } else { WindowForm::Sliding },
        global_every,
        global_positions: global_every.is_none(),
        query_key_norm: norms.then_some(QueryKeyNorm::Plain),
        experts: Some(experts),
        ..llama
    }
}

fn mpt(fields: &mut Fields) -> Transformer {
    let hidden = fields.number("d_model");
    let alibi = fields.value("attn_config").and_then(|config| config.get("alibi")).and_then(Value::as_bool);
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
    pub(super) fn checked(self, fields: &mut Fields, heads: &str) -> Self {
        if fields.is_right() && !self.hidden.is_multiple_of(self.heads.max(1)) {
            fields.problem(format!("`{heads}` {} does not divide the width {}", self.heads, self.hidden));
        }
        self
    }
}
