//! The file of a set.

use calibration::Table;
use indexmap::IndexMap;
use reports::validation::{self, Tolerance};
use schemars::JsonSchema;
use serde::Deserialize;

use super::embedded;
use super::graphs::GraphTable;
use super::on_device::Workloads;
use super::one_of::OneOf;
use super::plans::SameWork;
use super::reads::ReadTable;
use super::samples::SampleTable;
use super::settings::Setting;
use super::storage::StorageTable;
use super::tiles::TileSpace;
use crate::expectation::Metric;
use crate::schema::{Machine, Share};

/// A set of measurements and how it is judged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    /// What was measured, in a sentence.
    pub(super) title: String,
    /// What was fitted on what.
    #[serde(default)]
    pub(super) protocol: String,
    /// What others reached.
    pub(super) best_known: Option<String>,
    /// The errors to reach.
    pub(super) tolerance: Limits,
    /// Those of single parts.
    #[serde(default)]
    pub(super) exceptions: IndexMap<String, Limits>,
    /// Errors of the first run by part, where constants were looked for after it: mean, or median where that is to be reached.
    #[serde(default)]
    pub(super) first_readings: IndexMap<String, Share>,
    /// Why rows are off, where that was looked into; of several that tell of a row, the first.
    #[serde(default)]
    pub(super) explanations: Vec<Explanation>,
    /// The measurements.
    #[serde(with = "serde_yaml::with::singleton_map")]
    #[schemars(with = "Measurements")]
    pub(super) measurements: Measurements,
}

/// What was found out about rows by evidence: a phase whose time is known, an operator of a known graph.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explanation {
    /// The parts it tells of; all, if none is named.
    #[serde(default)]
    parts: Vec<String>,
    /// The rows: what each of these columns says.
    #[serde(default)]
    rows: IndexMap<String, Vec<String>>,
    /// The most likely reason.
    pub(super) because: String,
}

/// Largest errors, the least rank correlation, and how many speed-ups must be right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "mape": "10 %" }]))]
pub(super) struct Limits {
    mape: Option<Share>,
    median: Option<Share>,
    p95: Option<Share>,
    bias: Option<Share>,
    kendall_tau: Option<f64>,
    wrong_sides: Option<usize>,
    gains: Option<usize>,
}

/// What was measured.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Measurements {
    /// Steps of training runs.
    Steps(Box<Steps>),
    /// Kernels, in these tables.
    Kernels(Vec<String>),
    /// Kernels in tables that no constant is fitted to: every row is judged.
    #[schemars(skip)]
    HeldOut(Vec<String>),
    /// Collectives, in these tables.
    Collectives(Vec<CollectiveTable>),
    /// Copies between GPUs and host memories, in these tables.
    Copies(Vec<CopyTable>),
    /// Transfers to and from drives, and states that are kept there, in these tables.
    #[schemars(skip)]
    Storage(Vec<StorageTable>),
    /// Mini-batches of graphs and caches of their rows, in these tables.
    #[schemars(skip)]
    Samples(Vec<SampleTable>),
    /// Reads of host memory by threads of a GPU or of the host.
    #[schemars(skip)]
    Reads(Vec<ReadTable>),
    /// Kernels of graph networks.
    #[schemars(skip)]
    Graphs(Vec<GraphTable>),
    /// Spaces of kernels in tiles.
    #[schemars(skip)]
    Tiles(Vec<TileSpace>),
    /// Runs whose memory was enough, and runs that ran out of it.
    #[schemars(skip)]
    Fits(Box<Fits>),
    /// Workloads of a device, in records of their own.
    #[schemars(skip)]
    OnDevice(Box<Workloads>),
}

/// A table of collectives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectiveTable {
    /// The table.
    pub(super) data: String,
    /// The node of the catalogue that it was measured on.
    pub(super) node: Known,
    /// Which collective.
    pub(super) kind: Known,
    /// The column with the number of GPUs that took part.
    pub(super) ranks: String,
    /// The column with the bytes of the whole tensor.
    pub(super) bytes: String,
    /// The column with the time (us).
    pub(super) time_us: String,
    /// The other columns that say what was run.
    #[serde(default)]
    pub(super) inputs: Vec<String>,
    /// A name for parts of its own, where more than collectives was timed.
    #[serde(default)]
    pub(super) apart: Option<String>,
    /// Smaller ones are not judged.
    #[serde(default)]
    pub(super) bytes_min: u64,
    /// Why.
    #[serde(default)]
    pub(super) because: String,
}

