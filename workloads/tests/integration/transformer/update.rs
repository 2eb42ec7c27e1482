//! The optimizer step.

use workloads::model::transformer::{
    AddedTo, AttentionKernel, Collective, CollectiveKind, DataParallel, Dtype, Execution, Fusion, Group,
    Operator, ShardedTransformer, Sharding, Split, States, Work,
};

use super::{preset, ranks, shard};

const SPLIT: Split = Split { tensor: 8, sequence_parallel: true, stages: 8, ..Split::NONE };

fn gpt(dtype: Dtype, states: States) -> ShardedTransformer {
    let execution = Execution::new(1, 2_048, SPLIT, dtype, AttentionKernel::Materialised);
    shard(&preset("megatron-175b"), &Execution { states, ..execution })
}

/// Ranks that share nothing.
fn whole(ranks: u32) -> DataParallel {
    DataParallel::new(ranks, Sharding::None)
}

fn collectives(operators: &[Operator]) -> Vec<(CollectiveKind, Group, u64)> {
    let exchange = |op: &Operator| match op.work {
        Work::Collective(Collective { kind, group, bytes, .. }) => Some((kind, group, bytes)),
        _ => None,
    };
    operators.iter().filter_map(exchange).collect()
}

fn streamed(operators: &[Operator], name: &str) -> Option<u64> {
    let streams = operators.iter().filter(|op| op.name == name).map(|op| op.work);
    streams
        .filter_map(
            |work| if let Work::Stream(s) = work { Some(s.bytes_read + s.bytes_written) } else { None },
        )
        .next()
}

/// Adam reads and writes an fp32 copy and two moments and reads the gradient: 28 bytes a parameter, and 6 for the copy
/// back to half precision.
#[test]
fn adam_moves_28_bytes_a_parameter() {
    let gpt = gpt(Dtype::Bf16, States::FullGradients);
    let parameters = gpt.parameters(12, false, false);
    let operators = gpt.update(&parameters, &whole(1)).operators;
    let n = parameters.total();
    assert_eq!(streamed(&operators, "adam"), Some(28 * n));
    assert_eq!(streamed(&operators, "copy parameters"), Some(6 * n));
    assert_eq!(streamed(&operators, "gradient norm"), Some(4 * n));
    assert_eq!(streamed(&operators, "clip gradients"), Some(8 * n));
    assert_eq!(streamed(&operators, "unscale gradients"), None, "bfloat16 needs no loss scaling");
    let half = gpt_fp16(States::CopiedGradients);
    assert_eq!(streamed(&half, "copy gradients"), Some(6 * n));
    assert_eq!(streamed(&half, "unscale gradients"), Some(8 * n));
    assert_eq!(
        streamed(&gpt_fp16(States::HalfGradients), "adam"),
        Some(26 * n),
        "gradients in half precision"
    );
}

/// The buffer of gradients is divided by the number of data ranks, even by one, and cleared for the next step.
#[test]
fn gradients_are_averaged_and_cleared() {
    let gpt = gpt(Dtype::Bf16, States::FullGradients);
    let parameters = gpt.parameters(12, false, false);
    let n = parameters.total();
    for (sharding, data, held) in [
        (Sharding::None, 1, n),
        (Sharding::None, 4, n),
        (Sharding::Optimizer, 4, n),
        (Sharding::Gradients, 4, n.div_ceil(4)),
    ] {
        let operators = gpt.update(&parameters, &DataParallel::new(data, sharding)).operators;
        assert_eq!(streamed(&operators, "average gradients"), Some(8 * held));
        assert_eq!(streamed(&operators, "clear gradients"), Some(4 * held));
    }
    let half = gpt_fp16(States::HalfGradients);
    assert_eq!(streamed(&half, "average gradients"), Some(4 * n));
    assert_eq!(streamed(&half, "clear gradients"), Some(2 * n));
}

/// Products add to sums in fp32 only; in half precision a pass of its own reads the gradient and its sum, and writes that.
#[test]
fn gradients_in_half_precision_are_added_by_a_pass() {
    let passes = |states| {
        let layer = gpt(Dtype::Fp16, states).layer();
        streamed(&layer.backward, "accumulate qkv weight gradient")
    };
    assert_eq!(passes(States::FullGradients), None);
    let weights = 12_288 * 3 * 12_288 / 8;
    for states in [States::HalfGradients, States::CopiedGradients] {
        assert_eq!(passes(states), Some((2 + 2 + 2) * weights));
    }
}

