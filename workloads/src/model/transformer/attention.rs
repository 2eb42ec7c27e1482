//! Attention: projections, and between them either flash attention or scores in memory.

use crate::graph::Phase;

use super::draft::Draft;
use super::execution::{AttentionKernel, ShardedTransformer};
use super::linear::{Linear, Names, Side, linear_names};
use super::operator::{Attention, Layout, Pass, StreamClass, Work};
use super::softmax::{PROBABILITIES, PROBABILITIES_GRADIENT, SCORES, Softmax};
use super::{Bias, Positions, Recompute};

const QKV: &Names = linear_names!("qkv");
const PROJECTION: &Names = linear_names!("projection");
const CONTEXT: &str = "context";
const CONTEXT_AGAIN: &str = "context again";
const CONTEXT_BY_HEAD: &str = "context by head";
const LOG_SUMS: &str = "log-sum-exp";
const MASK: &str = "softmax dropout mask";
const DROPPED: &str = "dropped probabilities";
const DROPPED_GRADIENT: &str = "dropped probabilities gradient";
const QUERY_GRADIENT: &str = "query gradient";
const KEY_GRADIENT: &str = "key gradient";
const VALUE_GRADIENT: &str = "value gradient";
const QKV_GRADIENT: &str = "qkv output gradient";

/// The forward pass from the output of the norm; returns the name of the result.
pub(super) fn forward(draft: &mut Draft, on: &ShardedTransformer, input: &'static str) -> &'static str {
    let shape = Shape::of(on);
    let (class, qkv) = (StreamClass::Elementwise, on.bytes(on.tokens() * shape.qkv_width()));
    shape.qkv(on).forward(draft, on, input);
    if on.model().bias != Bias::None {
        draft.stream("qkv bias", class, (qkv, qkv), &[QKV.output], &[]);
    }
    if on.model().positions == Positions::Rotary {
        let turned = on.bytes(on.tokens() * (shape.width() + shape.kv_width()));
        draft.stream("rotary positions", class, (turned, turned), &[QKV.output], &[]);
    }
    core(draft, on, CONTEXT);
    shape.projection(on).forward(draft, on, CONTEXT)
}

/// The backward pass from the gradient of the result; returns the name of the gradient of the input.
pub(super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    recompute: Recompute,
    input: &'static str,
    gradient: &'static str,
) -> &'static str {
    let shape = Shape::of(on);
    let class = StreamClass::Elementwise;
    let gradient = shape.projection(on).backward(draft, on, CONTEXT, gradient);
    if recompute == Recompute::Selective {
        draft.within(Phase::Recompute, |draft| core(draft, on, CONTEXT_AGAIN));
    }
    core_gradient(draft, on, gradient);
    // The three are slices of one tensor in the forward pass, whose gradient is put together.
    let bytes = on.bytes(on.tokens() * shape.qkv_width());
    let parts = [QUERY_GRADIENT, KEY_GRADIENT, VALUE_GRADIENT];
    draft.stream("concatenate qkv gradient", class, (bytes, bytes), &parts, &[(QKV_GRADIENT, bytes)]);
    if on.model().positions == Positions::Rotary {
        let turned = on.bytes(on.tokens() * (shape.width() + shape.kv_width()));
        draft.stream("rotary positions gradient", class, (turned, turned), &[QKV_GRADIENT], &[]);
    }
    let result = shape.qkv(on).backward(draft, on, input, QKV_GRADIENT);
    if on.model().bias != Bias::None {
        draft.within(Phase::BackwardWeight, |draft| {
            draft.stream("qkv bias gradient", StreamClass::Reduction, (bytes, 0), &[QKV_GRADIENT], &[]);
        });
    }
    result
}

/// Heads of a rank.
struct Shape {
    batch: u64,
    sequence: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
}

impl Shape {
    fn of(on: &ShardedTransformer) -> Self {
        let (model, execution) = (on.model(), on.execution());
        Self {
            batch: u64::from(execution.micro_batch),
            sequence: u64::from(execution.sequence),
            heads: u64::from(model.heads) / on.tensor(),
            kv_heads: u64::from(model.kv_heads) / on.tensor(),
            head_dim: u64::from(model.head_dim),
        }
    }

    const fn width(&self) -> u64 {
        self.heads * self.head_dim
    }

    const fn kv_width(&self) -> u64 {
        self.kv_heads * self.head_dim
    }

    const fn qkv_width(&self) -> u64 {
        self.width() + 2 * self.kv_width()
    }

    fn qkv(&self, on: &ShardedTransformer) -> Linear {
        Linear { names: QKV, side: Side::Columns, inputs: on.hidden(), outputs: self.qkv_width() }
    }

    fn projection(&self, on: &ShardedTransformer) -> Linear {
        Linear { names: PROJECTION, side: Side::Rows, inputs: self.width(), outputs: on.hidden() }
    }

    const fn scores(&self) -> u64 {
        self.batch * self.heads * self.sequence * self.sequence
    }

    /// `batch`, and rows of queries that share keys: those of all heads of a group.
    const fn grouped(&self) -> (u64, u64) {
        (self.batch * self.kv_heads, self.sequence * (self.heads / self.kv_heads))
    }

