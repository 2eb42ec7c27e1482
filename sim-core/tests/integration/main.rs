//! Behaviour of the core, one file per subject.

mod noise;
mod queue;
