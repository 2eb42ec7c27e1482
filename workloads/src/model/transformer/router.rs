//! The router of a mixture of experts: logits, softmax, the best experts of each token, the best
//! tokens of each expert, and the losses that keep it in shape, kernel by kernel as PyTorch
//! launches `TopKRouter` of Megatron-LM (core 0.14: `moe_utils.py`,
//! `topk_routing_with_score_function`, `apply_router_token_dropping`,
//! `compute_routing_scores_for_aux_loss`).
//!
//! Some fifty passes over tables of tokens and experts, most of which take as long as a kernel
//! takes to start. A choice of the best looks at two bits of a number at a time (`topk` of PyTorch,
//! a radix selection), then sorts what it found.
//!
//! Its weights see each rank's part of the tokens.

use super::Experts;
use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use crate::graph::operator::{Dtype, StreamClass};

const ROUTER: &Names = linear_names!("router");
const SCORES_SINGLE: Name = Name::of("router scores in fp32");
const SCORES: Name = Name::of("router scores");
const CHOSEN: Name = Name::of("chosen experts");
const KEPT: Name = Name::of("kept tokens");
const FIT: Name = Name::of("tokens that find room");
const BALANCE_SCORES: Name = Name::of("scores of the balance loss");
const BALANCE_CHOSEN: Name = Name::of("chosen experts of the balance loss");
const BALANCE_MAP: Name = Name::of("routing map of the balance loss");
const BALANCE_SUMS: Name = Name::of("sums of the balance loss");
/// Weights of tokens and experts.
pub(super) const PROBABILITIES: Name = Name::of("router probabilities");
/// Which tokens go to which experts.
pub(super) const MAP: Name = Name::of("routing map");
/// What the backward pass of the router starts from.
pub(super) const SCORES_GRADIENT: Name = Name::of("router scores gradient");
const CHOSEN_GRADIENT: Name = Name::of("chosen scores gradient");
const LOGITS_GRADIENT: Name = Name::of("router output gradient");
const BALANCE_GRADIENT: Name = Name::of("balance loss gradient");
const ELEMENTWISE: StreamClass = StreamClass::Elementwise;
const PERMUTATION: StreamClass = StreamClass::Permutation;
const REDUCTION: StreamClass = StreamClass::Reduction;
/// Bytes of the number of an expert, or of a count of tokens.
const INDEX_BYTES: u64 = 8;
/// Bytes of a mark.
const MARK_BYTES: u64 = 1;
/// Bits that a radix selection looks at in a pass.
const RADIX_BITS: u64 = 2;
/// Operators on a single number that turn sums of the balance loss into what is added to the log,
/// and those that take its gradient back.
const NUMBERS: [&str; 6] = [
    "multiply sums",
    "sum of products",
    "scale balance loss",
    "mean of sequences",
    "loss of log",
    "log loss",
];
const NUMBERS_BACK: [&str; 4] =
    ["scale of losses", "gradient of mean", "gradient of scale", "gradient of sums"];

/// A router of a rank.
pub(super) struct Router<'a> {
    experts: &'a Experts,
    tokens: u64,
    dtype: Dtype,
}

impl<'a> Router<'a> {
    pub(super) fn of(on: &ShardedTransformer, experts: &'a Experts) -> Self {
        Self { experts, tokens: on.residual_tokens(), dtype: on.execution().dtype }
    }

    /// Elements of a table of tokens and experts.
    pub(super) fn table(&self) -> u64 {
        self.tokens * u64::from(self.experts.count)
    }

