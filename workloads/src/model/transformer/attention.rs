//! Attention: projections, and between them either flash attention or scores in memory. Where ranks have parts of the same
//! sequences, they exchange something for what is between ([context parallelism](super::context)).

use crate::graph::Phase;

use super::apart::Apart;
use super::cap::{Cap, cap_names};
use super::context::all_to_all::{Exchange, Passage, exchange, exchange_names};
use super::context::{all_gather, gathered_ring, ring};
use super::draft::{Draft, Name};
use super::execution::{AttentionKernel, ShardedTransformer};
use super::latent::{KEYS, Projections, VALUES};
use super::linear::{Linear, Names, Side, linear_names};
use super::softmax::{PROBABILITIES, PROBABILITIES_GRADIENT, SCORES, Softmax};
use super::{Bias, ContextExchange, Positions, QueryKeyNorm, WindowForm, adapters, rotary};
use crate::graph::operator::{Attention, Layout, Math, Module, Pass, StreamClass, Work};
use crate::model::views;

const QKV: &Names = linear_names!("qkv");
const PROJECTION: &Names = linear_names!("projection");
const CONTEXT: Name = Name::of("context");
/// What attention gives before scores without a key take their part.
const CONTEXT_OF_KEYS: Name = Name::of("context of keys");
const CONTEXT_OF_KEYS_GRADIENT: Name = Name::of("context of keys gradient");
const CAP: &Cap = cap_names!("scores");
const CONTEXT_BY_HEAD: Name = Name::of("context by head");
const LOG_SUMS: Name = Name::of("log-sum-exp");
const MASK: Name = Name::of("softmax dropout mask");
const DROPPED: Name = Name::of("dropped probabilities");
const DROPPED_GRADIENT: Name = Name::of("dropped probabilities gradient");
const QUERY_GRADIENT: Name = Name::of("query gradient");
const KEY_GRADIENT: Name = Name::of("key gradient");
const VALUE_GRADIENT: Name = Name::of("value gradient");
const QKV_GRADIENT: Name = Name::of("qkv output gradient");
const GRADIENTS: [Name; 3] = [QUERY_GRADIENT, KEY_GRADIENT, VALUE_GRADIENT];
const HEADS: [Name; 3] = [Name::of("heads of query"), Name::of("heads of key"), Name::of("heads of value")];
const HEADS_GRADIENT: Name = Name::of("heads of context gradient");
const BY_HEADS: [Name; 3] =
    [Name::of("query by heads"), Name::of("key by heads"), Name::of("value by heads")];
const GRADIENTS_BY_HEADS: [Name; 3] = [
    Name::of("query gradient by heads"),
    Name::of("key gradient by heads"),
    Name::of("value gradient by heads"),
];
const CONTEXT_BY_HEADS: Name = Name::of("context by heads");
const CONTEXT_GRADIENT_BY_HEADS: Name = Name::of("context gradient by heads");
const TO_HEADS: [&Exchange; 3] = [exchange_names!("query"), exchange_names!("key"), exchange_names!("value")];
const TO_TOKENS: &Exchange = exchange_names!("context");
const GRADIENT_TO_HEADS: &Exchange = exchange_names!("context gradient");
const GRADIENTS_TO_TOKENS: [&Exchange; 3] =
    [exchange_names!("query gradient"), exchange_names!("key gradient"), exchange_names!("value gradient")];

/// The forward pass from the output of the norm; returns the name of the result.
pub(super) fn forward(draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
    let shape = Shape::of(on);
    match &on.model().latent {
        Some(latent) => Projections::of(on, latent).forward(draft, on, input),
        None if is_apart(on) => shape.apart().forward(draft, on, input),
        None => shape.project(draft, on, input),
    }
    draft.module(Module::CoreAttention, |draft| attend(draft, on));
    shape.projection(on).forward(draft, on, CONTEXT)
}

/// The tensor that the forward pass leaves its result in.
pub(super) fn output(on: &ShardedTransformer) -> Name {
    Shape::of(on).projection(on).result(on)
}

