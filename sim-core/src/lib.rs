//! The discrete-event core of foretrain: time, fluid resources, pools, stores, and streams of operations.
//! It depends on no other crate of the workspace and knows no GPU, tensor, model, YAML or plot.
//!
//! - A [`platform::Platform`] is what there is: *fluids* that activities share (a link, a memory), *pools* of units held for
//!   a while, *stores* of bytes.
//! - A [`program::Program`] is what runs: *streams*, in-order lists of operations built from blocks that are shared by all
//!   streams that do the same. The only operation that takes time by itself is an *activity*.
//! - [`simulate`] executes it and gives a [`outcome::Run`]: how it ended, time by cause, high-water marks.
//!
//! Two bakers share one oven, which bakes at most 6 rolls a minute; the second one has to knead first:
//!
//! ```text
//!   baker 0   bake 12 rolls ----------> 3 min      the oven alone for a minute (6 rolls), then half of it
//!   baker 1   knead, bake 12 rolls ------> 4 min      half of it for 2 minutes (6 rolls), then alone
//! ```
//!
//! ```
//! use sim_core::platform::{Demand, Platform};
//! use sim_core::program::{Activity, Affine, Body, Call, Op, Program, StartState};
//! use sim_core::time::Time;
//! use sim_core::{Options, simulate};
//!
//! let (minute, roll) = (60_000_000_000_000, 10_000_000); // in ps; a roll is 10 M crumbs
//! let (mut platform, mut program) = (Platform::default(), Program::default());
//! let (baking, kneading) = (program.cause("baking"), program.cause("kneading"));
//! let oven = platform.fluid("oven", 6.0 * roll as f64 / 60.0, baking);
//! let route = platform.route([Demand::on(oven)]);
//! let costs = program.cost_table(
//!     vec![Activity::lasting(Time(minute), kneading), Activity::moving(12 * roll, 0, baking)],
//!     vec![],
//! );
//! let baker = program.binding([route.0], Some(costs));
//! let run = |activity| Op::Run { activity: Affine::constant(activity) };
//! for ops in [vec![run(1)], vec![run(0), run(1)]] {
//!     let block = program.block("shift", ops);
//!     let role = program.role([Call::once(block)]);
//!     program.stream("baker", baker, Body::Role(role));
//! }
//! let run = simulate(&platform, &program, &StartState::default(), &Options::default())?;
//! let minutes = |s: &sim_core::outcome::StreamUse| (s.finished.unwrap().as_secs() / 60.0).round();
//! assert_eq!(run.streams.iter().map(minutes).collect::<Vec<_>>(), [3.0, 4.0]);
//! # Ok::<(), Vec<sim_core::validate::ProgramError>>(())
//! ```
#![forbid(unsafe_code)]

pub mod engine;
pub mod fixed;
pub mod fold;
pub mod id;
pub mod noise;
pub mod observe;
pub mod outcome;
pub mod platform;
pub mod program;
pub mod queue;
pub mod record;
pub mod sharing;
pub mod time;
pub mod validate;

pub use engine::{Options, Simulation, simulate, simulate_observed};
