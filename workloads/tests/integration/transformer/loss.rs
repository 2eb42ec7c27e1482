//! The loss over a vocabulary: what it moves and keeps for every logit.

use hw_models::catalogue::Catalogue;
use hw_models::kernels::{GpuFacts, KERNELS, KernelCatalogue, KernelModel};
use workloads::model::transformer::{
    Block, CollectiveKind, CrossEntropy, Execution, Fusion, Operator, Phase, Split, Stream, Transformer, Work,
};

use super::{alive, flash, preset, ranks, shard};

const TOKENS: u64 = 2_048;
/// Llama 3's vocabulary.
const WORDS: u64 = 128_256;

fn head(tensor: u32, cross_entropy: CrossEntropy) -> Block {
    of(&preset("llama-3-8b"), 1, ranks(tensor, false), cross_entropy)
}

fn of(model: &Transformer, sequences: u32, split: Split, cross_entropy: CrossEntropy) -> Block {
    let common = flash(sequences, TOKENS as u32, split);
    shard(model, &Execution { fusion: Fusion { cross_entropy, ..Fusion::ALL }, ..common }).head()
}

/// Bytes that passes of the loss move by logit of a rank, forward and backward; norms and what is less than a byte are not.
fn moved(head: &Block, tensor: u64) -> [u64; 2] {
    [&head.forward, &head.backward].map(|operators| {
        let each = passes(operators).map(|stream| stream.bytes_read + stream.bytes_written);
        each.sum::<u64>() / (TOKENS * WORDS / tensor)
    })
}

fn passes(operators: &[Operator]) -> impl Iterator<Item = Stream> {
    let of_loss = |op: &&Operator| !op.name.starts_with("final norm") && op.phase != Phase::BackwardWeight;
    operators.iter().filter(of_loss).filter_map(|op| match op.work {
        Work::Stream(stream) => Some(stream),
        _ => None,
    })
}

/// Bytes by logit of the largest tensor that the backward pass waits for, all with as many elements.
fn kept(head: &Block, tensor: u64) -> u64 {
    head.saved().into_iter().map(|id| head.tensor(id).bytes).max().unwrap() / (TOKENS * WORDS / tensor)
}

/// A cast of 2 to 4 bytes; log-softmax reads and writes 4. Backward: zeros, then the gradient of two, a cast.
#[test]
fn operators_each_have_a_result_of_their_own() {
    let alone = head(1, CrossEntropy::Operators);
    assert_eq!(moved(&alone, 1), [6 + 8, 4 + 12 + 6]);
    assert_eq!(kept(&alone, 1), 4);
    // Loss gradient, log-softmax and the gradient of the logits are there at once; what was saved counts as held to the end.
    assert_eq!(alive::in_backward(&alone) / (TOKENS * WORDS), 8);
}

/// `loss_parallel`: largest, shifted, exponentials, their sum, log-softmax; zeros, probabilities, sum, product, cast.
#[test]
fn tensor_ranks_share_the_vocabulary() {
    let shared = head(8, CrossEntropy::Operators);
    assert_eq!(moved(&shared, 8), [6 + 4 + 8 + 8 + 4 + 8, 4 + 8 + 12 + 8 + 6]);
    assert_eq!(kept(&shared, 8), 4);
    let sums = shared.forward.iter().filter(|op| match op.work {
        Work::Collective(sum) => sum.kind == CollectiveKind::AllReduce && sum.bytes == 4 * TOKENS,
        _ => false,
    });
    assert_eq!(sums.count(), 3);
}