    /// From tensor `input` to [`PROBABILITIES`] and [`MAP`].
    pub(super) fn forward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        self.layer(on).forward(draft, on, input);
        if self.experts.routing.z_loss {
            self.z_loss(draft);
        }
        let (scores, single) = (self.bytes(), self.single());
        let softmax = (StreamClass::Softmax, self.tokens);
        let writes = [(SCORES_SINGLE, single)];
        draft.walk("router softmax", softmax, (scores, single), &[ROUTER.output], &writes);
        pass(draft, SCORES, (single, scores), SCORES_SINGLE, scores);
        self.choose(draft, ["choose experts", "sort chosen experts"], SCORES, CHOSEN, self.dtype);
        let chosen = self.chosen();
        pass(draft, "clear probabilities", (0, scores), CHOSEN, 0);
        pass(draft, PROBABILITIES, (scores, scores), CHOSEN, scores);
        draft.stream("scatter probabilities", PERMUTATION, (chosen, chosen), &[CHOSEN, PROBABILITIES], &[]);
        self.mark(draft, ["clear map", "map as integers", "copy map", "scatter map"], CHOSEN, MAP);
        if let Some(capacity) = self.experts.capacity(self.tokens) {
            self.drop_tokens(draft, capacity);
        }
        if self.experts.routing.balance_loss {
            self.balance_loss(draft);
        }
    }

    /// The best tokens of each expert, as many as it has room for, and what is left of both tables.
    fn drop_tokens(&self, draft: &mut Draft, capacity: u64) {
        let (scores, marks) = (self.bytes(), self.table() * MARK_BYTES);
        let count = u64::from(self.experts.count);
        let rows = count * capacity;
        let kept = rows * (self.dtype.bytes() + INDEX_BYTES);
        let reads = selection(self.dtype) * scores;
        draft.walk("choose tokens", (REDUCTION, count), (reads, kept), &[PROBABILITIES], &[(KEPT, kept)]);
        pass(draft, "clear kept tokens", (0, scores), KEPT, 0);
        pass(draft, "copy kept tokens", (scores, scores), KEPT, 0);
        draft.stream("scatter kept tokens", PERMUTATION, (rows * INDEX_BYTES, rows), &[KEPT], &[]);
        pass(draft, FIT, (scores, marks), KEPT, marks);
        if !self.experts.routing.capacity.is_some_and(|capacity| capacity.pad) {
            draft.stream("chosen tokens that fit", ELEMENTWISE, (2 * marks, marks), &[MAP, FIT], &[]);
        }
        draft.stream("drop tokens", ELEMENTWISE, (scores + marks, scores), &[PROBABILITIES, FIT], &[]);
    }

    /// Choices once more, of scores that no other term changes, and sums over tokens.
    fn balance_loss(&self, draft: &mut Draft) {
        let (scores, single, marks) = (self.bytes(), self.single(), self.table() * MARK_BYTES);
        let (sums, softmax) = (self.sums(), (StreamClass::Softmax, self.tokens));
        let writes = [(BALANCE_SCORES, single)];
        draft.walk("softmax of the balance loss", softmax, (scores, single), &[ROUTER.output], &writes);
        let names = ["choose experts of the balance loss", "sort experts of the balance loss"];
        self.choose(draft, names, BALANCE_SCORES, BALANCE_CHOSEN, Dtype::Fp32);
        let names = [
            "clear map of the loss",
            "map of the loss as integers",
            "copy map of the loss",
            "scatter map of the loss",
        ];
        self.mark(draft, names, BALANCE_CHOSEN, BALANCE_MAP);
        let writes = [(BALANCE_SUMS, sums)];
        draft.stream("tokens of each expert", REDUCTION, (marks, sums), &[BALANCE_MAP], &writes);
        draft.stream(
            "scores of each expert",
            REDUCTION,
            (single, sums),
            &[BALANCE_SCORES, BALANCE_SUMS],
            &[],
        );
        for name in NUMBERS {
            draft.stream(name, ELEMENTWISE, (sums, sums), &[BALANCE_SUMS], &[]);
        }
    }

    /// The mean square of the logarithm of the sum of exponentials.
    fn z_loss(&self, draft: &mut Draft) {
        let each = Dtype::Fp32.bytes() * self.tokens;
        draft.walk("z loss", (REDUCTION, self.tokens), (self.bytes(), each), &[ROUTER.output], &[]);
    }

    /// From [`SCORES_GRADIENT`] to the gradient of the input, whose name is returned.
    pub(super) fn backward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
        let routing = &self.experts.routing;
        let (scores, single, marks) = (self.bytes(), self.single(), self.table() * MARK_BYTES);
        let (chosen, softmax) = (self.chosen(), (StreamClass::Softmax, self.tokens));
        if routing.balance_loss {
            self.balance_loss_gradient(draft);
        }
        if self.experts.capacity(self.tokens).is_some() {
            let reads = [SCORES_GRADIENT, FIT];
            draft.stream("gradient of kept tokens", ELEMENTWISE, (scores + marks, scores), &reads, &[]);
        }
        let (reads, writes) = ([SCORES_GRADIENT, CHOSEN], [(CHOSEN_GRADIENT, scores)]);
        draft.stream("gather chosen gradients", PERMUTATION, (2 * chosen, chosen), &reads, &[]);
        draft.stream("clear chosen gradients", ELEMENTWISE, (0, scores), &reads, &writes);
        draft.stream("scatter chosen gradients", PERMUTATION, (chosen, chosen), &[CHOSEN_GRADIENT], &[]);
        pass(draft, "chosen gradients in fp32", (scores, single), CHOSEN_GRADIENT, 0);
        let (reads, writes) = ([SCORES_SINGLE, CHOSEN_GRADIENT], [(LOGITS_GRADIENT, scores)]);
        draft.walk("router softmax gradient", softmax, (2 * single, scores), &reads, &writes);
        if routing.balance_loss {
            let reads = [LOGITS_GRADIENT, BALANCE_GRADIENT];
            draft.stream("add balance loss gradient", ELEMENTWISE, (2 * scores, scores), &reads, &[]);
        }
        if routing.z_loss {
            // The logarithm of the sum of exponentials has the softmax as its gradient.
            let reads = [ROUTER.output, LOGITS_GRADIENT];
            draft.walk("z loss gradient", softmax, (2 * scores, scores), &reads, &[]);
        }
        self.layer(on).backward(draft, on, input, LOGITS_GRADIENT)
    }

    /// The gradient of sums is the same for all tokens of an expert.
    fn balance_loss_gradient(&self, draft: &mut Draft) {
        let (scores, single, sums) = (self.bytes(), self.single(), self.sums());
        for name in NUMBERS_BACK {
            draft.stream(name, ELEMENTWISE, (sums, sums), &[BALANCE_SUMS], &[]);
        }
        pass(draft, "spread gradient of sums", (sums, single), BALANCE_SUMS, 0);
        let (softmax, writes) = ((StreamClass::Softmax, self.tokens), [(BALANCE_GRADIENT, scores)]);
        let name = "softmax gradient of the balance loss";
        draft.walk(name, softmax, (2 * single, scores), &[BALANCE_SCORES, BALANCE_SUMS], &writes);
    }

    /// The best experts of each token by some scores, in order.
    fn choose(
        &self,
        draft: &mut Draft,
        [select, sort]: [&'static str; 2],
        scores: Name,
        found: Name,
        dtype: Dtype,
    ) {
        let chosen = self.chosen();
        let reads = selection(dtype) * self.table() * dtype.bytes();
        draft.walk(select, (REDUCTION, self.tokens), (reads, chosen), &[scores], &[(found, chosen)]);
        draft.stream(sort, PERMUTATION, (chosen, chosen), &[found], &[]);
    }

    /// A mark for each chosen expert, by way of a table of integers
    /// (`zeros_like(...).int().scatter(...).bool()`).
    fn mark(&self, draft: &mut Draft, names: [&'static str; 4], chosen: Name, map: Name) {
        let [clear, integers, copy, scatter] = names;
        let (scores, whole, marks) = (self.bytes(), 4 * self.table(), self.table() * MARK_BYTES);
        pass(draft, clear, (0, scores), chosen, 0);
        pass(draft, integers, (scores, whole), chosen, 0);
        pass(draft, copy, (whole, whole), chosen, 0);
        draft.stream(scatter, PERMUTATION, (self.chosen(), self.chosen()), &[chosen], &[]);
        pass(draft, map, (whole, marks), chosen, marks);
    }

    /// Bytes of a table of tokens and experts.
    fn bytes(&self) -> u64 {
        self.dtype.bytes() * self.table()
    }

    /// Bytes of one in fp32.
    fn single(&self) -> u64 {
        Dtype::Fp32.bytes() * self.table()
    }

    /// Bytes of a number of each expert.
    fn sums(&self) -> u64 {
        u64::from(self.experts.count) * INDEX_BYTES
    }

    /// Bytes of the weights and numbers of the experts of all tokens.
    fn chosen(&self) -> u64 {
        self.tokens * u64::from(self.experts.top_k) * (self.dtype.bytes() + INDEX_BYTES)
    }

    fn layer(&self, on: &ShardedTransformer) -> Linear {
        let outputs = self.experts.count.into();
        Linear::new(ROUTER, Side::Whole, on.hidden(), outputs).never_narrow()
    }
}

/// Passes of a radix selection of numbers of a type: one for each two bits, and one that gathers.
const fn selection(dtype: Dtype) -> u64 {
    8 * dtype.bytes() / RADIX_BITS + 1
}

/// A pass over a table, which leaves `kept` bytes under its name, if any.
fn pass(draft: &mut Draft, name: impl Into<Name>, traffic: (u64, u64), reads: Name, kept: u64) {
    let name = name.into();
    let writes = [(name, kept)];
    draft.stream(name, ELEMENTWISE, traffic, &[reads], if kept > 0 { &writes } else { &[] });
}
