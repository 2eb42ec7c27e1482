//! Operators of attention that change shapes alone: the device does nothing for them, their host
//! does.
//!
//! Counted in Megatron-LM (`ParallelAttention` and `CoreAttention` in megatron/model/transformer.py
//! at 2a86fa2071, October 2022); attention of other libraries has one or two fewer. A backward pass
//! has as many.

/// Before queries meet keys: a view and a split of what was projected, a view of queries and one of
/// keys, a transposition of queries and two of keys.
pub(crate) const OF_QUERIES_AND_KEYS: u32 = 7;
/// Before scores in memory meet values: views of scores, weights and values, a transposition.
pub(crate) const OF_VALUES: u32 = 4;
/// After them: a view of what came out, a permutation, a view of all heads together.
pub(crate) const OF_CONTEXT: u32 = 3;
/// Beside one kernel for all three.
pub(crate) const OF_ONE_KERNEL: u32 = OF_QUERIES_AND_KEYS + OF_CONTEXT;
