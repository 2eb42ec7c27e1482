//! Records of probes: a line each, with what was done and samples of its time.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sim_core::time::Time;

/// A record.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    /// Section of the probe.
    #[serde(default)]
    pub(super) section: String,
    /// Description of it.
    #[serde(default)]
    of: Value,
    /// Samples (us), or the only one.
    #[serde(default)]
    us: Value,
    /// Line in the file.
    #[serde(skip)]
    pub(super) line: usize,
}

/// The records of a probe; its first line is the protocol.
pub(super) fn records(text: &str) -> impl Iterator<Item = Record> {
    text.lines().enumerate().skip(1).map(|(line, text)| {
        let record: Record =
            serde_json::from_str(text).expect("an embedded probe is valid, which a test would find");
        Record { line: line + 1, ..record }
    })
}

impl Record {
    /// Its description, if it is of that kind.
    pub(super) fn of<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.of.clone()).ok()
    }

    /// Its description by column.
    pub(super) fn inputs(&self) -> IndexMap<String, String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let cells = self.of.as_object().into_iter().flatten();
        cells.map(|(column, value)| (column.clone(), text(value))).collect()
    }

    /// Median of its samples.
    pub(super) fn median_us(&self) -> Time {
        let samples = self.us.as_array().into_iter().flatten().chain([&self.us]);
        let mut samples: Vec<f64> = samples.filter_map(Value::as_f64).collect();
        samples.sort_by(f64::total_cmp);
        Time((samples.get(samples.len() / 2).copied().unwrap_or_default() * 1e6) as u64)
    }
}
