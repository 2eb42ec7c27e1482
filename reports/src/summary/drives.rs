//! What is kept on drives, what goes there, and how long they take it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::quantity;

/// An array of drives of one node, which may stand for others that do the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveUse {
    /// Its name, `node[0].nvme`.
    pub array: String,
    /// How many arrays do the same, this one included.
    pub alike: u32,
    /// What it holds at most; absent if a drive does not say.
    pub capacity_bytes: Option<u64>,
    /// What it held at most.
    pub peak_bytes: u64,
    /// The same by kind.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub by_kind_bytes: IndexMap<String, u64>,
    /// Read in a step.
    pub read_bytes: u64,
    /// Written in a step.
    pub written_bytes: u64,
    /// Years that its drives last in this step again and again; absent if a drive has no rating, or nothing is written.
    pub lifetime_years: Option<f64>,
}

/// State of drives in a run, where a run of new drives does not leave their write caches and their heat as
/// it finds them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveState {
    /// True if drives are as long training leaves them, false if they are new.
    pub lasting: bool,
    /// Share of the burst that is left at the start of the run, of the drive that has least: of its write cache, or
    /// of what it can do until it is hot.
    pub left_at_start: Option<f64>,
    /// Share that is left at its end.
    pub left_at_end: Option<f64>,
    /// Steps of new drives. `None`: these are told.
    pub new: Option<NewDrives>,
}

/// Steps of new drives beside those that last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewDrives {
    /// Time of a step.
    pub step_time_s: Option<f64>,
    /// Years that drives would last if they stayed new.
    pub drive_lifetime_years: Option<f64>,
}

impl DriveUse {
    /// Its name, and how many are like it.
    pub fn called(&self) -> String {
        match self.alike {
            0 | 1 => self.array.clone(),
            alike => format!("{} and {} alike", self.array, alike - 1),
        }
    }

    /// How long its drives last, in words.
    pub fn lasts(&self) -> String {
        self.lifetime_years.map_or(quantity::NONE.to_owned(), |years| format!("{years:.2} years"))
    }
}
