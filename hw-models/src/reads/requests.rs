//! Requests that warps make for rows: lines, sectors and payload, in closed form.
//!
//! Rows begin every `pitch` bytes behind a base, so that their places within a line of `a` bytes
//! are `r, r + g, r + 2 g, ...` with `g = gcd(pitch, a)` and `r = offset mod g`, each as often as
//! the others. By Hermite's identity, spans of `s` bytes at all `n = a / g` places touch together
//!
//! ```text
//! n + floor((r + s - 1) / g)     lines
//! ```
//!
//! A warp asks for 32 elements at once. Where threads start at the row, each of its instructions
//! may begin within a line and touch one more; where they are shifted to start at a line (`circular
//! shift` of github.com/K-Wu/pytorch-direct, Indexing.cu), a row costs its lines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rows of a table that are read by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowReads {
    /// Rows that are read.
    pub rows: u64,
    /// Rows of the table.
    pub table_rows: u64,
    /// Bytes of a row, or of a list on average.
    pub row_bytes: u64,
    /// Bytes from a row to the next; of lists of any length those of an element, at any of which a
    /// list may begin.
    pub pitch: u64,
    /// Bytes of an element, which a thread reads.
    pub element_bytes: u64,
    /// Bytes from a border of a line to the first row.
    pub offset: u64,
    /// Order of the indices.
    pub order: Order,
    /// Threads are shifted so that each warp starts at a line.
    pub aligned: bool,
}

/// Order of indices.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they were drawn.
    #[default]
    Random,
    /// By their place in the table, after a sort.
    Sorted,
}

/// Requests for [`PERIOD`] neighbouring rows, of which every place within a line has its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Requests, each of one line.
    pub lines: u64,
    /// Sectors that they ask for.
    pub sectors: u64,
    /// Bytes that are of use.
    pub payload: u64,
}

/// Requests for all rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) lines: f64,
    pub(super) sectors: f64,
}

/// Rows after which places within a line repeat, at the latest.
pub const PERIOD: u64 = LINE;
/// Bytes of a line.
const LINE: u64 = 128;
/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Threads of a warp.
const WARP: u64 = 32;
/// Share of lines that a row asks for twice which find the first request still in flight: fitted on
/// rows of 1,172 to 2,408 bytes on H100.
const MERGED: f64 = 0.317;
/// Rows from which on another thread block reads a row again that is listed twice, and finds
/// nothing.
const WIDE: u64 = 256;

impl RowReads {
    /// Bytes of the table.
    pub const fn table_bytes(&self) -> u64 {
        self.table_rows.saturating_mul(if self.pitch > self.row_bytes { self.pitch } else { self.row_bytes })
    }

    /// Different lines and sectors of each row: the fewest requests.
    pub fn distinct(&self) -> Requests {
        Requests {
            lines: self.touched(self.row_bytes, LINE),
            sectors: self.touched(self.row_bytes, SECTOR),
            payload: PERIOD * self.row_bytes,
        }
    }

    /// Requests of the instructions that warps issue. Those narrower than a line find the line that
    /// their neighbour asked for: rows of bytes cost no more than their lines on H100.
    pub fn issued(&self) -> Requests {
        let instruction = WARP * self.element_bytes;
        if self.aligned || instruction < LINE || self.row_bytes <= instruction {
            return self.distinct();
        }
        let (whole, rest) = (self.row_bytes / instruction, self.row_bytes % instruction);
        // Instructions are whole lines apart, so that all begin at the same places.
        let of = |unit| whole * self.touched(instruction, unit) + self.touched(rest, unit);
        Requests { lines: of(LINE), sectors: of(SECTOR), payload: PERIOD * self.row_bytes }
    }

    /// Requests for all rows that travel.
    pub(super) fn found(&self) -> Found {
        let (once, issued) = (self.distinct(), self.issued());
        let share = self.rows as f64 / PERIOD as f64;
        let travel = |once: u64, issued: u64| share * (once as f64 + (1.0 - MERGED) * (issued - once) as f64);
        let lines = travel(once.lines, issued.lines);
        let sectors = travel(once.sectors, issued.sectors);
        if self.order == Order::Random || self.row_bytes >= WIDE {
            return Found { lines, sectors };
        }
        // Neighbours in a sorted list share lines and sectors.
        let different = |asked: f64, unit: u64| {
            let all = self.table_bytes() as f64 / unit as f64;
            all * -(-asked / all).exp_m1()
        };
        Found { lines: different(lines, LINE), sectors: different(sectors, SECTOR) }
    }

    /// Different pages of `page` bytes that the rows touch, which begin at any distance from a
    /// page's border that the pitch allows. Rows are different and at random places: a page is left
    /// out if none of those that touch it is read.
    pub fn pages(&self, page: u64) -> u64 {
        let (pitch, page) = (self.pitch.max(self.row_bytes).max(1), page.max(1));
        let step = gcd(pitch, page);
        let first = self.offset % step;
        let last = first + self.row_bytes.max(1) - 1;
        let of_row = 1.0 + (last / step) as f64 * step as f64 / page as f64;
        let all = (self.table_rows as f64 * pitch as f64 / page as f64).ceil();
        let read = (self.rows as f64 / self.table_rows.max(1) as f64).min(1.0);
        let on_page = of_row * self.table_rows as f64 / all.max(1.0);
        let missed = if read < 1.0 { (on_page * (-read).ln_1p()).exp() } else { 0.0 };
        (all * (1.0 - missed)).round() as u64
    }

