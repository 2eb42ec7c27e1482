//! A mixture of experts as the MLP of a layer: a router chooses experts for each token, tokens travel to the ranks that
//! have them and back.
//!
//! The operators are those of Megatron-LM's `MoELayer` with the `alltoall` dispatcher, grouped products of Transformer
//! Engine and its fused permutation (core 0.13 to 0.15). How many rows go to which expert says its
//! [routing](super::Routing), the same on every rank. Where experts are not chosen alike, the list is that of the rank whose
//! experts get most, which the others wait for.
//!
//! ```text
//! T tokens -> router -> permute -> all-to-all -> (gather over tensor ranks) -> sort by expert
//!   -> grouped product, activation weighted by the router, grouped product
//!   -> unsort -> (reduce-scatter) -> all-to-all -> unpermute: sum over experts
//! ```
//!
//! Tensor ranks share each expert by columns and rows as they do any MLP, and see each other's rows and their weights.

use crate::graph::Phase;

use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use super::mlp::DenseMlp;
use super::names::names;
use super::residual::add_gradients;
use super::router::{MAP, PROBABILITIES, Router, SCORES_GRADIENT};
use super::{Experts, Mlp};
use crate::graph::operator::{CollectiveKind, Group, Layout, Module, StreamClass};

const ROWS: Name = Name::of("rows of permuted tokens");
const WEIGHTS: Name = Name::of("weights of permuted tokens");
const WEIGHTS_ARRIVED: Name = Name::of("weights of arrived tokens");
const WEIGHTS_GATHERED: Name = Name::of("weights of gathered tokens");
const WEIGHTS_GRADIENT: Name = Name::of("weights gradient");
const WEIGHTS_SCATTERED: Name = Name::of("weights gradient, scattered");
const WEIGHTS_RETURNED: Name = Name::of("weights gradient, returned");
const DISPATCH: &Travel = travel_names!("tokens");
const COMBINE: &Travel = travel_names!("expert output");
const DISPATCH_BACK: &Travel = travel_names!("tokens gradient");
const COMBINE_BACK: &Travel = travel_names!("expert output gradient");
const ACTIVATION: Name = Name::of("expert activation");
const ACTIVATION_GRADIENT: Name = Name::of("expert activation gradient");
const UP: &Grouped = grouped_names!("expert up");
const DOWN: &Grouped = grouped_names!("expert down");
const COMBINED: Name = Name::of("combined tokens");
const OUTPUT: Name = Name::of("mixture output");
const ROUTED_GRADIENT: Name = Name::of("routed gradient");
const INPUT_GRADIENT: Name = Name::of("mixture input gradient");
const PERMUTED_GRADIENT: Name = Name::of("permuted tokens gradient");

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
pub(super) fn forward(draft: &mut Draft, on: &ShardedTransformer, experts: &Experts, input: Name) -> Name {
    let tokens = Tokens::of(on, experts);
    let shared = experts.shared_ffn.map(|ffn| {
        let shared = DenseMlp::shared(on, ffn);
        draft.module(Module::SharedExperts, |draft| shared.forward(draft, on, input))
    });
    tokens.router.forward(draft, on, input);
    tokens.permute(draft, on, input);
    let sorted = tokens.dispatch(draft, on, DISPATCH, true);
    tokens.grouped(draft, on, UP, (tokens.up(), tokens.hidden), sorted);
    draft.module(Module::ExpertActivation, |draft| tokens.activation(draft, on));
    draft.module(Module::ExpertDown, |draft| {
        tokens.grouped(draft, on, DOWN, (tokens.hidden, tokens.ffn), ACTIVATION);
    });
    let returned = tokens.combine(draft, on, COMBINE, DOWN.output);
    let whole = on.bytes(tokens.here * tokens.hidden);
    let traffic = (tokens.bytes_sent(on), whole);
    draft.stream(
        "unpermute tokens",
        StreamClass::Permutation,
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
    input: Name,
    gradient: Name,
) -> Name {
    let tokens = Tokens::of(on, experts);
    let whole = on.bytes(tokens.here * tokens.hidden);
    let (permutation, sent) = (StreamClass::Permutation, tokens.bytes_sent(on));
    let writes = [(COMBINE_BACK.permuted, sent)];
    draft.stream(COMBINE_BACK.permute, permutation, (whole, sent), &[gradient, ROWS], &writes);
    let sorted = tokens.dispatch(draft, on, COMBINE_BACK, false);
    draft.module(Module::ExpertDown, |draft| {
        tokens.grouped_backward(draft, on, DOWN, (tokens.hidden, tokens.ffn), (ACTIVATION, sorted));
    });
    draft.module(Module::ExpertActivation, |draft| tokens.activation_gradient(draft, on));
    let saved = tokens.sorted(DISPATCH);
    tokens.grouped_backward(draft, on, UP, (tokens.up(), tokens.hidden), (saved, ACTIVATION_GRADIENT));
    let returned = tokens.combine(draft, on, DISPATCH_BACK, UP.input_gradient);
    let weights = tokens.return_weights(draft);
    let reads = [returned, weights, ROWS];
    let writes = [(PERMUTED_GRADIENT, whole), (SCORES_GRADIENT, on.bytes(tokens.router.table()))];
    draft.stream("permute tokens gradient", permutation, (sent, whole), &reads, &writes);
    let through_router = tokens.router.backward(draft, on, input);
    let mut sum = add_gradients(draft, on, [PERMUTED_GRADIENT, through_router], ROUTED_GRADIENT);
    if let Some(ffn) = experts.shared_ffn {
        let shared = DenseMlp::shared(on, ffn);
        let shared = draft.module(Module::SharedExperts, |draft| shared.backward(draft, on, input, gradient));
        sum = add_gradients(draft, on, [sum, shared], INPUT_GRADIENT);
    }
    sum
}

/// The tokens of a rank and where they go.
struct Tokens<'a> {
    router: Router<'a>,
    /// Of this rank.
    here: u64,
    hidden: u64,
    /// Experts of the layer, and those of this rank.
    experts: u64,
    local: u64,
    /// Columns of an expert on this rank.
    ffn: u64,
    /// Rows that leave this rank, and those that arrive.
    sent: u64,
    arrived: u64,
    expert_ranks: u64,
    tensor: u64,
    branches: u64,
}

