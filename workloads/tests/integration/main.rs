//! What the crate promises, by behaviour.

mod arrows;
mod balance;
mod checks;
mod engine;
mod feeds;
mod fusion;
mod golden;
mod lanes;
mod layered;
mod machine;
mod networks;
mod orders;
mod passes;
mod plans;
mod programs;
mod rejected;
mod replay;
mod reuse;
mod simulated;
mod traces;
mod transformer;
mod twice;
