//! Passes over memory: `start + bytes of HBM / (achieved fraction x HBM bandwidth) + bytes of the cache / its rate`.
//!
//! The achieved fraction differs by class because reductions wait at barriers; it is measured on tensors far larger than
//! the second-level cache, from which comes what lies there. A normalisation reads a row twice, for its moments and to scale it:
//! where the rows in flight on all SMs outgrow the cache, the second reading comes from HBM. One block walks over a row and
//! waits for what it reads: rows fewer than blocks that SMs hold, as the channels of batch normalisation, keep too few reads in
//! flight to saturate HBM, and latency grows as HBM fills. The achieved fraction has what full SMs wait, so that
//!
//! ```text
//! time = start + sqrt(memory^2 + few^2 - full^2)
//! full = bytes read / (SMs x blocks of an SM x rate of a block)
//! few  = bytes read / (rows x rate of a block), where rows are fewer than these blocks
//! ```
//!
//! A kernel that looks up elements by index, one a thread, takes the clocks of its address arithmetic at least: PyTorch's
//! `index_select` moves as many elements a clock on an SM of L4, whose memory has a tenth of the bandwidth, as on one of H100.

use serde::{Deserialize, Serialize};

use super::rows::Blocks;
use super::{KernelClass, KernelCost, KernelError, KernelModel, Shape};

/// A pass over memory. A fused chain of operators is one pass over its distinct inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// What kind of kernel.
    pub class: StreamClass,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Of both, those that the second-level cache serves instead of HBM.
    pub bytes_cached: u64,
    /// Rows that the kernel walks over one by one, if it does and they are known: softmax, normalisations.
    pub rows: Option<u64>,
    /// Elements that it looks up by index, one a thread.
    pub looked_up: u64,
}

/// Kinds of streaming kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamClass {
    /// One output element from the input elements at its place; casts, copies, dropout, transposes in tiles.
    Elementwise,
    /// Softmax over rows, with or without scale and mask.
    Softmax,
    /// Layer normalisation over rows.
    LayerNorm,
    /// Root-mean-square normalisation over rows.
    RmsNorm,
    /// Sums over rows or columns (gradients of biases, norms).
    Reduction,
    /// A loss over a vocabulary or its gradient in one kernel, row by row.
    CrossEntropy,
    /// Rows of a table looked up by index.
    Embedding,
    /// Gradients added to rows of a table: indices are sorted, and each row sums what belongs to it.
    EmbeddingGradient,
    /// Rows or pieces put in another order, each moved whole.
    Permutation,
    /// Update of lists of parameters and optimizer states, in chunks.
    Optimizer,
}

/// Bytes of one thread block: 128 threads, 4 elements each, 4 bytes read and 4 written (PyTorch's vectorised
/// elementwise kernel).
const BLOCK_BYTES: u64 = 4_096;
/// Thread blocks of 128 threads that an SM of 2,048 threads holds at once.
const BLOCKS_PER_SM: u64 = 16;
/// Rows in flight that all stay in the second-level cache, and that none do any more (share of its size): where layer
/// normalisation of A100 (40 MB) and L4 (48 MB) begins and ceases to slow down as rows get wider.
const KEPT: [f64; 2] = [0.4, 0.9];
/// Rate of a block of 512 threads that awaits each read (bytes/s): least squares over twelve batch normalisations of cuDNN on
/// A100, of 64 to 512 channels and 28 x 28 to 112 x 112 places, forward and backward. Source:
/// github.com/facebookresearch/HolisticTraceAnalysis @ f4d0062, tests/data/nccl_parser_config/nccl_data.json.gz; licence MIT.
const WALKED_BYTES_PER_S: f64 = 7.6e9;
/// Such blocks that an SM of 2,048 threads holds at once.
const WALKS_PER_SM: u64 = 4;

