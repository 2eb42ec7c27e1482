//! Groups of a transformer's operators, to the byte: what hand-written kernels move, as groups that
//! a policy finds.

use workloads::graph::cut::Cut;
use workloads::model::transformer::{
    AttentionKernel, Block, CrossEntropy, Dtype, Execution, Fusion as Written, Operator, SoftmaxFusion,
    Transformer,
};
use workloads::passes::fusion::{Fusion, Policy};

use super::{preset, ranks, shard};
use crate::fusion::{across, by_number, model};

const TOKENS: u64 = 4 * 1_024;
const HIDDEN: u64 = 1_280;

/// GPT-2 large in bfloat16, an operator for each line of Hugging Face's code.
fn execution(attention: AttentionKernel) -> Execution {
    let fusion = Written {
        softmax: SoftmaxFusion::Off,
        softmax_in_single: false,
        activation: false,
        residual: false,
        bias: false,
        gelu: true,
        cross_entropy: CrossEntropy::Operators,
        ..Written::ALL
    };
    Execution { fusion, ..Execution::new(4, 1_024, ranks(1, false), Dtype::Bf16, attention) }
}

fn layer(attention: AttentionKernel, dropout: bool) -> Block {
    let model = Transformer { dropout, ..preset("gpt2-large") };
    shard(&model, &execution(attention)).layer()
}

/// A block without a backward pass, for which nothing is kept.
fn inference(block: Block) -> Block {
    Block { backward: Vec::new(), ..block }
}

fn by(policy: Policy, block: &Block) -> Block {
    Fusion { policy, ..Fusion::default() }.pass(Some(by_number())).fused(block)
}

/// The kernel of a name.
fn kernel<'a>(list: &'a [Operator], name: &str) -> &'a Operator {
    let found = list.iter().find(|op| op.name == name);
    found.unwrap_or_else(|| panic!("{name}: {:?}", list.iter().map(|op| &op.name).collect::<Vec<_>>()))
}

fn moved(list: &[Operator], names: &[&str]) -> u64 {
    names.iter().map(|name| kernel(list, name).work.bytes()).sum()
}

/// Scores that nobody keeps never leave an SM: queries, keys and values are read and the context is
/// written, 8 b s h bytes, as flash attention does, by one kernel instead of six. In training the
/// backward pass reads the probabilities, which are written then.
#[test]
fn attention_without_scores_in_memory_is_a_group() {
    let plain = inference(layer(AttentionKernel::Materialised, false));
    let fused = by(Policy::Searched, &plain);
    let attention = kernel(&fused.forward, "query key product to value product");
    assert_eq!(attention.members, 6);
    assert_eq!(attention.work.bytes(), 8 * TOKENS * HIDDEN);
    let products = 2.0 * 2.0 * (TOKENS * 1_024 * HIDDEN) as f64;
    assert_eq!(attention.work.flops(), products);
    let scores = 4 * 20 * 1_024 * 1_024;
    // Each product touches the scores once, each of four passes twice.
    let apart = ["query key product", "scale", "mask", "lower what is masked", "softmax", "value product"];
    assert_eq!(moved(&plain.forward, &apart), 2 * scores * (2 + 4 * 2) + 8 * TOKENS * HIDDEN);

    let trained = by(Policy::Searched, &layer(AttentionKernel::Materialised, false));
    let whole = |op: &&Operator| op.name.contains("query key product") && op.name.contains("value product");
    assert!(!trained.forward.iter().any(|op| whole(&op)));
}

/// Bias, dropout and addition: 4n + 5n + 6n bytes as three kernels, and 7n as one: branch and
/// residual are read, the sum and a mask of a byte are written.
#[test]
fn bias_dropout_and_addition_are_a_group_of_seven_bytes() {
    let n = TOKENS * HIDDEN;
    let plain = layer(AttentionKernel::Flash, true);
    let three = ["mlp bias", "mlp dropout", "mlp residual addition"];
    assert_eq!(moved(&plain.forward, &three), (4 + 5 + 6) * n);
    let fused = by(Policy::Inductor, &plain);
    let group = kernel(&fused.forward, "mlp bias to mlp residual addition");
    assert_eq!((group.members, group.work.bytes()), (3, 7 * n));
}

/// The sum of a branch and its norm: 6n and 4n bytes, with 8 for the statistics of a row, and 8n
/// as one kernel.
#[test]
fn an_addition_and_its_norm_read_the_sum_once() {
    let n = TOKENS * HIDDEN;
    let plain = layer(AttentionKernel::Flash, false);
    let [sum, norm] = ["attention residual addition", "mlp norm"];
    assert_eq!(moved(&plain.forward, &[sum]), 6 * n);
    assert_eq!(moved(&plain.forward, &[norm]), 4 * n + 8 * TOKENS);
    let fused = by(Policy::Inductor, &plain);
    let group = fused.forward.iter().find(|op| op.name.ends_with("to mlp norm")).expect("a group");
    // The bias of the branch is added on the way, at no bytes.
    assert_eq!(group.work.bytes(), 8 * n + 8 * TOKENS);
}

