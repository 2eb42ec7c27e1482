//! Event queues. Order within an instant is by entity, never by insertion, so that a run does not depend on which queue
//! served it.
//!
//! - [`timers::Timers`]: what never moves once set (one pending entry per stream; owners drop stale ones).
//! - [`finish::FinishTree`]: what moves often (finish times of activities whose rate changes).
//! - [`plain::PlainTimers`]: the plainly right version of `Timers`, compared with it in tests and benches.

pub mod finish;
pub mod plain;
pub mod timers;
