//! Reads of host memory: rows and lists that threads of a GPU read over its link, and gathers by
//! threads of the host.

use calibration::Gather;
use hw_models::reads::{HostGather, LinkReads, Order, RowReads};
use indexmap::IndexMap;
use reports::validation::Row;
use serde::Deserialize;
use sim_core::time::Time;

use super::probe::{Record, records};
use super::settings::number;
use super::{Judged, compared, embedded};
use crate::catalogue;

/// A table of reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadTable {
    /// File.
    pub(super) data: String,
    /// Part of the set that it is.
    part: String,
    /// Reads that it has.
    kind: Kind,
    /// Class of the link to the host.
    link: String,
    /// Its lanes.
    #[serde(default = "sixteen")]
    lanes: u32,
    /// Time that its rows take beside the reads: launches by a framework, a sort (us).
    #[serde(default)]
    beside_us: f64,
    /// Rate of the host's memory, of gathers by its threads (GB/s).
    #[serde(default)]
    memory_gb_per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Rows of a table by index.
    Selects,
    /// Lists of neighbours by pointers.
    Lists,
    /// Gathers of a probe by a kernel that has the GPU for itself.
    Gathers,
    /// Gathers of a probe on some of the SMs.
    GathersOnSms,
    /// Gathers of a probe by threads of the host.
    HostGathers,
}

/// A gather of a probe by threads of the host.
#[derive(Debug, Deserialize)]
struct ByHost {
    row: u64,
    indices: u64,
    threads: u32,
    order: Order,
}

/// SMs that no kernel of these tables lacks.
const ALL_SMS: u32 = 132;
/// Bytes of a pointer into lists.
const POINTER: u64 = 8;

const fn sixteen() -> u32 {
    16
}

impl ReadTable {
    /// True of tables; a probe has other measurements too.
    pub(super) const fn is_table(&self) -> bool {
        matches!(self.kind, Kind::Selects | Kind::Lists)
    }

    fn link(&self) -> LinkReads {
        let known = catalogue::devices().links.get(&self.link).and_then(|class| class.read(self.lanes));
        known.expect("a set names links that the catalogue has, which a test would find")
    }

    /// Measured and predicted time of a row of a table (s).
    fn compared(&self, cells: &IndexMap<String, String>) -> Result<[f64; 2], String> {
        if let Some(constant) = cells.get("fitted").filter(|constant| !constant.is_empty()) {
            return Err(format!("its {constant} is fitted to it"));
        }
        let reads = match self.kind {
            Kind::Lists => lists(cells)?.to_vec(),
            _ => vec![select(cells)?],
        };
        let link = self.link();
        // One launch of them has its start; the others follow in its shadow.
        let moved = reads.iter().map(|reads| {
            let cost = link.cost(reads, ALL_SMS);
            cost.alone().saturating_sub(cost.fixed).as_secs()
        });
        let start = (link.start_us + self.beside_us) * 1e-6;
        Ok([number(cells, "us")? * 1e-6, start + moved.sum::<f64>()])
    }

    /// Measured and predicted time of a record of a probe (s). `None`: it is another kind of
    /// record.
    fn probed(&self, record: &Record) -> Option<[Time; 2]> {
        let measured = record.median_us();
        let predicted = match self.kind {
            Kind::HostGathers if record.section == "host gather" => {
                let ByHost { row, indices, threads, order } = record.of()?;
                let memory_bytes_per_s = self.memory_gb_per_s * 1e9;
                HostGather { rows: indices, row_bytes: row, order, threads, memory_bytes_per_s }.alone()
            }
            Kind::Gathers | Kind::GathersOnSms if record.section == "zero-copy gather" => {
                let gather: Gather = record.of()?;
                if gather.sms.is_some() != (self.kind == Kind::GathersOnSms) {
                    return None;
                }
                self.link().cost(&gather.reads(), gather.sms.unwrap_or(ALL_SMS)).alone()
            }
            _ => return None,
        };
        Some([measured, predicted])
    }
}

/// The rows of a table, or of the half of a probe that no constant is fitted to: of the records of
/// a section every second one.
pub(super) fn judged(table: &ReadTable) -> Vec<Judged> {
    if table.is_table() {
        let read = |cells: &IndexMap<String, String>| {
            let read = cells.iter().filter(|(column, _)| !["us", "fitted"].contains(&column.as_str()));
            read.map(|(column, cell)| (column.clone(), cell.clone())).collect()
        };
        return compared((&embedded::table(&table.data), &table.part), read, |cells| table.compared(cells));
    }
    let mut seen = IndexMap::<String, usize>::new();
    let half = |record: &Record| {
        let count = seen.entry(record.section.clone()).or_default();
        *count += 1;
        count.is_multiple_of(2)
    };
    let of = |record: Record| {
        let [measured, predicted] = table.probed(&record)?.map(Time::as_secs);
        Some(Judged {
            part: table.part.clone(),
            place: format!("{}:{}", table.data, record.line),
            inputs: record.inputs(),
            row: Ok(Row { measured, predicted, ..Row::default() }),
        })
    };
    records(embedded::probe(&table.data)).filter(half).filter_map(of).collect()
}

/// A row of a table of selects.
fn select(cells: &IndexMap<String, String>) -> Result<RowReads, String> {
    let whole = |column: &str| number(cells, column).map(|value| value as u64);
    let row_bytes = whole("row_bytes")?;
    let is = |column: &str, value: &str| cells.get(column).is_some_and(|cell| cell == value);
    Ok(RowReads {
        rows: whole("rows")?,
        table_rows: whole("table_rows")?,
        row_bytes,
        pitch: row_bytes,
        element_bytes: whole("element_bytes")?,
        offset: 0,
        order: if is("order", "sorted") { Order::Sorted } else { Order::Random },
        aligned: is("aligned", "true"),
    })
}

/// A row of a table of lists: pointers are read for the lengths and again for the lists.
fn lists(cells: &IndexMap<String, String>) -> Result<[RowReads; 3], String> {
    let whole = |column: &str| number(cells, column).map(|value| value as u64);
    let (nodes, width) = (whole("nodes")?, whole("index_bytes")?);
    let (rows, offset, order) = (whole("rows")?, 0, Order::Random);
    let pointers = RowReads {
        rows,
        table_rows: nodes,
        row_bytes: 2 * POINTER,
        pitch: POINTER,
        element_bytes: POINTER,
        offset,
        order,
        aligned: false,
    };
    let row_bytes = whole("degree")? * width;
    let lists = RowReads { table_rows: nodes, row_bytes, pitch: width, element_bytes: width, ..pointers };
    Ok([pointers, pointers, lists])
}
