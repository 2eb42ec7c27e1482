//! Behaviour of the core, one file per subject.

mod determinism;
mod fold;
mod folded_runs;
mod noise;
mod queue;
mod queueing;
mod random_programs;
mod sharing;
mod small_programs;
mod support;