impl<'a> Tokens<'a> {
    fn of(on: &ShardedTransformer, experts: &'a Experts) -> Self {
        let (here, tensor) = (on.residual_tokens(), on.tensor());
        let expert_ranks = u64::from(on.execution().split.expert);
        let (count, rows) = (u64::from(experts.count), experts.deal(here).rows);
        let local = count / expert_ranks;
        // Every rank sends as many to the same experts.
        let of_ranks = rows.chunks(local as usize).map(|rows| rows.iter().sum::<u64>());
        Self {
            router: Router::of(on, experts),
            here,
            hidden: on.hidden(),
            experts: count,
            local,
            ffn: u64::from(experts.ffn) / tensor,
            sent: rows.iter().sum(),
            arrived: of_ranks.max().unwrap_or(0) * expert_ranks,
            expert_ranks,
            tensor,
            branches: on.model().mlp_branches(),
        }
    }

    /// Columns of the first product of an expert.
    const fn up(&self) -> u64 {
        self.branches * self.ffn
    }

    const fn bytes_sent(&self, on: &ShardedTransformer) -> u64 {
        on.bytes(self.sent * self.hidden)
    }

    const fn bytes_arrived(&self, on: &ShardedTransformer) -> u64 {
        on.bytes(self.arrived * self.hidden)
    }

    /// Rows for all experts of this rank, of all tensor ranks.
    const fn rows(&self) -> u64 {
        self.arrived * self.tensor
    }