/// The sum that ends a layer and the norm that begins the next, or the head: 10n bytes and 8 for a
/// row as two kernels, 8n as one. With embeddings, whose sum is normalised like those of layers,
/// that is a kernel less for each layer and the head, unless ranks gather parameters layer by layer.
#[test]
fn a_norm_joins_the_sum_of_the_layer_before() {
    let shard = shard(&preset("gpt2-large"), &execution(AttentionKernel::Flash));
    let blocks = [vec![shard.embedding()], vec![shard.layer(); 36], vec![shard.head()]].concat();
    let alone: Vec<Block> = blocks.iter().map(|block| by(Policy::Inductor, block)).collect();
    let forward = |blocks: &[Block]| -> Vec<Operator> {
        blocks.iter().flat_map(|block| block.forward.clone()).collect()
    };
    let (apart, together) = (forward(&alone), forward(&across(&model(&blocks), Policy::Inductor)));
    assert_eq!(apart.len() - together.len(), 37);
    let bytes = |list: &[Operator]| list.iter().map(|op| op.work.bytes()).sum::<u64>();
    assert_eq!(bytes(&apart) - bytes(&together), 37 * 2 * TOKENS * HIDDEN);
    let gathered = Cut { gathered: true, ..model(&blocks) };
    assert_eq!(forward(&across(&gathered, Policy::Inductor)), apart);
}

/// Bias and GeLU: 8n bytes as two kernels, 4n as one, and none of their own behind the product.
#[test]
fn bias_and_gelu_are_a_group_of_four_bytes() {
    let n = 4 * TOKENS * HIDDEN;
    let plain = inference(layer(AttentionKernel::Flash, false));
    let [bias, gelu] = ["mlp up bias", "mlp gelu"];
    assert_eq!(moved(&plain.forward, &[bias, gelu]), 8 * n);
    let group = format!("{bias} to {gelu}");
    assert_eq!(moved(&by(Policy::Inductor, &plain).forward, &[&group]), 4 * n);
}

/// A cast of the logits to fp32 and a log-softmax: 2 + 4 and 4 + 4 bytes a logit, and 2 + 4 as one
/// kernel, as the backward pass reads the log-softmax. A kernel that keeps three numbers a token
/// instead, and exponentiates again, is written by hand (`CrossEntropy::Fused`): 2 forward.
#[test]
fn a_cast_and_a_log_softmax_are_a_group_of_six_bytes() {
    let execution = execution(AttentionKernel::Flash);
    let head = shard(&preset("gpt2-large"), &execution).head();
    // 50,257 words, padded to a multiple of 128.
    let logits = TOKENS * 50_304;
    assert_eq!(moved(&head.forward, &["cast logits", "log-softmax"]), 14 * logits);
    let fused = by(Policy::Inductor, &head);
    let group = kernel(&fused.forward, "cast logits to log-softmax");
    assert_eq!((group.members, group.work.bytes()), (2, 6 * logits));
}

/// Gradients, bytes to the digit: GeLU 6n, dropout 5n, a norm 6n with 4n for
/// its weights, a bias 2n, gradients that meet 6n. As groups, the norm's with the sum behind it and
/// the dropout behind that read two gradients, the norm's input and a mask, and write two: 11n
/// instead of 17n; those of scale, mask, softmax and dropout 7 bytes a score instead of 25.
#[test]
fn gradients_are_groups_of_as_many_bytes() {
    let n = TOKENS * HIDDEN;
    // Two numbers a row.
    let statistics = 8 * TOKENS;
    let plain = layer(AttentionKernel::Materialised, true);
    let bytes = |name: &str| kernel(&plain.backward, name).work.bytes();
    assert_eq!(bytes("mlp gelu gradient"), 6 * 4 * n);
    assert_eq!(bytes("mlp up bias gradient"), 2 * 4 * n);
    assert_eq!(bytes("mlp dropout gradient"), 5 * n);
    assert_eq!(bytes("mlp bias gradient"), 2 * n);
    let [norm, sum, dropout] = ["mlp norm input gradient", "residual gradient", "attention dropout gradient"];
    assert_eq!(bytes("mlp norm weight gradient"), 4 * n + statistics);
    assert_eq!([norm, sum, dropout].map(bytes), [6 * n + statistics, 6 * n, 5 * n]);
    let scores = 4 * 20 * 1_024 * 1_024;
    let passes = [
        "softmax dropout gradient",
        "softmax output times gradient",
        "softmax gradient",
        "mask gradient",
        "scale gradient",
    ];
    assert_eq!(passes.map(bytes), [5, 6, 6, 4, 4].map(|each| each * scores));

    let fused = by(Policy::Inductor, &plain);
    let of_norm = kernel(&fused.backward, "mlp norm input gradient to attention dropout gradient");
    assert_eq!((of_norm.members, of_norm.work.bytes()), (3, 11 * n + statistics));
    let of_scores = kernel(&fused.backward, "softmax dropout gradient to scale gradient");
    assert_eq!((of_scores.members, of_scores.work.bytes()), (5, 7 * scores));
}
