//! Passes: the way from the graph of a model to schedules, one after the other.
//!
//! *Rewriters* change the blocks of a model before they are laid on stages, or the graph after it.
//! *Deciders* say where storages are between their uses, once the order of visits is known.
//! *Realisers* turn order and decisions into schedules. [`list()`] has them all. No pass says how long anything takes; deciders may
//! read [`Context::estimates`].
//!
//! A technique is a pass. This one keeps activations in half of their bits, as codecs of activations do, without the operators that
//! convert them:
//!
//! ```
//! use sim_core::time::Time;
//! use workloads::error::PlanError;
//! use workloads::graph::cut::Cut;
//! use workloads::model::profiled::{ProfiledPipeline, StageProfile};
//! use workloads::order::PipelineSchedule;
//! use workloads::passes::{Kind, Pass};
//! use workloads::plan::{PipelinePlan, Pipelining, build_with};
//!
//! #[derive(Debug)]
//! struct HalfPrecisionActivations;
//!
//! impl Pass for HalfPrecisionActivations {
//!     fn name(&self) -> &'static str {
//!         "half_precision_activations"
//!     }
//!
//!     fn kind(&self) -> Kind {
//!         Kind::Rewriter
//!     }
//!
//!     fn rewrite(&self, model: &mut Cut) {
//!         for block in &mut model.blocks {
//!             for saved in block.saved() {
//!                 block.tensors[saved.0 as usize].bytes /= 2;
//!             }
//!         }
//!     }
//! }
//!
//! let stage = StageProfile {
//!     forward: Time::from_ms(1),
//!     backward_input: Time::from_ms(1),
//!     backward_weight: Time::from_ms(1),
//!     transfer: Time::ZERO,
//!     recompute: None,
//!     activation: 1_000_000,
//!     activation_kept_for_weight: None,
//!     weights: 0,
//! };
//! let plan = PipelinePlan {
//!     model: ProfiledPipeline { stages: vec![stage; 4], capacity: None },
//!     pipelining: Pipelining::plain(PipelineSchedule::OneFOneB, 8),
//! };
//! let peak = |techniques| {
//!     let lowered = build_with(&plan, techniques)?.lowered;
//!     let run = sim_core::simulate(&lowered.platform, &lowered.program, &lowered.start, &Default::default());
//!     Ok::<u64, PlanError>(run.unwrap().stores[lowered.stages[0].memory.index()].peak.bytes)
//! };
//! assert_eq!(peak(Vec::new())?, 4_000_000);
//! assert_eq!(peak(vec![Box::new(HalfPrecisionActivations)])?, 2_000_000);
//! # Ok::<(), PlanError>(())
//! ```

mod asking;
pub mod bpipe;
pub mod fusion;
pub mod host_buffers;
mod list;
pub mod lms;
pub mod movement_plan;
mod names;
pub mod no_sums;
pub mod offload;
pub mod paged_states;
mod plan;
mod presets;
pub mod realise;
pub mod recompute;
mod saving;
pub mod swap;
mod technique;
pub mod vdnn;
pub mod zero_infinity;
pub mod zero_offload;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use sim_core::time::Time;

use crate::cost::CostBook;
use crate::error::PlanError;
use crate::graph::cut::Cut;
use crate::graph::{OpGraph, OpId};
use crate::order::PipelineSchedule;

pub use list::{FACTS, Pipelining, Techniques, in_order, list};

pub use plan::{Cohort, Decided, LayerOps, Plan, Realised, Step};
pub use presets::{PRESETS, Refused, TechniquePreset};
pub use saving::Saving;
pub use technique::{Around, Facts, ModelKind, OnDrives, Technique};

/// A step of the way from the graph of a model to schedules.
pub trait Pass: Debug {
    /// The name in scenarios and errors.
    fn name(&self) -> &'static str;

    /// When it is applied.
    fn kind(&self) -> Kind;

