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
use super::linear::{Groups, Linear, Names, linear_names};
use super::mlp::DenseMlp;
use super::names::names;
use super::residual::add_gradients;
use super::router::{MAP, PROBABILITIES, Router, SCORES_GRADIENT};
use super::{Bias, Experts, Mlp};
use crate::graph::operator::{CollectiveKind, Group, Module, StreamClass};

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
const UP: &Names = linear_names!("expert up");
const DOWN: &Names = linear_names!("expert down");
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
    tokens.up_product().forward(draft, on, sorted);
    draft.module(Module::ExpertActivation, |draft| tokens.activation(draft, on));
    draft.module(Module::ExpertDown, |draft| {
        tokens.down_product().forward(draft, on, ACTIVATION);
    });
    if on.model().bias == Bias::All {
        tokens.add_down_bias(draft, on);
    }
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

/// The tensor that the forward pass leaves its result in.
pub(super) fn output(experts: &Experts) -> Name {
    if experts.shared_ffn.is_some() { OUTPUT } else { COMBINED }
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
    if on.model().bias == Bias::All {
        tokens.bias_gradient(draft, on, "expert down bias gradient", sorted, tokens.hidden);
    }
    draft.module(Module::ExpertDown, |draft| {
        tokens.down_product().backward(draft, on, ACTIVATION, sorted);
    });
    draft.module(Module::ExpertActivation, |draft| tokens.activation_gradient(draft, on));
    if on.model().bias == Bias::All {
        let up = tokens.up();
        tokens.bias_gradient(draft, on, "expert up bias gradient", ACTIVATION_GRADIENT, up);
    }
    let saved = tokens.sorted(DISPATCH);
    tokens.up_product().backward(draft, on, saved, ACTIVATION_GRADIENT);
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
    /// first, in three kernels (`make_row_id_map`).
    fn permute(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        let (whole, sent) = (on.bytes(self.here * self.hidden), self.bytes_sent(on));
        // Where the rows of each token are, and from which expert; a count.
        let rows = self.here * (2 * self.experts + 1) * ROW_BYTES;
        let permutation = StreamClass::Permutation;
        let (table, counts) = (self.router.table(), self.router.table() * ROW_BYTES);
        draft.stream("count rows of blocks", permutation, (table, counts), &[MAP], &[]);
        draft.stream("number rows", permutation, (counts, counts), &[MAP], &[]);
        draft.stream("map rows", permutation, (counts, rows), &[MAP], &[(ROWS, rows)]);
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
            if weighted {
                let weights = self.rows() * WEIGHT_BYTES;
                draft.stream(
                    "sort weights",
                    StreamClass::Permutation,
                    (weights, weights),
                    &[self.weights()],
                    &[],
                );
            }
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

    const fn up_product(&self) -> Linear {
        Linear::grouped(UP, self.groups(), self.hidden, self.up())
    }

    const fn down_product(&self) -> Linear {
        Linear::grouped(DOWN, self.groups(), self.ffn, self.hidden)
    }

    /// The experts of this rank with their rows.
    const fn groups(&self) -> Groups {
        Groups { count: self.local, rows: self.rows(), rows_each: self.rows_each() }
    }

    /// Adds the bias of its expert to each row of the result, times the weight of the row
    /// (`_apply_bias` of Megatron-LM's `TEGroupedMLP`).
    fn add_down_bias(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let bytes = on.bytes(self.rows() * self.hidden);
        let reads = [DOWN.output, self.weights()];
        draft.stream("expert down bias", StreamClass::Elementwise, (bytes, bytes), &reads, &[]);
    }

    /// Sums the rows of each expert of a gradient with a number of `columns`.
    fn bias_gradient(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        name: &'static str,
        gradient: Name,
        columns: u64,
    ) {
        if !on.trains_weights() {
            return;
        }
        let bytes = on.bytes(self.rows() * columns);
        draft.within(Phase::BackwardWeight, |draft| {
            draft.stream(name, StreamClass::Reduction, (bytes, 0), &[gradient], &[]);
        });
    }

    /// The activation times the weight of each row, with the bias where there is one, in one kernel
    /// (`weighted_bias_swiglu_impl`).
    fn activation(&self, draft: &mut Draft, on: &ShardedTransformer) {
        let rows = self.rows();
        let (up, down) = (on.bytes(rows * self.up()), on.bytes(rows * self.ffn));
        let reads = [UP.output, self.weights()];
        let name = match on.model().mlp {
            Mlp::Gelu => "weighted gelu",
            Mlp::Swiglu => "weighted swiglu",
            Mlp::Geglu => "weighted geglu",
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
