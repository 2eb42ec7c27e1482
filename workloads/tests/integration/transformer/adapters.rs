//! Low-rank adapters: what is trained, executed, kept and exchanged beside a frozen model.

use hw_models::settings::Count;
use workloads::model::transformer::{
    Adapted, Adapters, Block, Collective, CollectiveKind, DataParallel, Execution, Fp8, Fusion, Layout,
    Operator, Phase, Scaling, ShardedTransformer, Sharding, Split, States, Transformer, Work,
};
use workloads::passes::recompute::{Mode, recomputed};

use super::{flash, preset, ranks, shard};

const ALL: [Adapted; 7] = [
    Adapted::Query,
    Adapted::Key,
    Adapted::Value,
    Adapted::Output,
    Adapted::Gate,
    Adapted::Up,
    Adapted::Down,
];
const APART: Fusion = Fusion { query_key_value: false, gate: false, ..Fusion::ALL };

fn adapters(rank: u64, layers: &[Adapted]) -> Option<Adapters> {
    Some(Adapters { rank: Count::new(rank).expect("a rank"), layers: layers.to_vec(), dropout: false })
}

fn adapted(model: &Transformer, execution: Execution, rank: u64, layers: &[Adapted]) -> ShardedTransformer {
    shard(model, &Execution { adapters: adapters(rank, layers), ..execution })
}

/// Parameters of a rank that are trained, of the whole model.
fn trained(model: &ShardedTransformer) -> u64 {
    model.parameters(model.model().layers, true, true).trained().total()
}

fn flops<'a>(operators: impl IntoIterator<Item = &'a Operator>) -> f64 {
    operators.into_iter().map(|op| op.work.flops()).sum()
}

fn products(block: &Block) -> impl Iterator<Item = &Operator> {
    block.forward.iter().chain(&block.backward).filter(|op| matches!(op.work, Work::Gemm(_)))
}

/// `print_trainable_parameters` of Hugging Face PEFT: Llama 2 7B with rank 8 of queries and values,
/// and with rank 16 of all linear layers; Qwen 7B with rank 64 of all of them, where queries, keys
/// and values are one (QwenLM/Qwen).
#[test]
fn as_many_parameters_are_trained_as_peft_prints() {
    let apart = Execution { fusion: APART, ..flash(1, 512, Split::NONE) };
    let llama = preset("llama-2-7b");
    let some = adapted(&llama, apart.clone(), 8, &[Adapted::Query, Adapted::Value]);
    assert_eq!(trained(&some), 4_194_304);
    assert_eq!(trained(&adapted(&llama, apart, 16, &ALL)), 39_976_960);
    let qkv = [Adapted::Query, Adapted::Key, Adapted::Value];
    let rest = [Adapted::Output, Adapted::Gate, Adapted::Up, Adapted::Down];
    let qwen = Transformer { ffn: 11_008, vocabulary: 151_936, ..llama };
    let joined = trained(&adapted(&qwen, flash(1, 512, Split::NONE), 64, &qkv));
    let separate = Execution { fusion: APART, ..flash(1, 512, Split::NONE) };
    assert_eq!(joined + trained(&adapted(&qwen, separate, 64, &rest)), 143_130_624);
}

/// A frozen product has no gradient of its weight: the backward pass executes what the forward pass
/// does, of attention more.
#[test]
fn gradients_of_frozen_weights_are_not_computed() {
    let execution = flash(1, 2_048, Split::NONE);
    let model = preset("llama-2-7b");
    let (whole, frozen) = (shard(&model, &execution), adapted(&model, execution, 1, &[Adapted::Output]));
    let of_weights = |block: &Block| -> Vec<String> {
        let weights = products(block).filter(|op| op.phase == Phase::BackwardWeight);
        weights.map(|op| op.name.to_string()).collect()
    };
    assert_eq!(of_weights(&whole.layer()).len(), 4);
    let adapter = ["projection adapter B weight gradient", "projection adapter A weight gradient"];
    assert_eq!(of_weights(&frozen.layer()), adapter);
    assert!(of_weights(&frozen.head()).is_empty() && frozen.embedding().backward.is_empty());
    let linear = |block: &Block, phase| {
        flops(products(block).filter(|op| op.phase == phase && !op.name.contains("adapter")))
    };
    for (with, without) in [(frozen.layer(), whole.layer()), (frozen.head(), whole.head())] {
        for phase in [Phase::Forward, Phase::BackwardInput] {
            assert_eq!(linear(&with, phase), linear(&without, phase));
        }
    }
    let is_norm = |op: &&Operator| op.name.contains("norm weight gradient");
    assert!(frozen.layer().backward.iter().find(is_norm).is_none());
    assert!(whole.layer().backward.iter().find(is_norm).is_some());
}

