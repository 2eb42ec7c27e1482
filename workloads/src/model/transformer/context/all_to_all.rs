//! From parts of sequences to heads, and back: a tensor is arranged by receiver, exchanged, and its pieces are put in the
//! order of the sequence. Queries, keys and values go one after the other, each exchange beside the passes of the next.

use super::super::draft::{Draft, Issue, Name};
use super::super::execution::ShardedTransformer;
use super::super::names::names;
use crate::graph::operator::{CollectiveKind, Group, StreamClass};

names! { $
    /// Names of the operators and tensors of an exchange.
    Exchange by exchange_names;
    arrange: "arrange " _ "",
    arranged: "" _ ", arranged",
    exchange: "exchange " _ "",
    exchanged: "" _ ", exchanged",
    order: "order " _ "",
}

/// A tensor on its way: from one name to another, with its bytes.
pub(in super::super) struct Passage {
    pub(in super::super) names: &'static Exchange,
    pub(in super::super) from: Name,
    pub(in super::super) to: Name,
    pub(in super::super) bytes: u64,
}

/// Takes tensors from parts of the sequence to heads, or back.
pub(in super::super) fn exchange(draft: &mut Draft, on: &ShardedTransformer, passages: &[Passage]) {
    debug_assert!(on.context() > 1, "a rank alone has all heads and tokens");
    for Passage { names, from, bytes, .. } in passages {
        let class = StreamClass::Permutation;
        draft.stream(names.arrange, class, (*bytes, *bytes), &[*from], &[(names.arranged, *bytes)]);
        let work = (CollectiveKind::AllToAll, Group::Context, *bytes);
        draft.collective(
            names.exchange,
            work,
            Issue::Beside,
            &[names.arranged],
            &[(names.exchanged, *bytes)],
        );
    }
    for Passage { names, to, bytes, .. } in passages {
        let class = StreamClass::Permutation;
        draft.stream(names.order, class, (*bytes, *bytes), &[names.exchanged], &[(*to, *bytes)]);
    }
}