/// Megatron-LM works in one copy; a kernel each way reads what is there.
#[test]
fn others_move_and_keep_less() {
    for (how, both, each) in [
        (CrossEntropy::Passes, [6 + 4 + 8 + 8 + 4 + 8, 8 + 6], 4),
        // The cast with the largest value, exponentials with their sum, their quotient; the
        // gradient with its cast.
        (CrossEntropy::Compiled, [6 + 8 + 8, 10], 4),
        (CrossEntropy::Fused, [2, 4], 2),
        // The gradient is there before it is asked for, and scaled then.
        (CrossEntropy::TransformerEngine, [2 + 4, 4], 2),
    ] {
        let head = head(1, how);
        assert_eq!((moved(&head, 1), kept(&head, 1)), (both, each), "{how:?}");
    }
}

/// Megatron-LM's `vocab_parallel_cross_entropy` on an H100 of one rank, 8,192 rows of bf16: milliseconds forward, and of both
/// (github.com/linkedin/Liger-Kernel, `benchmark/data/all_benchmark_data.csv`, megatron-unfused, BSD-2-Clause). Nothing is
/// fitted on them; the largest logits come with their places, which is slower than the pass that stands for it.
#[test]
fn the_passes_of_megatron_take_as_long_as_was_measured() {
    let measured = [(16_384, 2.066, 2.782), (65_536, 7.934, 10.667), (131_072, 15.812, 21.246)];
    let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap();
    let kernels: KernelCatalogue = serde_yaml::from_str(KERNELS).unwrap();
    let gpu = &catalogue.gpus["h100-sxm5-80gb"];
    let parameters = kernels.parameters("h100-sxm5-80gb", &gpu.architecture).unwrap();
    let kernels = KernelModel::new(GpuFacts::of(gpu, 1.0), parameters);
    let milliseconds = |operators: &[Operator]| {
        passes(operators).map(|pass| kernels.stream(&pass).unwrap().alone().as_secs() * 1e3).sum::<f64>()
    };
    for (vocabulary, forward, both) in measured {
        let model = Transformer { vocabulary, ..preset("llama-3-8b") };
        let head = of(&model, 4, Split::NONE, CrossEntropy::Passes);
        let ours = [&head.forward, &head.backward].map(|operators| milliseconds(operators));
        let off = [ours[0] / forward - 1.0, (ours[0] + ours[1]) / both - 1.0];
        assert!(off.iter().all(|off| off.abs() < 0.17), "{vocabulary}: {off:.3?}");
    }
}

/// Metrics of the loss follow the backward pass of the model, a cast and a log-softmax (6 + 8 bytes a logit) each; they read the logits
/// again, which therefore must not be overwritten by their gradient.
#[test]
fn metrics_follow_the_backward_pass_and_find_the_logits() {
    let with = |loss_metrics| {
        let fusion = Fusion { cross_entropy: CrossEntropy::Fused, loss_metrics, ..Fusion::ALL };
        let execution = Execution { fusion, ..flash(1, TOKENS as u32, ranks(1, false)) };
        shard(&preset("llama-3-8b"), &execution).head()
    };
    let [none, two] = [0, 2].map(with);
    assert_eq!((none.afterwards(), two.afterwards()), (0, 6));
    assert_eq!(two.forward, none.forward);
    let (within, after) = two.backward.split_at(two.backward.len() - two.afterwards());
    assert_eq!(within.len(), none.backward.len());
    assert!(after.iter().all(|op| op.phase == Phase::Forward));
    let logits = two.forward.iter().flat_map(|op| &op.writes).find(|&&tensor| after[0].reads == [tensor]);
    assert_eq!(logits.map(|&logits| two.tensor(logits).bytes), Some(2 * TOKENS * WORDS));
    assert_eq!(moved(&two, 1)[1], moved(&none, 1)[1] + 2 * (6 + 8));
    let fills = |head: &Block| {
        let writes = head.backward[0].writes.iter();
        writes.map(|&id| head.tensor(id).bytes).sum::<u64>()
    };
    assert_eq!((fills(&none), fills(&two)), (0, 2 * TOKENS * WORDS));
    let result = |head: &Block| head.input_gradient.map(|id| head.tensor(id).clone());
    assert_eq!(result(&two), result(&none));
}
