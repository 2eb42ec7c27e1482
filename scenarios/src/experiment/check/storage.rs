//! Whether the machine has the drives that arrays name, and the arrays those that techniques do.

use hw_models::catalogue::nearest;
use hw_models::machine::Machine;
use hw_models::storage::arrays_of_node;
use workloads::diagnostic::split;
use workloads::passes::{Facts, OnDrives};

use super::Check;
use crate::catalogue;
use crate::plans;
use crate::schema::{ArrayRates, Scenario, Storage};

/// Fastest array, as the fastest memory of a machine (byte/s).
const RATE_MAX: u64 = 1_000_000_000_000_000;

const NO_DRIVES: &str =
    "write `host`, or give its nodes some: `set: { ssd: { model: samsung-pm9a3-u2-3840gb, count: 4 } }`";

impl Check<'_> {
    /// Checks arrays of drives, the paths to them, and who uses them.
    pub(super) fn storage(&mut self, scenario: &Scenario, machine: &Machine) {
        self.arrays(&scenario.storage, machine);
        self.rates(&scenario.storage);
        for (name, array) in &scenario.storage {
            let Some(path) = &array.path else { continue };
            let paths = catalogue::storage_paths();
            if !paths.contains_key(path) {
                let names: Vec<&str> = paths.keys().map(String::as_str).collect();
                let message = format!("there is no path `{path}` to drives");
                let help = nearest::remedy(path, &names, "path");
                self.report(&[(&format!("storage.{name}.path"), String::new())], message, help);
            }
        }
        for technique in scenario.techniques.all() {
            let Facts { path, drives: Some(of), .. } = technique.facts(1) else { continue };
            self.used(&of, &scenario.storage, machine);
            if of.there && of.from_gpus {
                self.paths_from_gpus(path, of.names, &scenario.storage);
            }
        }
        if let Some(of) = plans::features(scenario) {
            self.used(&of, &scenario.storage, machine);
        }
    }

    /// Reports arrays whose drives are not there, or are another's.
    fn arrays(&mut self, storage: &Storage, machine: &Machine) {
        let named = storage.iter().map(|(name, array)| (name.as_str(), array.drives.as_ref()));
        for error in arrays_of_node(machine, 0, named).err().into_iter().flatten() {
            let text = error.to_string();
            let (message, help) = split(&text);
            let path = format!("storage.{}.drives", error.array);
            self.report_with(&path, &["machine"], message, help);
        }
    }

    /// Reports rates that no array has.
    fn rates(&mut self, storage: &Storage) {
        let measured = storage.iter().filter_map(|(name, array)| Some((name, array.at_most?)));
        for (name, ArrayRates { write, read }) in measured {
            for (way, rate) in [("write", write), ("read", read)] {
                if !(1..=RATE_MAX).contains(&rate.bytes_per_second()) {
                    let path = format!("storage.{name}.at_most.{way}");
                    let message = format!("`{path}` must be above 0 GB/s and at most 1,000,000 GB/s");
                    let help = "write what was measured, for example `12 GB/s`, or remove `at_most`";
                    self.report(&[(&path, String::new())], message, help);
                }
            }
        }
    }

    /// Reports arrays that a technique names and that are not there, or does not name and has to.
    fn used(&mut self, of: &OnDrives<'_>, storage: &Storage, machine: &Machine) {
        let OnDrives { what, kept, names, arrays, .. } = *of;
        if !of.there {
            if !names.is_empty() {
                let about = [(arrays, String::new()), (kept, "says where they are".to_owned())];
                let message = format!("{what} are not on drives, but arrays are named for them");
                self.report(&about, message, format!("write `{kept}: drives`, or name none"));
            }
            return;
        }
        if machine.drives_of_node(0).next().is_none() {
            self.report_with(kept, &["machine"], format!("the machine has no drives for {what}"), NO_DRIVES);
            return;
        }
        let known: Vec<&str> = storage.keys().map(String::as_str).collect();
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !known.contains(&name.as_str())) {
            let message = format!("`storage` has no array `{name}`");
            let help = nearest::remedy(name, &known, "array");
            self.report_with(&format!("{arrays}.{index}"), &["storage"], message, help);
        }
        if names.is_empty() && known.len() > 1 {
            let message = format!("{what} are on drives, but not said on which of {} arrays", known.len());
            let help = format!("name one, or one for each GPU of a node in turn: `{arrays}: [{}]`", known[0]);
            self.report_with(kept, &["storage"], message, help);
        }
    }

    /// Tensors of a GPU go to drives on paths that do not wait for all of them to be in host memory.
    fn paths_from_gpus(&mut self, technique: &str, names: &[String], storage: &Storage) {
        let all = storage.keys().filter(|_| names.is_empty());
        for name in all.chain(names) {
            let path = storage.get(name).and_then(|array| array.path.as_deref());
            if let Some(path @ ("direct" | "buffered")) = path {
                let setting = format!("storage.{name}.path");
                let about = [(&*setting, String::new()), (technique, "moves tensors of GPUs".to_owned())];
                let message = format!("`{path}` holds all of a tensor in host memory on its way from a GPU");
                self.report(&about, message, "write `bounce` or `gpu-direct`, or leave it out");
            }
        }
    }
}
