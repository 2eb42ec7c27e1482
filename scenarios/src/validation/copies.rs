//! Copies between GPUs and host memories, alone and at once: each row is a machine and the copies that are under way on it.

use std::ops::RangeInclusive;

use calibration::{Table, split};
use hw_models::copies::{
    Copy, CopyCatalogue, CopyCost, CopyParameters, CopyStream, Direction, HostMemory, rates_at_once,
};
use hw_models::machine::{Machine, PartId, PartKind};
use indexmap::IndexMap;
use sim_core::time::Time;

use super::set::CopyTable;
use super::settings::{self, Fault, number};
use super::{Judged, compared};
use crate::catalogue;

/// Bytes of the largest copy.
const BYTES_MAX: f64 = 1e12;
/// Rates that processors reach alone (GB/s).
const REACHED: RangeInclusive<f64> = 0.1..=1e5;

/// The rows of a table.
pub(super) fn judged(described: &CopyTable, table: &Table) -> Vec<Judged> {
    let found = |cells: &IndexMap<String, String>| match described.not_judged(cells) {
        Some(reason) => Err(reason),
        None => described.compared(cells).map_err(|fault| fault.reason),
    };
    compared((table, &described.part), |cells| described.told(cells), found)
}

/// The fault of a row that is to be judged.
pub(super) fn fault(described: &CopyTable, cells: &IndexMap<String, String>) -> Option<Fault> {
    if described.not_judged(cells).is_some() {
        return None;
    }
    described.compared(cells).err()
}

impl CopyTable {
    /// What was copied.
    fn told(&self, cells: &IndexMap<String, String>) -> IndexMap<String, String> {
        let told = |column: &String| {
            [self.machine.column(), self.copies.column(), self.of.as_deref(), Some(&*self.bytes)]
                .contains(&Some(column))
                || self.inputs.contains(column)
        };
        let cells = cells.iter().filter(|(column, _)| told(column));
        cells.map(|(column, value)| (column.clone(), value.clone())).collect()
    }

    /// Why a row is not judged, be it whole.
    fn not_judged(&self, cells: &IndexMap<String, String>) -> Option<String> {
        let inputs: Vec<String> = self.told(cells).into_values().collect();
        if self.fitted && !split::judges(split::hash(&inputs)) {
            return Some("its constants are fitted to it".to_owned());
        }
        if let Some(row) = self.left_out.iter().find(|row| row.says(cells)) {
            return Some(row.because.clone());
        }
        let bytes = number(cells, &self.bytes).ok()? as u64;
        (bytes < self.bytes_min).then(|| format!("under {} bytes {}", self.bytes_min, self.because))
    }

    /// Times of copies of all streams that count, as measured and as simulated (s).
    fn compared(&self, cells: &IndexMap<String, String>) -> Result<[f64; 2], Fault> {
        let bytes = number(cells, &self.bytes).map_err(Fault::of("bytes"))?;
        if bytes > BYTES_MAX {
            return Err(Fault::of("bytes")("a copy has at most 1 TB"));
        }
        let measured = number(cells, &self.gb_per_s).map_err(Fault::of("gb_per_s"))?;
        let name = self.machine.of(cells).map_err(Fault::of("machine"))?;
        let known = || self.machines.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let unknown = || format!("there is no machine `{name}`: `machines` has {}", known());
        let machine = self.machines.get(&name).ok_or_else(unknown).map_err(Fault::of("machine"))?;
        let machine = Machine::of(catalogue::devices(), machine);
        let machine = machine.map_err(|errors| Fault::of("machines")(settings::together(&errors)))?;
        let copies = self.copies.of(cells).map_err(Fault::of("copies"))?;
        let streams = copies.split_whitespace().map(|copy| stream(&machine, copy, bytes as u64));
        let streams = streams.collect::<Result<Vec<_>, _>>().map_err(Fault::of("copies"))?;
        if streams.is_empty() {
            return Err(Fault::of("copies")("nothing is copied: write such as `memory[0]>gpu[0]`"));
        }
        let rates = rates_at_once(&machine, &streams).map_err(Fault::of("copies"))?;
        let of = self.of.as_ref().and_then(|column| cells.get(column)?.parse::<usize>().ok());
        let Some(one) = of else { return Ok([bytes / (measured * 1e9), bytes / rates.iter().sum::<f64>()]) };
        let one = rates.get(one).ok_or_else(|| format!("there is no copy {one}: the first is 0"));
        Ok([bytes / (measured * 1e9), bytes / one.map_err(Fault::of("of"))?])
    }
}

/// A copy as a table has it, `memory[0]>gpu[3]` or `gpu[0]>memory[0]>gpu[1]`, issued behind others of its kind, page-locked; or
/// processors that read a memory, `memory[0]@70` with what they reach alone (GB/s).
fn stream(machine: &Machine, copy: &str, bytes: u64) -> Result<CopyStream, String> {
    let part = |name: &str| {
        let found = machine.parts().find(|&part| machine.part(part).name == format!("node[0].{name}"));
        found.ok_or_else(|| format!("`{copy}`: the machine has no part `{name}`"))
    };
    if let Some((memory, alone)) = copy.split_once('@') {
        let alone = alone.parse::<f64>().ok().filter(|alone| REACHED.contains(alone));
        let alone =
            alone.ok_or_else(|| format!("`{copy}`: processors reach 0.1 to 100,000 GB/s of a memory"))?;
        let cost = CopyCost { latency: Time::ZERO, at_most: Some(alone * 1e9), passes: 1.0 };
        return Ok(CopyStream { stops: vec![part(memory)?], bytes, cost });
    }
    let stops = copy.split('>').map(part).collect::<Result<Vec<PartId>, _>>()?;
    if stops.windows(2).any(|ends| ends[0] == ends[1]) || stops.len() < 2 {
        return Err(format!("`{copy}` leads nowhere: write such as `memory[0]>gpu[0]`"));
    }
    let gpu = stops.iter().find_map(|&part| machine.gpu_model(part));
    let class = &gpu.ok_or_else(|| format!("`{copy}` is not from or to a GPU"))?.pcie.class;
    let starts = starts(catalogue::copies(), class)?;
    let from_gpu = machine.part(stops[0]).kind == PartKind::Gpu;
    let direction = if from_gpu { Direction::FromDevice } else { Direction::ToDevice };
    let cost = starts.cost(Copy { direction, memory: HostMemory::Pinned, synchronised: false });
    Ok(CopyStream { stops, bytes, cost })
}

/// Starts of copies over links of a class.
///
/// # Errors
/// The class that nothing is known of.
pub(super) fn starts<'a>(copies: &'a CopyCatalogue, class: &str) -> Result<&'a CopyParameters, String> {
    copies.get(class).ok_or_else(|| format!("nothing is known of copies over {class}"))
}
