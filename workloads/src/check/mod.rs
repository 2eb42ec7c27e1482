//! Verifiers that run after every pass. The one of the [`graph()`] looks at operators and storages.
//! A schedule is executed once without time, every lane as far as the others let it, and
//! whatever a pass has broken is reported: all of it, each with pass, operation, storage and micro-batch. Where micro-batches
//! repeat a release executes the step with fewer of them ([`Order::shortened`](crate::order::Order::shortened)).
//!
//! | check | how |
//! |---|---|
//! | every read has a write before it, and the storage is resident there | state of every instance |
//! | no use or free while another lane may still use it | clocks carried by signals, not the order of execution |
//! | every allocation is freed exactly once; a step ends as it began | state of every instance at the end |
//! | happens-before is acyclic, sends match receives, signals equal awaits | the execution reaches the end |
//! | no work vanishes or is done twice | executions per operator and micro-batch |
//! | a lower bound of each memory's peak is within capacity | [`memory`] |
//! | no copy waits for ever for a buffer of its host | [`host_buffers`](crate::passes::host_buffers), before anything is realised |

mod clusters;
mod graph;
mod local;
pub mod memory;
mod replay;

use std::fmt;

use crate::graph::OpGraph;
use crate::schedule::Schedule;

pub use graph::graph;

/// Something a pass has broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The pass after which it was found.
    pub pass: &'static str,
    /// Lane and block, `stage[3].compute: backward`; empty where none is to blame alone.
    pub place: String,
    /// The first micro-batch it happens with.
    pub micro_batch: u32,
    /// What is wrong.
    pub fault: Fault,
    /// How often it happens at this place.
    pub times: u32,
}

/// What can be wrong. Strings name storages, signals, lanes and operators.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Fault {
    /// A storage is read where it is not resident, or not filled.
    #[error("the {0} is read but not resident")]
    NotResident(String),
    /// A storage is filled or freed where it is not allocated.
    #[error("the {0} is not allocated")]
    NotAllocated(String),
    /// A storage is allocated where it already is.
    #[error("the {0} is allocated twice")]
    AllocatedTwice(String),
    /// A storage is still allocated at the end of the step.
    #[error("the {0} is never freed")]
    NeverFreed(String),
    /// A storage is used while another lane may still use it: no signal orders the two.
    #[error("the {storage} is used while `{with}` may still use it")]
    Unordered {
        /// The storage.
        storage: String,
        /// The other lane.
        with: String,
    },
    /// A lane waits for a signal that never comes.
    #[error("waits for count {nth} of `{signal}`, which only reaches {given}")]
    WaitsForever {
        /// The signal.
        signal: String,
        /// The count it waits for.
        nth: u32,
        /// How often it comes.
        given: u32,
    },
    /// A signal is not given as often as the step awaits it.
    #[error("`{signal}` is given {given} times a step and awaited {awaited} times")]
    Unbalanced {
        /// The signal.
        signal: String,
        /// How often it comes.
        given: u32,
        /// The highest count awaited.
        awaited: u32,
    },
    /// Two lanes give one signal, so its count does not say which has.
    #[error("`{0}` is given by two lanes")]
    TwoGivers(String),
    /// An operator is not executed once.
    #[error("{op} is executed {times} times")]
    Executions {
        /// The operator.
        op: String,
        /// How often it is.
        times: u32,
    },
    /// Not as many micro-batches leave a stage's memory as enter it.
    #[error("stage {stage}: {surplus} more micro-batches enter its memory than leave it")]
    Residents {
        /// The stage.
        stage: u32,
        /// Entries less exits.
        surplus: i64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, place, micro_batch, fault, times } = self;
        write!(f, "after pass `{pass}`: ")?;
        if !place.is_empty() {
            write!(f, "{place}, micro-batch {micro_batch}: ")?;
        }
        write!(f, "{fault}")?;
        if *times > 1 { write!(f, " (and {} more times)", times - 1) } else { Ok(()) }
    }
}

/// Checks a schedule after `pass`.
///
/// # Errors
/// Everything that is wrong, most upstream lane first.
pub fn schedule(pass: &'static str, schedule: &Schedule, graph: &OpGraph) -> Result<(), Vec<Problem>> {
    let problems = replay::replay(pass, schedule, graph);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}
