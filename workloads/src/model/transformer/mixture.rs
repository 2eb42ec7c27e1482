//! A mixture of experts as the MLP of a layer: a router chooses experts for each token, tokens travel to the ranks that
//! have them and back.
//!
//! The operators are those of Megatron-LM's `MoELayer` with the `alltoall` dispatcher, grouped products of Transformer
//! Engine and its fused permutation (core 0.13 to 0.15). Routing is even: every expert gets `ceil(T k / E)` of the T tokens
//! of each rank, what a capacity factor of 1 with padding enforces and losses for balance aim at.
//!
//! ```text
//! T tokens -> router -> permute -> all-to-all -> (gather over tensor ranks) -> sort by expert
//!   -> grouped product, activation weighted by the router, grouped product
//!   -> unsort -> (reduce-scatter) -> all-to-all -> unpermute: sum over experts
//! ```
//!
//! Tensor ranks share each expert by columns and rows as they do any MLP. Weights of the router see each rank's part of
//! the tokens.

use crate::graph::Phase;

use super::draft::{Draft, Issue};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use super::mlp::DenseMlp;
use super::names::names;
use super::operator::{CollectiveKind, Group, Layout, StreamClass};
use super::residual::add_gradients;
use super::{Experts, Mlp};

const ROUTER: &Names = linear_names!("router");
const SCORES: &str = "router scores";
const CHOSEN: &str = "chosen experts";
const PROBABILITIES: &str = "router probabilities";
const MAP: &str = "routing map";
const ROWS: &str = "rows of permuted tokens";
const WEIGHTS: &str = "weights of permuted tokens";
const WEIGHTS_ARRIVED: &str = "weights of arrived tokens";
const WEIGHTS_GRADIENT: &str = "weights gradient";
const WEIGHTS_RETURNED: &str = "weights gradient, returned";
const DISPATCH: &Travel = travel_names!("tokens");
const COMBINE: &Travel = travel_names!("expert output");
const DISPATCH_BACK: &Travel = travel_names!("tokens gradient");
const COMBINE_BACK: &Travel = travel_names!("expert output gradient");
const ACTIVATION: &str = "expert activation";
const ACTIVATION_GRADIENT: &str = "expert activation gradient";
const UP: &Grouped = grouped_names!("expert up");
const DOWN: &Grouped = grouped_names!("expert down");
const COMBINED: &str = "combined tokens";
const OUTPUT: &str = "mixture output";
const PERMUTED_GRADIENT: &str = "permuted tokens gradient";
const SCORES_GRADIENT: &str = "router scores gradient";
const LOGITS_GRADIENT: &str = "router output gradient";

names! { $
    /// Names of the operators and tensors of tokens on their way to experts, or back.
    Travel by travel_names;
    permute: "permute " _ "",
    permuted: "" _ ", permuted",
    exchange: "exchange " _ "",
    arrived: "" _ ", arrived",
    gather: "gather " _ "",
    gathered: "" _ ", gathered",
    sort: "sort " _ "",
    sorted: "" _ ", sorted",
    reduce: "reduce " _ "",
    scattered: "" _ ", scattered",
}

names! { $
    /// Names of the operators and tensors of grouped products.
    Grouped by grouped_names;
    product: "" _ "",
    output: "" _ " output",
    input_gradient: "" _ " input gradient",
    weight_gradient: "" _ " weight gradient",
    accumulate: "accumulate " _ " weight gradient",
}

/// The forward pass from the output of the norm; returns the name of the result.
pub(super) fn forward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    experts: &Experts,
    input: &'static str,
) -> &'static str {
    let tokens = Tokens::of(on, experts);
    let shared = experts.shared_ffn.map(|ffn| DenseMlp::shared(on, ffn).forward(draft, on, input));
    tokens.route(draft, on, input);
    tokens.permute(draft, on, input);
    let sorted = tokens.dispatch(draft, on, DISPATCH, Some((WEIGHTS, WEIGHTS_ARRIVED)));
    tokens.grouped(draft, on, UP, (tokens.up(), tokens.hidden), sorted);
    tokens.activation(draft, on);
    tokens.grouped(draft, on, DOWN, (tokens.hidden, tokens.ffn), ACTIVATION);
    let returned = tokens.combine(draft, on, COMBINE, DOWN.output);
    let whole = on.bytes(tokens.here * tokens.hidden);
    let traffic = (tokens.bytes_sent(on), whole);
    draft.stream(
        "unpermute tokens",
        StreamClass::Embedding,
        traffic,
        &[returned, ROWS],
        &[(COMBINED, whole)],
    );
    let Some(shared) = shared else { return COMBINED };
    let addends = [COMBINED, shared];
    draft.stream(OUTPUT, StreamClass::Elementwise, (2 * whole, whole), &addends, &[(OUTPUT, whole)]);
    OUTPUT
}

