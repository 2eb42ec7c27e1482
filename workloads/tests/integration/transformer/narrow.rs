//! Linear layers in 8 bits: what is multiplied, cast and gathered so.

use workloads::model::transformer::{
    Block, CollectiveKind, DataParallel, Dtype, Execution, Fp8, Operator, Scaling, Sharding, Split, Work,
};
use workloads::passes::recompute::{Mode, recomputed};

use super::{flash, preset, ranks, shard};

const TOKENS: u64 = 2 * 512;
/// Columns of what the four linear layers of Llama 3 8B take, and of what they give.
const INPUTS: [u64; 4] = [4_096, 4_096, 4_096, 14_336];
const OUTPUTS: [u64; 4] = [6_144, 4_096, 28_672, 4_096];

fn execution(split: Split, fp8: Option<Fp8>) -> Execution {
    Execution { fp8, ..flash(2, 512, split) }
}

fn layer(split: Split, scaling: Scaling, gathers: bool) -> Block {
    let fp8 = Some(Fp8 { scaling, gathers });
    shard(&preset("llama-3-8b"), &execution(split, fp8)).layer()
}

fn weights() -> u64 {
    INPUTS.iter().zip(OUTPUTS).map(|(inputs, outputs)| inputs * outputs).sum()
}

/// Bytes of passes that find largest values, cast or transpose.
fn cast(operators: &[Operator]) -> u64 {
    let about = |op: &&Operator| op.name.starts_with("largest of") || op.name.starts_with("cast ");
    let bytes = operators.iter().filter(about).map(|op| match op.work {
        Work::Stream(stream) => stream.bytes_read + stream.bytes_written,
        _ => panic!("{} is no pass over memory", op.name),
    });
    bytes.sum()
}

/// Products of linear layers, none else, and as many as in 16 bits.
#[test]
fn linear_layers_multiply_in_8_bits_and_the_head_does_not() {
    let fp8 = Some(Fp8 { scaling: Scaling::Tensorwise, gathers: false });
    let model = shard(&preset("llama-3-8b"), &execution(Split::NONE, fp8));
    let types = |block: &Block| -> Vec<Dtype> {
        let all = block.forward.iter().chain(&block.backward);
        all.filter_map(|op| match op.work {
            Work::Gemm(gemm) => Some(gemm.dtype),
            Work::Attention(attention) => Some(attention.dtype),
            _ => None,
        })
        .collect()
    };
    let layer = types(&model.layer());
    assert_eq!(layer.iter().filter(|&&dtype| dtype == Dtype::Fp8).count(), 12);
    assert_eq!(layer.iter().filter(|&&dtype| dtype == Dtype::Bf16).count(), 2);
    assert_eq!(types(&model.head()), [Dtype::Bf16; 3]);
}

/// The table of the module, element by element: of each tensor 6 bytes tensorwise and 8 rowwise, of each weight 5 and 3
/// forward, 3 and 7 backward; with a scale of steps before 4, and nothing of weights.
#[test]
fn casts_move_what_their_kernels_do() {
    let columns = |of: [u64; 4]| TOKENS * of.iter().sum::<u64>();
    for (scaling, each, forward, backward) in
        [(Scaling::Tensorwise, 6, 5, 3), (Scaling::Rowwise, 8, 3, 7), (Scaling::Delayed, 4, 0, 0)]
    {
        let block = layer(Split::NONE, scaling, false);
        assert_eq!(cast(&block.forward), each * columns(INPUTS) + forward * weights(), "{scaling:?}");
        assert_eq!(cast(&block.backward), each * columns(OUTPUTS) + backward * weights(), "{scaling:?}");
    }
    // Weights that come in 8 bits are transposed for the backward pass.
    let gathered = layer(Split::NONE, Scaling::Tensorwise, true);
    assert_eq!(cast(&gathered.forward), 6 * columns(INPUTS));
    assert_eq!(cast(&gathered.backward), 6 * columns(OUTPUTS) + 2 * weights());
}

/// Under sequence parallelism ranks gather bytes instead of halves, but for rowwise scales; what they scatter stays.
#[test]
fn what_ranks_gather_is_cast_before() {
    let whole = 2 * TOKENS * 4_096;
    for (scaling, gathered) in
        [(Scaling::Tensorwise, whole / 2), (Scaling::Delayed, whole / 2), (Scaling::Rowwise, whole)]
    {
        let block = layer(ranks(4, true), scaling, false);
        for op in block.forward.iter().chain(&block.backward) {
            let Work::Collective(collective) = op.work else { continue };
            match collective.kind {
                CollectiveKind::AllGather => {
                    assert_eq!(collective.bytes, gathered, "{scaling:?}: {}", op.name);
                }
                CollectiveKind::ReduceScatter => assert_eq!(collective.bytes, whole, "{}", op.name),
                // One number, the largest of all parts.
                _ => assert_eq!((collective.bytes, scaling), (4, Scaling::Tensorwise), "{}", op.name),
            }
        }
    }
}

