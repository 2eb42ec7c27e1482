//! Behaviour of the core, one file per subject.

mod ahead;
mod allocation;
mod buckets;
mod collectives;
mod conservation;
mod counters;
mod critical_path;
mod determinism;
mod ends;
mod fold;
mod folded_runs;
mod forks;
mod garbage;
mod halts;
mod invalid_programs;
mod jobs;
mod kernels;
mod messages;
mod noise;
mod plain_timers;
mod queue;
mod queueing;
mod random_programs;
mod sharing;
mod small_programs;
mod support;
