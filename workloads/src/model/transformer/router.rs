//! The router of a mixture of experts: logits, softmax, the best experts of each token, and the losses that keep it in
//! shape (`TopKRouter` and `topk_routing_with_score_function` of Megatron-LM).
//!
//! Its weights see each rank's part of the tokens.

use super::Experts;
use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use crate::graph::operator::StreamClass;

const ROUTER: &Names = linear_names!("router");
const SCORES: Name = Name::of("router scores");
const CHOSEN: Name = Name::of("chosen experts");
/// Weights of tokens and experts.
pub(super) const PROBABILITIES: Name = Name::of("router probabilities");
/// Which tokens go to which experts.
pub(super) const MAP: Name = Name::of("routing map");
/// What the backward pass of the router starts from.
pub(super) const SCORES_GRADIENT: Name = Name::of("router scores gradient");
const LOGITS_GRADIENT: Name = Name::of("router output gradient");
/// Bytes of the number of an expert.
const INDEX_BYTES: u64 = 8;

/// A router of a rank.
pub(super) struct Router<'a> {
    experts: &'a Experts,
    tokens: u64,
}

impl<'a> Router<'a> {
    pub(super) fn of(on: &ShardedTransformer, experts: &'a Experts) -> Self {
        Self { experts, tokens: on.residual_tokens() }
    }

    /// Elements of a table of tokens and experts.
    pub(super) fn table(&self) -> u64 {
        self.tokens * u64::from(self.experts.count)
    }

    /// From tensor `input` to [`PROBABILITIES`] and [`MAP`]; the loss for balance reads the scores once more, that of the
    /// logits these.
    pub(super) fn forward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        let routing = &self.experts.routing;
        self.layer(on).forward(draft, on, input);
        let (scores, single) = (on.bytes(self.table()), 4 * self.table());
        let reduction = (StreamClass::Reduction, self.tokens);
        if routing.z_loss {
            draft.walk("z loss", reduction, (scores, 4 * self.tokens), &[ROUTER.output], &[]);
        }
        let softmax = (StreamClass::Softmax, self.tokens);
        draft.walk("router softmax", softmax, (scores, scores), &[ROUTER.output], &[(SCORES, scores)]);
        let each = on.execution().dtype.bytes() + INDEX_BYTES;
        let chosen = self.tokens * u64::from(self.experts.top_k) * each;
        draft.walk("choose experts", reduction, (scores, chosen), &[SCORES], &[(CHOSEN, chosen)]);
        let (permutation, none) = (StreamClass::Permutation, self.table());
        let traffic = (chosen, scores + none);
        let writes = [(PROBABILITIES, scores), (MAP, none)];
        draft.stream("tabulate choices", permutation, traffic, &[CHOSEN], &writes);
        if self.experts.capacity(self.tokens).is_some() {
            // The best tokens of each expert, and what is left of both tables (`apply_router_token_dropping`).
            let experts = (StreamClass::Reduction, u64::from(self.experts.count));
            let reads = [PROBABILITIES, MAP];
            draft.walk("choose tokens", experts, (scores, none), &reads, &[]);
            let class = StreamClass::Elementwise;
            draft.stream("drop tokens", class, (scores + 2 * none, scores + none), &reads, &[]);
        }
        if routing.balance_loss {
            draft.stream("balance loss", StreamClass::Reduction, (single, 0), &[SCORES, MAP], &[]);
        }
    }

    /// From [`SCORES_GRADIENT`], to which losses add theirs, to the gradient of the input, whose name is returned.
    pub(super) fn backward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
        let routing = &self.experts.routing;
        let (scores, class) = (on.bytes(self.table()), StreamClass::Elementwise);
        if routing.balance_loss {
            draft.stream("balance loss gradient", class, (scores, scores), &[SCORES_GRADIENT], &[]);
        }
        let (softmax, reads) = ((StreamClass::Softmax, self.tokens), [SCORES, SCORES_GRADIENT]);
        let writes = [(LOGITS_GRADIENT, scores)];
        draft.walk("router softmax gradient", softmax, (2 * scores, scores), &reads, &writes);
        if routing.z_loss {
            // The logarithm of the sum of exponentials has the softmax as its gradient.
            let reads = [ROUTER.output, LOGITS_GRADIENT];
            draft.walk("z loss gradient", softmax, (2 * scores, scores), &reads, &[]);
        }
        self.layer(on).backward(draft, on, input, LOGITS_GRADIENT)
    }

    fn layer(&self, on: &ShardedTransformer) -> Linear {
        let outputs = self.experts.count.into();
        Linear::new(ROUTER, Side::Whole, on.hidden(), outputs).never_narrow()
    }
}
