//! What the hardware models promise, by subject.

mod catalogue;
mod collectives;
mod host;
mod kernels;
mod machine;
mod machine_set;
mod table;