    /// Rows for each of them; where they differ, the mean.
    const fn rows_each(&self) -> u64 {
        self.rows().div_ceil(self.local)
    }

    /// Copies each token to as many rows as it has experts, ordered by expert (`moe_permute_with_probs`): a map of rows
    /// first.
    fn permute(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        let (whole, sent) = (on.bytes(self.here * self.hidden), self.bytes_sent(on));
        // Where the rows of each token are, and from which expert; a count.
        let rows = self.here * (2 * self.experts + 1) * ROW_BYTES;
        let permutation = StreamClass::Permutation;
        let table = self.router.table();
        draft.stream("map rows", permutation, (table, rows), &[MAP], &[(ROWS, rows)]);
        let weights = self.sent * WEIGHT_BYTES;
        let reads = [input, PROBABILITIES, ROWS];
        let writes = [(DISPATCH.permuted, sent), (WEIGHTS, weights)];
        draft.stream(DISPATCH.permute, permutation, (whole + rows, sent + weights), &reads, &writes);
    }

    /// Rows go to the ranks of their experts, `weighted` with their weights; tensor ranks get each other's, and those of one
    /// expert come together. Returns the name of the result.
    fn dispatch(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Travel,
        weighted: bool,
    ) -> Name {
        let bytes = self.bytes_arrived(on);
        let mut tokens = names.permuted;
        if self.expert_ranks > 1 {
            let work = (CollectiveKind::AllToAll, Group::Expert, bytes);
            draft.collective(names.exchange, work, Issue::Waiting, &[tokens], &[(names.arrived, bytes)]);
            tokens = names.arrived;
            if weighted {
                let bytes = self.arrived * WEIGHT_BYTES;
                let (work, writes) =
                    ((CollectiveKind::AllToAll, Group::Expert, bytes), [(WEIGHTS_ARRIVED, bytes)]);
                draft.collective("exchange weights", work, Issue::Waiting, &[WEIGHTS], &writes);
            }
        }
        let bytes = bytes * self.tensor;
        if self.tensor > 1 {
            let work = (CollectiveKind::AllGather, Group::Tensor, bytes);
            draft.collective(names.gather, work, Issue::Waiting, &[tokens], &[(names.gathered, bytes)]);
            tokens = names.gathered;
            if weighted {
                let bytes = self.rows() * WEIGHT_BYTES;
                let work = (CollectiveKind::AllGather, Group::Tensor, bytes);
                let from = if self.expert_ranks > 1 { WEIGHTS_ARRIVED } else { WEIGHTS };
                draft.collective(
                    "gather weights",
                    work,
                    Issue::Waiting,
                    &[from],
                    &[(WEIGHTS_GATHERED, bytes)],
                );
            }
        }
        if self.local > 1 {
            let writes = [(names.sorted, bytes)];
            draft.stream(names.sort, StreamClass::Permutation, (bytes, bytes), &[tokens], &writes);
        }
        self.sorted(names)
    }

    /// Where [`Self::dispatch`] leaves its result.
    const fn sorted(&self, names: &'static Travel) -> Name {
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
        rows: Name,
    ) -> Name {
        let bytes = self.bytes_arrived(on);
        let (mut tokens, gathered) = (rows, bytes * self.tensor);
        if self.local > 1 {
            let writes = [(names.sorted, gathered)];
            draft.stream(names.sort, StreamClass::Permutation, (gathered, gathered), &[tokens], &writes);
            tokens = names.sorted;
        }
        if self.tensor > 1 {
            let work = (CollectiveKind::ReduceScatter, Group::Tensor, gathered);
            draft.collective(names.reduce, work, Issue::Waiting, &[tokens], &[(names.scattered, bytes)]);
            tokens = names.scattered;
        }
        if self.expert_ranks > 1 {
            let (work, sent) = ((CollectiveKind::AllToAll, Group::Expert, bytes), self.bytes_sent(on));
            draft.collective(names.exchange, work, Issue::Waiting, &[tokens], &[(names.arrived, sent)]);
            tokens = names.arrived;
        }
        tokens
    }

