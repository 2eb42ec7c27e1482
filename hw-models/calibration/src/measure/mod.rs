//! Measuring a device: which tasks are timed, how often, and what is kept of them.
//!
//! ```text
//! Suite     probes, each a list of tasks          -- suite
//!   | runner: order, warm-ups, repetition, sentinels against drift, budget, what is known already
//! Device    executes a task so many times         -- devices: host, cuda, torch; joined, synthetic, recorded
//!   |
//! Record    the samples of a task, and what was noticed meanwhile; a line of a file
//! ```
//!
//! Rules of timing are one file ([`timing`]) for all devices, so that a figure means the same wherever it is from.

mod device;
mod joined;
mod record;
mod recorded;
mod runner;
mod suite;
mod synthetic;
mod task;
pub mod timing;

pub use device::{Capability, Conditions, Device, DeviceError, Fabric, Found, Identity};
pub use joined::Joined;
pub use record::{Flag, Heading, Record};
pub use recorded::Recorded;
pub use runner::{End, Failure, Observer, Outcome, Plan, run};
pub use suite::{CudaFacts, Others, Probe, Suite, cuda_suite, framework_suite, host_suite};
pub use synthetic::Synthetic;
pub use task::{
    Access, Allocated, Allocation, Backward, Beside, Collective, Data, Direction, Disk, Gather, Graph,
    HostMemory, HostSide, Kernel, Launch, MemoryPass, Operation, Operator, Pages, Pattern, PeerCopy, Phase,
    Route, SendReceive, Spin, Step, Storage, Sustained, Task, Tensor, Transfer, Update, Ways, Work, ZeroCopy,
};
