//! Times of what runs on a stream, from the events around it.
//!
//! The stream is held up until all is queued, so that the host's pace does not count. Executions that are so short that a batch
//! of a millisecond has [`IN_GRAPHS`] or more of them are the nodes of two graphs, of 20 and of 120:
//! the difference of their times is that of 100 executions, without what starting a graph and reaching the first event take.

use std::sync::Arc;

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstream, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream, DriverError};

use super::errors::failed;
use super::kernels::{Kernels, Turning};
use super::memory::Buffer;
use crate::measure::DeviceError;
use crate::measure::timing::IN_GRAPHS;

/// Something that runs on a stream.
pub(super) trait Enqueue {
    /// Enqueues the `at`-th execution.
    fn enqueue(&self, stream: CUstream, at: u64) -> Result<(), DeviceError>;

    /// Whether executions find in the cache what those before left there.
    fn is_hot(&self) -> bool {
        false
    }
}

/// Nodes of the two graphs.
const NODES: [u64; 2] = [20, 120];
/// How long the stream is held up for each thing that is queued, and at least (clocks): some 10 us, more than queueing takes.
const HOLD_UP: u64 = 20_000;
/// No kernel is shorter (s): a difference of noise must not pass for one that takes no time, of which a batch would never end.
pub(super) const SHORTEST: f64 = 1e-7;
/// Caches that are written over between graphs.
pub(super) const BEYOND: u64 = 3;

/// A stream with a beginning and an end.
pub(super) struct Timer {
    pub(super) stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
    begun: CudaEvent,
    ended: CudaEvent,
    turning: Turning,
    /// What is written over to empty the cache.
    cache: Buffer,
}

/// Executions in graphs.
pub(super) struct Graphs([CudaGraph; 2]);

impl Timer {
    /// `cache`: bytes of the second-level cache.
    pub(super) fn of(context: &Arc<CudaContext>, kernels: &Kernels, cache: u64) -> Result<Self, DeviceError> {
        let cannot = |error: DriverError| failed("making a stream", error);
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(cannot);
        Ok(Self {
            stream: context.new_stream().map_err(cannot)?,
            context: context.clone(),
            begun: event()?,
            ended: event()?,
            turning: kernels.spin(0)?,
            cache: Buffer::of(BEYOND * cache.max(1 << 20))?,
        })
    }

    /// Time between the events around what `work` enqueues (s).
    pub(super) fn span(
        &self,
        work: impl FnOnce(CUstream) -> Result<(), DeviceError>,
    ) -> Result<f64, DeviceError> {
        let timing = |error: DriverError| failed("timing", error);
        self.begun.record(&self.stream).map_err(timing)?;
        work(self.stream.cu_stream())?;
        self.ended.record(&self.stream).map_err(timing)?;
        let milliseconds = self.begun.elapsed_ms(&self.ended).map_err(timing)?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    /// Holds the stream up until so many things can have been queued.
    pub(super) fn hold_up(&self, queued: u64) -> Result<(), DeviceError> {
        self.turning.launch(self.stream.cu_stream(), 1, HOLD_UP * (queued + 10))
    }

    /// Time of executions one after the other (s); in `graphs`, which are made when they are first needed, where that is how so
    /// many are timed.
    pub(super) fn time(
        &self,
        work: &dyn Enqueue,
        graphs: &mut Option<Graphs>,
        executions: u32,
    ) -> Result<f64, DeviceError> {
        if executions < IN_GRAPHS {
            return self.in_stream(work, executions);
        }
        if graphs.is_none() {
            *graphs = Some(Graphs([self.graph(work, NODES[0])?, self.graph(work, NODES[1])?]));
        }
        let Some(Graphs(graphs)) = graphs else { return self.in_stream(work, executions) };
        let step = (NODES[1] - NODES[0]) as f64;
        let rounds = (f64::from(executions) / step).ceil();
        let mut difference = 0.0;
        for _ in 0..rounds as u32 {
            let mut of = [0.0; 2];
            for (seconds, graph) in of.iter_mut().zip(graphs.iter()) {
                if work.is_hot() {
                    self.hold_up(1)?;
                } else {
                    self.cache.clear(self.stream.cu_stream())?;
                }
                *seconds =
                    self.span(|_| graph.launch().map_err(|error| failed("launching a graph", error)))?;
            }
            difference += of[1] - of[0];
        }
        Ok((difference / (rounds * step)).max(SHORTEST) * f64::from(executions))
    }

    /// Executions that were queued while the stream was held up.
    pub(super) fn in_stream(&self, work: &dyn Enqueue, executions: u32) -> Result<f64, DeviceError> {
        self.hold_up(u64::from(executions))?;
        self.span(|stream| (0..u64::from(executions)).try_for_each(|at| work.enqueue(stream, at)))
    }

    /// A graph of executions in a chain.
    pub(super) fn graph(&self, work: &dyn Enqueue, nodes: u64) -> Result<CudaGraph, DeviceError> {
        let capturing = |error: DriverError| failed("making a graph", error);
        // What is loaded when it first runs cannot be while it is captured.
        work.enqueue(self.stream.cu_stream(), 0)?;
        self.wait()?;
        self.stream
            .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .map_err(capturing)?;
        let enqueued = (0..nodes).try_for_each(|at| work.enqueue(self.stream.cu_stream(), at));
        // A capture is ended whatever was captured.
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        enqueued?;
        let empty = || DeviceError::failed("making a graph", "it is empty");
        graph.map_err(capturing)?.ok_or_else(empty)
    }

    /// What is queued on the stream from now on waits for what is queued on the other one.
    pub(super) fn follow(&self, other: &Self) -> Result<(), DeviceError> {
        self.stream.join(&other.stream).map_err(|error| failed("making a stream wait for another", error))
    }

    /// Waits until nothing runs on the stream.
    pub(super) fn wait(&self) -> Result<(), DeviceError> {
        self.stream.synchronize().map_err(|error| failed("waiting for the GPU", error))
    }

    /// The driver's calls of this thread are for this GPU.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind_to_thread().map_err(|error| failed("turning to the GPU", error))
    }
}
