//! Copies between GPUs and host memories, alone and at once: each row is a machine and the copies that are under way on it.

use calibration::split;
use hw_models::copies::{
    Copy, CopyCatalogue, CopyCost, CopyParameters, CopyStream, Direction, HostMemory, rates_at_once,
};
use hw_models::machine::{Machine, PartId, PartKind};
use indexmap::IndexMap;
use sim_core::time::Time;

use super::set::CopyTable;
use super::settings::number;
use super::{Judged, compared};
use crate::catalogue;

/// The rows of a table.
pub(super) fn judged(table: &CopyTable) -> Vec<Judged> {
    compared((&table.data, &table.part), |cells| table.told(cells), |cells| table.compared(cells))
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

    /// What copies of all streams that count took, and what they take in a simulation (s).
    fn compared(&self, cells: &IndexMap<String, String>) -> Result<[f64; 2], String> {
        let inputs: Vec<String> = self.told(cells).into_values().collect();
        if self.fitted && !split::judges(split::hash(&inputs)) {
            return Err("its constants are fitted to it".to_owned());
        }
        if let Some(row) = self.left_out.iter().find(|row| row.says(cells)) {
            return Err(row.because.clone());
        }
        let (bytes, measured) = (number(cells, &self.bytes)?, number(cells, &self.gb_per_s)?);
        if (bytes as u64) < self.bytes_min {
            return Err(format!("under {} bytes {}", self.bytes_min, self.because));
        }
        let name = self.machine.of(cells)?;
        let machine = self.machines.get(&name).ok_or_else(|| format!("there is no machine `{name}`"))?;
        let machine = Machine::of(catalogue::devices(), machine).map_err(|errors| format!("{errors:?}"))?;
        let copies = self.copies.of(cells)?;
        let streams = copies.split_whitespace().map(|copy| stream(&machine, copy, bytes as u64));
        let rates = rates_at_once(&machine, &streams.collect::<Result<Vec<_>, _>>()?);
        let rates = rates.map_err(|error| error.to_string())?;
        let of = self.of.as_ref().and_then(|column| cells.get(column)?.parse::<usize>().ok());
        let predicted: f64 = of.map_or(rates.iter().sum(), |one| rates[one]);
        Ok([bytes / (measured * 1e9), bytes / predicted])
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
        let alone: f64 =
            alone.parse().map_err(|_| format!("`{copy}`: what processors reach is no number"))?;
        let cost = CopyCost { latency: Time::ZERO, at_most: Some(alone * 1e9), passes: 1.0 };
        return Ok(CopyStream { stops: vec![part(memory)?], bytes, cost });
    }
    let stops = copy.split('>').map(part).collect::<Result<Vec<PartId>, _>>()?;
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
