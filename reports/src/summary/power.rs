//! Power that GPUs draw, and energy of a step.

use serde::{Deserialize, Serialize};

use crate::quantity;

/// Power and energy of the GPUs of a run; hosts, networks and cooling are beside them.
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
    /// Kind of evidence that the constants of the boards rest on, the weakest.
    pub origin: String,
}

impl PowerUse {
    /// Power and energy in one line: `612 W (551 to 673 W) of each GPU, 107 J for a step`.
    pub fn in_words(&self) -> String {
        let [least, most] = self.board_power_interval_w.map(quantity::watts);
        let token = self
            .token_energy_j
            .map_or(String::new(), |token| format!(", {} a token", quantity::joules(token)));
        format!(
            "{} ({least} to {most}) of each GPU's board, {} a step{token}",
            quantity::watts(self.board_power_w),
            quantity::joules(self.step_energy_j)
        )
    }
}
