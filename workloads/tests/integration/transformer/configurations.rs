//! Published `config.json` files: parameters to the digit, what is reported, and one model said in
//! two ways.

use workloads::model::transformer::{
    Bias, Configuration, Experts, LayerKind, Mlp, Norm, Positions, QueryKeyNorm, Routing, Transformer,
    TransformerSettings, WindowForm,
};

/// A file of `tests/data/configs`.
macro_rules! config {
    ($name:literal) => {
        include_str!(concat!("../../data/configs/", $name, ".json"))
    };
}
pub(super) use config;

fn read(text: &str) -> Configuration {
    Configuration::from_hugging_face(text.as_bytes()).expect("a published file")
}

pub(super) fn model(text: &str) -> Transformer {
    read(text).model
}

fn refused(text: &str) -> String {
    Configuration::from_hugging_face(text.as_bytes()).expect_err("a broken file").to_string()
}

/// Gemma-3-4b: 34 layers of four norms, norms of heads, and 8 heads of 256 over 4 of keys and
/// values.
const GEMMA_3_4B: u64 = 262_208 * 2_560
    + 34 * (2_560 * (2_048 + 2 * 1_024) + 2_048 * 2_560 + 3 * 2_560 * 10_240 + 4 * 2_560 + 2 * 256)
    + 2_560;

/// Llama 4 Scout: 48 layers of a router, 16 experts and one beside them; norms of heads have no
/// weights.
const SCOUT: u64 = 2 * 202_048 * 5_120
    + 48 * (2 * 5_120 * 5_120 + 2 * 5_120 * 1_024 + 2 * 5_120 + 16 * 5_120 + 17 * 3 * 5_120 * 8_192)
    + 5_120;

#[test]
fn parameters_are_the_published_ones() {
    for (text, parameters) in [
        (config!("llama-3-8b"), 8_030_261_248),
        (config!("qwen3-8b"), 8_190_735_360),
        (config!("qwen3-30b-a3b"), 30_532_122_624),
        (config!("mixtral-8x7b"), 46_702_792_704),
        (config!("deepseek-v3"), 671_026_404_352),
        (config!("gpt2"), 124_439_808),
        (config!("gemma-2-9b"), 9_241_705_984),
        (config!("gemma-3-1b"), 999_885_952),
        (config!("gemma-3-4b"), GEMMA_3_4B),
        (config!("gpt-oss-20b"), 20_914_757_184),
        (config!("phi-3-mini"), 3_821_079_552),
        (config!("llama-4-scout"), SCOUT),
    ] {
        assert_eq!(model(text).parameters(), parameters, "{}", &text[..120]);
    }
}

/// What each published file has that is not modelled: nothing for most.
#[test]
fn keys_that_are_not_modelled_are_reported() {
    for text in [
        config!("llama-3-8b"),
        config!("qwen3-8b"),
        config!("qwen3-30b-a3b"),
        config!("mixtral-8x7b"),
        config!("gpt2"),
        config!("gemma-2-9b"),
        config!("gemma-3-1b"),
        config!("phi-3-mini"),
    ] {
        assert_eq!(read(text).not_modelled, [""; 0], "{}", &text[..120]);
    }
    let reported = |text, keys: &[&str]| {
        let sentences = read(text).not_modelled;
        assert_eq!(sentences.len(), keys.len(), "{sentences:?}");
        for (sentence, key) in sentences.iter().zip(keys) {
            let begins = format!("`{key}` of the config.json is not modelled: ");
            assert!(sentence.starts_with(&begins), "{sentence}");
        }
    };
    reported(config!("deepseek-v3"), &["n_group", "num_nextn_predict_layers", "quantization_config"]);
    reported(config!("gpt-oss-20b"), &["quantization_config", "swiglu_limit"]);
    reported(config!("gemma-3-4b"), &["vision_config"]);
    reported(config!("llama-4-scout"), &["vision_config"]);
    let tuned = config!("llama-4-scout").replacen(
        "\"use_qk_norm\"",
        "\"attn_temperature_tuning\": 4, \"use_qk_norm\"",
        1,
    );
    reported(&tuned, &["attn_temperature_tuning", "vision_config"]);
}

