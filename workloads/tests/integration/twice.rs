//! One model said in two ways, by its dimensions and as a list of layers, has the same operators, but for those that are known.

use std::collections::BTreeMap;

use workloads::graph::Phase;
use workloads::graph::operator::{Operator, Work};
use workloads::model::layered::{LayeredExecution, LayeredModel, Optimizer};
use workloads::model::transformer::{
    AttentionKernel, Block, Dtype, Execution, Fusion, ShardedTransformer, Split, States, Transformer,
};

use crate::{layered, transformer};

/// Operators of a kind that the two have in different numbers: by dimensions, as a list.
type Differences = BTreeMap<String, [usize; 2]>;

/// A kind of operators, and how many of it there are: by dimensions, as a list.
type Kind = (&'static str, [usize; 2]);

/// All differences of a model: they may only become fewer.
const KNOWN: [(&str, &[Kind]); 2] = [
    (
        "gpt2",
        &[
            ("backward Elementwise", [79, 200]),
            ("backward EmbeddingGradient", [2, 1]),
            ("backward Reduction", [73, 74]),
            ("backward Softmax", [0, 1]),
            ("forward Elementwise", [66, 75]),
            ("forward Reduction", [2, 1]),
            ("forward Softmax", [0, 1]),
        ],
    ),
    (
        "bert-base",
        &[
            ("backward Elementwise", [82, 205]),
            ("backward EmbeddingGradient", [3, 1]),
            ("backward Reduction", [76, 77]),
            ("backward Softmax", [0, 1]),
            ("forward Elementwise", [68, 76]),
            ("forward Embedding", [2, 1]),
            ("forward Reduction", [2, 1]),
            ("forward Softmax", [0, 1]),
        ],
    ),
];

#[test]
fn operators_are_the_same_but_for_those_that_are_known() {
    let models = [
        ("gpt2", 1_024, include_str!("../twice/gpt2.yaml")),
        ("bert-base", 512, include_str!("../twice/bert-base.yaml")),
    ];
    for ((name, sequence, list), (_, known)) in models.into_iter().zip(KNOWN) {
        let mut preset = transformer::presets()[name].model.clone();
        if name == "gpt2" {
            preset.vocabulary = 50_304;
        }
        let known: Differences = known.iter().map(|&(kind, counts)| (kind.to_owned(), counts)).collect();
        assert_eq!(
            differences(&said_by_dimensions(&preset, sequence), &said_as_a_list(list)),
            known,
            "{name}"
        );
    }
}

fn said_by_dimensions(model: &Transformer, sequence: u32) -> Vec<Block> {
    let execution = Execution {
        // As Hugging Face Transformers write layers.
        fusion: Fusion {
            activation: false,
            residual: false,
            bias: true,
            strided_heads: false,
            ..Fusion::ALL
        },
        vocabulary_multiple: 1,
        ..Execution::new(8, sequence, Split::NONE, Dtype::Bf16, AttentionKernel::Flash)
    };
    let sharded = ShardedTransformer::new(model, &execution).unwrap();
    let layers = (0..model.layers).map(|_| sharded.layer());
    [sharded.embedding()].into_iter().chain(layers).chain([sharded.head()]).collect()
}

fn said_as_a_list(list: &str) -> Vec<Block> {
    let execution = LayeredExecution {
        dtype: Dtype::Bf16,
        attention: AttentionKernel::Flash,
        states: States::FullGradients,
        optimizer: Optimizer::Adam,
        ..layered::execution(8)
    };
    let model = LayeredModel::new(&layered::yaml(list), &execution).unwrap();
    model.blocks().iter().map(|part| part.block.clone()).collect()
}

fn differences(by_dimensions: &[Block], as_a_list: &[Block]) -> Differences {
    let [one, other] = [by_dimensions, as_a_list].map(kinds);
    let kinds: Vec<&String> = one.keys().chain(other.keys()).collect();
    let count = |of: &BTreeMap<String, usize>, kind| of.get(kind).copied().unwrap_or(0);
    let counts = kinds.into_iter().map(|kind| (kind.clone(), [count(&one, kind), count(&other, kind)]));
    counts.filter(|(_, [one, other])| one != other).collect()
}

/// Operators by pass and kind.
fn kinds(blocks: &[Block]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for op in blocks.iter().flat_map(|block| block.forward.iter().chain(&block.backward)) {
        *kinds.entry(kind(op)).or_default() += 1;
    }
    kinds
}

fn kind(Operator { phase, work, .. }: &Operator) -> String {
    let pass = if *phase == Phase::Forward { "forward" } else { "backward" };
    let what = match work {
        Work::Gemm(gemm) => format!("product of {} x {} x {}", gemm.m, gemm.n, gemm.k),
        Work::Stream(stream) => format!("{:?}", stream.class),
        Work::Attention(_) => "attention".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{pass} {what}")
}
