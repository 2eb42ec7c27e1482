//! An epoch of mini-batches.

use serde::{Deserialize, Serialize};

use crate::quantity;

/// An epoch of mini-batches, each of which reads rows of features.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its mini-batches on each copy of the model.
    pub batches: u64,
    /// Time of all of them (s).
    pub epoch_time_s: Option<f64>,
    /// Different nodes of a mini-batch, whose rows are read.
    pub rows_per_batch: u64,
    /// Their bytes.
    pub bytes_per_batch: u64,
    /// Share of the rows that a cache on the GPU has, 0 to 1.
    pub hit_rate: f64,
    /// Share of the rows that a cache on the host has before drives, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_hit_rate: f64,
    /// Work of its lanes.
    pub parts: EpochParts,
}

/// How long the lanes of an epoch work, also where others work at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochParts {
    /// Drawing neighbours (s).
    pub sampling_s: f64,
    /// Gathering and copying rows of features (s).
    pub features_s: f64,
    /// Kernels of the network and its optimizer (s).
    pub training_s: f64,
}

impl EpochParts {
    /// A list of them, for a sentence.
    fn in_words(&self) -> String {
        let Self { sampling_s, features_s, training_s } = *self;
        let [sampling, features, training] = [sampling_s, features_s, training_s].map(quantity::seconds);
        format!("sampling works for {sampling}, features for {features}, training for {training}")
    }
}

fn is_zero(rate: &f64) -> bool {
    *rate == 0.0
}

impl Epoch {
    /// A sentence without final full stop.
    pub fn in_words(&self) -> String {
        let rows = quantity::count(self.rows_per_batch as f64);
        let bytes = quantity::bytes(self.bytes_per_batch);
        let time =
            self.epoch_time_s.map_or_else(String::new, |time| format!(" takes {}", quantity::seconds(time)));
        let found = [(self.hit_rate, "GPU"), (self.host_hit_rate, "host")];
        let found = found.into_iter().filter(|&(rate, _)| rate > 0.0);
        let hits: String = found
            .map(|(rate, place)| format!(", {} of them from a cache on the {place}", quantity::percent(rate)))
            .collect();
        let (batches, parts) = (self.batches, self.parts.in_words());
        format!(
            "an epoch of {batches} mini-batches{time}: {parts}; each batch reads {rows} rows ({bytes}){hits}"
        )
    }
}
