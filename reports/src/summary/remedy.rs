//! Changes with which a run that has no step time would have one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity;

/// A change with which a run would have a step time, and the step that it gives where it was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// Action, as an imperative ("use `techniques: { bpipe: {} }`").
    pub action: String,
    /// Effect of the change, as a clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Step time with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time_s: Option<f64>,
    /// Most memory that a GPU takes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

impl Remedy {
    /// A change that was not tried.
    pub fn untried(action: impl Into<String>) -> Self {
        Self { action: action.into(), ..Self::default() }
    }
}

/// `use ...: 5.63 s per step, 62.1 GB at most; layers compute their activations again`.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.step_time_s.map(|time| format!("{} per step", quantity::seconds(time)));
        let peak = self.peak_bytes.map(|peak| format!("{} at most", quantity::bytes(peak)));
        let measured: Vec<String> = time.into_iter().chain(peak).collect();
        let said = [Some(measured.join(", ")), self.effect.clone()];
        let said: Vec<String> = said.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        f.write_str(&self.action)?;
        if said.is_empty() { Ok(()) } else { write!(f, ": {}", said.join("; ")) }
    }
}
