//! Settings of what-ifs: changes of a recording as scenarios and the command line write them.
//!
//! A what-if is a field here and its line in [`WhatIf::changes`]; the command line takes it as
//! `FIELD=VALUE`.

use hw_models::settings::Factor;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::Change;
use crate::lanes::Lanes;

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
    /// Arrival of batches.
    #[serde(skip_serializing_if = "Loader::is_recorded")]
    pub loader: Loader,
}

/// Arrival of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// Batches take as long as they were recorded to take.
    #[default]
    Recorded,
    /// Batches are there when they are asked for.
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

    /// The changes, in the order in which they are made.
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let scaled = |factor: Option<Factor>, change: fn(f64) -> Change| Some(change(factor?.as_f64()));
        let changes = [
            scaled(self.host, Change::Host),
            scaled(self.kernels, Change::Kernels),
            scaled(self.copies, Change::Copies),
            scaled(self.collectives, Change::Collectives),
            (self.loader == Loader::None).then_some(Change::NoLoader),
        ];
        changes.into_iter().flatten()
    }

    /// Changes `lanes`.
    pub fn apply(&self, lanes: &mut Lanes) {
        self.changes().for_each(|change| change.apply(lanes));
    }

    /// Each setting as it is written, `host=50 %`.
    pub fn words(&self) -> Vec<String> {
        let written = serde_json::to_value(self).unwrap_or_default();
        let settings = written.as_object().into_iter().flatten();
        let told = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        settings.map(|(part, value)| format!("{part}={}", told(value))).collect()
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
    use super::*;

    fn set(all: &[&str]) -> Result<WhatIf, String> {
        let mut what_if = WhatIf::default();
        all.iter().try_for_each(|written| what_if.set(written))?;
        Ok(what_if)
    }

    #[test]
    fn settings_of_the_command_line_are_those_of_scenarios() {
        let what_if = set(&["host=50%", "loader=none", "kernels = 2"]).expect("they are settings");
        let written = json!({ "host": "50 %", "kernels": 2, "loader": "none" });
        assert_eq!(what_if, serde_json::from_value(written).expect("they are settings"));
        let changes: Vec<Change> = what_if.changes().collect();
        assert_eq!(changes, [Change::Host(0.5), Change::Kernels(2.0), Change::NoLoader]);
        assert_eq!(what_if.words(), ["host=50 %", "kernels=2", "loader=none"]);
    }

    #[test]
    fn without_settings_nothing_changes() {
        assert_eq!(WhatIf::default().changes().count(), 0);
        assert_eq!(set(&["loader=recorded"]).expect("a setting"), WhatIf::default());
        assert_eq!(set(&["host=100%"]).expect("a setting").changes().next(), Some(Change::Host(1.0)));
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
        assert!(fault(&["host=50%", "host=50%"]).contains("twice"));
    }
}
