//! Gathers of a probe: rows of host memory that threads of a GPU read over its link.

use hw_models::reads::{Order, RowReads};
use serde::Deserialize;

/// A gather of a probe, in bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Gather {
    row: u64,
    width: u64,
    table: u64,
    indices: u64,
    order: Order,
    aligned: bool,
    /// Multiprocessors that the kernel was held to. `None`: all.
    pub sms: Option<u32>,
    offset: u64,
}

impl Gather {
    /// Its rows, as the model of reads takes them.
    pub const fn reads(&self) -> RowReads {
        RowReads {
            rows: self.indices,
            table_rows: self.table / self.row,
            row_bytes: self.row,
            pitch: self.row,
            element_bytes: self.width,
            offset: self.offset,
            order: self.order,
            aligned: self.aligned,
        }
    }
}
