//! Settings of what-ifs: changes of a recording as scenarios and the command line write them.
//!
//! A what-if is a field here and its line in `WhatIf::planned`; the command line takes it as
//! `FIELD=VALUE`.

use hw_models::settings::Factor;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::{Change, Merged};
use super::hardware::{Fault, Hardware, Planned};
use super::traced::Traced;

/// Changes of what was recorded; without any the recording is replayed as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("examples" = [{ "host": "50 %" }]))]
pub struct WhatIf {
    /// Factor on the time of hosts outside of waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Factor>,
    /// Factor on the time of kernels, without collectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<Factor>,
    /// Factor on the time of copies and fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<Factor>,
    /// Factor on the time of collectives without their wait for peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collectives: Option<Factor>,
    /// Another GPU for the kernels: an entry of the catalogue, or `RECORDED:NEW` where the trace
    /// names no GPU of the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["h100-sxm5-80gb", "v100-sxm2-32gb:h100-sxm5-80gb"]))]
    pub gpu: Option<String>,
    /// Another PCIe link for pinned copies between host and device: a class of the catalogue, or
    /// `RECORDED:NEW`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["pcie5", "pcie3:pcie5"]))]
    pub link: Option<String>,
    /// Elementwise kernels that follow each other.
    #[serde(skip_serializing_if = "Elementwise::is_recorded")]
    pub elementwise: Elementwise,
    /// Launches between two synchronisations of a thread.
    #[serde(skip_serializing_if = "Launching::is_recorded")]
    pub launch: Launching,
    /// Arrival of batches.
    #[serde(skip_serializing_if = "Loader::is_recorded")]
    pub loader: Loader,
}

/// Elementwise kernels that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Elementwise {
    /// They stay separate kernels.
    #[default]
    Recorded,
    /// They become one kernel on one tensor, as long as the longest of them.
    Chained,
    /// They become one kernel on tensors of their own, as long as all of them.
    Batched,
}

impl Elementwise {
    fn is_recorded(&self) -> bool {
        *self == Self::Recorded
    }
}

/// How a thread launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Launching {
    /// Each launch is as it was recorded.
    #[default]
    Recorded,
    /// Launches between two synchronisations, handoffs or loads become one CUDA graph.
    Graphs,
}

impl Launching {
    fn is_recorded(&self) -> bool {
        *self == Self::Recorded
    }
}

/// Arrival of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// Batches take as long as they were recorded to take.
    #[default]
    Recorded,
    /// Batches are always ready.
    None,
}

impl Loader {
    fn is_recorded(&self) -> bool {
        *self == Self::Recorded
    }
}

impl WhatIf {
    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Changes a trace, and says what each setting did.
    ///
    /// # Errors
    /// All faults; nothing is changed then.
    pub fn apply(&self, traced: &mut Traced, hardware: Hardware<'_>) -> Result<Vec<String>, Vec<Fault>> {
        let planned = self.planned(traced, hardware)?;
        let written = self.written();
        let told = |Planned { field, change, basis }: Planned| {
            let effect = change.apply(traced).into_iter().filter(|(_, count)| *count > 0);
            let counts: Vec<String> = effect.map(|(what, count)| format!("{what} {count}")).collect();
            let counts = (!counts.is_empty()).then(|| counts.join(", "));
            let said: Vec<String> = basis.into_iter().chain(counts).collect();
            let setting = format!("{field}={}", written.get(field).map(String::as_str).unwrap_or_default());
            if said.is_empty() { setting } else { format!("{setting} ({})", said.join("; ")) }
        };
        Ok(planned.into_iter().map(told).collect())
    }

    /// Faults of the settings for a trace.
    pub fn faults(&self, traced: &Traced, hardware: Hardware<'_>) -> Vec<Fault> {
        self.planned(traced, hardware).err().unwrap_or_default()
    }

