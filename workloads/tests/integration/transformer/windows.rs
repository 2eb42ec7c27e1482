//! Layers with windows: FLOPs by hand, and what windows leave as it is.

use workloads::chain::Chain;
use workloads::model::transformer::{
    Attention, AttentionKernel, Block, ContextExchange, Execution, Pass, ShardedTransformer, Split,
    StreamClass, Transformer, WindowForm, Work,
};

use super::configurations::{config, model};
use super::{flash, materialised, preset, ranks, shard};

fn attention(block: &Block, pass: Pass) -> Vec<Attention> {
    let of = |work: &Work| match work {
        Work::Attention(attention) if attention.pass == pass => Some(*attention),
        _ => None,
    };
    block.forward.iter().chain(&block.backward).filter_map(|op| of(&op.work)).collect()
}

#[test]
fn queries_of_a_window_see_its_keys() {
    let gemma = shard(&model(config!("gemma-3-1b")), &flash(1, 4_096, ranks(1, false)));
    let forward = |layer| attention(&gemma.layer_at(layer), Pass::Forward)[0];
    // The first 511 queries see fewer keys than 512: 1 + 2 + ... + 511.
    let pairs = 4_096 * 512 - (512 * 511) / 2;
    assert_eq!(forward(0).flops(), f64::from(4 * 256 * 4) * f64::from(pairs));
    assert_eq!(forward(5).flops(), f64::from(4 * 256 * 4) * f64::from(4_096 * 4_097 / 2));
    let backward = attention(&gemma.layer_at(0), Pass::Backward)[0];
    assert_eq!(backward.flops(), f64::from(10 * 256 * 4) * f64::from(pairs));
    // By convention a query meets all keys that it may: 512 and 4,096.
    let with = |window| Transformer { window, ..model(config!("gemma-3-1b")) }.forward_flops(1, 4_096);
    let hidden = 22.0 * 4_096.0 * 2.0 * (4_096.0 - 512.0) * 2.0 * 4.0 * 256.0;
    assert_eq!(with(None) - with(Some(512)), hidden);
}

#[test]
fn chunks_are_sequences_by_themselves() {
    let scout = model(config!("llama-4-scout"));
    let at = |layer, sequence| {
        let layer = shard(&scout, &flash(1, sequence, ranks(1, false))).layer_at(layer);
        let turns = layer.forward.iter().filter(|op| op.name.contains("rotary")).count();
        let norms = layer.forward.iter().filter(|op| op.name.ends_with("head norm")).count();
        let [Attention { batch, queries, keys, window, .. }] = attention(&layer, Pass::Forward)[..] else {
            panic!("one kernel");
        };
        (batch, queries, keys, window, turns, norms)
    };
    assert_eq!(at(0, 32_768), (4, 8_192, 8_192, None, 1, 2));
    assert_eq!(at(3, 32_768), (1, 32_768, 32_768, None, 0, 0));
    assert_eq!(at(0, 4_096), (1, 4_096, 4_096, None, 1, 2));
    let problems = ShardedTransformer::new(&scout, &flash(1, 10_000, ranks(1, false))).expect_err("chunks");
    assert!(problems[0].to_string().contains("use 8192 or 16384"), "{problems:?}");
}

/// A window of the sequence or more is no window, in every kernel and exchange.
#[test]
fn wide_windows_change_nothing() {
    let llama = preset("llama-3-8b");
    for window in [2_048, 2_049, 100_000] {
        for form in [WindowForm::Sliding, WindowForm::Chunks] {
            for global_every in [None, Some(2)] {
                let windowed =
                    Transformer { window: Some(window), window_form: form, global_every, ..llama.clone() };
                let exchanges =
                    [ContextExchange::AllToAll, ContextExchange::Ring, ContextExchange::AllGather];
                let splits =
                    exchanges.map(|context_exchange| Split { context: 2, context_exchange, ..Split::NONE });
                let executions = splits.map(|split| flash(2, 2_048, split));
                for execution in executions.into_iter().chain([materialised(2, 2_048, ranks(2, true))]) {
                    let (with, without) = (shard(&windowed, &execution), shard(&llama, &execution));
                    for layer in 0..2 {
                        assert_eq!(with.layer_at(layer), without.layer_at(layer));
                    }
                    assert_eq!(windowed.forward_flops(1, 2_048), llama.forward_flops(1, 2_048));
                }
            }
        }
    }
}

