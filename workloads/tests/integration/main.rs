//! What the crate promises, by behaviour.

mod balance;
mod checks;
mod engine;
mod golden;
mod layered;
mod machine;
mod orders;
mod plans;
mod rejected;
mod replay;
mod reuse;
mod simulated;
mod transformer;
