//! Dimensions from `config.json`.

use workloads::model::transformer::{Bias, Configuration, Positions, Transformer};

use super::preset;

fn read(text: &str) -> Result<Transformer, String> {
    let read = Configuration::from_hugging_face(text.as_bytes());
    read.map(|read| read.model).map_err(|error| error.to_string())
}

/// The published files, less what says nothing of the shape.
const GPT2: &str = r#"{ "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "embd_pdrop": 0.1, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
    "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257 }"#;
const BERT: &str = r#"{ "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 768, "intermediate_size": 3072, "max_position_embeddings": 512, "model_type":
    "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "position_embedding_type": "absolute", "type_vocab_size": 2,
    "vocab_size": 30522 }"#;
const ROBERTA: &str = r#"{ "architectures": ["RobertaForMaskedLM"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 1024, "intermediate_size": 4096, "max_position_embeddings": 514, "model_type":
    "roberta", "num_attention_heads": 16, "num_hidden_layers": 24, "type_vocab_size": 1, "vocab_size": 50265 }"#;
const LLAMA_3: &str = r#"{ "attention_bias": false, "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "rope_scaling": null, "tie_word_embeddings": false,
    "vocab_size": 128256 }"#;
const MISTRAL: &str = r#"{ "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000 }"#;
const QWEN2: &str = r#"{ "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
    "max_position_embeddings": 131072, "max_window_layers": 28, "model_type": "qwen2", "num_attention_heads": 28,
    "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072, "tie_word_embeddings": false,
    "use_sliding_window": false, "vocab_size": 152064 }"#;
const MPT: &str = r#"{ "attn_config": { "alibi": true, "attn_impl": "torch", "attn_pdrop": 0 }, "d_model": 4096,
    "emb_pdrop": 0, "expansion_ratio": 4, "max_seq_len": 2048, "model_type": "mpt", "n_heads": 32, "n_layers": 32,
    "no_bias": true, "resid_pdrop": 0, "vocab_size": 50432 }"#;
const NEOX: &str = r#"{ "hidden_act": "gelu_fast", "hidden_size": 6144, "intermediate_size": 24576,
    "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 64, "num_hidden_layers": 44,
    "rotary_pct": 0.25, "tie_word_embeddings": false, "use_parallel_residual": true, "vocab_size": 50432 }"#;
const MIXTRAL: &str = r#"{ "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
    "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "router_aux_loss_coef": 0.02,
    "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000 }"#;
const DEEPSEEK_V3: &str = r#"{ "attention_bias": false, "attention_dropout": 0.0, "first_k_dense_replace": 3, "hidden_act":
    "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
    "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 129280 }"#;

#[test]
fn published_files_give_the_presets() {
    for (file, name) in [
        (BERT, "bert-base"),
        (ROBERTA, "roberta-large"),
        (GPT2, "gpt2"),
        (LLAMA_3, "llama-3-8b"),
        (MISTRAL, "mistral-7b"),
        (QWEN2, "qwen2-7b"),
        (MPT, "mpt-7b"),
        (NEOX, "gpt-neox-20b"),
        (MIXTRAL, "mixtral-8x7b"),
        (DEEPSEEK_V3, "deepseek-v3"),
    ] {
        assert_eq!(read(file), Ok(preset(name)), "{name}");
    }
}

#[test]
fn encoders_of_other_kinds_are_refused() {
    for (from, to) in [
        ("\"type_vocab_size\": 2", "\"type_vocab_size\": 1"),
        ("\"absolute\"", "\"relative_key\""),
        ("\"type_vocab_size\"", "\"is_decoder\": true, \"type_vocab_size\""),
        ("\"gelu\"", "\"relu\""),
    ] {
        let said = read(&BERT.replace(from, to)).expect_err(to);
        assert!(said.contains("must be"), "{said}");
    }
}