/// Or products add to sums in half precision themselves: what is read and written is half as wide as in fp32.
#[test]
fn products_add_to_sums_in_half_precision() {
    let weights = 12_288 * 3 * 12_288 / 8;
    let sums = |states, gradient_accumulation| {
        let fusion = Fusion { gradient_accumulation, ..Fusion::ALL };
        let execution = Execution::new(1, 2_048, SPLIT, Dtype::Bf16, AttentionKernel::Materialised);
        let gpt = shard(&preset("megatron-175b"), &Execution { states, fusion, ..execution });
        let layer = gpt.layer();
        let product = layer.backward.iter().find(|op| op.name == "qkv weight gradient").unwrap();
        let Work::Gemm(gemm) = product.work else { panic!("{product:?}") };
        let pass = streamed(&layer.backward, "accumulate qkv weight gradient");
        (gemm.accumulate, pass.map(|bytes| bytes / weights))
    };
    let (half, full) = (States::HalfGradients, States::FullGradients);
    assert_eq!(sums(half, AddedTo::Single), (None, Some(6)));
    assert_eq!(sums(half, AddedTo::Any), (Some(Dtype::Bf16), None));
    assert_eq!(sums(full, AddedTo::Any), (Some(Dtype::Fp32), None));
    // A pass reads a gradient of 16 bits and a sum of 32, and writes that: 10 bytes a parameter.
    assert_eq!(sums(full, AddedTo::Nothing), (None, Some(10)));
}

/// The gradient of a table is cleared and filled in the type of activations, then added to its sum.
#[test]
fn gradients_of_tables_are_added_whole() {
    let embedding = gpt(Dtype::Bf16, States::FullGradients).embedding();
    for (table, parameters) in [("word", 51_200 / 8 * 12_288), ("position", 2_048 * 12_288)] {
        let bytes = |pass: &str| streamed(&embedding.backward, &format!("{pass}{table} gradient"));
        assert_eq!(bytes("clear "), Some(2 * parameters));
        // Gradients of 2 bytes, sums in fp32 written and read, rows written.
        assert_eq!(bytes(""), Some((2 + 4 + 4 + 2) * 2_048 * 12_288));
        assert_eq!(bytes("accumulate "), Some((2 + 4 + 4) * parameters));
    }
}

fn gpt_fp16(states: States) -> Vec<Operator> {
    let gpt = gpt(Dtype::Fp16, states);
    gpt.update(&gpt.parameters(12, false, false), &whole(1)).operators
}

#[test]
fn gradients_are_summed_over_tensor_data_and_embedding_ranks() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let gpt = gpt(Dtype::Bf16, States::FullGradients);
    let first = gpt.parameters(12, true, false);
    let agree = (AllReduce, Group::Model, 4);
    let replicated = (AllReduce, Group::Tensor, 4 * first.replicated);
    let shared = (AllReduce, Group::Embedding, 4 * 51_200 / 8 * 12_288);
    let n = first.total();
    assert_eq!(
        collectives(&gpt.update(&first, &whole(4)).operators),
        [replicated, (AllReduce, Group::Data, 4 * n), shared, agree]
    );
    let distributed = gpt.update(&first, &DataParallel::new(4, Sharding::Optimizer)).operators;
    assert_eq!(
        collectives(&distributed),
        [replicated, (ReduceScatter, Group::Data, 4 * n), shared, agree, (AllGather, Group::Data, 2 * n)]
    );
    assert_eq!(streamed(&distributed, "adam"), Some(28 * n.div_ceil(4)));
    assert_eq!(collectives(&gpt.update(&gpt.parameters(12, false, false), &whole(1)).operators).len(), 2);
}

#[test]
fn stages_agree_on_infinities_and_on_the_norm() {
    let agreements = collectives(&gpt_fp16(States::CopiedGradients));
    assert_eq!(agreements.iter().filter(|(_, group, _)| *group == Group::Model).count(), 2);
    let alone = shard(
        &preset("gpt2"),
        &Execution::new(1, 1_024, ranks(1, false), Dtype::Fp16, AttentionKernel::Materialised),
    );
    assert_eq!(collectives(&alone.update(&alone.parameters(12, true, true), &whole(1)).operators), []);
}