#[test]
fn unknown_keys_are_one_sentence() {
    let text = config!("llama-3-8b").replacen(
        '{',
        "{ \"zebra\": 1, \"_private\": 2, \"aardvark\": [3], \"nothing\": null,",
        1,
    );
    assert_eq!(
        read(&text).not_modelled,
        ["keys of the config.json that are not known, and change nothing here: `aardvark`, `zebra`"]
    );
    let without =
        config!("deepseek-v3").replace("\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0");
    assert!(!read(&without).not_modelled.iter().any(|sentence| sentence.contains("num_nextn")));
}

/// The same models by dimensions.
#[test]
fn a_file_and_dimensions_give_one_model() {
    let by_dimensions = |text: &str| {
        let settings: TransformerSettings = serde_yaml::from_str(text).expect("settings of a transformer");
        Transformer::try_from(settings).expect("a whole model")
    };
    let qwen = "{ layers: 36, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128, ffn: 12288, vocabulary: 151936, \
                max_positions: 40960, tied_embedding: false, norm: rms, mlp: swiglu, bias: none, positions: rotary, \
                dropout: false, query_key_norm: weighted }";
    assert_eq!(model(config!("qwen3-8b")), by_dimensions(qwen));
    let gemma = "{ layers: 26, hidden: 1152, heads: 4, kv_heads: 1, head_dim: 256, ffn: 6912, vocabulary: 262144, \
                 max_positions: 32768, norm: rms, mlp: geglu, bias: none, positions: rotary, dropout: false, window: 512, \
                 global_every: 6, query_key_norm: weighted, post_norms: true, scaled_embedding: true }";
    assert_eq!(model(config!("gemma-3-1b")), by_dimensions(gemma));
    let oss = "{ layers: 24, hidden: 2880, heads: 64, kv_heads: 8, head_dim: 64, ffn: 2880, vocabulary: 201088, \
               max_positions: 131072, tied_embedding: false, norm: rms, mlp: swiglu, bias: all, positions: rotary, \
               dropout: false, window: 128, global_every: 2, sinks: true, experts: { count: 32, top_k: 4, ffn: 2880 } }";
    assert_eq!(model(config!("gpt-oss-20b")), by_dimensions(oss));
    // What is written and what is read again is one model, too.
    let scout = model(config!("llama-4-scout"));
    let written = serde_yaml::to_string(&scout).expect("dimensions");
    assert_eq!(by_dimensions(&written), scout);
}

#[test]
fn layers_are_of_the_kinds_that_files_say() {
    let windows = |text: &str| {
        let model = model(text);
        (0..model.layers).filter(|&layer| !model.has_window(layer)).collect::<Vec<_>>()
    };
    assert_eq!(windows(config!("gemma-3-1b")), [5, 11, 17, 23]);
    assert_eq!(windows(config!("gemma-2-9b")), (1..42).step_by(2).collect::<Vec<_>>());
    assert_eq!(windows(config!("gpt-oss-20b")), (1..24).step_by(2).collect::<Vec<_>>());
    assert_eq!(windows(config!("llama-4-scout")), (3..48).step_by(4).collect::<Vec<_>>());
    assert_eq!(windows(config!("phi-3-mini")), [0; 0]);
    assert_eq!(windows(config!("qwen3-8b")).len(), 36);
    let scout = model(config!("llama-4-scout"));
    assert_eq!((scout.window_form, scout.global_positions), (WindowForm::Chunks, false));
    assert_eq!(scout.query_key_norm, Some(QueryKeyNorm::Plain));

    let text = config!("qwen3-30b-a3b");
    let experts = |from: &str, to: &str| {
        let model = model(&text.replace(from, to));
        let is_mixture = |&layer: &u32| model.layer_kind(layer) == LayerKind::Experts;
        (0..model.layers).filter(is_mixture).collect::<Vec<_>>()
    };
    assert_eq!(experts("", "").len(), 48);
    assert_eq!(
        experts("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 3"),
        (2..48).step_by(3).collect::<Vec<_>>()
    );
    assert_eq!(
        experts("\"mlp_only_layers\": []", "\"mlp_only_layers\": [1, 0]"),
        (2..48).collect::<Vec<_>>()
    );
}