/// The backward pass from the gradient of the result; returns the name of the gradient of the input.
pub(super) fn backward(draft: &mut Draft, on: &ShardedTransformer, input: Name, gradient: Name) -> Name {
    let shape = Shape::of(on);
    let gradient = shape.projection(on).backward(draft, on, CONTEXT, gradient);
    draft.module(Module::CoreAttention, |draft| attend_gradient(draft, on, gradient));
    match &on.model().latent {
        Some(latent) => Projections::of(on, latent).backward(draft, on, input, GRADIENTS),
        None if is_apart(on) => shape.apart().backward(draft, on, input, GRADIENTS),
        None => shape.project_backward(draft, on, input),
    }
}

/// Its linear layers, where queries, keys and values come from the residual stream.
pub(super) fn layers(on: &ShardedTransformer) -> Vec<Linear> {
    let shape = Shape::of(on);
    let mut layers = if is_apart(on) { shape.apart().layers(on).into() } else { vec![shape.qkv(on)] };
    layers.push(shape.projection(on));
    layers
}

/// Whether queries, keys and values are three products.
const fn is_apart(on: &ShardedTransformer) -> bool {
    !on.execution().fusion.query_key_value
}

/// Heads of a rank.
pub(super) struct Shape {
    batch: u64,
    sequence: u64,
    /// Heads that it computes attention for.
    heads: u64,
    kv_heads: u64,
    /// Heads of keys and values before these are repeated for each query.
    kv_projected: u64,
    /// Width of a head of queries and keys, and of values.
    head_dim: u64,
    value_dim: u64,
    /// Ranks that deal out heads of whole sequences for it: a rank projects to so many times its heads, for a part of the
    /// tokens.
    dealt: u64,
}

/// Queries and keys of a sequence that meet in a kernel; the last query sees the last key.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    pub(super) queries: u64,
    pub(super) keys: u64,
    /// Queries see no later keys.
    pub(super) causal: bool,
}

impl Shape {
    pub(super) fn of(on: &ShardedTransformer) -> Self {
        let (model, execution) = (on.model(), on.execution());
        let deals = on.context_exchange() == Some(ContextExchange::AllToAll);
        let dealt = if deals { on.context() } else { 1 };
        let ranks = on.tensor() * dealt;
        let latent = model.latent.as_ref();
        let rotated = latent.map_or(0, |latent| u64::from(latent.rotary_dim));
        let heads = u64::from(model.heads) / ranks;
        // The others exchange keys and values as they are projected.
        let as_one = matches!(on.context_exchange(), None | Some(ContextExchange::GatheredRing));
        let repeats = !execution.fusion.grouped_queries && is_apart(on) && as_one;
        let kv_projected = u64::from(model.kv_heads) / ranks;
        Self {
            batch: u64::from(execution.micro_batch),
            sequence: u64::from(execution.sequence),
            heads,
            kv_heads: if repeats { heads } else { kv_projected },
            kv_projected,
            head_dim: u64::from(model.head_dim) + rotated,
            value_dim: latent.map_or(model.head_dim, |latent| latent.value_dim).into(),
            dealt,
        }
    }

    /// Columns of the queries, the keys and the values of a rank's tokens.
    pub(super) const fn widths(&self) -> [u64; 3] {
        let &Self { heads, kv_heads, head_dim, value_dim, dealt, .. } = self;
        [dealt * heads * head_dim, dealt * kv_heads * head_dim, dealt * kv_heads * value_dim]
    }

    const fn qkv_width(&self) -> u64 {
        let [queries, keys, values] = self.widths();
        queries + keys + values
    }

    const fn apart(&self) -> Apart {
        let [queries, keys, values] = self.widths();
        let repeats = self.kv_heads / self.kv_projected;
        Apart { columns: [queries, keys / repeats, values / repeats], repeats }
    }

    /// Columns of what attention gives for a rank's tokens.
    pub(super) const fn context_width(&self) -> u64 {
        self.dealt * self.heads * self.value_dim
    }

    fn qkv(&self, on: &ShardedTransformer) -> Linear {
        Linear::new(QKV, Side::Columns, on.hidden(), self.qkv_width()).adaptable(adapters::QKV)
    }

    fn projection(&self, on: &ShardedTransformer) -> Linear {
        Linear::new(PROJECTION, Side::Rows, self.context_width(), on.hidden()).adaptable(adapters::PROJECTION)
    }

