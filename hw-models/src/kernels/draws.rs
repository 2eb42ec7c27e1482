//! Random draws from the lists of nodes, a warp for each node: it passes over the list, draws a
//! number for each candidate and keeps those that the numbers choose (reservoir sampling,
//! `_CSRRowWiseSampleKernel` of `src/array/cuda/rowwise_sampling.cu` of DGL, releases 0.7 to 2.0).
//!
//! ```text
//! clocks = max(instructions / (SMs rate of integers), of a state + of the longest list)
//! ```

use super::traversal::{Traversal, Walk};
use super::{GpuFacts, Multiprocessor};
use crate::catalogue::WARP;

/// Nodes of a thread block, and its warps, which take them in turn.
pub(super) const NODES: u64 = 64;
const WARPS: u64 = 4;

/// Integer instructions of a scheduler a clock: 16 lanes from Volta to Hopper (J. Jia and others,
/// "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018).
const INTEGERS_PER_CLOCK: f64 = 0.5;
/// Clocks until a dependent instruction follows, and until a word of the first-level cache is there
/// (the same study).
const DEPENDENT: f64 = 4.0;
const CACHED: f64 = 28.0;

/// Instructions of a candidate: the number (7 shifts and exclusive ors, 2 sums), its remainder by a
/// divisor that is not known when compiled (about 22), place, comparison and loop.
const CANDIDATE: f64 = 36.0;

/// Rows of the products that make the states of a warp (`curand_init` of XORWOW in
/// `curand_kernel.h`): one product of 160 rows for each unit of each base-4 digit of the largest
/// thread number, 7, 9, 8 and 10 in the four warps of a block.
const TESTED: f64 = 8.5 * 160.0;
/// Rows that are added, as the bit of any thread of the warp is set: half of them in the three
/// products in which all threads still have one state, nearly all afterwards.
const ADDED: f64 = 3.0 * 80.0 + 5.5 * 155.0;
/// Instructions of a test, and of a row that is added: five words, each loaded and added.
const TEST: f64 = 3.0;
const ADD: f64 = 10.0;

impl Traversal {
    /// Time of the draws on a number of SMs (s); none for other walks, or where limits of an SM are
    /// not known.
    pub(super) fn drawing_seconds(&self, facts: &GpuFacts, sms: u32) -> f64 {
        let (Walk::Draw, Some(sm)) = (self.walk, &facts.multiprocessor) else { return 0.0 };
        self.clocks(sm, sms) / facts.clock_hz
    }

    fn clocks(&self, sm: &Multiprocessor, sms: u32) -> f64 {
        let rounds = self.edges as f64 / f64::from(WARP);
        let warps = (self.destinations.div_ceil(NODES) * WARPS) as f64;
        let instructions = warps * (TESTED * TEST + ADDED * ADD) + rounds * CANDIDATE;
        let rate = f64::from(sms) * f64::from(sm.schedulers.max(1)) * INTEGERS_PER_CLOCK;
        let state = TESTED * TEST * DEPENDENT + ADDED * (CACHED + DEPENDENT);
        let longest = self.longest as f64 / f64::from(WARP) * CANDIDATE * DEPENDENT;
        (instructions / rate).max(state + longest)
    }
}
