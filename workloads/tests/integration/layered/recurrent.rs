//! Recurrent layers: what cuDNN's call runs, and what it keeps.

use workloads::graph::Phase;
use workloads::graph::block::Block;
use workloads::model::layered::{LayeredExecution, LayeredModel, Misfit};
use workloads::model::transformer::{Layout, Operator, Step, Work};
use workloads::passes::recompute::{Mode, recomputed};

use super::{execution, yaml};

/// Samples of a batch.
const BATCH: u64 = 5;
/// Tokens of a sample.
const TOKENS: u64 = 3;
/// Width of a token.
const INPUTS: u64 = 7;
/// Width of the state.
const WIDTH: u64 = 11;

fn layer(cell: &str, more: &str) -> Result<LayeredModel, Misfit> {
    let on = LayeredExecution { micro_batch: BATCH as u32, ..execution(1) };
    let list = format!(
        "input: {{ tokens: {TOKENS}, width: {INPUTS} }}
list: [{{ recurrent: {{ cell: {cell}, width: {WIDTH}{more} }} }}, first_token, cross_entropy]"
    );
    LayeredModel::new(&yaml(&list), &on)
}

fn block(cell: &str) -> Block {
    layer(cell, "").unwrap().blocks()[0].block.clone()
}

/// Products of operators: columns by rows by contraction, in order.
fn products(operators: &[Operator], layout: Layout) -> Vec<[u64; 3]> {
    let of = |op: &Operator| match op.work {
        Work::Gemm(gemm) if gemm.layout == layout => Some([gemm.m, gemm.n, gemm.k]),
        _ => None,
    };
    operators.iter().filter_map(of).collect()
}

/// All inputs are multiplied at once, states one by one, and gradients of weights are products over all tokens.
#[test]
fn states_are_multiplied_one_after_the_other() {
    for (cell, gates) in [("simple", 1), ("gru", 3), ("lstm", 4)] {
        let (block, outputs) = (block(cell), gates * WIDTH);
        let of_states = [[BATCH, outputs, WIDTH]; TOKENS as usize];
        let forward: Vec<_> = [[BATCH * TOKENS, outputs, INPUTS]].into_iter().chain(of_states).collect();
        assert_eq!(products(&block.forward, Layout::Forward), forward, "{cell}");
        let of_states = [[BATCH, WIDTH, outputs]; TOKENS as usize];
        let back: Vec<_> = of_states.into_iter().chain([[BATCH * TOKENS, INPUTS, outputs]]).collect();
        assert_eq!(products(&block.backward, Layout::InputGradient), back, "{cell}");
        assert_eq!(
            products(&block.backward, Layout::WeightGradient),
            [[outputs, WIDTH, BATCH * TOKENS], [outputs, INPUTS, BATCH * TOKENS]],
            "{cell}"
        );
        let parameters = outputs * (INPUTS + WIDTH + 2);
        assert_eq!(layer(cell, "").unwrap().blocks()[0].parameters, parameters, "{cell}");
        assert_eq!(layer(cell, ", bias: false").unwrap().blocks()[0].parameters, outputs * (INPUTS + WIDTH));
    }
}

/// LSTM keeps four gates and its second state, GRU three and a part of its candidate; all their inputs and outputs.
#[test]
fn gates_are_kept_of_every_token() {
    for (cell, kept) in [("simple", 1), ("gru", 4), ("lstm", 5)] {
        let of_layer = BATCH * TOKENS * (INPUTS + (1 + kept) * WIDTH);
        // The loss keeps its logarithms.
        assert_eq!(block(cell).saved_bytes(), 4 * (of_layer + BATCH * WIDTH), "{cell}");
    }
}