    /// From the output of the norm to queries, keys and values, slices of one tensor.
    fn project(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        let (class, qkv) = (StreamClass::Elementwise, on.bytes(on.tokens() * self.qkv_width()));
        self.qkv(on).forward(draft, on, input);
        if on.model().bias != Bias::None && !on.execution().fusion.bias {
            draft.stream("qkv bias", class, (qkv, qkv), &[QKV.output], &[]);
        }
        let (norm, columns) = (on.query_key_norm(), self.normed_widths());
        let mut tensors = [QKV.output; 2];
        if let Some(norm) = norm.filter(|norm| norm.precedes_rotation()) {
            tensors = norm.forward(draft, on, tensors, columns);
        }
        if on.model().positions == Positions::Rotary {
            tensors = rotary::forward(draft, on, tensors, self.rotated_bytes(on));
        }
        if let Some(norm) = norm.filter(|norm| !norm.precedes_rotation()) {
            norm.forward(draft, on, tensors, columns);
        }
    }

    /// Columns of queries and of keys.
    const fn normed_widths(&self) -> [u64; 2] {
        let [queries, keys, _] = self.widths();
        [queries, keys]
    }

    fn project_backward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) -> Name {
        let class = StreamClass::Elementwise;
        // The three are slices of one tensor in the forward pass, whose gradient is put together.
        let bytes = on.bytes(on.tokens() * self.qkv_width());
        let writes = [(QKV_GRADIENT, bytes)];
        let mut gradients = GRADIENTS;
        let turns = on.model().positions == Positions::Rotary;
        let (norm, in_place) = (on.query_key_norm(), rotary::rotated(on).is_none());
        // In place the whole tensor is turned, once it is put together, but for a norm that comes
        // before.
        let turns_first = norm.is_some_and(QueryKeyNorm::precedes_rotation) || !in_place;
        if turns && turns_first {
            let of_both = [gradients[0], gradients[1]];
            let [query, key] = rotary::backward(draft, on, of_both, self.rotated_bytes(on));
            (gradients[0], gradients[1]) = (query, key);
        }
        if let Some(norm) = norm {
            let of_heads = [gradients[0], gradients[1]];
            let [query, key] = norm.backward(draft, on, [QKV.output; 2], of_heads, self.normed_widths());
            (gradients[0], gradients[1]) = (query, key);
        }
        draft.stream("concatenate qkv gradient", class, (bytes, bytes), &gradients, &writes);
        if turns && !turns_first {
            rotary::backward(draft, on, [QKV_GRADIENT; 2], self.rotated_bytes(on));
        }
        let result = self.qkv(on).backward(draft, on, input, QKV_GRADIENT);
        if on.model().bias != Bias::None && on.trains_weights() {
            draft.within(Phase::BackwardWeight, |draft| {
                draft.stream("qkv bias gradient", StreamClass::Reduction, (bytes, 0), &[QKV_GRADIENT], &[]);
            });
        }
        result
    }

    /// Bytes of queries and of keys, which are rotated.
    fn rotated_bytes(&self, on: &ShardedTransformer) -> [u64; 2] {
        self.normed_widths().map(|columns| on.bytes(on.tokens() * columns))
    }

    /// The passage of what attention gives, or of its gradient.
    fn passage(&self, on: &ShardedTransformer, names: &'static Exchange, from: Name, to: Name) -> Passage {
        Passage { names, from, to, bytes: on.bytes(on.tokens() * self.context_width()) }
    }

    const fn scores(&self) -> u64 {
        self.batch * self.heads * self.sequence * self.sequence
    }

    /// `batch`, and rows of queries that share keys: those of all heads of a group.
    const fn grouped(&self) -> (u64, u64) {
        (self.batch * self.kv_heads, self.sequence * (self.heads / self.kv_heads))
    }

    /// Bytes of the fp32 log-sum of so many queries of a sequence, for every head.
    pub(super) const fn log_sums(&self, queries: u64) -> u64 {
        4 * self.batch * self.heads * queries
    }

    /// What the gradient of flash attention needs beside: gradients of queries are summed in fp32; a row sum for every query
    /// (Dao 2023, algorithm 2).
    pub(super) const fn gradient_workspace(&self, queries: u64) -> u64 {
        4 * self.batch * queries * self.heads * self.head_dim + self.log_sums(queries)
    }

    /// Flash attention of all sequences and heads.
    pub(super) fn attention(&self, on: &ShardedTransformer, pass: Pass, meeting: Meeting) -> Work {
        let &Self { batch, heads, kv_heads, head_dim, value_dim, .. } = self;
        let (Meeting { queries, keys, causal }, dtype) = (meeting, on.execution().dtype);
        let window = on.model().window.map(u64::from).filter(|&window| window < keys);
        Work::Attention(Attention {
            pass,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            head_dim,
            value_dim,
            causal,
            window,
            dtype,
        })
    }

    /// Flash attention of whole sequences; a chunk is one by itself.
    fn flash(&self, on: &ShardedTransformer, pass: Pass) -> Work {
        let causal = on.model().encoder.is_none();
        let chunk = on.model().window.filter(|_| on.model().window_form == WindowForm::Chunks);
        let length = chunk.map_or(self.sequence, |chunk| self.sequence.min(chunk.into()));
        let chunks = Self { batch: self.batch * (self.sequence / length), ..*self };
        chunks.attention(on, pass, Meeting { queries: length, keys: length, causal })
    }
}