/// `BertForSequenceClassification` has as many classes as have names.
#[test]
fn architectures_say_what_an_encoder_ends_in() {
    let classes = |architecture: &str, more: &str| {
        let text = BERT.replace("BertForMaskedLM", architecture).replacen('{', &format!("{{ {more}"), 1);
        read(&text).expect("a BERT").classes
    };
    let classifier = "BertForSequenceClassification";
    assert_eq!(classes("BertForMaskedLM", ""), None);
    assert_eq!(classes(classifier, ""), Some(2));
    assert_eq!(classes(classifier, r#""id2label": { "0": "a", "1": "b", "2": "c" }, "#), Some(3));
}

#[test]
fn an_unknown_architecture_names_the_known_ones() {
    let supported = "supported are bert, deepseek_v2, deepseek_v3, gemma2, gemma3, gemma3_text, gpt2, gpt_neox, gpt_oss, llama, llama4, \
                     llama4_text, mistral, mixtral, mpt, phi3, qwen2, qwen3, qwen3_moe, roberta";
    assert_eq!(
        read(r#"{ "model_type": "mamba" }"#),
        Err(format!("config.json: `model_type` is `mamba`; {supported}"))
    );
    assert_eq!(read("{}"), Err(format!("config.json: `model_type` is missing; {supported}")));
    assert_eq!(
        read(r#"{ "model_type": "t5" }"#),
        Err(format!("config.json: `model_type` is `t5` (a list of layers: see `model.layers`); {supported}"))
    );
}

#[test]
fn all_problems_come_at_once() {
    let error = read(
        r#"{ "model_type": "llama", "hidden_size": "4096", "num_hidden_layers": 32.5, "num_attention_heads": -1,
             "hidden_act": "gelu", "attention_dropout": 2, "tie_word_embeddings": 1, "mlp_bias": true }"#,
    );
    let error = error.unwrap_err();
    for part in [
        "`hidden_size` must be a whole number below 2^32, not \"4096\"",
        "`num_hidden_layers` must be a whole number below 2^32, not 32.5",
        "`num_attention_heads` must be a whole number below 2^32, not -1",
        "`vocab_size` is missing",
        "`intermediate_size` is missing",
        "`hidden_act` must be \"silu\", not \"gelu\"",
        "`attention_dropout` must be from 0 to below 1, not 2",
        "`tie_word_embeddings` must be true or false, not 1",
        "`attention_bias` and `mlp_bias` must be false",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn dimensions_are_checked() {
    let config = |heads: u32, kv: u32| {
        format!(
            r#"{{ "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": {heads},
                 "num_key_value_heads": {kv}, "intermediate_size": 11008, "vocab_size": 32000 }}"#
        )
    };
    assert!(read(&config(32, 8)).is_ok());
    assert!(
        read(&config(30, 30))
            .unwrap_err()
            .contains("`num_attention_heads` 30 does not divide the width 4096")
    );
    assert!(read(&config(32, 5)).unwrap_err().contains("kv_heads: 32 heads cannot share 5"));
    assert!(read(&config(0, 0)).is_err());
}

#[test]
fn what_is_no_configuration_is_an_error() {
    for text in ["", "[]", "{", "null", "{\"model_type\":", "\u{feff}{}"] {
        assert!(read(text).is_err(), "{text}");
    }
    assert!(Configuration::from_hugging_face(&[0xff, 0xfe][..]).is_err());
    assert!(read(&"[".repeat(100_000)).is_err());
    assert!(read(&" ".repeat(2 << 20)).unwrap_err().contains("longer than"));
}

#[test]
fn choices_of_an_architecture_are_read() {
    let changed = |from: &str, old: &str, new: &str| read(&from.replace(old, new)).expect("a valid file");
    assert!(!changed(GPT2, "0.1", "0.0").dropout);
    assert_eq!(changed(GPT2, "\"n_ctx\": 1024", "\"n_inner\": 1000").ffn, 1_000);
    assert_eq!(changed(MPT, "\"alibi\": true", "\"alibi\": false").positions, Positions::Learned);
    assert_eq!(changed(MPT, "\"no_bias\": true", "\"no_bias\": false").bias, Bias::All);
    // Of layers from `max_window_layers` on, none of 28.
    let windowed = QWEN2.replace("\"use_sliding_window\": false", "\"use_sliding_window\": true");
    assert_eq!(changed(&windowed, "", "").window, None);
    let all = "\"max_window_layers\": 0";
    assert_eq!(changed(&windowed, "\"max_window_layers\": 28", all).window, Some(131_072));
    let some = windowed.replace("\"max_window_layers\": 28", "\"max_window_layers\": 14");
    assert!(read(&some).unwrap_err().contains("`max_window_layers` must be 0 or all 28 layers, not 14"));
    assert_eq!(changed(LLAMA_3, "\"rope_scaling\": null", "\"head_dim\": 64").head_dim, 64);
    assert!(
        !changed(NEOX, "\"use_parallel_residual\": true", "\"use_parallel_residual\": false")
            .parallel_residual
    );
}
