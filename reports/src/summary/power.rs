//! Power that GPUs and hosts draw, and energy of a step.

use serde::{Deserialize, Serialize};

use crate::quantity;

/// Power and energy of the GPUs of a run, and power of its hosts; networks and cooling are beside them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerUse {
    /// Mean power of a GPU's board during a step (W), mean over the ranks.
    pub board_power_w: f64,
    /// Nine of ten measurements of it should lie in this interval.
    pub board_power_interval_w: [f64; 2],
    /// Energy of all boards in one step (J).
    pub step_energy_j: f64,
    /// Nine of ten measurements of it should lie in this interval.
    pub step_energy_interval_j: [f64; 2],
    /// Energy of all boards for a token (J); absent where nobody counts tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_energy_j: Option<f64>,
    /// Power of hosts; absent where their processors are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostUse>,
    /// Kind of evidence that the constants of the boards rest on, the weakest.
    pub origin: String,
}

/// Power of processors and memories of hosts; fans, and losses of power supplies, are beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUse {
    /// Mean power of a host during a step (W).
    pub host_power_w: f64,
    /// Mean number of its cores that are busy.
    pub busy_cores: f64,
    /// Mean power of all boards and all hosts (W).
    pub system_power_w: f64,
}

impl PowerUse {
    /// Power and energy in one line: `612 W (551 to 673) of each GPU's board, 107 J a step; 148 W of
    /// each host, 2.0 busy cores`.
    pub fn in_words(&self) -> String {
        let [least, most] = self.board_power_interval_w.map(quantity::watts);
        let token = self
            .token_energy_j
            .map_or(String::new(), |token| format!(", {} a token", quantity::joules(token)));
        let hosts = self.hosts.as_ref().map_or(String::new(), |hosts| {
            format!(
                "; {} of each host, {:.1} busy cores",
                quantity::watts(hosts.host_power_w),
                hosts.busy_cores
            )
        });
        format!(
            "{} ({least} to {most}) of each GPU's board, {} a step{token}{hosts}",
            quantity::watts(self.board_power_w),
            quantity::joules(self.step_energy_j)
        )
    }
}
