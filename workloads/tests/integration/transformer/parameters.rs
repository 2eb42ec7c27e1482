//! Counts of parameters.

use workloads::model::transformer::Split;

use super::{materialised, preset, presets, ranks, shard};

/// Counts of the published checkpoints, as `sum(p.numel() for p in model.parameters())` gives them.
#[test]
fn counts_equal_those_of_published_checkpoints() {
    for (name, published) in [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("llama-7b", 6_738_415_616),
        ("llama-13b", 13_015_864_320),
        ("llama-30b", 32_528_943_616),
        ("llama-65b", 65_285_660_672),
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3-405b", 405_853_388_800),
        ("mistral-7b", 7_241_732_096),
        ("qwen2-7b", 7_615_616_512),
        ("mpt-7b", 6_649_286_656),
        ("gpt-neox-20b", 20_554_567_680),
    ] {
        assert_eq!(preset(name).parameters(), published, "{name}");
    }
}

/// `BertForMaskedLM` and `RobertaForMaskedLM`, tied: embedding of V words, p positions and t token types with its norm,
/// layers with biases and two norms, dense layer and norm of the head, a bias for every word.
#[test]
fn encoders_for_masked_words_have_a_closed_form() {
    for (name, published, [layers, h, words, positions, types]) in [
        ("bert-base", 109_514_298, [12, 768, 30_522, 512, 2]),
        ("bert-large", 335_174_458, [24, 1_024, 30_522, 512, 2]),
        ("roberta-base", 124_697_433, [12, 768, 50_265, 514, 1]),
        ("roberta-large", 355_412_057, [24, 1_024, 50_265, 514, 1]),
    ] {
        let embedding = (words + positions + types) * h + 2 * h;
        let formula = embedding + layers * (12 * h * h + 13 * h) + (h * h + 3 * h) + words;
        assert_eq!(formula, published, "{name}");
        assert_eq!(preset(name).parameters(), published, "{name}");
        // Padding: embedding and biases.
        let one_rank = shard(&preset(name), &materialised(1, 512, ranks(1, false)));
        let padding = (words.next_multiple_of(128) - words) * (h + 1);
        let held = one_rank.parameters(layers as u32, true, true).total();
        assert_eq!(held, published + padding, "{name}");
    }
}

/// Names of the Megatron-LM models state billions to one digit, from 12 L h^2 (1 + 13/(12h) + (V + s)/(12 L h)).
#[test]
fn counts_equal_those_of_the_megatron_papers() {
    for name in ["1.7b", "3.6b", "7.5b", "18.4b", "39.1b", "76.1b", "145.6b", "310.1b"] {
        let billions = preset(&format!("megatron-{name}")).parameters() as f64 / 1e9;
        assert_eq!(format!("{billions:.1}b"), name);
    }
    for (name, billions) in
        [("megatron-530b", "529.6"), ("megatron-1t", "1008.0"), ("megatron-175b", "174.6")]
    {
        assert_eq!(format!("{:.1}", preset(name).parameters() as f64 / 1e9), billions, "{name}");
    }
}

#[test]
fn every_preset_is_valid_and_has_a_source() {
    let presets = presets();
    assert!(presets.len() > 30);
    for (name, preset) in presets {
        assert!(preset.source.len() > 15, "{name}");
        assert_eq!(preset.model.validate(), Ok(()), "{name}");
        let written = serde_yaml::to_string(&preset.model).expect("it can be written");
        assert_eq!(serde_yaml::from_str(&written).ok(), Some(preset.model), "{name}");
    }
}

/// Over all ranks: every weight once, what is replicated once a rank, the tied embedding on both ends.
#[test]
fn ranks_hold_the_model_together() {
    for (name, tensor, stages) in [("megatron-175b", 8, 8), ("megatron-22b", 8, 1), ("llama-3-70b", 4, 8)] {
        let model = preset(name);
        let split = Split { stages, ..ranks(tensor, true) };
        let layers = split.layers_max(&model);
        let sharded = shard(&model, &materialised(1, 1_024, split));
        let stage = |n| sharded.parameters(layers, n == 0, n + 1 == stages);
        let held: u64 = (0..stages).map(|n| u64::from(tensor) * stage(n).total()).sum();
        let copies: u64 = (0..stages).map(|n| u64::from(tensor - 1) * stage(n).replicated).sum();
        let (v, h) = (u64::from(model.vocabulary), u64::from(model.hidden));
        let padding = model.padded_vocabulary(128 * u64::from(tensor)) - v;
        let matrices = if model.tied_embedding && stages == 1 { 1 } else { 2 };
        let tied_copy = if model.tied_embedding && stages > 1 { v * h } else { 0 };
        let positions = if name.starts_with("megatron") { u64::from(tensor - 1) * 2_048 * h } else { 0 };
        assert_eq!(
            held,
            model.parameters() + copies + positions + tied_copy + matrices * padding * h,
            "{name}"
        );
    }
}

#[test]
fn both_ends_hold_a_tied_embedding_unless_they_are_one() {
    let sharded = shard(&preset("megatron-175b"), &materialised(1, 2_048, ranks(8, true)));
    let words = 51_200 / 8 * 12_288;
    assert_eq!(sharded.parameters(12, true, false).shared, words);
    assert_eq!(sharded.parameters(12, false, true).shared, words);
    assert_eq!(sharded.parameters(12, false, true).head, words);
    assert_eq!(sharded.parameters(12, false, false).total(), sharded.parameters(12, false, false).layers);
    let both = sharded.parameters(12, true, true);
    assert_eq!((both.shared, both.head), (0, 0));
    let untied = shard(&preset("llama-65b"), &materialised(1, 2_048, ranks(8, true)));
    assert_eq!(untied.parameters(80, true, true).head, 32_768 / 8 * 8_192);
    assert_eq!(untied.parameters(10, true, false).shared, 0);
}

#[test]
fn the_vocabulary_is_padded_to_128_a_rank() {
    let model = preset("gpt2");
    assert_eq!(model.padded_vocabulary(128), 50_304);
    assert_eq!(model.padded_vocabulary(128 * 8), 51_200);
}