/// A table of copies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyTable {
    /// The table.
    pub(super) data: String,
    /// The part of the set that it is.
    pub(super) part: String,
    /// The machine: one of `machines`.
    pub(super) machine: Known,
    /// The machines that it names.
    #[serde(with = "serde_yaml::with::singleton_map_recursive")]
    #[schemars(with = "IndexMap<String, Machine>")]
    pub(super) machines: IndexMap<String, Machine>,
    /// The copies that are under way at once, `memory[0]>gpu[3]`, and processors beside them, `memory[0]@70`.
    pub(super) copies: Known,
    /// The column with the number of the copy whose rate was measured; none, and where it is no number: that of all.
    pub(super) of: Option<String>,
    /// The column with the bytes of each copy.
    pub(super) bytes: String,
    /// The column with the rate.
    pub(super) gb_per_s: String,
    /// Other columns that say what was copied.
    #[serde(default)]
    pub(super) inputs: Vec<String>,
    /// Whether three quarters of its rows are what constants are fitted to.
    #[serde(default)]
    pub(super) fitted: bool,
    /// Rows that are not judged.
    #[serde(default)]
    pub(super) left_out: Vec<NotJudged>,
    /// Smaller ones are not judged.
    #[serde(default)]
    pub(super) bytes_min: u64,
    /// Why.
    #[serde(default)]
    pub(super) because: String,
}

/// A value for a whole table, or by a column.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Known {
    Always(String),
    Told(Setting),
}

/// Rows that become scenarios.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Steps {
    /// The table.
    pub(super) data: String,
    /// The column whose values are parts of the set, judged each by itself; none: all rows together.
    pub(super) part: Option<String>,
    /// What a row says.
    pub(super) measured: Measured,
    /// What else it says, each a part of the set.
    #[serde(default)]
    pub(super) also: Vec<Measured>,
    /// True of parts of training steps (forward passes, single layers), whose errors say nothing of
    /// whole ones.
    #[serde(default)]
    pub(super) partial: bool,
    /// Columns with what came out that is not judged here.
    #[serde(default)]
    pub(super) outcomes: Vec<String>,
    /// What all rows have in common.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) scenario: serde_yaml::Mapping,
    /// What each row sets, by path.
    pub(super) settings: IndexMap<String, Setting>,
    /// Rows that are not judged.
    #[serde(default)]
    pub(super) left_out: Vec<NotJudged>,
    /// Settings (`path=value`) of rows that ran although they are said not to fit, on top of their own: their times are judged
    /// in this memory, their verdicts by the set `fits`.
    #[serde(default)]
    pub(super) where_refused: Vec<String>,
    /// Rows that rest on one measurement.
    pub(super) one_of: Option<OneOf>,
    /// The column by which what memory is off by is found on the rows of the other values, where no other set tells of memory.
    pub(super) families: Option<String>,
    /// Columns in which rows of one model on one machine say the same: their differences are judged as well.
    pub(super) alike: Option<Vec<String>>,
    /// Rows that are plans for the same work.
    pub(super) same_work: Option<SameWork>,
}

/// Verdicts on memory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fits {
    /// Sets of training steps, all rows of which ran.
    pub(super) ran: Vec<String>,
    /// Tables of runs that ran out of memory.
    pub(super) out_of_memory: Vec<Exhausted>,
}

/// A table of runs that ran out of memory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exhausted {
    /// The table.
    pub(super) data: String,
    /// What all rows have in common.
    pub(super) scenario: serde_yaml::Mapping,
    /// What each row sets, by path.
    pub(super) settings: IndexMap<String, Setting>,
}

/// The measurement of a row.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    /// Its column.
    pub(super) column: String,
    /// The unit in the table.
    pub(super) unit: Unit,
    /// Which figure of a run it is.
    pub(super) metric: Metric,
    /// The part of the set that it is, in place of that of a column.
    pub(super) part: Option<String>,
    /// Settings (`path=value`) of the run that it is a figure of, on top of those of the row.
    #[serde(default)]
    pub(super) with: Vec<String>,
    /// Settings of the run whose figure is divided by that of this one: a speed-up.
    pub(super) over: Option<Vec<String>>,
}

/// Units of measured times, memory and speed-ups.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unit {
    S,
    Ms,
    Gib,
    Times,
}

/// Rows that are listed, not judged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NotJudged {
    /// The column that tells them.
    pub(super) column: String,
    /// What it says.
    pub(super) is: Vec<String>,
    /// Why.
    pub(super) because: String,
}

impl Known {
    /// For a row.
    ///
    /// # Errors
    /// As [`Setting::of`].
    pub(super) fn of(&self, cells: &IndexMap<String, String>) -> Result<String, String> {
        match self {
            Self::Always(value) => Ok(value.clone()),
            Self::Told(setting) => setting.of(cells),
        }
    }

    /// The column that tells it.
    pub(super) fn column(&self) -> Option<&str> {
        match self {
            Self::Always(_) => None,
            Self::Told(setting) => Some(&setting.column),
        }
    }
}

impl NotJudged {
    /// Whether it tells of a row.
    pub(super) fn says(&self, cells: &IndexMap<String, String>) -> bool {
        cells.get(&self.column).is_some_and(|cell| self.is.contains(cell))
    }
}