/// Where the projection keeps the context in 8 bits, selective recomputation makes it again for the
/// gradient of attention; in 16 bits it is there anyway.
#[test]
fn selective_recomputation_saves_a_context_once() {
    let saved = |fp8| {
        let model = shard(&preset("llama-3-8b"), &execution(Split::NONE, fp8));
        let layer = recomputed(&model.layer(), Mode::Selective);
        let names = layer.saved().into_iter().map(|id| layer.tensor(id).name.to_string());
        names.filter(|name| name == "context" || name.starts_with("projection input")).collect::<Vec<_>>()
    };
    assert_eq!(saved(None), ["context"]);
    let fp8 = Fp8 { scaling: Scaling::Delayed, gathers: false };
    assert_eq!(saved(Some(fp8)), ["projection input in 8 bits"]);
}

/// Transformer Engine casts weights once a step, whatever the micro-batches; torchao's ranks agree on the largest of all.
#[test]
fn weights_are_prepared_once_a_step() {
    let names = |fp8, data: &DataParallel| {
        let model = shard(&preset("llama-3-8b"), &execution(Split::NONE, fp8));
        let update = model.update(&model.parameters(32, true, true), data);
        update
            .operators
            .into_iter()
            .map(|op| op.name)
            .filter(|name| name.ends_with("weights"))
            .collect::<Vec<_>>()
    };
    let data = DataParallel::new(8, Sharding::Parameters);
    assert!(names(None, &data).is_empty());
    assert_eq!(names(Some(Fp8 { scaling: Scaling::Delayed, gathers: false }), &data), ["cast weights"]);
    let gathered = Some(Fp8 { scaling: Scaling::Tensorwise, gathers: true });
    assert_eq!(names(gathered, &data), ["largest of weights", "reduce largest of weights"]);
}

#[test]
fn what_is_not_computed_in_8_bits_is_refused() {
    let refused = |name: &str, execution: &Execution| {
        let found = workloads::model::transformer::ShardedTransformer::new(&preset(name), execution);
        found.expect_err("it is refused").into_iter().map(|invalid| invalid.path).collect::<Vec<_>>()
    };
    let fp8 = |scaling, gathers| execution(Split::NONE, Some(Fp8 { scaling, gathers }));
    assert_eq!(refused("mixtral-8x7b", &fp8(Scaling::Tensorwise, false)), ["fp8"]);
    assert_eq!(refused("llama-3-8b", &fp8(Scaling::Rowwise, true)), ["fp8"]);
}

/// Products of experts cast rows as linear layers do; Transformer Engine has cast their weights
/// once a step.
#[test]
fn experts_multiply_in_8_bits() {
    let mixtral = preset("mixtral-8x7b");
    let rows = TOKENS * 2;
    let weights = 8 * 3 * 4_096 * 14_336;
    let router = 4_096 * 8;
    for (scaling, each, of_weights) in [(Scaling::Rowwise, 8, 3 + 7), (Scaling::Delayed, 4, 0)] {
        let block = |fp8| shard(&mixtral, &execution(Split::NONE, fp8)).expert_layer();
        let block = block(Some(Fp8 { scaling, gathers: false }));
        let grouped: Vec<Dtype> = block
            .forward
            .iter()
            .chain(&block.backward)
            .filter_map(
                |op| if let Work::Grouped(grouped) = op.work { Some(grouped.groups.dtype) } else { None },
            )
            .collect();
        assert_eq!(grouped, [Dtype::Fp8; 6]);
        let of_experts = |operators: &[Operator]| {
            let named = operators.iter().filter(|op| op.name.contains("expert")).cloned();
            cast(&named.collect::<Vec<_>>())
        };
        let columns = 4_096 + 14_336 + 28_672 + 4_096;
        let moved = of_experts(&block.forward) + of_experts(&block.backward);
        assert_eq!(moved, each * rows * columns + of_weights * weights, "{scaling:?}");
        let in_16 = block.forward.iter().filter(|op| op.name.contains("router")).all(|op| match op.work {
            Work::Gemm(gemm) => gemm.dtype == Dtype::Bf16 && gemm.n * gemm.k == router,
            _ => true,
        });
        assert!(in_16);
    }
}
