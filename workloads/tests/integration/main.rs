//! What the crate promises, by behaviour.

mod checks;
mod orders;
mod plans;
mod rejected;
mod replay;
