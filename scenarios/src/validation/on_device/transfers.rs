//! What moves between a GPU and its host: a copy one way or one each way at once, page-locked or not, beside kernels or not; a file,
//! through the page cache or past it. Kernels cost copies nothing, which come first at the memory of the GPU.

use hw_models::copies::{Copy, CopyStream, Direction, HostMemory, rates_at_once};
use hw_models::machine::{Machine, PartId};
use hw_models::storage::{Array, PathParameters, Transfer as OfFile, Way, seconds_at_once};
use reports::summary::RunSummary;
use serde::{Deserialize, Serialize};

use workloads::hardware::HardwareError;

use crate::catalogue;
use crate::plans::machine;
use crate::schema::{Bytes, Scenario};
use crate::validation::copies::starts;

/// What moves, as a row says it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transfer {
    /// Where the other end is.
    over: Over,
    /// Its size.
    bytes: Bytes,
    /// To the GPU, rather than from it.
    to_device: bool,
    /// While another of the same size goes the other way, one after the other.
    #[serde(default)]
    both_ways: bool,
    /// While kernels keep the GPU busy.
    #[serde(default)]
    beside_products: bool,
}

/// Where the other end of a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Over {
    /// Memory of the host that is page-locked.
    PageLocked,
    /// Other memory of the host.
    Pageable,
    /// A file, through the page cache.
    Buffered,
    /// A file, past it.
    Direct,
}

/// The same, as `transfers.py` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moving {
    over: Over,
    bytes: u64,
    to_device: bool,
    both_ways: bool,
    beside_products: bool,
    /// Bytes of a request to a drive, and how many of them are under way.
    block: u64,
    depth: u32,
}

/// How its settings begin.
const SETTINGS: &str = "transfer.";

impl Transfer {
    /// What the settings of a row say of it, and the others.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of(settings: &[String]) -> Result<(Self, Vec<String>), String> {
        let (mut said, mut others) = (serde_yaml::Mapping::new(), Vec::new());
        for setting in settings {
            let (path, value) = setting.split_once('=').expect("settings are `path=value`");
            let Some(name) = path.strip_prefix(SETTINGS) else {
                others.push(setting.clone());
                continue;
            };
            let value: serde_yaml::Value = serde_yaml::from_str(value).map_err(|error| error.to_string())?;
            said.insert(name.into(), value);
        }
        let transfer = serde_yaml::from_value(said.into());
        let transfer: Self = transfer.map_err(|error| format!("`{SETTINGS}*`: {error}"))?;
        if transfer.path().is_some() && (transfer.both_ways || transfer.beside_products) {
            let without = "a file is moved alone here: remove `both_ways` and `beside_products`";
            return Err(format!("PyTorch has no part for this transfer: {without}"));
        }
        Ok((transfer, others))
    }

    /// What a device is asked.
    pub(super) fn moving(&self) -> Moving {
        let Self { over, bytes, to_device, both_ways, beside_products } = *self;
        let requests = self.path().map(PathParameters::requests);
        let (block, depth) = requests.map_or((0, 0), |requests| (requests.block, requests.depth));
        Moving { over, bytes: bytes.bytes(), to_device, both_ways, beside_products, block, depth }
    }

    /// What it takes on the machine of a checked scenario, as the time of a step.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn simulated(&self, scenario: &Scenario) -> Result<RunSummary, String> {
        let machine = machine::of(scenario).map_err(|error| error.to_string())?;
        let seconds = match self.path() {
            None => self.copied(scenario, &machine),
            Some(path) => self.filed(scenario, &machine, path),
        }?;
        Ok(RunSummary { fits: true, step_time_s: Some(seconds), ..RunSummary::default() })
    }

    fn path(&self) -> Option<&'static PathParameters> {
        match self.over {
            Over::PageLocked | Over::Pageable => None,
            Over::Buffered => catalogue::storage_paths().get("buffered"),
            Over::Direct => catalogue::storage_paths().get("direct"),
        }
    }

    fn copied(&self, scenario: &Scenario, machine: &Machine) -> Result<f64, String> {
        let (gpu, memory) = ends(machine)?;
        let model = machine.gpu_model(gpu).ok_or_else(|| HardwareError::NoGpu.to_string())?;
        let class = &model.pcie.class;
        let starts = starts(scenario.constants.copies(), class)?;
        let of = if self.over == Over::PageLocked { HostMemory::Pinned } else { HostMemory::Pageable };
        let stream = |to_device: bool| {
            let (stops, direction) = match to_device {
                true => ([memory, gpu], Direction::ToDevice),
                false => ([gpu, memory], Direction::FromDevice),
            };
            let cost = starts.cost(Copy { direction, memory: of, synchronised: true });
            CopyStream { stops: stops.to_vec(), bytes: self.bytes.bytes(), cost }
        };
        let ways = [Some(self.to_device), self.both_ways.then_some(!self.to_device)];
        let streams: Vec<CopyStream> = ways.into_iter().flatten().map(stream).collect();
        let rates = rates_at_once(machine, &streams).map_err(|error| error.to_string())?;
        Ok(self.bytes.bytes() as f64 / rates[0])
    }

    fn filed(&self, scenario: &Scenario, machine: &Machine, path: &PathParameters) -> Result<f64, String> {
        let array = Array::of("drives", machine.drives_of_node(0).collect());
        let way = if self.to_device { Way::Read } else { Way::Write };
        let (end, _) = ends(machine)?;
        let transfer = OfFile { array: &array, way, end, bytes: self.bytes.bytes(), path };
        let seconds = seconds_at_once(machine, scenario.constants.copies(), &[transfer]);
        Ok(seconds.map_err(|error| error.to_string())?[0])
    }
}

