//! The kernels that a framework is measured by are those that training steps consist of.

use calibration::measure::{Kernel, Operation};
use workloads::model::transformer::{
    AttentionKernel, CrossEntropy, Dtype, Execution, Fusion, Operator, ShardedTransformer, Split, Stream,
    Transformer, Work,
};

const TOKENS: u64 = 512;
const HIDDEN: u64 = 1_024;
const WORDS: u64 = 51_200;

fn passes(operators: &[Operator]) -> impl Iterator<Item = (&str, Stream)> {
    operators.iter().filter_map(|op| match op.work {
        Work::Stream(stream) => Some((&*op.name, stream)),
        _ => None,
    })
}

#[test]
fn kernels_that_are_measured_are_those_of_steps() {
    let model = Transformer::gpt(2, HIDDEN as u32, 16, WORDS as u32, TOKENS as u32);
    let mut execution = Execution::new(1, TOKENS as u32, Split::NONE, Dtype::Bf16, AttentionKernel::Flash);
    execution.fusion = Fusion { cross_entropy: CrossEntropy::Operators, ..Fusion::ALL };
    let on = ShardedTransformer::new(&model, &execution).expect("a model that can be executed");
    let (layer, head) = (on.layer(), on.head());
    let lists = [&layer.forward, &layer.backward, &head.forward, &head.backward];
    let passes: Vec<(&str, Stream)> = lists.into_iter().flat_map(|list| passes(list)).collect();
    let measured = |operation, width, dtype| Kernel { operation, rows: TOKENS, width, dtype }.stream();
    for (name, kernel) in [
        ("attention norm", measured(Operation::LayerNorm, HIDDEN, Dtype::Bf16)),
        ("attention norm input gradient", measured(Operation::LayerNormGradient, HIDDEN, Dtype::Bf16)),
        ("attention norm weight gradient", measured(Operation::LayerNormWeightGradient, HIDDEN, Dtype::Bf16)),
        ("qkv bias gradient", measured(Operation::BiasGradient, 3 * HIDDEN, Dtype::Bf16)),
        ("log-softmax", measured(Operation::LogSoftmax, WORDS, Dtype::Fp32)),
        ("logits gradient in fp32", measured(Operation::LogSoftmaxGradient, WORDS, Dtype::Fp32)),
    ] {
        let of_step = passes.iter().find(|(known, _)| *known == name);
        assert_eq!(of_step.map(|(_, stream)| *stream), Some(kernel), "{name}");
    }
}
