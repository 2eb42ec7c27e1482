//! Power: of the boards of GPUs, and of the hosts that they are in.

mod board;
mod host;

pub use board::{BoardPower, BoardUse};
pub use host::{HOST_POWER, HostPower, MemoryPower, ProcessorPower};