impl KernelModel {
    /// A pass over memory.
    ///
    /// # Errors
    /// When the catalogue has no parameters for the class.
    pub fn stream(&self, shape: &Stream) -> Result<KernelCost, KernelError> {
        let parameters = self.parameters.stream(shape.class)?;
        let once = shape.bytes_read.saturating_add(shape.bytes_written).max(1);
        let cached = shape.bytes_cached.min(once);
        let again = self.read_again(shape);
        let (waited, index_clocks) = (self.waited_seconds(shape, again), self.index_clocks(shape)?);
        let bytes = (once - cached).saturating_add(again).max(1);
        let evenly = once.div_ceil(BLOCK_BYTES);
        let blocks = Blocks {
            count: shape.rows.map_or(evenly, |rows| rows.clamp(1, evenly)),
            resident: BLOCKS_PER_SM,
            bytes,
            achieved: parameters.achieved,
            serial: 1.0,
            seconds: |sms| {
                let memory = bytes as f64 / self.bandwidth(parameters.achieved, sms);
                let walked = memory.hypot(waited);
                let looked_up = index_clocks / (self.facts.clock_hz * f64::from(sms));
                self.cache_seconds(cached, sms).max(walked.max(looked_up) - memory)
            },
        };
        let cost = blocks.cost(self, parameters.start_us, 0.0, KernelClass::Stream(shape.class));
        Ok(match shape.among_measured() {
            Some(among) => self.corrected(cost, 0.0, || among),
            None => cost,
        })
    }

    /// Wait of a walk for HBM where its rows, of which it reads `again` (bytes) twice, are fewer than
    /// the blocks that SMs hold (s).
    fn waited_seconds(&self, shape: &Stream, again: u64) -> f64 {
        let read = shape.bytes_read.saturating_sub(shape.bytes_cached).saturating_add(again) as f64;
        let full = u64::from(self.facts.sms.max(1)) * WALKS_PER_SM;
        let few = shape.rows.map_or(full, |rows| rows.clamp(1, full));
        let seconds = |blocks: u64| read / (blocks as f64 * WALKED_BYTES_PER_S);
        (seconds(few).powi(2) - seconds(full).powi(2)).sqrt()
    }

    /// Clocks that an SM takes to find the elements that a pass looks up; whatever it then does with them.
    fn index_clocks(&self, shape: &Stream) -> Result<f64, KernelError> {
        if shape.looked_up == 0 {
            return Ok(0.0);
        }
        let per_clock = self.parameters.stream(StreamClass::Embedding)?.per_clock;
        Ok(per_clock.map_or(0.0, |per_clock| shape.looked_up as f64 / per_clock))
    }

    /// Bytes of rows that a normalisation reads from HBM a second time.
    fn read_again(&self, shape: &Stream) -> u64 {
        let (StreamClass::LayerNorm | StreamClass::RmsNorm, Some(rows)) = (shape.class, shape.rows) else {
            return 0;
        };
        let in_flight = (u64::from(self.facts.sms).saturating_mul(BLOCKS_PER_SM)).min(rows.max(1)) as f64;
        let share = in_flight * shape.row_bytes(rows) as f64 / self.facts.l2_bytes;
        let lost = ((share - KEPT[0]) / (KEPT[1] - KEPT[0])).clamp(0.0, 1.0);
        (shape.bytes_read as f64 * lost) as u64
    }
}

impl Stream {
    /// A pass that reads and writes so that nothing is in a cache, and walks over no rows.
    pub const fn pass(class: StreamClass, (bytes_read, bytes_written): (u64, u64)) -> Self {
        Self { class, bytes_read, bytes_written, bytes_cached: 0, rows: None, looked_up: 0 }
    }

    /// Width of a row of the output (bytes).
    const fn row_bytes(&self, rows: u64) -> u64 {
        self.bytes_written / if rows == 0 { 1 } else { rows }
    }

    /// Its place among measured kernels that walk over rows.
    pub fn among_measured(&self) -> Option<Shape> {
        self.rows.map(|rows| Shape { kind: 0, dimensions: vec![rows, self.row_bytes(rows)] })
    }
}

impl StreamClass {
    /// True if it normalises rows, channels or groups.
    pub const fn normalises(self) -> bool {
        matches!(self, Self::LayerNorm | Self::RmsNorm)
    }

    /// All classes.
    pub const ALL: [Self; 10] = [
        Self::Elementwise,
        Self::Softmax,
        Self::LayerNorm,
        Self::RmsNorm,
        Self::Reduction,
        Self::CrossEntropy,
        Self::Embedding,
        Self::EmbeddingGradient,
        Self::Permutation,
        Self::Optimizer,
    ];
}