#[test]
fn windows_are_exchanged_where_keys_are_whole() {
    let gemma = Transformer { kv_heads: 4, ..model(config!("gemma-3-1b")) };
    let execution = |context_exchange| flash(1, 4_096, Split { context: 2, context_exchange, ..Split::NONE });
    for exchange in [ContextExchange::Ring, ContextExchange::GatheredRing] {
        let problems = ShardedTransformer::new(&gemma, &execution(exchange)).expect_err("a ring");
        assert!(problems[0].to_string().contains("all-to-all"), "{problems:?}");
    }
    for exchange in [ContextExchange::AllToAll, ContextExchange::AllGather] {
        let kernels = attention(&shard(&gemma, &execution(exchange)).layer_at(0), Pass::Forward);
        assert!(kernels.iter().all(|kernel| kernel.window == Some(512)), "{kernels:?}");
    }
}

/// Two kinds of layers are two blocks, wherever stages begin.
#[test]
fn stages_have_the_layers_that_are_theirs() {
    let gemma = Transformer { layers: 24, ..model(config!("gemma-3-1b")) };
    let split = Split { stages: 4, ..Split::NONE };
    let sharded = shard(&gemma, &flash(1, 4_096, split));
    let parameters: u64 = (0..4).map(|stage| sharded.parameters(6, stage == 0, stage == 3).total()).sum();
    // Both ends of a pipeline have the embedding.
    assert_eq!(parameters, gemma.parameters() + 262_144 * 1_152);
    assert_ne!(sharded.layer_at(0), sharded.layer_at(5));
    assert_eq!(sharded.layer_at(5), sharded.layer_at(23));
    assert_eq!(Chain::straight(4).positions(), 4);
}

#[test]
fn caps_are_passes_over_scores_and_logits() {
    let gemma = model(config!("gemma-2-9b"));
    let named = |execution: &Execution, part: &str| {
        let sharded = shard(&gemma, execution);
        let blocks = [sharded.layer_at(0), sharded.head()];
        let ops = blocks.iter().flat_map(|block| block.forward.iter().chain(&block.backward));
        ops.filter(|op| op.name.contains(part)).count()
    };
    let flash = flash(1, 8_192, ranks(1, false));
    assert_eq!(named(&flash, "cap scores"), 0);
    assert_eq!(named(&flash, "cap logits"), 2);
    let scores = materialised(1, 2_048, ranks(1, false));
    assert_eq!(named(&scores, "cap scores"), 2);
    let mut in_operators = scores;
    in_operators.fusion.activation = false;
    assert_eq!(named(&in_operators, "tanh"), 4);
    assert_eq!(in_operators.attention, AttentionKernel::Materialised);
}

/// Four norms a layer read and write what two do twice.
#[test]
fn norms_behind_branches_double_those_before() {
    let gemma = model(config!("gemma-2-9b"));
    let norms = |model: &Transformer| {
        let layer = shard(model, &flash(1, 8_192, ranks(1, false))).layer_at(0);
        let is_norm =
            |work: &Work| matches!(work, Work::Stream(stream) if stream.class == StreamClass::RmsNorm);
        layer.forward.iter().filter(|op| is_norm(&op.work)).count()
    };
    assert_eq!(norms(&gemma), 4);
    assert_eq!(norms(&Transformer { post_norms: false, ..gemma }), 2);
}
