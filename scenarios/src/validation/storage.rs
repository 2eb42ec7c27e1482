//! Storage: transfers between arrays and memories or GPUs, and optimizer states on drives or in
//! host memory. Each row is a machine, whose drives are one array, and what goes on there. Rows
//! are of seconds, with drives as new: what is written stays within their caches.

use hw_models::host_update::HostUpdate;
use hw_models::machine::{Machine as Built, PartId, PartKind};
use hw_models::storage::{Array, OffloadedStates, PathParameters, Requests, Transfer, Way, seconds_at_once};
use indexmap::IndexMap;

use serde::Deserialize;

use super::set::{Known, NotJudged};
use super::settings::{number, of_column};
use super::{Judged, compared, embedded};
use crate::catalogue;
use crate::schema::Machine;

/// A table of storage.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StorageTable {
    /// The table.
    pub(super) data: String,
    /// The part of the set that it is.
    part: String,
    /// The machine: one of `machines`.
    machine: Known,
    /// The machines that it names.
    #[serde(with = "serde_yaml::with::singleton_map_recursive")]
    machines: IndexMap<String, Machine>,
    /// Columns that say what was done.
    inputs: Vec<String>,
    /// What its rows measure.
    #[serde(with = "serde_yaml::with::singleton_map")]
    rows: Rows,
    /// Rows that are not judged.
    #[serde(default)]
    left_out: Vec<NotJudged>,
}

/// What rows measure.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rows {
    /// Rates (`gb_per_s`) of `transfers`, `drives>gpu[0]`, that begin together, each of `bytes` by `path` in requests of `block_kib`,
    /// `depth` of them outstanding.
    Transfers(Transfers),
    /// Times (`seconds`) of a `phase` (update or backward) of `parameters` on so many `drives`; of a whole step, in terms of that with
    /// one drive.
    States(States),
    /// Times (`seconds`) of an update of `parameters` by the processors of the host.
    Updates(Updates),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfers {
    /// What the host spends on a request (us), if not what the path says.
    issue_us: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Updates {
    /// Parameters that all threads update before they go on to the next.
    tile: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct States {
    /// Parameters of a group.
    group: u64,
    /// Groups under way at a time.
    buffers: u32,
    /// Bytes of a request (KiB).
    block_kib: u64,
    /// Requests outstanding at a time.
    depth: u32,
    /// What the host gets of its memory between reading a group and writing it (GB/s).
    update_gb_per_s: f64,
    /// What it gets with gradients before they are written (GB/s).
    gradient_gb_per_s: f64,
}

/// The cells of a row.
type Cells = IndexMap<String, String>;

/// The rows of a table.
pub(super) fn judged(table: &StorageTable) -> Vec<Judged> {
    let told = |cells: &Cells| {
        let cells = cells.iter().filter(|(column, _)| table.inputs.contains(column));
        cells.map(|(column, value)| (column.clone(), value.clone())).collect()
    };
    compared((&embedded::table(&table.data), &table.part), told, |cells| table.compared(cells))
}

impl StorageTable {
    /// Measured and predicted (s).
    fn compared(&self, cells: &Cells) -> Result<[f64; 2], String> {
        if let Some(row) = self.left_out.iter().find(|row| row.says(cells)) {
            return Err(row.because.clone());
        }
        let name = self.machine.of(cells)?;
        let machine = self.machines.get(&name).ok_or_else(|| format!("there is no machine `{name}`"))?;
        let machine = Built::of(catalogue::devices(), machine).map_err(|errors| format!("{errors:?}"))?;
        match &self.rows {
            Rows::Transfers(transfers) => transfers.compared(&machine, cells),
            Rows::States(states) => states.compared(&machine, cells),
            Rows::Updates(updates) => updates.compared(&machine, cells),
        }
    }
}

impl Transfers {
    fn compared(&self, machine: &Built, cells: &Cells) -> Result<[f64; 2], String> {
        let (bytes, measured) = (number(cells, "bytes")?, number(cells, "gb_per_s")? * 1e9);
        let name = of_column(cells, "path")?;
        let path =
            catalogue::storage_paths().get(name).ok_or_else(|| format!("there is no path `{name}`"))?;
        let path = PathParameters {
            block_kib: number(cells, "block_kib")? as u64,
            depth: number(cells, "depth")? as u32,
            issue_us: self.issue_us.unwrap_or(path.issue_us),
            ..path.clone()
        };
        let array = Array::of("drives", drives(machine).collect());
        let transfer = |written: &str| {
            let (way, end) = match written.split_once('>') {
                Some(("drives", end)) => (Way::Read, end),
                Some((end, "drives")) => (Way::Write, end),
                _ => return Err(format!("`{written}` is not from or to `drives`")),
            };
            let end = machine.part_named(end).map_err(|error| error.to_string())?;
            Ok(Transfer { array: &array, way, end, bytes: bytes as u64, path: &path })
        };
        let transfers = of_column(cells, "transfers")?.split_whitespace().map(transfer);
        let transfers = transfers.collect::<Result<Vec<_>, String>>()?;
        let seconds = seconds_at_once(machine, catalogue::copies(), &transfers);
        let seconds = seconds.map_err(|error| error.to_string())?.into_iter().fold(0.0, f64::max);
        Ok([bytes * transfers.len() as f64 / measured, seconds])
    }
}

impl Updates {
    fn compared(&self, machine: &Built, cells: &Cells) -> Result<[f64; 2], String> {
        let update = HostUpdate { parameters: number(cells, "parameters")? as u64, tile: self.tile };
        let predicted = update.seconds(machine).ok_or("the machine has no host memory")?;
        Ok([number(cells, "seconds")?, predicted])
    }
}

impl States {
    fn compared(&self, machine: &Built, cells: &Cells) -> Result<[f64; 2], String> {
        let phase = |name: &str, count: usize| {
            let array = Array::of("drives", drives(machine).take(count).collect());
            let states = OffloadedStates {
                array: &array,
                memory: machine.part_named("memory[0]").map_err(|error| error.to_string())?,
                parameters: number(cells, "parameters")? as u64,
                group: self.group,
                buffers: self.buffers,
                requests: Requests { block: self.block_kib << 10, depth: self.depth, issue_s: 0.0 },
                update_bytes_per_s: Some(self.update_gb_per_s * 1e9),
                gradient_bytes_per_s: Some(self.gradient_gb_per_s * 1e9),
            };
            let told = match name {
                "update" => states.update_s(machine),
                "backward" => states.backward_s(machine, number(cells, "compute_s")?),
                _ => return Err(format!("there is no phase `{name}`: write update, backward or step")),
            };
            told.map_err(|error| error.to_string())
        };
        let step = |count| {
            Ok::<f64, String>(
                number(cells, "forward_s")? + phase("backward", count)? + phase("update", count)?,
            )
        };
        let count = number(cells, "drives")? as usize;
        let predicted = match of_column(cells, "phase")? {
            "step" => step(count)? / step(1)?,
            name => phase(name, count)?,
        };
        Ok([number(cells, "seconds")?, predicted])
    }
}

fn drives(machine: &Built) -> impl Iterator<Item = PartId> + '_ {
    machine.parts().filter(|&part| machine.part(part).kind == PartKind::Ssd)
}
