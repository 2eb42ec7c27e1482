//! What the hardware models promise, by subject.

mod catalogue;
mod machine;
