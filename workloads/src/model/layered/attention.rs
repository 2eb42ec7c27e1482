//! Multi-head attention with its projections: flash, or with scores in memory as eager frameworks have it.

use crate::graph::operator::StreamClass;
use crate::model::transformer::AttentionKernel;

use super::layer::{Attention, Distances};
use super::scores::Scores;
use super::shape::Shape;
use super::tape::{Tape, Value, in_bounds};
use crate::model::names::{Name, name};
use crate::model::views;

/// Buckets of distances (Raffel et al., JMLR 2020, section 2.1).
const BUCKETS: u64 = 32;
/// How the bucket of every distance is found (`_relative_position_bucket` of Hugging Face Transformers).
const BUCKETED: [&str; 16] = [
    "distances",
    "later ones",
    "later ones as numbers",
    "half of the buckets",
    "add halves",
    "lengths",
    "short ones",
    "lengths as fractions",
    "over the short ones",
    "logarithms",
    "over that of the longest",
    "buckets of long ones",
    "as whole numbers",
    "behind the short ones",
    "limit buckets",
    "choose buckets",
];

impl Tape<'_> {
    /// Attention of `from` to itself or to `memory`, what an encoder made.
    pub(super) fn attention(
        &mut self,
        from: Value,
        memory: Option<Value>,
        settings: &Attention,
    ) -> Result<Value, String> {
        let Shape::Tokens { tokens: queries, width } = from.shape else {
            return Err(format!("`attention` takes tokens, not {}", from.shape));
        };
        let heads = u64::from(settings.heads);
        let head_dim = match settings.head_dim {
            Some(width) => width.into(),
            None if heads > 0 && width % heads == 0 => width / heads,
            None => {
                return Err(format!(
                    "{heads} heads do not divide a width of {width}: give `head_dim`, or others"
                ));
            }
        };
        let source = match (settings.cross, memory) {
            (false, _) => from,
            (true, Some(memory)) => memory,
            (true, None) => return Err("attention with `cross: true` stands in a `decoder`".to_owned()),
        };
        in_bounds("the heads of attention", &[heads, head_dim])?;
        let keys = source.shape.places();
        in_bounds("the scores of attention", &[self.on.micro_batch.into(), heads, queries, keys])?;
        let layer = self.layer("attention");
        let inner = heads * head_dim;
        let projected = |tape: &mut Self, from: Value, what: &'static str, outputs: u64| {
            tape.product(name(layer, what), from, outputs, settings.bias, false)
        };
        let packed = settings.packed && !settings.cross;
        let parts = if packed {
            vec![projected(self, from, "query, key and value", 3 * inner)?]
        } else {
            vec![
                projected(self, from, "query", inner)?,
                projected(self, source, "key", inner)?,
                projected(self, source, "value", inner)?,
            ]
        };
        let scores = Scores {
            layer,
            batch: self.on.micro_batch.into(),
            heads,
            queries,
            keys,
            head_dim,
            width,
            causal: settings.causal,
            dropout: settings.dropout && self.on.trains(),
            distances: settings.distances,
            gathered_biases: self.on.in_operators,
            dtype: self.on.dtype,
        };
        self.distances(&scores);
        let context = self.value(layer, Shape::Tokens { tokens: queries, width: inner });
        if self.on.attention == AttentionKernel::Flash && settings.distances.is_none() {
            self.flash(&scores, parts, context);
        } else {
            self.materialised(scores, parts, context);
        }
        projected(self, context, "projection", width)
    }

    /// Parameters of what distances add to scores, and what is done for them before.
    fn distances(&mut self, scores: &Scores) {
        match scores.distances {
            Some(Distances::Bias) => {
                self.parameters += BUCKETS * scores.heads;
                let bias = scores.bias_bytes();
                let look_up = name(scores.layer, "look up biases");
                if self.on.in_operators {
                    let indices = 8 * scores.queries * scores.keys;
                    for step in BUCKETED {
                        let step = name(scores.layer, step);
                        self.draft.stream(step, StreamClass::Elementwise, (indices, indices), &[], &[]);
                    }
                }
                let pairs = scores.queries * scores.keys;
                self.draft.look_up(
                    look_up,
                    (StreamClass::Embedding, pairs * scores.heads),
                    (8 * pairs, bias),
                    &[],
                    &[],
                );
                if scores.causal {
                    let mask = name(scores.layer, "mask biases");
                    self.draft.stream(mask, StreamClass::Elementwise, (bias, bias), &[], &[]);
                }
            }
            // A matrix for encodings of distances, a vector for queries with keys and one for those with distances.
            Some(Distances::Encodings) => {
                self.parameters += scores.width * scores.inner() + 2 * scores.inner();
            }
            Some(Distances::SharedBias) | None => {}
        }
    }

    fn flash(&mut self, scores: &Scores, parts: Vec<Value>, context: Value) {
        let scores = *scores;
        let tensors: Vec<Name> = parts.iter().map(|part| part.tensor).collect();
        let sums = name(scores.layer, "log-sum-exp");
        let writes = [(context.tensor, self.on.bytes(context.shape)), (sums, scores.log_sums())];
        self.draft.push(name(scores.layer, "flash"), scores.flash(false), &tensors, &writes).views =
            views::OF_ONE_KERNEL;
        self.back(context, move |reverse, gradient| {
            let reads: Vec<Name> = tensors.into_iter().chain([context.tensor, sums, gradient]).collect();
            let (gradients, writes) = scores.gradients(&parts, |part| reverse.on.bytes(part.shape));
            let kernel =
                reverse.draft.push(name(scores.layer, "flash gradient"), scores.flash(true), &reads, &writes);
            kernel.views = views::OF_ONE_KERNEL;
            // Gradients of queries are summed in fp32; a row sum for every query (Dao 2023, algorithm 2).
            kernel.workspace = 4 * scores.batch * scores.queries * scores.inner() + scores.log_sums();
            for (part, gradient) in parts.into_iter().zip(gradients) {
                reverse.give(part, gradient);
            }
        });
    }

    fn materialised(&mut self, scores: Scores, parts: Vec<Value>, context: Value) {
        let bytes = self.on.bytes(context.shape);
        // Heads apart, as batched products take them.
        let by_head: Vec<Name> = parts.iter().map(|part| name(part.tensor, "by head")).collect();
        for (part, &heads) in parts.iter().zip(&by_head) {
            let size = self.on.bytes(part.shape);
            self.draft.stream(
                heads,
                StreamClass::Elementwise,
                (size, size),
                &[part.tensor],
                &[(heads, size)],
            );
        }
        let result = scores.forward(&mut self.draft, &by_head);
        let writes = [(context.tensor, bytes)];
        let merge = name(scores.layer, "merge heads");
        self.draft.stream(merge, StreamClass::Elementwise, (bytes, bytes), &[result], &writes).views =
            views::OF_CONTEXT;
        self.back(context, move |reverse, gradient| {
            let (by_part, writes) = scores.gradients(&parts, |part| reverse.on.bytes(part.shape));
            scores.backward(reverse, &by_head, gradient);
            let reads = scores.by_head_gradients();
            // One tensor, or one for each.
            let each = reads.len() / writes.len();
            for (reads, &(gradient, size)) in reads.chunks(each).zip(&writes) {
                let class = StreamClass::Elementwise;
                reverse.draft.stream(gradient, class, (size, size), reads, &[(gradient, size)]);
            }
            for (part, gradient) in parts.into_iter().zip(by_part) {
                reverse.give(part, gradient);
            }
        });
    }
}