/// What an adapter executes: 2 m r (k + n) forward, and three times that with both gradients.
#[test]
fn adapters_execute_three_times_their_forward_pass() {
    let (rank, tokens, hidden) = (16, 2_048, 4_096);
    let model = adapted(&preset("llama-2-7b"), flash(1, 2_048, Split::NONE), rank, &[Adapted::Output]);
    let block = model.layer();
    let executed = flops(products(&block).filter(|op| op.name.contains("adapter")));
    assert_eq!(executed, (3 * 2 * tokens * rank * 2 * hidden) as f64);
}

/// Frozen layers keep no input for gradients of weights: of a layer with adapters of queries, keys
/// and values what norms, attention and the activation need, the input of `A` and `A x`.
#[test]
fn frozen_layers_keep_no_inputs() {
    let (model, execution) = (preset("llama-2-7b"), flash(1, 2_048, Split::NONE));
    let qkv = [Adapted::Query, Adapted::Key, Adapted::Value];
    let kept = |block: &Block| -> Vec<String> {
        block.saved().into_iter().map(|tensor| block.tensor(tensor).name.to_string()).collect()
    };
    let (whole, frozen) =
        (kept(&shard(&model, &execution).layer()), kept(&adapted(&model, execution, 8, &qkv).layer()));
    let only = |own: &[String], other: &[String]| -> Vec<String> {
        own.iter().filter(|name| !other.contains(name)).cloned().collect()
    };
    // The input of the projection is kept by attention itself, which gives it.
    assert_eq!(only(&whole, &frozen), ["mlp norm output", "mlp activation"]);
    assert_eq!(only(&frozen, &whole), ["qkv adapter A output"]);
}

/// Ranks of a tensor group do the same work together as one does, and exchange rows as wide as
/// adapters beside it.
#[test]
fn tensor_ranks_share_adapters() {
    let model = preset("llama-2-7b");
    let rank = 32;
    let of = |split: Split| adapted(&model, flash(1, 2_048, split), rank, &ALL);
    let adapters_of = |model: &ShardedTransformer| {
        let adapter = |op: &&Operator| op.name.contains("adapter");
        let block = model.layer();
        let exchanged = |block: &Block| -> Vec<(CollectiveKind, u64)> {
            let all = block.forward.iter().chain(&block.backward).filter(adapter);
            let exchange = all.filter_map(|op| match op.work {
                Work::Collective(Collective { kind, bytes, .. }) => Some((kind, bytes)),
                _ => None,
            });
            exchange.collect()
        };
        (flops(products(&block).filter(adapter)), exchanged(&block))
    };
    let (alone, nothing) = adapters_of(&of(Split::NONE));
    assert!(nothing.is_empty());
    let bytes = 2 * 2_048 * rank;
    let (in_parts, exchanged) = adapters_of(&of(ranks(4, true)));
    assert_eq!(4.0 * in_parts, alone);
    assert!(exchanged.iter().all(|&(_, each)| each == bytes));
    let count = |kind| exchanged.iter().filter(|(other, _)| *other == kind).count();
    // Of two layers by columns B gathers its input, again for its gradient, and scatters the
    // input's; of two by rows A scatters its output, and gathers the gradient of it.
    assert_eq!((count(CollectiveKind::AllGather), count(CollectiveKind::ReduceScatter)), (6, 4));
    let (whole, exchanged) = adapters_of(&of(ranks(4, false)));
    // A of a layer by columns and B of one by rows are whole on every rank.
    assert!(whole > in_parts && whole < alone);
    assert!(exchanged.iter().all(|&exchange| exchange == (CollectiveKind::AllReduce, bytes)));
    assert_eq!(exchanged.len(), 4);
    let of_rank = |split| of(split).parameters(model.layers, true, true);
    let adapters = of_rank(ranks(4, true)).adapters.expect("adapters");
    let sliced = adapters.all - adapters.replicated;
    assert_eq!(4 * sliced + adapters.replicated, of_rank(Split::NONE).trained().total());
}

/// 2 bytes of a frozen parameter, and all states of those that are trained.
#[test]
fn only_adapters_have_gradients_and_states() {
    let model = preset("llama-2-7b");
    let sharded = adapted(&model, flash(1, 512, Split::NONE), 16, &ALL);
    let rank = sharded.parameters(model.layers, true, true);
    let trained = rank.trained().total();
    assert_eq!(rank.total(), model.parameters() + trained);
    let (ranks, states) = (8, States::FullGradients);
    for sharding in [Sharding::None, Sharding::Optimizer, Sharding::Gradients, Sharding::Parameters] {
        let bytes = sharded.state_bytes(&rank, &DataParallel::new(ranks, sharding));
        let own = states.bytes(trained, sharding, ranks);
        assert_eq!((bytes.gradients, bytes.optimizer), (own.gradients, own.optimizer), "{sharding:?}");
        let frozen = states.bytes(model.parameters(), sharding, ranks).parameters;
        assert_eq!(bytes.parameters, own.parameters + frozen, "{sharding:?}");
    }
}

