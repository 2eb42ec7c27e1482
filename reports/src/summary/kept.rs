//! What stays on GPUs of the activations that might leave, as a profiled step has told.

use serde::{Deserialize, Serialize};

/// What a rank keeps of each micro-batch, and others of its stage that keep the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptActivations {
    /// Whose they are ("stage 0", "stage 0, gpu1").
    pub of: String,
    /// What they stay from on ("MLP of layer 3"); absent where all leave.
    pub from: Option<String>,
    /// How much stays.
    pub kept_bytes: u64,
    /// How much there is that might leave.
    pub candidate_bytes: u64,
    /// The rate that writing all before it, and writing and reading that itself, asks for; where all leave the most that any layer or half of
    /// one asks for.
    pub needed_bytes_per_s: f64,
    /// The rate at which all left in the profiled step; absent where nothing did.
    pub measured_bytes_per_s: Option<f64>,
}

impl KeptActivations {
    /// From where on, in words.
    pub fn stays(&self) -> String {
        self.from.as_ref().map_or_else(|| "nothing".to_owned(), |from| format!("from {from} on"))
    }
}