    /// Units that spans of `bytes` touch, which begin where [`PERIOD`] rows do.
    fn touched(&self, bytes: u64, unit: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let step = gcd(self.pitch, unit);
        let first = self.offset % step;
        PERIOD / (unit / step) * (unit / step + (first + bytes - 1) / step)
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// One row after the other, one instruction after the other.
    fn counted(reads: &RowReads) -> Requests {
        let touched = |begin: u64, end: u64, unit: u64| (end - 1) / unit - begin / unit + 1;
        let instruction = WARP * reads.element_bytes;
        let whole = reads.aligned || instruction < LINE;
        let (mut lines, mut sectors) = (0, 0);
        for row in 0..PERIOD {
            let begin = reads.offset + row * reads.pitch;
            let end = begin + reads.row_bytes;
            let step = if whole { reads.row_bytes } else { instruction };
            let mut at = begin;
            while at < end {
                let until = (at + step).min(end);
                lines += touched(at, until, LINE);
                sectors += touched(at, until, SECTOR);
                at = until;
            }
        }
        Requests { lines, sectors, payload: PERIOD * reads.row_bytes }
    }

    fn of(row_bytes: u64, element_bytes: u64, offset: u64, aligned: bool) -> RowReads {
        let (rows, table_rows, order, pitch) = (1_000, 1_000_000, Order::Random, row_bytes);
        RowReads { rows, table_rows, row_bytes, pitch, element_bytes, offset, order, aligned }
    }

    proptest! {
        #[test]
        fn closed_forms_count_what_warps_ask_for(
            elements in 1_u64..1_200,
            width in prop::sample::select(vec![1_u64, 2, 4, 8]),
            padding in 0_u64..40,
            aligned: bool,
        ) {
            for offset in (0..LINE).step_by(width as usize) {
                let dense = of(elements * width, width, offset, aligned);
                let reads = RowReads { pitch: dense.pitch + padding * width, ..dense };
                prop_assert_eq!(reads.issued(), counted(&reads), "{:?}", reads);
            }
        }

        /// Only rows that are longer than a line and no multiple of it gain by the shift, where the
        /// table begins at a line.
        #[test]
        fn the_shift_gains_where_rows_are_ragged(elements in 1_u64..1_200) {
            let [shifted, naive] = [true, false].map(|aligned| of(4 * elements, 4, 0, aligned).issued());
            let ragged = 4 * elements > LINE && !(4 * elements).is_multiple_of(LINE);
            prop_assert_eq!(shifted.lines < naive.lines, ragged);
        }
    }

    proptest! {
        /// One row after the other at every distance from a border, then pages that no row is on.
        #[test]
        fn pages_of_all_rows_are_those_of_the_table_and_of_few_their_own(
            row_bytes in 1_u64..20_000,
            exponent in 9_u32..17,
            offset in 0_u64..4_096,
        ) {
            let page = 1 << exponent;
            let touched = |row: u64| {
                let begin = offset % gcd(row_bytes, page) + row * row_bytes;
                ((begin + row_bytes - 1) / page - begin / page + 1) as f64
            };
            let counted = (0..page).map(touched).sum::<f64>() / page as f64;
            let table = of(row_bytes, 1, offset, true);
            // Pages are whole: a thousand of many rows say the mean of one to three digits.
            let few = RowReads { rows: 1_000, table_rows: 1 << 40, ..table };
            prop_assert!((few.pages(page) as f64 / 1e3 - counted).abs() < 1e-3);
            let all = RowReads { rows: table.table_rows, ..table };
            let pages = (all.table_rows * row_bytes).div_ceil(page);
            prop_assert_eq!(all.pages(page), pages);
            prop_assert!(table.pages(page) <= pages);
        }
    }

    /// A plain draw of different rows, the pages of each marked.
    #[test]
    fn neighbours_on_a_page_share_it() {
        let table = RowReads { rows: 20_000, table_rows: 100_000, ..of(500, 4, 0, true) };
        let mut random = 88_172_645_463_325_252_u64;
        let mut drawn = BTreeSet::new();
        while (drawn.len() as u64) < table.rows {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            drawn.insert(random % table.table_rows);
        }
        let of_row = |row: &u64| [row * 500 / 4_096, (row * 500 + 499) / 4_096];
        let drawn: BTreeSet<u64> = drawn.iter().flat_map(of_row).collect();
        let found = table.pages(4_096) as f64;
        assert!((found / drawn.len() as f64 - 1.0).abs() < 0.01, "{found} {}", drawn.len());
    }

    #[test]
    fn a_number_pays_a_sector_and_a_feature_row_its_lines() {
        let number = of(4, 4, 0, true).issued();
        assert_eq!((number.lines, number.sectors, number.payload), (PERIOD, PERIOD, 4 * PERIOD));
        let papers = of(512, 4, 0, false).issued();
        assert_eq!((papers.lines, papers.sectors), (4 * PERIOD, 16 * PERIOD));
    }
}
