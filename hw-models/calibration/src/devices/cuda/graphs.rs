//! What graphs take on the host: instantiating one, and launching it.
#![expect(unsafe_code, reason = "graphs are instantiated beside the safe wrapper, which does it once")]

use std::time::Instant;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstream};
use cudarc::driver::{CudaGraph, result};

use super::errors::failed;
use super::kernels::Empty;
use super::timer::{Enqueue, Timer};
use super::{Gpu, Timed};
use crate::measure::{DeviceError, Graph, Step};

/// A chain of kernels that do nothing.
pub(super) struct Chain {
    graph: CudaGraph,
    step: Step,
}

impl Chain {
    pub(super) fn of(gpu: &Gpu, task: &Graph) -> Result<Self, DeviceError> {
        let node = Node(gpu.kernels.empty(1)?);
        Ok(Self { graph: gpu.timer.graph(&node, u64::from(task.nodes))?, step: task.step })
    }

    /// The host's time of one instantiation (s).
    fn instantiated(&self) -> Result<f64, DeviceError> {
        let cannot = |error| failed("instantiating a graph", error);
        let begun = Instant::now();
        // SAFETY: the graph lives as long as this does.
        let made = unsafe { result::graph::instantiate(self.graph.cu_graph(), CUgraphInstantiate_flags(0)) };
        let seconds = begun.elapsed().as_secs_f64();
        // SAFETY: it was just made, and nothing has launched it.
        unsafe { result::graph::exec_destroy(made.map_err(cannot)?) }.map_err(cannot)?;
        Ok(seconds)
    }
}

impl Timed for Chain {
    /// Launches that would fill the driver's queue are none of what the host pays for: each finds it empty.
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let mut seconds = 0.0;
        for _ in 0..executions {
            seconds += match self.step {
                Step::Instantiate => self.instantiated()?,
                Step::Launch => {
                    let begun = Instant::now();
                    self.graph.launch().map_err(|error| failed("launching a graph", error))?;
                    let seconds = begun.elapsed().as_secs_f64();
                    timer.wait()?;
                    seconds
                }
            };
        }
        Ok(seconds)
    }
}

struct Node(Empty);

impl Enqueue for Node {
    fn enqueue(&self, stream: CUstream, _: u64) -> Result<(), DeviceError> {
        self.0.launch(stream)
    }
}
