//! Modes: what threads do in an iteration, by how the program is executed.

mod captured;
mod co_execution;
mod compiled;
mod eager;
mod lazy;

use std::collections::BTreeSet;

use sim_core::time::Time;

use super::execution::Mode;
use super::issuer::{Issuer, Part, ThreadId};
use super::path::{Path, Region};

use self::co_execution::CoExecution;
use self::lazy::Lazy;

/// How an iteration was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ran {
    /// Operator by operator.
    Eager,
    /// Operator by operator, recorded.
    Tracing,
    /// From what was captured or compiled before.
    Captured,
    /// After something was captured or compiled in it.
    Capturing,
    /// Python beside the graph.
    CoExecuted,
    /// Python beside the graph, until it took a path that no trace has.
    FellBack,
}

impl Ran {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Tracing => "tracing",
            Self::Captured => "captured",
            Self::Capturing => "capturing",
            Self::CoExecuted => "co-executed",
            Self::FellBack => "fell back",
        }
    }
}

/// A mode with what it has captured so far.
pub(super) enum Running {
    Eager,
    CudaGraphs(Captured),
    Static(Captured),
    Lazy(Lazy),
    Compiled(Captured),
    CoExecution(CoExecution),
}

impl Running {
    pub(super) fn of(issuer: &mut Issuer<'_>) -> Self {
        match issuer.execution.mode {
            Mode::Eager => Self::Eager,
            Mode::CudaGraphs => Self::CudaGraphs(Captured::default()),
            Mode::Static => Self::Static(Captured::default()),
            Mode::Lazy => Self::Lazy(Lazy::new(issuer)),
            Mode::Compiled | Mode::CompiledGraphs => Self::Compiled(Captured::default()),
            Mode::CoExecution => Self::CoExecution(CoExecution::new(issuer)),
        }
    }

    /// Writes the next iteration.
    pub(super) fn iteration(&mut self, issuer: &mut Issuer<'_>, path: &Path) -> Ran {
        match self {
            Self::Eager => {
                eager::steps(issuer, path, Time::ZERO);
                Ran::Eager
            }
            Self::CudaGraphs(captured) => captured::visits(captured, issuer, path),
            Self::Static(captured) => captured::whole(captured, issuer, path),
            Self::Lazy(lazy) => lazy.iteration(issuer, path),
            Self::Compiled(captured) => compiled::iteration(captured, issuer, path),
            Self::CoExecution(beside) => beside.iteration(issuer, path),
        }
    }
}

/// Lists of regions that have been made ready, each once.
#[derive(Debug, Default)]
pub(super) struct Captured {
    lists: BTreeSet<Vec<Region>>,
    regions: BTreeSet<Region>,
    /// Something was made ready in this iteration.
    now: bool,
}

impl Captured {
    /// Makes a list of regions ready on a thread, unless it is. Kernels of a region are compiled
    /// once, graphs of launches captured for each list.
    fn make(&mut self, issuer: &mut Issuer<'_>, thread: ThreadId, regions: &[Region]) {
        if regions.is_empty() || self.lists.contains(regions) {
            return;
        }
        let new: Vec<Region> =
            regions.iter().copied().filter(|&region| self.regions.insert(region)).collect();
        let time = issuer.building(&new);
        issuer.work(thread, Part::Build, time);
        self.lists.insert(regions.to_vec());
        self.now = true;
    }

    /// How the iteration ran that ends here.
    fn ran(&mut self) -> Ran {
        if std::mem::take(&mut self.now) { Ran::Capturing } else { Ran::Captured }
    }
}
