//! Kernel Tuner's convolution of an image with one filter (`kernels/convolution_milo.cu` of
//! github.com/AutoTuningAssociation/benchmark_hub): which of its configurations can be launched.
//!
//! Each thread sums `tile_size_x x tile_size_y` outputs; the block may copy its part of the image,
//! with the border that the filter reaches into, to shared memory. Shared memory follows from the
//! source. Registers do not, as they are the compiler's choice: three rules stand in for it, read
//! off the whole table, so that it shows that limits and rules agree but judges no rule.

use hw_models::catalogue::{Multiprocessor, WARP};
use hw_models::kernels::{BlockResources, Occupancy};

use crate::split;
use crate::table::{Row, Table, TableError};

/// Side of the image.
const IMAGE: u32 = 4_096;
/// Shared memory that a kernel may declare in its source (bytes; CUDA C++ Programming Guide).
const DECLARED: u32 = 48 << 10;
/// Banks of shared memory.
const BANKS: u32 = 32;
/// Registers beside sums: addresses, and loads under way where each waits for a comparison.
const ADDRESSES: u32 = 10;
const LOADS: u32 = 16;
/// Sums from which on a compiler hoists all loads that it may, as far as registers go.
const HOISTED: u32 = 12;
/// Rows of a block times sums of a thread from which copies in shared memory are kept for reuse.
const REUSED: u32 = 64;
const ALL: u32 = 255;

/// A configuration, and whether it could be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSample {
    /// Resources of a block.
    pub block: BlockResources,
    /// True if it ran.
    pub ran: bool,
    /// Hash of its inputs, see [`split`](crate::split).
    pub hash: u64,
    /// Its line.
    pub line: u64,
    /// Its inputs, by name.
    pub inputs: Vec<(String, String)>,
}

impl ImageSample {
    /// True if its limits allow a launch on an SM of a kind.
    pub fn fits(&self, sm: &Multiprocessor) -> bool {
        self.block.shared_bytes <= DECLARED && Occupancy::of(sm, &self.block).blocks > 0
    }
}

/// Configurations of the table.
///
/// # Errors
/// Cells that are no numbers.
pub fn image_convolutions(table: &Table) -> Result<Vec<ImageSample>, TableError> {
    let sample = |row: Row<'_>| {
        let inputs = table.columns().iter().filter(|name| *name != "time_ms");
        let inputs: Vec<_> = inputs.map(|name| (name.clone(), row.text(name).to_owned())).collect();
        let configuration = Configuration::of(&row)?;
        Ok(ImageSample {
            block: BlockResources {
                threads: configuration.block[0] * configuration.block[1],
                registers: configuration.registers(),
                shared_bytes: configuration.shared_bytes(),
            },
            ran: !row.text("time_ms").is_empty(),
            hash: split::hash(&inputs.iter().map(|(_, value)| value).collect::<Vec<_>>()),
            line: row.line(),
            inputs,
        })
    };
    table.rows().map(sample).collect()
}

/// Parameters, along the width and the height.
struct Configuration {
    block: [u32; 2],
    sums: [u32; 2],
    border: [u32; 2],
    read_only: bool,
    padded: bool,
    shared: bool,
}

impl Configuration {
    fn of(row: &Row<'_>) -> Result<Self, TableError> {
        let count = |column: &str| row.count(column).map(|count| count as u32);
        let flag = |column: &str| row.whole(column).map(|flag| flag > 0);
        let border = |column: &str| count(column).map(|extent| extent / 2 * 2);
        Ok(Self {
            block: [count("block_size_x")?, count("block_size_y")?],
            sums: [count("tile_size_x")?, count("tile_size_y")?],
            border: [border("filter_width")?, border("filter_height")?],
            read_only: flag("read_only")?,
            padded: flag("use_padding")?,
            shared: flag("use_shmem")?,
        })
    }

    fn shared_bytes(&self) -> u32 {
        if !self.shared {
            return 0;
        }
        let [width, height] = [0, 1].map(|side| self.block[side] * self.sums[side] + self.border[side]);
        // Columns that the source adds, where rows of threads would meet in the same banks.
        let beyond = width - self.block[0];
        let pads = self.padded && !self.block[0].is_multiple_of(WARP) && !beyond.is_multiple_of(BANKS);
        let padding = if pads { beyond.next_multiple_of(BANKS) - beyond } else { 0 };
        (width + padding) * height * 4
    }

    /// Registers of a thread, as the compiler takes them.
    fn registers(&self) -> u32 {
        let sums = self.sums[0] * self.sums[1];
        let beside = sums + ADDRESSES;
        let whole = (0..2).all(|side| IMAGE.is_multiple_of(self.block[side] * self.sums[side]));
        let loads = match (self.shared, self.read_only) {
            (true, _) if sums >= HOISTED && self.block[1] * sums >= REUSED => ALL,
            (false, true) if sums >= HOISTED => ALL,
            // Without comparisons at the edge of the image two rows of the filter are under way,
            // half of one where a store could change what is read.
            (false, true) if whole => 2 * (self.border[0] + 1) * sums,
            (false, false) if whole => self.border[0] / 2 * sums,
            _ => LOADS,
        };
        (beside + loads).min(ALL)
    }
}
