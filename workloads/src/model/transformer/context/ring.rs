//! Ring attention: while a rank computes attention of its queries to the keys it has, these go on to the next rank and
//! others come from the one before. Partial results are put together by the sums of their exponentials.

use crate::model::names::{Name, name};

use super::super::draft::{Draft, Issue};
use super::super::execution::ShardedTransformer;
use super::{Ring, numbered};
use crate::graph::operator::{CollectiveKind, Group, Pass, StreamClass};

/// What it computes with is joined, so that one message carries both.
const PAIR: Name = Name::of("keys and values");
const PAIR_GRADIENT: Name = Name::of("keys and values gradient");
const LOG_SUMS: Name = Name::of("log-sum-exp");
const COPY: StreamClass = StreamClass::Elementwise;

/// From queries, keys and values to tensor `context`.
pub(in super::super) fn forward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    [query, key, value]: [Name; 3],
    context: Name,
) {
    let ring = Ring::of(on);
    let Ring { shape, pair, .. } = &ring;
    let mut own = vec![key, value];
    own.dedup();
    draft.stream("join keys and values", COPY, (*pair, *pair), &own, &[(numbered(PAIR, 0), *pair)]);
    for step in 0..ring.part.ranks {
        let [here, next] = [step, step + 1].map(|step| numbered(PAIR, step));
        if step + 1 < ring.part.ranks {
            ring.pass_on(draft, numbered("pass on", step), &[here], &[(next, *pair)]);
        }
        let meeting = ring.part.meeting(step);
        let (partial, sums) = (numbered("context", step), numbered(LOG_SUMS, step));
        let result = ring.of_queries(ring.result, meeting);
        let writes = [(partial, result), (sums, shape.log_sums(meeting.queries))];
        let work = shape.attention(on, Pass::Forward, meeting);
        draft.push(numbered("flash attention", step), work, &[query, here], &writes);
        ring.add_log_sums(draft, step);
    }
    for step in 0..ring.part.ranks {
        let meeting = ring.part.meeting(step);
        let (result, sums) = (ring.of_queries(ring.result, meeting), shape.log_sums(meeting.queries));
        let reads = [numbered("context", step), numbered(LOG_SUMS, step), LOG_SUMS];
        if step == 0 {
            let (traffic, writes) = ((result + 2 * sums, result), [(context, result)]);
            draft.stream(numbered("correct context", step), COPY, traffic, &reads, &writes);
        } else {
            let reads = [reads[0], reads[1], reads[2], context];
            draft.stream(numbered("correct context", step), COPY, (2 * (result + sums), result), &reads, &[]);
        }
    }
}

/// From the gradient of the context to those of queries, keys and values. The parts come back in the reverse order; their
/// gradients follow one step behind, and are home after the last.
pub(in super::super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    query: Name,
    (context, gradient): (Name, Name),
    [query_gradient, key_gradient, value_gradient]: [Name; 3],
) {
    let ring = Ring::of(on);
    let (ranks, pair) = (ring.part.ranks, ring.pair);
    let returned = |step| name("returned", numbered(PAIR, step));
    let arrived = numbered(PAIR, ranks - 1);
    draft.stream("copy keys and values", COPY, (pair, pair), &[arrived], &[(returned(0), pair)]);
    for step in 0..ranks {
        let before = step.checked_sub(1).map(|before| numbered(PAIR_GRADIENT, before));
        let summed = name(numbered(PAIR_GRADIENT, step), "arrived");
        let mut sent: Vec<Name> = before.into_iter().collect();
        let mut arriving: Vec<(Name, u64)> = before.iter().map(|_| (summed, pair)).collect();
        if step + 1 < ranks {
            sent.insert(0, returned(step));
            arriving.insert(0, (returned(step + 1), pair));
        }
        ring.pass_on(draft, numbered("pass back", step), &sent, &arriving);

        let meeting = ring.part.meeting(ranks - 1 - step);
        let (of_queries, of_pair) = (ring.of_queries(ring.queries, meeting), ring.of_pair(meeting));
        let (partial, of_keys) =
            (numbered("query gradient", step), name(numbered(PAIR_GRADIENT, step), "of part"));
        let reads = [query, returned(step), context, LOG_SUMS, gradient];
        let writes = [(partial, of_queries), (of_keys, of_pair)];
        let work = ring.shape.attention(on, Pass::Backward, meeting);
        let kernel = draft.push(numbered("flash attention gradient", step), work, &reads, &writes);
        kernel.workspace = ring.shape.gradient_workspace(meeting.queries);

        let add_queries = numbered("add query gradient", step);
        if step == 0 {
            let writes = [(query_gradient, ring.queries)];
            draft.stream(add_queries, COPY, (of_queries, ring.queries), &[partial], &writes);
        } else {
            let traffic = (2 * of_queries, of_queries);
            draft.stream(add_queries, COPY, traffic, &[partial, query_gradient], &[]);
        }
        // The first sum starts here; those that arrive are added to in place, the last, which is of the rank's own keys, gets
        // the names of the results.
        let add_keys = numbered("add keys and values gradient", step);
        let sum = numbered(PAIR_GRADIENT, step);
        let last = [(key_gradient, ring.keys), (value_gradient, pair - ring.keys)];
        let (reads, read) =
            if step == 0 { (vec![of_keys], of_pair) } else { (vec![summed, of_keys], pair + of_pair) };
        let writes = if step + 1 < ranks { &[(sum, pair)][..] } else { &last[..] };
        draft.stream(add_keys, COPY, (read, pair), &reads, writes);
    }
}

impl Ring {
    /// Sends tensors to the next rank, and gets those of the one before.
    fn pass_on(&self, draft: &mut Draft, name: Name, reads: &[Name], writes: &[(Name, u64)]) {
        let bytes = self.pair * writes.len() as u64;
        draft.collective(
            name,
            (CollectiveKind::SendReceive, Group::Context, bytes),
            Issue::Beside,
            reads,
            writes,
        );
    }

    /// Adds the sums of a step to those of all before it.
    fn add_log_sums(&self, draft: &mut Draft, step: u64) {
        let sums = self.shape.log_sums(self.part.meeting(step).queries);
        let of_step = numbered(LOG_SUMS, step);
        if step == 0 {
            draft.stream("copy log-sum-exp", COPY, (sums, sums), &[of_step], &[(LOG_SUMS, sums)]);
        } else {
            let name = numbered("correct log-sum-exp", step);
            draft.stream(name, COPY, (2 * sums, sums), &[LOG_SUMS, of_step], &[]);
        }
    }
}