/// The host calls cuDNN once each way; sums over micro-batches are PyTorch's.
#[test]
fn a_library_is_called_once_each_way() {
    let block = block("lstm");
    let called = |operators: &[Operator]| operators.iter().filter(|op| op.members > 0).count();
    // The first token is a view, and its gradient one operator with those of the others.
    let of_layer = |op: &&Operator| op.name.starts_with("recurrent");
    let layer = |operators: &[Operator]| operators.iter().filter(of_layer).cloned().collect::<Vec<_>>();
    assert_eq!(called(&layer(&block.forward)), 1);
    assert_eq!(called(&layer(&block.backward)), 1);
    let sum = block.backward.iter().find(|op| op.name.starts_with("accumulate")).unwrap();
    assert_eq!(sum.members, 4);
}

/// The next layer takes the states, whoever filled anything last.
#[test]
fn states_are_what_a_layer_makes() {
    let of = |id: Option<workloads::graph::operator::TensorId>, block: &Block| {
        let tensor = block.tensor(id.unwrap());
        (tensor.name.to_string(), tensor.bytes)
    };
    let list = format!(
        "input: {{ tokens: {TOKENS}, width: {INPUTS} }}
list: [{{ recurrent: {{ cell: lstm, width: {WIDTH} }} }}, {{ recurrent: {{ cell: gru, width: {WIDTH} }} }}, cross_entropy]"
    );
    let on = LayeredExecution { micro_batch: BATCH as u32, ..execution(1) };
    let model = LayeredModel::new(&yaml(&list), &on).unwrap();
    let [first, second] = model.blocks() else { panic!("two layers") };
    let states = 4 * BATCH * TOKENS * WIDTH;
    assert_eq!(of(first.block.output, &first.block), ("recurrent 1 output".to_owned(), states));
    assert_eq!(second.input_bytes, states);
    let gradient = of(second.block.input_gradient, &second.block);
    assert_eq!(gradient, ("recurrent 1 input gradient".to_owned(), states));
}

/// Recomputation runs all of the call again.
#[test]
fn all_tokens_are_recomputed() {
    let block = block("gru");
    let again = recomputed(&block, Mode::Full);
    let of_call = |op: &&Operator| op.phase == Phase::Recompute && op.name.starts_with("recurrent");
    assert_eq!(again.backward.iter().filter(of_call).count() as u64, 1 + 2 * TOKENS);
}

/// Inference computes the same products, and writes no gates.
#[test]
fn inference_writes_less() {
    let on = LayeredExecution { micro_batch: BATCH as u32, step: Step::Forward, ..execution(1) };
    let list = format!(
        "input: {{ tokens: {TOKENS}, width: {INPUTS} }}\nlist: [{{ recurrent: {{ cell: lstm, width: {WIDTH} }} }}]"
    );
    let model = LayeredModel::new(&yaml(&list), &on).unwrap();
    let (inference, training) = (&model.blocks()[0].block, block("lstm"));
    assert_eq!(products(&inference.forward, Layout::Forward), products(&training.forward, Layout::Forward));
    let of_layer = |op: &&Operator| op.name.starts_with("recurrent");
    let bytes = |block: &Block| block.forward.iter().filter(of_layer).map(|op| op.work.bytes()).sum::<u64>();
    assert_eq!(bytes(&training) - bytes(inference), TOKENS * 4 * BATCH * 4 * WIDTH);
}

#[test]
fn what_does_not_fit_says_why() {
    let problem = |input: &str, layer: &str| {
        let list = format!("input: {{ {input} }}\nlist: [{layer}, cross_entropy]");
        LayeredModel::new(&yaml(&list), &execution(1)).unwrap_err().problem
    };
    let recurrent = "{ recurrent: { cell: gru, width: 8, skip_input: true } }";
    assert_eq!(
        problem("tokens: 4, width: 7", recurrent),
        "`skip_input` adds inputs to gates, so tokens must be as wide as the state: 7 is not 8"
    );
    assert_eq!(
        problem("tokens: 4", recurrent),
        "`recurrent` takes tokens with a width, not 4 entries of a vocabulary"
    );
    assert_eq!(
        problem("tokens: 2049, width: 8", recurrent),
        "`recurrent` takes at most 2048 tokens, not 2049"
    );
}