/// The tensors of queries, keys and values as projected.
fn operands(on: &ShardedTransformer) -> [Name; 3] {
    match &on.model().latent {
        Some(latent) => [Projections::of(on, latent).queries(), KEYS, VALUES],
        None if is_apart(on) => Shape::of(on).apart().operands(on),
        None => {
            let normed = on.query_key_norm();
            let [query, key] = match (normed, rotary::rotated(on)) {
                (Some(norm), Some(rotated)) if norm.precedes_rotation() => rotated,
                (Some(_), _) => QueryKeyNorm::outputs(),
                (None, rotated) => rotated.unwrap_or([QKV.output; 2]),
            };
            [query, key, QKV.output]
        }
    }
}

/// From queries, keys and values to the context, for all tokens and heads of a rank.
fn attend(draft: &mut Draft, on: &ShardedTransformer) {
    match on.context_exchange() {
        None => core(draft, on, operands(on), CONTEXT),
        Some(ContextExchange::AllToAll) => {
            let shape = Shape::of(on);
            exchange(draft, on, &passages(on, TO_HEADS, operands(on), BY_HEADS, shape.widths()));
            core(draft, on, BY_HEADS, CONTEXT_BY_HEADS);
            exchange(draft, on, &[shape.passage(on, TO_TOKENS, CONTEXT_BY_HEADS, CONTEXT)]);
        }
        Some(ContextExchange::Ring) => ring::forward(draft, on, operands(on), CONTEXT),
        Some(ContextExchange::AllGather) => all_gather::forward(draft, on, operands(on), CONTEXT),
        Some(ContextExchange::GatheredRing) => gathered_ring::forward(draft, on, operands(on), CONTEXT),
    }
}

/// From the gradient of the context to those of queries, keys and values.
fn attend_gradient(draft: &mut Draft, on: &ShardedTransformer, gradient: Name) {
    match on.context_exchange() {
        None => core_gradient(draft, on, operands(on), (CONTEXT, gradient), GRADIENTS),
        Some(ContextExchange::AllToAll) => {
            let shape = Shape::of(on);
            let to_heads = shape.passage(on, GRADIENT_TO_HEADS, gradient, CONTEXT_GRADIENT_BY_HEADS);
            exchange(draft, on, &[to_heads]);
            let (context, results) = ((CONTEXT_BY_HEADS, CONTEXT_GRADIENT_BY_HEADS), GRADIENTS_BY_HEADS);
            core_gradient(draft, on, BY_HEADS, context, results);
            let to_tokens = passages(on, GRADIENTS_TO_TOKENS, GRADIENTS_BY_HEADS, GRADIENTS, shape.widths());
            exchange(draft, on, &to_tokens);
        }
        Some(ContextExchange::Ring) => {
            ring::backward(draft, on, operands(on)[0], (CONTEXT, gradient), GRADIENTS);
        }
        Some(ContextExchange::AllGather) => {
            all_gather::backward(draft, on, operands(on), gradient, GRADIENTS);
        }
        Some(ContextExchange::GatheredRing) => {
            gathered_ring::backward(draft, on, operands(on), (CONTEXT, gradient), GRADIENTS);
        }
    }
}