    /// The changes, in the order in which they are made. Graphs and merged kernels are made of
    /// scaled times, and end at loads that vanish afterwards.
    fn planned(&self, traced: &Traced, hardware: Hardware<'_>) -> Result<Vec<Planned>, Vec<Fault>> {
        let plain =
            |field, change: Option<Change>| change.map(|change| Ok(Planned { field, change, basis: None }));
        let scaled = |field, factor: Option<Factor>, change: fn(f64) -> Change| {
            plain(field, factor.map(|factor| change(factor.as_f64())))
        };
        let merged = match self.elementwise {
            Elementwise::Recorded => None,
            Elementwise::Chained => Some(Merged::Chained),
            Elementwise::Batched => Some(Merged::Batched),
        };
        let graphs = self.launch == Launching::Graphs;
        let changes = [
            scaled("host", self.host, Change::Host),
            scaled("kernels", self.kernels, Change::Kernels),
            scaled("copies", self.copies, Change::Copies),
            scaled("collectives", self.collectives, Change::Collectives),
            self.gpu.as_deref().map(|written| hardware.gpu_swap(written, traced)),
            self.link.as_deref().map(|written| hardware.link_swap(written, traced)),
            plain("elementwise", merged.map(Change::Elementwise)),
            graphs.then(|| Ok(hardware.graphs())),
            plain("loader", (self.loader == Loader::None).then_some(Change::NoLoader)),
        ];
        let (mut planned, mut faults) = (Vec::new(), Vec::new());
        for change in changes.into_iter().flatten() {
            match change {
                Ok(change) => planned.push(change),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() { Ok(planned) } else { Err(faults) }
    }

    /// Values of the settings by field, as they are written.
    fn written(&self) -> IndexMap<String, String> {
        let written = serde_json::to_value(self).unwrap_or_default();
        let told = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let settings = written.as_object().into_iter().flatten();
        settings.map(|(field, value)| (field.clone(), told(value))).collect()
    }

    /// Each setting as it is written, `host=50 %`.
    pub fn words(&self) -> Vec<String> {
        self.written().into_iter().map(|(field, value)| format!("{field}={value}")).collect()
    }

    /// Adds a setting that is written as `PART=VALUE`.
    ///
    /// # Errors
    /// The fault and its remedy.
    pub fn set(&mut self, written: &str) -> Result<(), String> {
        let (part, value) = written.split_once('=').ok_or("write PART=SHARE, such as `host=50%`")?;
        let (part, value) = (part.trim(), value.trim());
        let added: Self = typed(json!({ part: value }))?;
        let mut all = serde_json::to_value(&*self).unwrap_or_default();
        if all.get(part).is_some() {
            return Err(format!("`{part}` is changed twice: write one factor"));
        }
        let added = serde_json::to_value(added).unwrap_or_default();
        if let (Value::Object(all), Value::Object(added)) = (&mut all, added) {
            all.extend(added);
        }
        *self = typed(all)?;
        Ok(())
    }
}

/// Types settings; faults are told on one line.
fn typed<T: DeserializeOwned>(settings: Value) -> Result<T, String> {
    serde_json::from_value(settings).map_err(|error| error.to_string().replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use hw_models::catalogue::Catalogue;
    use hw_models::host::{HOST, HostCosts};

    use super::*;

    fn set(all: &[&str]) -> Result<WhatIf, String> {
        let mut what_if = WhatIf::default();
        all.iter().try_for_each(|written| what_if.set(written))?;
        Ok(what_if)
    }

    /// Changes of a trace that names no GPU.
    fn planned(what_if: &WhatIf) -> Vec<Change> {
        let devices = Catalogue::embedded(serde_yaml::Deserializer::from_str).expect("valid");
        let host: HostCosts = serde_yaml::from_str(HOST).expect("valid");
        let hardware = Hardware { devices: &devices, host: &host, kernels: |name| Err(name.to_owned()) };
        let planned = what_if.planned(&Traced::default(), hardware).expect("they can be made");
        planned.into_iter().map(|it| it.change).collect()
    }

    #[test]
    fn settings_of_the_command_line_are_those_of_scenarios() {
        let what_if = set(&["host=50%", "loader=none", "kernels = 2", "elementwise=batched"]);
        let what_if = what_if.expect("they are settings");
        let written = json!({ "host": "50 %", "kernels": 2, "loader": "none", "elementwise": "batched" });
        assert_eq!(what_if, serde_json::from_value(written).expect("they are settings"));
        let [host, kernels] = [Change::Host(0.5), Change::Kernels(2.0)];
        let expected = [host, kernels, Change::Elementwise(Merged::Batched), Change::NoLoader];
        assert_eq!(planned(&what_if), expected);
        let mut words = what_if.words();
        words.sort();
        assert_eq!(words, ["elementwise=batched", "host=50 %", "kernels=2", "loader=none"]);
    }

    #[test]
    fn without_settings_nothing_changes() {
        assert_eq!(planned(&WhatIf::default()), []);
        let recorded = set(&["loader=recorded", "elementwise=recorded", "launch=recorded"]);
        assert_eq!(recorded.expect("settings"), WhatIf::default());
        assert_eq!(planned(&set(&["host=100%"]).expect("a setting")), [Change::Host(1.0)]);
    }

    #[test]
    fn faults_are_told() {
        let fault = |all: &[&str]| set(all).expect_err("it is wrong");
        assert!(fault(&["host"]).contains("PART=SHARE"));
        assert!(fault(&["hosts=50%"]).contains("unknown field `hosts`"));
        assert!(fault(&["host=-1"]).contains("must not be negative"));
        assert!(fault(&["host=fast"]).contains("50 %"));
        assert!(fault(&["host=1001"]).contains("is too large"));
        assert!(fault(&["loader=50%"]).contains("none"));
        assert!(fault(&["launch=once"]).contains("graphs"));
        assert!(fault(&["elementwise=merged"]).contains("chained"));
        assert!(fault(&["host=50%", "host=50%"]).contains("twice"));
    }
}