    /// Names of passes of its kind that come before this one, where they are there.
    fn follows(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it decides by what a profiling step has measured ([`Context::profile`]).
    fn needs_profile(&self) -> bool {
        false
    }

    /// Activities that it adds to every micro-batch, at most.
    fn adds(&self, _size: &Size<'_>) -> Added {
        Added::default()
    }

    /// Changes the blocks of a model, before they are laid on stages.
    fn rewrite(&self, _model: &mut Cut) {}

    /// Changes the plan.
    ///
    /// # Errors
    /// Why the plan cannot be built.
    fn apply(&self, _plan: &mut Plan, _context: &Context<'_>) -> Result<(), PlanError> {
        Ok(())
    }
}

/// A plan that is counted without being built.
#[derive(Clone, Copy, Debug)]
pub struct Size<'a> {
    /// Its graph, before any pass.
    pub graph: &'a OpGraph,
    /// Pipeline stages.
    pub stages: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// Visits of a micro-batch, over all stages.
    pub visits: u64,
}

/// Activities that a pass adds to a micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// On every replica, over all stages.
    pub on_ranks: u64,
    /// Of all replicas together.
    pub together: u64,
}

impl Size<'_> {
    /// Copies of all activations of some stages, out and back.
    fn copies(&self, of_stage: impl Fn(u32) -> bool) -> Added {
        let storages = self.graph.storages().iter();
        let moved = storages.filter(|it| it.purpose.is_activation() && of_stage(it.stage)).count() as u64;
        Added { on_ranks: 2 * moved, together: 0 }
    }
}

/// When passes are applied: kinds one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Changes blocks, or the graph, before the order of visits is known.
    Rewriter,
    /// Decides where storages are between their uses.
    Decider,
    /// Turns order and decisions into schedules.
    Realiser,
}

/// Facts that passes may read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Schedule of the pipeline.
    pub schedule: &'a PipelineSchedule,
    /// Unloaded times of operators and rates of links. `None`: for rewriters, after which
    /// operators are priced.
    pub estimates: Option<&'a CostBook>,
    /// Copies of the model.
    pub copies: Copies,
    /// What was measured on each rank, by stage, then replica. `None`: the step is the one that is
    /// measured.
    pub profile: Option<&'a [Option<RankProfile>]>,
}

impl Context<'_> {
    /// Unloaded times of operators and rates of links.
    ///
    /// # Panics
    /// For rewriters.
    pub fn estimates(&self) -> &CostBook {
        self.estimates.expect("operators are priced when rewriters are done")
    }
}

/// Copies of a model, and which of them share a link to their host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Ranks of a stage.
    pub replicas: u32,
    /// Neighbouring ranks that hold parts of one copy.
    pub ranks: u32,
    /// Copies on one node.
    pub together: u32,
}

impl Copies {
    /// One copy, on one rank of each stage.
    pub const ONE: Self = Self { replicas: 1, ranks: 1, together: 1 };

    /// The cohort of every replica where the copies of a node are in `cohorts` by turns.
    fn in_turns(self, cohorts: u32) -> Vec<u32> {
        let cohort = |replica| replica / self.ranks % self.together % cohorts;
        (0..self.replicas).map(cohort).collect()
    }
}

/// Measurements of a rank in one micro-batch of a profiling step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankProfile {
    /// Begin and end of each operator.
    pub operators: BTreeMap<OpId, [Time; 2]>,
    /// Speed of its copies out (byte/s).
    pub rate: f64,
}

impl RankProfile {
    /// Seconds from the begin of the first of some operators to the end of the last.
    pub(crate) fn seconds(&self, operators: &Range<u32>) -> f64 {
        let mut ends =
            self.operators.range(OpId(operators.start)..OpId(operators.end)).map(|(_, ends)| *ends);
        let Some([begin, end]) = ends.next() else { return 0.0 };
        (ends.next_back().map_or(end, |[_, end]| end) - begin).as_secs()
    }
}
