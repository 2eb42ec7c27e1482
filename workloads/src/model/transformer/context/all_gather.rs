//! Attention to gathered keys and values: each rank has those of whole sequences for the time of a layer's attention, and
//! computes its two pieces of queries with as many of them as a causal mask lets them see.

use super::super::attention::{Meeting, Shape};
use super::super::draft::{Draft, Issue, Name};
use super::super::execution::ShardedTransformer;
use super::super::names::names;
use super::Part;
use crate::graph::operator::{CollectiveKind, Group, Pass, StreamClass};

names! { $
    /// Names of the operators and tensors of keys or values on their way.
    Gathered by gathered_names;
    gather: "gather " _ "",
    gathered: "" _ ", gathered",
    order: "order " _ "",
    ordered: "" _ " in order",
    clear: "clear " _ " gradient",
    whole_gradient: "" _ " gradient of all ranks",
    order_gradient: "order " _ " gradient",
    ordered_gradient: "" _ " gradient by rank",
    reduce: "reduce " _ " gradient",
}

names! { $
    /// Names of the operators and tensors of a piece of the queries.
    Piece by piece_names;
    attention: "flash attention of " _ "",
    context: "context of " _ "",
    sums: "log-sum-exp of " _ "",
    place: "place context of " _ "",
    gradient: "flash attention gradient of " _ "",
    query_gradient: "query gradient of " _ "",
    key_gradient: "key gradient of " _ "",
    value_gradient: "value gradient of " _ "",
    place_gradient: "place query gradient of " _ "",
    add_gradients: "add key and value gradients of " _ "",
}

const KEY: &Gathered = gathered_names!("key");
const VALUE: &Gathered = gathered_names!("value");
const KEY_AGAIN: &Gathered = gathered_names!("key again");
const VALUE_AGAIN: &Gathered = gathered_names!("value again");
const FRONT: &Piece = piece_names!("front piece");
const BACK: &Piece = piece_names!("back piece");
const COPY: StreamClass = StreamClass::Elementwise;

/// From queries, keys and values to tensor `context`.
pub(in super::super) fn forward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    operands: [Name; 3],
    context: Name,
) {
    let (part, shape) = (Part::of(on), Shape::of(on));
    let [query, key, value] = operands;
    gather(draft, on, &shape, [(KEY, key), (VALUE, value)]);
    let result = on.bytes(on.tokens() * shape.context_width());
    for (number, piece) in [FRONT, BACK].into_iter().enumerate() {
        let meeting = meeting(&part, number);
        let writes = [(piece.context, result / 2), (piece.sums, shape.log_sums(meeting.queries))];
        let work = shape.attention(on, Pass::Forward, meeting);
        draft.push(piece.attention, work, &[query, KEY.ordered, VALUE.ordered], &writes);
    }
    draft.stream(FRONT.place, COPY, (result / 2, result / 2), &[FRONT.context], &[(context, result)]);
    draft.stream(BACK.place, COPY, (result / 2, result / 2), &[BACK.context, context], &[]);
}

/// From the gradient of the context to those of queries, keys and values.
pub(in super::super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    operands: [Name; 3],
    gradient: Name,
    [query_gradient, key_gradient, value_gradient]: [Name; 3],
) {
    let (part, shape) = (Part::of(on), Shape::of(on));
    let [query, key, value] = operands;
    gather(draft, on, &shape, [(KEY_AGAIN, key), (VALUE_AGAIN, value)]);
    let [queries, keys, values] = shape.widths().map(|width| on.bytes(on.tokens() * width));
    let whole = [keys, values].map(|bytes| bytes * part.ranks);
    for (names, bytes) in [KEY, VALUE].into_iter().zip(whole) {
        draft.stream(names.clear, COPY, (0, bytes), &[], &[(names.whole_gradient, bytes)]);
    }
    for (number, piece) in [FRONT, BACK].into_iter().enumerate() {
        let meeting = meeting(&part, number);
        let seen = |bytes: u64| bytes * meeting.keys / part.tokens;
        let reads = [query, KEY_AGAIN.ordered, VALUE_AGAIN.ordered, piece.context, piece.sums, gradient];
        let writes = [
            (piece.query_gradient, queries / 2),
            (piece.key_gradient, seen(keys)),
            (piece.value_gradient, seen(values)),
        ];
        let work = shape.attention(on, Pass::Backward, meeting);
        let kernel = draft.push(piece.gradient, work, &reads, &writes);
        kernel.workspace = shape.gradient_workspace(meeting.queries);
        let placed = if number == 0 { &[(query_gradient, queries)][..] } else { &[] };
        let traffic = (queries / 2, queries / 2);
        draft.stream(piece.place_gradient, COPY, traffic, &[piece.query_gradient], placed);
        let (added, reads) = (
            seen(keys + values),
            [piece.key_gradient, piece.value_gradient, KEY.whole_gradient, VALUE.whole_gradient],
        );
        draft.stream(piece.add_gradients, COPY, (2 * added, added), &reads, &[]);
    }
    let results = [(key_gradient, keys), (value_gradient, values)];
    for ((names, bytes), result) in [KEY, VALUE].into_iter().zip(whole).zip(results) {
        let writes = [(names.ordered_gradient, bytes)];
        let class = StreamClass::Permutation;
        draft.stream(names.order_gradient, class, (bytes, bytes), &[names.whole_gradient], &writes);
        let work = (CollectiveKind::ReduceScatter, Group::Context, bytes);
        draft.collective(names.reduce, work, Issue::Waiting, &[names.ordered_gradient], &[result]);
    }
}

/// Gathers keys and values, and puts the pieces in the order of the sequence.
fn gather(
    draft: &mut Draft,
    on: &ShardedTransformer,
    shape: &Shape,
    [(key, keys_here), (value, values_here)]: [(&'static Gathered, Name); 2],
) {
    let [_, keys, values] = shape.widths().map(|width| on.bytes(on.tokens() * width) * on.context());
    let all = [(key, keys_here, keys), (value, values_here, values)];
    for (names, from, bytes) in all {
        let work = (CollectiveKind::AllGather, Group::Context, bytes);
        draft.collective(names.gather, work, Issue::Waiting, &[from], &[(names.gathered, bytes)]);
    }
    for (names, _, bytes) in all {
        let class = StreamClass::Permutation;
        draft.stream(names.order, class, (bytes, bytes), &[names.gathered], &[(names.ordered, bytes)]);
    }
}

/// A piece of the queries with the keys up to its last one.
fn meeting(part: &Part, number: usize) -> Meeting {
    let before = if number == 0 { part.rank } else { 2 * part.ranks - 1 - part.rank };
    let seen = if part.causal { before + 1 } else { 2 * part.ranks };
    Meeting { queries: part.piece(), keys: seen * part.piece(), causal: part.causal }
}