    /// Gradients of the weights go back to where the tokens are from. Returns the name of the result.
    fn return_weights(&self, draft: &mut Draft) -> Name {
        let (mut gradient, arrived) = (WEIGHTS_GRADIENT, self.arrived * WEIGHT_BYTES);
        if self.tensor > 1 {
            let work = (CollectiveKind::ReduceScatter, Group::Tensor, self.rows() * WEIGHT_BYTES);
            let writes = [(WEIGHTS_SCATTERED, arrived)];
            draft.collective("reduce weights gradient", work, Issue::Waiting, &[gradient], &writes);
            gradient = WEIGHTS_SCATTERED;
        }
        if self.expert_ranks > 1 {
            let work = (CollectiveKind::AllToAll, Group::Expert, arrived);
            let writes = [(WEIGHTS_RETURNED, self.sent * WEIGHT_BYTES)];
            draft.collective("exchange weights gradient", work, Issue::Waiting, &[gradient], &writes);
            gradient = WEIGHTS_RETURNED;
        }
        gradient
    }

    /// The weights that the activation multiplies with.
    const fn weights(&self) -> Name {
        match (self.tensor > 1, self.expert_ranks > 1) {
            (true, _) => WEIGHTS_GATHERED,
            (_, true) => WEIGHTS_ARRIVED,
            _ => WEIGHTS,
        }
    }

    /// A product of every expert, from `inputs` to `outputs` columns.
    fn grouped(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Grouped,
        (outputs, inputs): (u64, u64),
        input: Name,
    ) {
        let shape = (self.local, self.rows_each(), outputs, inputs);
        let layout = (on.execution().dtype, Layout::Forward, None);
        let writes = [(names.output, on.bytes(self.rows() * outputs))];
        draft.grouped(names.product, shape, layout, &[input], &writes);
    }

    fn grouped_backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        names: &'static Grouped,
        (outputs, inputs): (u64, u64),
        (input, gradient): (Name, Name),
    ) {
        let dtype = on.execution().dtype;
        let rows = self.rows_each();
        let layout = (dtype, Layout::InputGradient, None);
        let writes = [(names.input_gradient, on.bytes(self.rows() * inputs))];
        draft.grouped(
            names.input_gradient,
            (self.local, rows, inputs, outputs),
            layout,
            &[gradient],
            &writes,
        );
        draft.within(Phase::BackwardWeight, |draft| {
            let shape = (self.local, outputs, inputs, rows);
            let sums = on.products_add_to();
            let layout = (dtype, Layout::WeightGradient, sums);
            let weights = self.local * inputs * outputs;
            let writes = [(names.weight_gradient, on.bytes(weights))];
            let writes = if sums.is_some() { &[][..] } else { &writes[..] };
            draft.grouped(names.weight_gradient, shape, layout, &[gradient, input], writes);
            if sums.is_none() {
                draft.accumulate(names.accumulate, on, names.weight_gradient, weights);
            }
        });
    }

    /// The activation times the weight of each row, in one kernel (`weighted_bias_swiglu_impl`).
    fn activation(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let rows = self.rows();
        let (up, down) = (on.bytes(rows * self.up()), on.bytes(rows * self.ffn));
        let reads = [UP.output, self.weights()];
        let name = match on.model().mlp {
            Mlp::Gelu => "weighted gelu",
            Mlp::Swiglu => "weighted swiglu",
        };
        draft.stream(name, StreamClass::Elementwise, (up, down), &reads, &[(ACTIVATION, down)]);
    }

    fn activation_gradient(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let rows = self.rows();
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

/// Bytes of the number of a row, and of a weight on its way.
const ROW_BYTES: u64 = 4;
const WEIGHT_BYTES: u64 = 4;