#[test]
fn patterns_that_are_none_are_refused() {
    let changed = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        refused(&text.replace(from, to))
    };
    let oss = config!("gpt-oss-20b");
    for (text, from, to, fault) in [
        (
            oss,
            "\"num_hidden_layers\": 24",
            "\"num_hidden_layers\": 25",
            "`layer_types` must have an entry for each of 25",
        ),
        (
            oss,
            "[\n    \"sliding_attention\", \"full",
            "[\n    \"full_attention\", \"full",
            "must differ at every n-th layer",
        ),
        (oss, "\"sliding_window\": 128", "\"sliding_window\": 0", "window: 0 tokens are not between 1"),
        (oss, "\"attention_bias\": true", "\"attention_bias\": false", "`attention_bias` must be true"),
        (
            config!("gemma-3-1b"),
            "\"vocab_size\": 262144",
            "\"vocab_size\": 0",
            "vocabulary: 0 is not between",
        ),
        (config!("gemma-3-1b"), "\"hidden_size\": 1152,", "", "`hidden_size` is missing"),
        (
            config!("gemma-2-9b"),
            "\"attn_logit_softcapping\": 50.0",
            "\"attn_logit_softcapping\": \"x\"",
            "must be a number or null",
        ),
        (
            config!("qwen3-30b-a3b"),
            "\"mlp_only_layers\": []",
            "\"mlp_only_layers\": [3]",
            "must list the first layers",
        ),
        (
            config!("qwen3-30b-a3b"),
            "\"mlp_only_layers\": []",
            "\"mlp_only_layers\": [\"a\"]",
            "must list whole numbers",
        ),
        (
            config!("qwen3-30b-a3b"),
            "\"decoder_sparse_step\": 1",
            "\"decoder_sparse_step\": 49",
            "experts.every: of 48 layers",
        ),
        (config!("qwen3-30b-a3b"), "\"num_experts\": 128,", "", "`num_local_experts` is missing"),
        (
            config!("llama-4-scout"),
            "\"no_rope_layers\": []",
            "\"no_rope_layers\": [1, 0]",
            "an entry for each of 48 layers",
        ),
    ] {
        let said = changed(text, from, to);
        assert!(said.contains(fault), "{fault} in {said}");
    }
}

/// Experts of the kinds that no published file has.
#[test]
fn experts_with_biases_beside_a_shared_one_are_counted() {
    let experts = Experts {
        count: 4,
        top_k: 2,
        ffn: 32,
        shared_ffn: Some(16),
        dense_layers: 0,
        every: 2,
        routing: Routing::default(),
    };
    let model = Transformer {
        norm: Norm::Rms,
        mlp: Mlp::Geglu,
        bias: Bias::All,
        positions: Positions::Rotary,
        experts: Some(experts),
        ..Transformer::gpt(2, 64, 4, 100, 128)
    };
    let attention = 4 * 64 * 64 + 4 * 64;
    let norms = 2 * 64;
    let mlp = |ffn: u64| 3 * 64 * ffn + 2 * ffn + 64;
    let dense = attention + norms + mlp(256);
    let mixture = attention + norms + mlp(16) + 4 * mlp(32) + 4 * 64 + 4;
    assert_eq!(model.parameters(), 100 * 64 + dense + mixture + 64);
}