/// Ranks with copies of a model sum gradients of adapters, and nothing else.
#[test]
fn copies_sum_gradients_of_adapters() {
    let apart = Execution { fusion: APART, ..flash(1, 512, Split::NONE) };
    let model = adapted(&preset("llama-2-7b"), apart, 16, &ALL);
    let rank = model.parameters(32, true, true);
    let update = model.update(&rank, &DataParallel::new(4, Sharding::None));
    let sums = update.operators.iter().filter_map(|op| match op.work {
        Work::Collective(Collective { kind: CollectiveKind::AllReduce, bytes, .. }) => Some(bytes),
        _ => None,
    });
    assert_eq!(sums.collect::<Vec<_>>(), [4 * 39_976_960]);
}

/// Adapters multiply in 16 bits, and what frozen weights multiply in 8 is cast without its
/// transpose.
#[test]
fn in_8_bits_frozen_operands_are_not_transposed() {
    let fp8 = |scaling| Some(Fp8 { scaling, gathers: false });
    let model = preset("llama-3-8b");
    for scaling in [Scaling::Delayed, Scaling::Rowwise] {
        let execution = Execution { fp8: fp8(scaling), ..flash(1, 512, Split::NONE) };
        let block = adapted(&model, execution, 16, &ALL).layer();
        let cast = block.forward.iter().find(|op| op.name == "cast mlp down input").expect("a cast");
        let Work::Stream(stream) = cast.work else { panic!("no pass") };
        assert_eq!(stream.bytes_read + stream.bytes_written, 3 * 512 * 14_336, "{scaling:?}");
        assert!(!block.forward.iter().any(|op| op.name == "cast mlp down input, transposed"));
        // The weights are in 8 bits for good.
        let mut all = block.forward.iter().chain(&block.backward);
        assert!(!all.any(|op| op.name.starts_with("cast ") && op.name.contains("weight")));
        let narrow = products(&block).filter(|op| op.name.contains("adapter")).filter(|op| match op.work {
            Work::Gemm(gemm) => gemm.dtype.bytes() == 1,
            _ => false,
        });
        assert_eq!(narrow.count(), 0);
    }
}

/// Recomputation executes adapters again; both say what is kept.
#[test]
fn full_recomputation_keeps_the_input_of_a_layer() {
    let model = adapted(&preset("llama-2-7b"), flash(1, 512, Split::NONE), 16, &ALL);
    let block = recomputed(&model.layer(), Mode::Full);
    assert_eq!(block.saved_bytes(), 2 * 512 * 4_096);
    let forward = |op: &&Operator| matches!(op.work, Work::Gemm(gemm) if gemm.layout == Layout::Forward);
    let again = block.backward.iter().filter(forward).count();
    assert_eq!(again, model.layer().forward.iter().filter(forward).count());
}

#[test]
fn what_has_no_adapters_is_told() {
    let told = |model: &Transformer, execution: Execution, rank, layers: &[Adapted]| -> String {
        let execution = Execution { adapters: adapters(rank, layers), ..execution };
        let faults = ShardedTransformer::new(model, &execution).expect_err("a fault");
        faults
            .into_iter()
            .map(|fault| format!("{}: {}", fault.path, fault.message))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let (llama, plain) = (preset("llama-2-7b"), flash(1, 512, Split::NONE));
    let joined = told(&llama, plain.clone(), 8, &[Adapted::Query, Adapted::Value]);
    assert!(joined.starts_with("adapters.layers: queries, keys and values are one product"), "{joined}");
    assert!(told(&llama, plain.clone(), 8, &[Adapted::Up]).contains("a gate and what it gates"));
    assert!(told(&llama, plain.clone(), 8, &[]).contains("no layer has an adapter"));
    assert!(told(&preset("gpt2"), plain.clone(), 8, &[Adapted::Gate]).contains("no layer has an adapter"));
    assert!(told(&llama, plain.clone(), 5_000, &ALL).contains("5000 is more than the width"));
    assert!(told(&preset("mixtral-8x7b"), plain.clone(), 8, &ALL).contains("adapters of experts"));
    assert!(told(&preset("deepseek-v2"), plain, 8, &ALL).contains("modelled for decoders"));
}