/// The backward pass from the gradient of the result; returns the name of the gradient of the input.
pub(super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    experts: &Experts,
    input: &'static str,
    gradient: &'static str,
) -> &'static str {
    let tokens = Tokens::of(on, experts);
    let whole = on.bytes(tokens.here * tokens.hidden);
    let (embedding, sent) = (StreamClass::Embedding, tokens.bytes_sent(on));
    let writes = [(COMBINE_BACK.permuted, sent)];
    draft.stream(COMBINE_BACK.permute, embedding, (whole, sent), &[gradient, ROWS], &writes);
    let sorted = tokens.dispatch(draft, on, COMBINE_BACK, None);
    tokens.grouped_backward(draft, on, DOWN, (tokens.hidden, tokens.ffn), (ACTIVATION, sorted));
    tokens.activation_gradient(draft, on);
    let saved = tokens.sorted(DISPATCH);
    tokens.grouped_backward(draft, on, UP, (tokens.up(), tokens.hidden), (saved, ACTIVATION_GRADIENT));
    let returned = tokens.combine(draft, on, DISPATCH_BACK, UP.input_gradient);
    let weights = tokens.return_weights(draft);
    let reads = [returned, weights, ROWS];
    let writes = [(PERMUTED_GRADIENT, whole), (SCORES_GRADIENT, on.bytes(tokens.scores()))];
    draft.stream("permute tokens gradient", embedding, (sent, whole), &reads, &writes);
    let through_router = tokens.route_backward(draft, on, input);
    let mut sum = add_gradients(draft, on, [PERMUTED_GRADIENT, through_router], "routed gradient");
    if let Some(ffn) = experts.shared_ffn {
        let shared = DenseMlp::shared(on, ffn).backward(draft, on, input, gradient);
        sum = add_gradients(draft, on, [sum, shared], "mixture input gradient");
    }
    sum
}

/// The tokens of a rank and where they go.
struct Tokens {
    /// Of this rank.
    here: u64,
    hidden: u64,
    /// Experts of the layer, those of this rank, and those that a token goes to.
    experts: u64,
    local: u64,
    top_k: u64,
    /// Columns of an expert on this rank.
    ffn: u64,
    /// Rows that go to each expert from here.
    capacity: u64,
    expert_ranks: u64,
    tensor: u64,
    branches: u64,
}

impl Tokens {
    fn of(on: &ShardedTransformer, experts: &Experts) -> Self {
        let (here, tensor) = (on.residual_tokens(), on.tensor());
        let expert_ranks = u64::from(on.execution().split.expert);
        let (count, top_k) = (u64::from(experts.count), u64::from(experts.top_k));
        Self {
            here,
            hidden: on.hidden(),
            experts: count,
            local: count / expert_ranks,
            top_k,
            ffn: u64::from(experts.ffn) / tensor,
            capacity: (here * top_k).div_ceil(count),
            expert_ranks,
            tensor,
            branches: on.model().mlp_branches(),
        }
    }

    /// Columns of the first product of an expert.
    const fn up(&self) -> u64 {
        self.branches * self.ffn
    }

    const fn scores(&self) -> u64 {
        self.here * self.experts
    }

    /// Rows that leave this rank.
    const fn sent(&self) -> u64 {
        self.capacity * self.experts
    }

    const fn bytes_sent(&self, on: &ShardedTransformer) -> u64 {
        on.bytes(self.sent() * self.hidden)
    }

    /// Rows that arrive for each expert of this rank.
    const fn rows(&self) -> u64 {
        self.capacity * self.expert_ranks * self.tensor
    }

