//! Workloads of foretrain: what a training step executes, where its tensors are, and in which order.
//! Depends on `sim-core` (and `hw-models`), never on scenarios or reports; opens no files and knows no YAML.
//!
//! A plan goes through four levels, because each technique acts where its information is:
//!
//! ```text
//!   model        a profile, a transformer, a list of layers: blocks of operators, on stages
//!      |
//!   OpGraph      operators with their work, and tensors, per stage, chunk and phase    <- rewriters: recompute, ...
//!      |  order: GPipe, 1F1B, interleaved, ZB-H1, ZB-H2, ZB-V, ZB-auto
//!   Order        per stage: which phase of which chunk and micro-batch after which
//!      |         table of transfers                                                    <- deciders: bpipe, offload, swap
//!      |
//!   Schedule     lanes of items over storages, the micro-batch as parameter            <- realisers: visits, transfers, ...
//!      |  lower, with the CostBook: here times come in
//!   Program      streams of operations on resources, for sim_core::simulate
//! ```
//!
//! [`passes::list()`] has all passes in their order; [`check`] verifies the graph and the schedules after them. Costs come from the
//! hardware models ([`hardware`]), ranks are on the GPUs of a machine ([`site`]): [`plan::build_on`], [`plan::build_layered_on`].
//!
//! A technique never says how long anything takes: contention, bubbles, stalls and running out of memory emerge in the engine. The
//! whole chain is [`plan::build`]:
//!
//! ```
//! use sim_core::time::Time;
//! use sim_core::{Options, simulate};
//! use workloads::lower::Lowered;
//! use workloads::model::profiled::{ProfiledPipeline, StageProfile};
//! use workloads::order::PipelineSchedule;
//! use workloads::plan::{PipelinePlan, Pipelining, build};
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
//! let Lowered { platform, program, start, stages, .. } = build(&plan)?.lowered;
//! let run = simulate(&platform, &program, &start, &Options::default()).unwrap();
//! // Eight micro-batches and a bubble of three, of 3 ms each; stage 0 holds four micro-batches.
//! assert_eq!(run.time, Time::from_ms(33));
//! assert_eq!(run.stores[stages[0].memory.index()].peak.bytes, 4_000_000);
//! # Ok::<(), workloads::plan::PlanError>(())
//! ```
#![forbid(unsafe_code)]

pub mod account;
pub mod chain;
pub mod check;
pub mod cost;
pub mod diagnostic;
pub mod error;
pub mod exchange;
pub mod feed;
pub mod graph;
pub mod hardware;
pub mod host_update;
pub mod lanes;
pub mod limits;
pub mod liveness;
pub mod lower;
pub mod memo;
pub mod memory;
pub mod model;
pub mod names;
pub mod order;
pub mod passes;
pub mod placement;
pub mod plan;
pub mod program;
pub mod schedule;
pub mod site;
pub mod trace;
pub mod transfer;
