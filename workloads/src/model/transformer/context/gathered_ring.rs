//! Ring attention as PyTorch computes it (`_templated_ring_attention` of `torch.distributed.tensor.experimental`, with its
//! defaults of 2.6: `rotate_method` all-gather, `convert_to_f32`): keys and values of all ranks are gathered once, beside the
//! attention to the rank's own; queries meet them part by part, and what that gives is summed in fp32. In the backward pass
//! gradients of keys and values go from rank to rank in fp32, until they are home. A sum is one pass, as compiled; eager it is several.

use crate::model::names::{Name, name};

use super::super::draft::{Draft, Issue};
use super::super::execution::ShardedTransformer;
use super::{Ring, numbered};
use crate::graph::operator::{CollectiveKind, Dtype, Group, Pass, StreamClass};

const JOINED: Name = Name::of("keys and values");
const GATHERED: Name = Name::of("keys and values of all ranks");
const AGAIN: [Name; 2] = [Name::of("keys and values again"), Name::of("keys and values of all ranks again")];
const CONTEXT: Name = Name::of("context");
const LOG_SUMS: Name = Name::of("log-sum-exp");
const SUM: Name = Name::of("sum of contexts");
const LOG_SUMS_SUM: Name = Name::of("sum of exponentials");
const QUERY_SUM: Name = Name::of("sum of query gradients");
const PAIR_SUM: Name = Name::of("sum of key and value gradients");
const COPY: StreamClass = StreamClass::Elementwise;

/// From queries, keys and values to tensor `context`.
pub(in super::super) fn forward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    [query, key, value]: [Name; 3],
    context: Name,
) {
    let ring = Ring::of(on);
    ring.gather(draft, issue(on), [key, value], [JOINED, GATHERED]);
    for step in 0..ring.part.ranks {
        let meeting = ring.part.meeting(step);
        let reads = if step == 0 { vec![query, key, value] } else { vec![query, GATHERED] };
        let writes = [
            (numbered(CONTEXT, step), ring.of_queries(ring.result, meeting)),
            (numbered(LOG_SUMS, step), ring.shape.log_sums(meeting.queries)),
        ];
        let work = ring.shape.attention(on, Pass::Forward, meeting);
        draft.push(numbered("flash attention", step), work, &reads, &writes);
        if step > 0 {
            ring.add_context(draft, step, context);
        }
    }
}

/// From the gradient of the context to those of queries, keys and values.
pub(in super::super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    [query, key, value]: [Name; 3],
    (context, gradient): (Name, Name),
    results: [Name; 3],
) {
    let ring = Ring::of(on);
    let [joined, gathered] = AGAIN;
    ring.gather(draft, issue(on), [key, value], [joined, gathered]);
    for step in 0..ring.part.ranks {
        let meeting = ring.part.meeting(step);
        let pair = if step == 0 { vec![key, value] } else { vec![gathered] };
        let reads = [vec![query], pair, vec![context, LOG_SUMS, gradient]].concat();
        let writes = [
            (numbered("query gradient", step), ring.of_queries(ring.queries, meeting)),
            (numbered("key and value gradient", step), ring.of_pair(meeting)),
        ];
        let work = ring.shape.attention(on, Pass::Backward, meeting);
        let kernel = draft.push(numbered("flash attention gradient", step), work, &reads, &writes);
        kernel.workspace = ring.shape.gradient_workspace(meeting.queries);
        ring.pass_on_gradients(draft, issue(on), step);
        ring.add_query_gradient(draft, step, results[0]);
    }
    let home = arrived(ring.part.ranks - 1);
    let writes = [(results[1], ring.keys), (results[2], ring.pair - ring.keys)];
    draft.stream("cast key and value gradients", COPY, (single(ring.pair), ring.pair), &[home], &writes);
}

/// Compiled, every collective is waited for where it is issued.
const fn issue(on: &ShardedTransformer) -> Issue {
    if on.execution().exchanges_beside { Issue::Beside } else { Issue::Waiting }
}

impl Ring {
    /// Joins keys and values, so that one gather carries both, beside attention to the rank's own.
    fn gather(&self, draft: &mut Draft, issue: Issue, own: [Name; 2], [joined, gathered]: [Name; 2]) {
        let (pair, all) = (self.pair, self.part.ranks * self.pair);
        draft.stream(name("join", joined), COPY, (pair, pair), &own, &[(joined, pair)]);
        let work = (CollectiveKind::AllGather, Group::Context, all);
        draft.collective(name("gather", joined), work, issue, &[joined], &[(gathered, all)]);
    }

    /// Adds what a step gives to what is there, both weighted by their sums of exponentials.
    fn add_context(&self, draft: &mut Draft, step: u64, context: Name) {
        let meeting = self.part.meeting(step);
        let sums = self.shape.log_sums(self.part.tokens);
        let (before, before_bytes) = if step == 1 {
            ([numbered(CONTEXT, 0), numbered(LOG_SUMS, 0)], self.result)
        } else {
            ([numbered(SUM, step - 1), numbered(LOG_SUMS_SUM, step - 1)], single(self.result))
        };
        let (after, after_bytes) = if step + 1 == self.part.ranks {
            ([context, LOG_SUMS], self.result)
        } else {
            ([numbered(SUM, step), numbered(LOG_SUMS_SUM, step)], single(self.result))
        };
        let part = self.of_queries(self.result, meeting) + self.shape.log_sums(meeting.queries);
        let reads = [before[0], before[1], numbered(CONTEXT, step), numbered(LOG_SUMS, step)];
        let writes = [(after[0], after_bytes), (after[1], sums)];
        let traffic = (before_bytes + sums + part, after_bytes + sums);
        draft.stream(numbered("add context", step), COPY, traffic, &reads, &writes);
    }

    /// Adds a step's gradients of keys and values to those that have arrived, and sends them on beside the next step.
    fn pass_on_gradients(&self, draft: &mut Draft, issue: Issue, step: u64) {
        let of_step = numbered("key and value gradient", step);
        let (sum, all) = (numbered(PAIR_SUM, step), single(self.pair));
        let (reads, before) = match step {
            0 => (vec![of_step], 0),
            _ => (vec![arrived(step - 1), of_step], all),
        };
        let read = before + self.of_pair(self.part.meeting(step));
        draft.stream(numbered("add key and value gradients", step), COPY, (read, all), &reads, &[(sum, all)]);
        let work = (CollectiveKind::SendReceive, Group::Context, all);
        let writes = [(arrived(step), all)];
        draft.collective(numbered("pass on gradients", step), work, issue, &[sum], &writes);
    }

    fn add_query_gradient(&self, draft: &mut Draft, step: u64, result: Name) {
        let of_step = numbered("query gradient", step);
        let (reads, before) = match step {
            0 => (vec![of_step], 0),
            _ => (vec![numbered(QUERY_SUM, step - 1), of_step], single(self.queries)),
        };
        let after = if step + 1 == self.part.ranks {
            (result, self.queries)
        } else {
            (numbered(QUERY_SUM, step), single(self.queries))
        };
        let read = before + self.of_queries(self.queries, self.part.meeting(step));
        draft.stream(numbered("add query gradient", step), COPY, (read, after.1), &reads, &[after]);
    }
}

/// Gradients of keys and values that the rank before has sent in a step.
fn arrived(step: u64) -> Name {
    name(numbered(PAIR_SUM, step), "arrived")
}

/// Bytes in fp32 of what flash attention takes or gives, which is in 16 bits.
const fn single(bytes: u64) -> u64 {
    bytes * Dtype::Fp32.bytes() / Dtype::Bf16.bytes()
}