    /// Logits, softmax, the best experts, and the two tables of tokens and experts (`topk_routing_with_score_function`);
    /// the loss for balance reads the scores once more.
    fn route(&self, draft: &mut Draft, on: &ShardedTransformer, input: &'static str) {
        self.router(on).forward(draft, on, input);
        let (scores, single) = (on.bytes(self.scores()), 4 * self.scores());
        let softmax = (StreamClass::Softmax, self.here);
        draft.walk("router softmax", softmax, (scores, scores), &[ROUTER.output], &[(SCORES, scores)]);
        let chosen = self.here * self.top_k * (on.execution().dtype.bytes() + INDEX_BYTES);
        let reduction = (StreamClass::Reduction, self.here);
        draft.walk("choose experts", reduction, (scores, chosen), &[SCORES], &[(CHOSEN, chosen)]);
        let (embedding, none) = (StreamClass::Embedding, self.scores());
        let traffic = (chosen, scores + none);
        let writes = [(PROBABILITIES, scores), (MAP, none)];
        draft.stream("tabulate choices", embedding, traffic, &[CHOSEN], &writes);
        draft.stream("balance loss", StreamClass::Reduction, (single, 0), &[SCORES, MAP], &[]);
    }

    /// From the gradient of the probabilities to that of the input.
    fn route_backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: &'static str,
    ) -> &'static str {
        let scores = on.bytes(self.scores());
        let (softmax, reads) = ((StreamClass::Softmax, self.here), [SCORES, SCORES_GRADIENT]);
        let writes = [(LOGITS_GRADIENT, scores)];
        draft.walk("router softmax gradient", softmax, (2 * scores, scores), &reads, &writes);
        self.router(on).backward(draft, on, input, LOGITS_GRADIENT)
    }

    fn router(&self, on: &ShardedTransformer) -> Linear {
        Linear { names: ROUTER, side: Side::Whole, inputs: on.hidden(), outputs: self.experts, narrow: false }
    }

    /// Copies each token to as many rows as it has experts, ordered by expert (`moe_permute_with_probs`): a map of rows
    /// first.
    fn permute(&self, draft: &mut Draft, on: &ShardedTransformer, input: &'static str) {
        let (whole, sent) = (on.bytes(self.here * self.hidden), self.bytes_sent(on));
        // Where the rows of each token are, and from which expert; a count.
        let rows = self.here * (2 * self.experts + 1) * ROW_BYTES;
        let embedding = StreamClass::Embedding;
        draft.stream("map rows", embedding, (self.scores(), rows), &[MAP], &[(ROWS, rows)]);
        let weights = self.sent() * WEIGHT_BYTES;
        let reads = [input, PROBABILITIES, ROWS];
        let writes = [(DISPATCH.permuted, sent), (WEIGHTS, weights)];
        draft.stream(DISPATCH.permute, embedding, (whole + rows, sent + weights), &reads, &writes);
    }

    /// Rows go to the ranks of their experts, with their weights where there are some; tensor ranks get each other's, and
    /// those of one expert come together. Returns the name of the result.
    fn dispatch(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Travel,
        weights: Option<(&'static str, &'static str)>,
    ) -> &'static str {
        let bytes = self.bytes_sent(on);
        let mut tokens = names.permuted;
        if self.expert_ranks > 1 {
            let work = (CollectiveKind::AllToAll, Group::Expert, bytes);
            draft.collective(names.exchange, work, Issue::Waiting, &[tokens], &[(names.arrived, bytes)]);
            tokens = names.arrived;
            if let Some((from, to)) = weights {
                let bytes = self.sent() * WEIGHT_BYTES;
                let work = (CollectiveKind::AllToAll, Group::Expert, bytes);
                draft.collective("exchange weights", work, Issue::Waiting, &[from], &[(to, bytes)]);
            }
        }
        let bytes = bytes * self.tensor;
        if self.tensor > 1 {
            let work = (CollectiveKind::AllGather, Group::Tensor, bytes);
            draft.collective(names.gather, work, Issue::Waiting, &[tokens], &[(names.gathered, bytes)]);
            tokens = names.gathered;
        }
        if self.local > 1 {
            let writes = [(names.sorted, bytes)];
            draft.stream(names.sort, StreamClass::Embedding, (bytes, bytes), &[tokens], &writes);
        }
        self.sorted(names)
    }

    /// Where [`Self::dispatch`] leaves its result.
    const fn sorted(&self, names: &'static Travel) -> &'static str {
        match (self.local > 1, self.tensor > 1, self.expert_ranks > 1) {
            (true, ..) => names.sorted,
            (_, true, _) => names.gathered,
            (.., true) => names.arrived,
            _ => names.permuted,
        }
    }

    /// The way back: the reverse of [`Self::dispatch`], with sums over tensor ranks. Returns the name of the result.
    fn combine(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Travel,
        rows: &'static str,
    ) -> &'static str {
        let bytes = self.bytes_sent(on);
        let (mut tokens, gathered) = (rows, bytes * self.tensor);
        if self.local > 1 {
            let writes = [(names.sorted, gathered)];
            draft.stream(names.sort, StreamClass::Embedding, (gathered, gathered), &[tokens], &writes);
            tokens = names.sorted;
        }
        if self.tensor > 1 {
            let work = (CollectiveKind::ReduceScatter, Group::Tensor, gathered);
            draft.collective(names.reduce, work, Issue::Waiting, &[tokens], &[(names.scattered, bytes)]);
            tokens = names.scattered;
        }
        if self.expert_ranks > 1 {
            let work = (CollectiveKind::AllToAll, Group::Expert, bytes);
            draft.collective(names.exchange, work, Issue::Waiting, &[tokens], &[(names.arrived, bytes)]);
            tokens = names.arrived;
        }
        tokens
    }

    /// Gradients of the weights go back to where the tokens are from. Returns the name of the result.
    fn return_weights(&self, draft: &mut Draft) -> &'static str {
        if self.expert_ranks == 1 {
            return WEIGHTS_GRADIENT;
        }
        let bytes = self.sent() * WEIGHT_BYTES;
        let work = (CollectiveKind::AllToAll, Group::Expert, bytes);
        let writes = [(WEIGHTS_RETURNED, bytes)];
        draft.collective("exchange weights gradient", work, Issue::Waiting, &[WEIGHTS_GRADIENT], &writes);
        WEIGHTS_RETURNED
    }

    /// The weights that the activation multiplies with.
    const fn weights(&self) -> &'static str {
        if self.expert_ranks > 1 { WEIGHTS_ARRIVED } else { WEIGHTS }
    }

    /// A product of every expert, from `inputs` to `outputs` columns.
    fn grouped(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Grouped,
        (outputs, inputs): (u64, u64),
        input: &'static str,
    ) {
        let shape = (self.local, self.rows(), outputs, inputs);
        let layout = (on.execution().dtype, Layout::Forward, false);
        let writes = [(names.output, on.bytes(self.local * self.rows() * outputs))];
        draft.grouped(names.product, shape, layout, &[input], &writes);
    }

    fn grouped_backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Grouped,
        (outputs, inputs): (u64, u64),
        (input, gradient): (&'static str, &'static str),
    ) {
        let dtype = on.execution().dtype;
        let rows = self.rows();
        let layout = (dtype, Layout::InputGradient, false);
        let writes = [(names.input_gradient, on.bytes(self.local * rows * inputs))];
        draft.grouped(
            names.input_gradient,
            (self.local, rows, inputs, outputs),
            layout,
            &[gradient],
            &writes,
        );
        draft.within(Phase::BackwardWeight, |draft| {
            let shape = (self.local, outputs, inputs, rows);
            let layout = (dtype, Layout::WeightGradient, on.products_accumulate());
            let weights = self.local * inputs * outputs;
            let writes = [(names.weight_gradient, on.bytes(weights))];
            let writes = if on.products_accumulate() { &[][..] } else { &writes[..] };
            draft.grouped(names.weight_gradient, shape, layout, &[gradient, input], writes);
            if !on.products_accumulate() {
                draft.accumulate(names.accumulate, on, names.weight_gradient, weights);
            }
        });
    }

    /// The activation times the weight of each row, in one kernel (`weighted_bias_swiglu_impl`).
    fn activation(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let rows = self.local * self.rows();
        let (up, down) = (on.bytes(rows * self.up()), on.bytes(rows * self.ffn));
        let reads = [UP.output, self.weights()];
        let name = match on.model().mlp {
            Mlp::Gelu => "weighted gelu",
            Mlp::Swiglu => "weighted swiglu",
        };
        draft.stream(name, StreamClass::Elementwise, (up, down), &reads, &[(ACTIVATION, down)]);
    }

    fn activation_gradient(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let rows = self.local * self.rows();
        let (up, down) = (on.bytes(rows * self.up()), on.bytes(rows * self.ffn));
        let reads = [UP.output, self.weights(), DOWN.input_gradient];
        let writes = [(ACTIVATION_GRADIENT, up), (WEIGHTS_GRADIENT, rows * WEIGHT_BYTES)];
        draft.stream(
            "weighted activation gradient",
            StreamClass::Elementwise,
            (up + down, up),
            &reads,
            &writes,
        );
    }
}

/// Bytes of the number of an expert, of a row, and of a weight on its way.
const INDEX_BYTES: u64 = 8;
const ROW_BYTES: u64 = 4;
const WEIGHT_BYTES: u64 = 4;