/// The passages of queries, keys and values, or of their gradients, of so many columns.
fn passages(
    on: &ShardedTransformer,
    names: [&'static Exchange; 3],
    from: [Name; 3],
    to: [Name; 3],
    widths: [u64; 3],
) -> [Passage; 3] {
    let bytes = widths.map(|width| on.bytes(on.tokens() * width));
    [0, 1, 2].map(|n| Passage { names: names[n], from: from[n], to: to[n], bytes: bytes[n] })
}

/// Attention of a rank's heads.
fn core(draft: &mut Draft, on: &ShardedTransformer, operands: [Name; 3], context: Name) {
    let shape = Shape::of(on);
    let bytes = on.bytes(on.tokens() * shape.context_width());
    let mut reads = operands.to_vec();
    reads.dedup();
    if on.execution().attention == AttentionKernel::Flash {
        let sums = shape.log_sums(shape.sequence);
        let of_keys = if on.model().sinks { CONTEXT_OF_KEYS } else { context };
        let writes = [(of_keys, bytes), (LOG_SUMS, sums)];
        draft.push("flash attention", shape.flash(on, Pass::Forward), &reads, &writes).views =
            views::OF_ONE_KERNEL;
        if on.model().sinks {
            let (reads, traffic) = ([of_keys, LOG_SUMS], (bytes + sums, bytes));
            draft.stream("weigh with sinks", StreamClass::Elementwise, traffic, &reads, &[(context, bytes)]);
        }
        return;
    }
    let (class, dtype) = (StreamClass::Elementwise, on.execution().dtype);
    if copies_heads(on) {
        for (n, width) in shape.widths().into_iter().enumerate() {
            let (copied, bytes) = (HEADS[n], on.bytes(on.tokens() * width));
            draft.stream(copied, class, (bytes, bytes), &[operands[n]], &[(copied, bytes)]);
        }
    }
    let [query, key, value] = by_head(on, operands);
    let (scores, (batch, rows)) = (shape.scores(), shape.grouped());
    let score_bytes = on.bytes(scores);
    let product = (batch, rows, shape.sequence, shape.head_dim);
    let mut reads = vec![query, key];
    reads.dedup();
    let scored = if on.model().score_cap { CAP.raw } else { SCORES };
    let product =
        draft.gemm("query key product", product, (dtype, Layout::Forward), &reads, &[(scored, score_bytes)]);
    product.views = views::OF_QUERIES_AND_KEYS;
    if on.model().score_cap {
        CAP.forward(draft, on, SCORES, score_bytes);
    }
    if on.model().sinks {
        draft.stream("append sinks", class, (score_bytes, score_bytes), &[SCORES], &[]);
    }
    if on.model().positions == Positions::Alibi {
        draft.stream("position bias", class, (score_bytes, score_bytes), &[SCORES], &[]);
    }
    Softmax::new(on).forward(draft);
    let weights = weights(on);
    if on.model().dropout {
        let writes = [(DROPPED, score_bytes), (MASK, scores)];
        let traffic = (score_bytes, score_bytes + scores);
        draft.stream("softmax dropout", class, traffic, &[PROBABILITIES], &writes).math = Some(Math::Dropout);
    }
    let product = (batch, rows, shape.value_dim, shape.sequence);
    let reads = [weights, value];
    let (layout, writes) = ((dtype, Layout::InputGradient), [(CONTEXT_BY_HEAD, bytes)]);
    draft.gemm("value product", product, layout, &reads, &writes).views = views::OF_VALUES;
    let writes = [(context, bytes)];
    draft.stream("transpose context", class, (bytes, bytes), &[CONTEXT_BY_HEAD], &writes).views =
        views::OF_CONTEXT;
}

/// Whether operands of batched products are copied together first: of one sequence the heads are evenly apart.
fn copies_heads(on: &ShardedTransformer) -> bool {
    !on.execution().fusion.strided_heads && on.execution().micro_batch > 1
}

/// The tensors of queries, keys and values that products take.
fn by_head(on: &ShardedTransformer, operands: [Name; 3]) -> [Name; 3] {
    if copies_heads(on) { HEADS } else { operands }
}

/// What values are weighted with.
const fn weights(on: &ShardedTransformer) -> Name {
    if on.model().dropout { DROPPED } else { PROBABILITIES }
}

/// From the gradient of the context to those of queries, keys and values.
fn core_gradient(
    draft: &mut Draft,
    on: &ShardedTransformer,
    operands: [Name; 3],
    (context, gradient): (Name, Name),
    [query_gradient, key_gradient, value_gradient]: [Name; 3],
) {
    let shape = Shape::of(on);
    let [queries, keys, values] = shape.widths().map(|width| on.bytes(on.tokens() * width));
    if on.execution().attention == AttentionKernel::Flash {
        let (mut context, mut gradient) = (context, gradient);
        if on.model().sinks {
            // The gradient of the weight takes a sum over each head's columns, and goes into the
            // log-sums.
            let bytes = on.bytes(on.tokens() * shape.context_width());
            let reads = [gradient, CONTEXT_OF_KEYS, LOG_SUMS];
            let traffic = (2 * bytes + shape.log_sums(shape.sequence), bytes);
            let writes = [(CONTEXT_OF_KEYS_GRADIENT, bytes)];
            draft.stream("sinks gradient", StreamClass::Elementwise, traffic, &reads, &writes);
            (context, gradient) = (CONTEXT_OF_KEYS, CONTEXT_OF_KEYS_GRADIENT);
        }
        let mut reads = operands.to_vec();
        reads.dedup();
        reads.extend([context, LOG_SUMS, gradient]);
        let writes = [(query_gradient, queries), (key_gradient, keys), (value_gradient, values)];
        let work = shape.flash(on, Pass::Backward);
        let kernel = draft.push("flash attention gradient", work, &reads, &writes);
        kernel.workspace = shape.gradient_workspace(shape.sequence);
        kernel.views = views::OF_ONE_KERNEL;
        return;
    }
    let [query, key, value] = by_head(on, operands);
    let (class, dtype) = (StreamClass::Elementwise, on.execution().dtype);
    let (scores, (batch, rows)) = (shape.scores(), shape.grouped());
    let score_bytes = on.bytes(scores);
    let mut gradient = gradient;
    if copies_heads(on) {
        let bytes = on.bytes(on.tokens() * shape.context_width());
        draft.stream(HEADS_GRADIENT, class, (bytes, bytes), &[gradient], &[(HEADS_GRADIENT, bytes)]);
        gradient = HEADS_GRADIENT;
    }
    let incoming = if on.model().dropout { DROPPED_GRADIENT } else { PROBABILITIES_GRADIENT };
    let (reads, product) = ([gradient, value], (batch, rows, shape.sequence, shape.value_dim));
    let product = draft.gemm(incoming, product, (dtype, Layout::Forward), &reads, &[(incoming, score_bytes)]);
    product.views = views::OF_CONTEXT;
    let (reads, product) = ([weights(on), gradient], (batch, shape.sequence, shape.value_dim, rows));
    let layout = (dtype, Layout::WeightGradient);
    draft.gemm(VALUE_GRADIENT, product, layout, &reads, &[(value_gradient, values)]).views = views::OF_VALUES;
    if on.model().dropout {
        let writes = [(PROBABILITIES_GRADIENT, score_bytes)];
        let traffic = (score_bytes + scores, score_bytes);
        draft.stream("softmax dropout gradient", class, traffic, &[incoming, MASK], &writes);
    }
    let mut scores_gradient = Softmax::new(on).backward(draft);
    if on.model().score_cap {
        scores_gradient = CAP.backward(draft, on, (SCORES, scores_gradient), score_bytes);
    }
    let (reads, product) = ([scores_gradient, key], (batch, rows, shape.head_dim, shape.sequence));
    let writes = [(query_gradient, queries)];
    draft.gemm(QUERY_GRADIENT, product, (dtype, Layout::InputGradient), &reads, &writes);
    let (reads, product) = ([scores_gradient, query], (batch, shape.sequence, shape.head_dim, rows));
    draft.gemm(KEY_GRADIENT, product, layout, &reads, &[(key_gradient, keys)]).views =
        views::OF_QUERIES_AND_KEYS;
}