impl Unit {
    /// How many seconds, bytes or times it is, and which of them.
    pub(super) const fn value(self) -> (f64, validation::Unit) {
        match self {
            Self::S => (1.0, validation::Unit::Seconds),
            Self::Ms => (1e-3, validation::Unit::Seconds),
            Self::Gib => ((1_u64 << 30) as f64, validation::Unit::Bytes),
            Self::Times => (1.0, validation::Unit::Speedup),
        }
    }
}

impl Limits {
    pub(super) fn tolerance(&self) -> Tolerance {
        let share = |limit: Option<Share>| limit.map(Share::as_f64);
        Tolerance {
            mape: share(self.mape),
            median: share(self.median),
            p95: share(self.p95),
            bias: share(self.bias),
            kendall_tau: self.kendall_tau,
            wrong_sides: self.wrong_sides,
            gains: self.gains,
        }
    }
}

impl Explanation {
    /// Whether it tells of a row.
    fn tells_of(&self, part: &str, inputs: &IndexMap<String, String>) -> bool {
        (self.parts.is_empty() || self.parts.iter().any(|name| name == part))
            && self
                .rows
                .iter()
                .all(|(column, values)| inputs.get(column).is_some_and(|cell| values.contains(cell)))
    }
}

impl Steps {
    /// Refuses a row that is listed, not judged.
    ///
    /// # Errors
    /// Why it is left out.
    pub(super) fn judges(&self, inputs: &IndexMap<String, String>) -> Result<(), String> {
        let left_out = self.left_out.iter().find(|row| row.says(inputs));
        left_out.map_or(Ok(()), |row| Err(row.because.clone()))
    }

    /// All that a row says.
    pub(super) fn figures(&self) -> impl Iterator<Item = &Measured> {
        [&self.measured].into_iter().chain(&self.also)
    }
}

impl Set {
    /// Why a row is likely to be off.
    pub(super) fn explanation(&self, part: &str, inputs: &IndexMap<String, String>) -> Option<String> {
        let found = self.explanations.iter().find(|explanation| explanation.tells_of(part, inputs));
        found.map(|explanation| explanation.because.clone())
    }

    /// Its tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = Table> {
        let names: Vec<&String> = match &self.measurements {
            Measurements::Steps(steps) => vec![&steps.data],
            Measurements::Kernels(tables) | Measurements::HeldOut(tables) => tables.iter().collect(),
            Measurements::Collectives(tables) => tables.iter().map(|table| &table.data).collect(),
            Measurements::Copies(tables) => tables.iter().map(|table| &table.data).collect(),
            Measurements::Storage(tables) => tables.iter().map(|table| &table.data).collect(),
            Measurements::Samples(tables) => tables.iter().map(|table| &table.data).collect(),
            Measurements::Fits(fits) => fits.out_of_memory.iter().map(|table| &table.data).collect(),
            Measurements::Reads(tables) => {
                tables.iter().filter(|table| table.is_table()).map(|table| &table.data).collect()
            }
            Measurements::Graphs(tables) => {
                tables.iter().filter(|table| table.is_table()).map(|table| &table.data).collect()
            }
            Measurements::Tiles(_) | Measurements::OnDevice(_) => Vec::new(),
        };
        let packed: &[TileSpace] = match &self.measurements {
            Measurements::Tiles(spaces) => spaces,
            _ => &[],
        };
        let packed = packed.iter().filter(|space| space.is_table());
        let packed = packed.map(|space| embedded::packed_table(&space.data));
        names.into_iter().map(|name| embedded::table(name)).chain(packed)
    }

    /// The set of rows that what is found of whole steps must not rest on, where one of these judges: its own, or its own family.
    pub(super) fn left_out(&self, name: &str, inputs: &IndexMap<String, String>) -> String {
        let families = self.steps().and_then(|steps| steps.families.as_ref());
        let family = families.and_then(|column| inputs.get(column));
        family.map_or_else(|| name.to_owned(), |family| format!("{name} {family}"))
    }

    /// Its rows, if they become scenarios.
    pub(super) fn steps(&self) -> Option<&Steps> {
        match &self.measurements {
            Measurements::Steps(steps) => Some(steps),
            _ => None,
        }
    }

    /// Rows of its tables.
    fn rows(&self) -> u64 {
        self.tables().map(|table| table.rows().count() as u64).sum()
    }

    /// Scenarios that are run to judge it.
    pub(super) fn runs(&self) -> u64 {
        match &self.measurements {
            Measurements::Steps(_) => self.rows(),
            Measurements::Fits(fits) => {
                let ran = fits.ran.iter().filter_map(|name| embedded::set(name));
                self.rows() + ran.map(|set| set.rows()).sum::<u64>()
            }
            Measurements::Kernels(_)
            | Measurements::HeldOut(_)
            | Measurements::Collectives(_)
            | Measurements::Copies(_)
            | Measurements::Storage(_)
            | Measurements::Samples(_)
            | Measurements::Reads(_)
            | Measurements::Graphs(_)
            | Measurements::Tiles(_)
            | Measurements::OnDevice(_) => 0,
        }
    }
}