/// The GPU and the memory next to it.
fn ends(machine: &Machine) -> Result<(PartId, PartId), String> {
    let gpu = machine.gpu(0);
    let memory = machine.memory_of(gpu).ok_or("the machine has no host memory")?;
    Ok((gpu, memory))
}

#[cfg(test)]
mod tests {
    use super::super::OnMachine;
    use super::super::questions;
    use super::*;

    /// Predictions of the rows of a set (s), by the values of their axes.
    fn predicted(set: &str) -> Vec<(String, f64)> {
        let machine = OnMachine { gpu: "h200-sxm5-141gb".to_owned(), calibrations: Vec::new() };
        let rows = questions(&[set.to_owned()], &machine, false).unwrap();
        let seconds = |row: &super::super::Question| row.predicted().unwrap().step_time_s.unwrap();
        rows.iter().map(|row| (row.name(), seconds(row))).collect()
    }

    fn of(rows: &[(String, f64)], name: &str) -> f64 {
        rows.iter().find(|(row, _)| row == name).unwrap_or_else(|| panic!("no {name} in {rows:?}")).1
    }

    /// A copy engine carries 56.15 GB/s to a GPU over PCIe 5 and 50.65 while as much comes back, a thread 10 either way; kernels take
    /// nothing of either.
    #[test]
    fn copies_take_what_their_link_or_their_thread_gives() {
        let rows = predicted("duplex");
        let bytes = f64::from(256 << 20);
        for (name, gb_per_s) in [
            ("page-locked; to the GPU; alone; none", 56.15),
            ("page-locked; to the host; alone; none", 55.06),
            ("page-locked; to the GPU; another the other way; none", 50.65),
            ("page-locked; to the host; another the other way; products", 50.65),
            ("pageable; to the GPU; alone; products", 10.0),
            ("pageable; to the host; another the other way; none", 10.0),
        ] {
            let (found, expected) = (of(&rows, name), bytes / (gb_per_s * 1e9) + 8e-6);
            assert!((found / expected - 1.0).abs() < 5e-3, "{name}: {found} s, not {expected}");
        }
    }

    /// Through the page cache one thread copies 0.7 GB/s, past it the drive writes; then, or before, the copy of the GPU.
    #[test]
    fn files_take_what_a_thread_or_the_drive_gives() {
        let rows = predicted("disk");
        let bytes = f64::from(1 << 30);
        let [buffered, direct] =
            ["buffered", "direct"].map(|path| of(&rows, &format!("{path}; written; 1 GiB")));
        let expected = bytes * (1.0 / 0.7e9 + 1.0 / 10e9);
        assert!((buffered / expected - 1.0).abs() < 0.01, "{buffered} s, not {expected}");
        assert!(direct < 0.5 * buffered && direct > bytes * (1.0 / 4.3e9 + 1.0 / 55.06e9), "{direct} s");
    }

    #[test]
    fn what_the_script_has_no_part_for_is_told() {
        let refused = |settings: &[&str]| {
            let all = ["transfer.bytes=1 GiB", "transfer.to_device=true"].iter().chain(settings);
            Transfer::of(&all.map(|&setting| setting.to_owned()).collect::<Vec<_>>()).unwrap_err()
        };
        let both = refused(&["transfer.over=direct", "transfer.both_ways=true"]);
        assert!(both.contains("a file is moved alone here"), "{both}");
        let unknown = refused(&["transfer.over=gpu-direct"]);
        assert!(unknown.contains("unknown variant `gpu-direct`"), "{unknown}");
        assert!(refused(&[]).contains("missing field `over`"));
    }
}