    /// Bytes of the fp32 log-sum of every query and head.
    const fn log_sums(&self) -> u64 {
        4 * self.batch * self.heads * self.sequence
    }

    fn flash(&self, on: &ShardedTransformer, pass: Pass) -> Work {
        let &Self { batch, heads, kv_heads, sequence, head_dim } = self;
        let dtype = on.execution().dtype;
        let (queries, keys, causal) = (sequence, sequence, true);
        Work::Attention(Attention { pass, batch, heads, kv_heads, queries, keys, head_dim, causal, dtype })
    }
}

/// From queries, keys and values to `context`: what selective recomputation repeats.
fn core(draft: &mut Draft, on: &ShardedTransformer, context: &'static str) {
    let shape = Shape::of(on);
    let bytes = on.bytes(on.tokens() * shape.width());
    if on.execution().attention == AttentionKernel::Flash {
        let writes = [(context, bytes), (LOG_SUMS, shape.log_sums())];
        draft.push("flash attention", shape.flash(on, Pass::Forward), &[QKV.output], &writes);
        return;
    }
    let (class, dtype) = (StreamClass::Elementwise, on.execution().dtype);
    let (scores, (batch, rows)) = (shape.scores(), shape.grouped());
    let score_bytes = on.bytes(scores);
    let product = (batch, rows, shape.sequence, shape.head_dim);
    draft.gemm(
        "query key product",
        product,
        (dtype, Layout::Forward),
        &[QKV.output],
        &[(SCORES, score_bytes)],
    );
    if on.model().positions == Positions::Alibi {
        draft.stream("position bias", class, (score_bytes, score_bytes), &[SCORES], &[]);
    }
    Softmax::new(on).forward(draft);
    let weights = weights(on);
    if on.model().dropout {
        let writes = [(DROPPED, score_bytes), (MASK, scores)];
        draft.stream(
            "softmax dropout",
            class,
            (score_bytes, score_bytes + scores),
            &[PROBABILITIES],
            &writes,
        );
    }
    let product = (batch, rows, shape.head_dim, shape.sequence);
    let reads = [weights, QKV.output];
    draft.gemm("value product", product, (dtype, Layout::InputGradient), &reads, &[(CONTEXT_BY_HEAD, bytes)]);
    draft.stream("transpose context", class, (bytes, bytes), &[CONTEXT_BY_HEAD], &[(context, bytes)]);
}

/// What values are weighted with.
const fn weights(on: &ShardedTransformer) -> &'static str {
    if on.model().dropout { DROPPED } else { PROBABILITIES }
}

/// From the gradient of the context to those of queries, keys and values.
fn core_gradient(draft: &mut Draft, on: &ShardedTransformer, gradient: &'static str) {
    let shape = Shape::of(on);
    let query = on.bytes(on.tokens() * shape.width());
    let key = on.bytes(on.tokens() * shape.kv_width());
    if on.execution().attention == AttentionKernel::Flash {
        let reads = [QKV.output, CONTEXT, LOG_SUMS, gradient];
        let writes = [(QUERY_GRADIENT, query), (KEY_GRADIENT, key), (VALUE_GRADIENT, key)];
        let work = shape.flash(on, Pass::Backward);
        let kernel = draft.push("flash attention gradient", work, &reads, &writes);
        // Gradients of queries are summed in fp32; a row sum for every query (Dao 2023, algorithm 2).
        kernel.workspace = 4 * shape.batch * shape.sequence * shape.width() + shape.log_sums();
        return;
    }
    let (class, dtype) = (StreamClass::Elementwise, on.execution().dtype);
    let (scores, (batch, rows)) = (shape.scores(), shape.grouped());
    let score_bytes = on.bytes(scores);
    let product = (batch, rows, shape.sequence, shape.head_dim);
    let transposed = (batch, shape.sequence, shape.head_dim, rows);
    let incoming = if on.model().dropout { DROPPED_GRADIENT } else { PROBABILITIES_GRADIENT };
    let reads = [gradient, QKV.output];
    draft.gemm(incoming, product, (dtype, Layout::Forward), &reads, &[(incoming, score_bytes)]);
    let reads = [weights(on), gradient];
    draft.gemm(VALUE_GRADIENT, transposed, (dtype, Layout::WeightGradient), &reads, &[(VALUE_GRADIENT, key)]);
    if on.model().dropout {
        let writes = [(PROBABILITIES_GRADIENT, score_bytes)];
        let traffic = (score_bytes + scores, score_bytes);
        draft.stream("softmax dropout gradient", class, traffic, &[incoming, MASK], &writes);
    }
    let scores_gradient = Softmax::new(on).backward(draft);
    let reads = [scores_gradient, QKV.output];
    let product = (batch, rows, shape.head_dim, shape.sequence);
    draft.gemm(QUERY_GRADIENT, product, (dtype, Layout::InputGradient), &reads, &[(QUERY_GRADIENT, query)]);
    draft.gemm(KEY_GRADIENT, transposed, (dtype, Layout::WeightGradient), &reads, &[(KEY_GRADIENT, key)]);
}
