//! Event queues. Order within an instant is by entity, never by insertion, so that a run does not depend on which queue
//! served it.
//!
//! - [`timers::Timers`]: what never moves once set (one pending entry per stream; owners drop stale ones).
//! - [`finish::FinishTree`]: what moves often (finish times of activities whose rate changes).
//!
//! Tests and benches compare `Timers` with the plainly right `tests/integration/plain_timers.rs`.

pub mod finish;
pub mod timers;
