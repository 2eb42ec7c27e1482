//! What one experiment found: the content of `results.json`, and the only thing the writers of this crate read.
//!
//! Names end in their unit (`_s`, `_bytes`). What has no meaning for a run is absent, never zero or null. Within one
//! `schema_version` fields are only ever added.

mod allocator;
mod campaign;
mod detailed;
mod drives;
mod epoch;
mod kept;
mod lane;
mod machine;
mod outcome;
mod power;
mod program;
mod remedy;
mod replay;
mod search;
pub mod swap;
mod traffic;
mod uncertainty;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::winners::Winners;
use crate::wording::said;

pub use allocator::{AllocatorPeak, FRAGMENTS, Moment};
pub use campaign::{Campaign, Checkpoint, Cost, CostPart, Histories, JobFailures};
pub use detailed::{DetailedLane, DetailedSpan, DetailedTimeline, PathLeg, Piece};
pub use drives::{DriveState, DriveUse, NewDrives};
pub use epoch::{Epoch, EpochParts};
pub use kept::KeptActivations;
pub use lane::LaneTime;
pub use machine::{Calibrated, ConstantOrigin, DrawnLink, DrawnPart, LinkKind, MachineDrawing, PartKind};
pub use outcome::{JournaledRun, Outcome};
pub use power::{HostUse, PowerUse};
pub use program::{ExecutedProgram, Phase};
pub use remedy::Remedy;
pub use replay::{Forecast, ForecastError, ReplayedTrace, StepTime};
pub use search::{
    Alternative, AlternativePlan, Broken, Changed, Extreme, ExtremeWithout, SearchProof, TriedValue,
};
pub use traffic::{CommunicationUse, LinkUse};
pub use uncertainty::{CommonError, NINE_OF_TEN, Ratio, Shape, Uncertainty, nine_of_ten};

/// The version of the result format; raised only when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 2;

/// One experiment: every run of one scenario file, what was promised, and what others published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The scenario's name.
    pub name: String,
    /// What the scenario's author says about it.
    pub description: Option<String>,
    /// The answer in one sentence of at most 15 words: [`crate::finding`].
    pub finding: String,
    /// Sentences that say where and by how much; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub conditions: String,
    /// The version of foretrain that ran it.
    pub version: String,
    /// The root of all randomness.
    pub seed: u64,
    /// A command line that gives the same bytes again.
    pub reproduce: String,
    /// Digest of the resolved scenario.
    pub scenario_digest: String,
    /// Paths of the swept fields, outermost first; empty without sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
    /// Axes that are given (model, machine); winners are named within a case, among the other axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<String>,
    /// The fastest variants over two cases of numbers; absent where there are not exactly two.
    pub winners: Option<Winners>,
    /// Proof of a search, whose best plans the runs are; absent where all points were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchProof>,
    /// Runs of an interrupted experiment; absent if it is complete.
    pub interrupted: Option<Interrupted>,
    /// One per variant and sweep point, points outermost, variants in the order of the file.
    pub variants: Vec<RunSummary>,
    /// The promises of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Check>,
    /// Figures of others, beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Citation>,
    /// The few parameters a reader wants first ("stages": "8"), in reading order.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub parameters: IndexMap<String, String>,
    /// Values that were not written in the file, with their origin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<Assumption>,
    /// The machine, if the scenario names one.
    pub machine: Option<MachineDrawing>,
    /// Hardware files whose constants replace those of the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrations: Vec<Calibrated>,
    /// The constants that the times rest on; of several variants those of the first with a hardware file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<ConstantOrigin>,
    /// The scenario after `extends`, `--set` and defaults, as YAML.
    pub resolved_scenario: String,
    /// Settings of each variant by path, at the first point at which it is possible.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub settings: IndexMap<String, IndexMap<String, String>>,
}

/// An experiment that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Runs that ended before, which are in the results.
    pub ended: u64,
    /// Runs of the whole experiment.
    pub planned: u64,
}

/// One run: a variant at a point of the sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The variant's name.
    pub variant: String,
    /// Swept path to the value as written; empty without sweep.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub point: IndexMap<String, String>,
    /// Whether it ran to its end; if not, `failure` says why.
    pub fits: bool,
    /// Time of one step, mean over the measured ones.
    pub step_time_s: Option<f64>,
    /// What nine of ten measurements of it should lie in, by the errors of the models on what nothing was fitted to: the least
    /// and the most.
    pub step_time_interval_s: Option<[f64; 2]>,
    /// The time of its step over that of the first variant at this point, of a search over that of
    /// the best plan, where both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_to_first: Option<Ratio>,
    /// Its time for the work of the fastest run of its case over that one's, where the difference is smaller than the errors
    /// that the two do not share: a tie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_with_fastest: Option<Ratio>,
    /// The errors that the step time has.
    #[serde(skip)]
    pub step_time_uncertainty: Option<Uncertainty>,
    /// Samples per second.
    pub samples_per_s: Option<f64>,
    /// Tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Model FLOPs utilisation, 0 to 1.
    pub mfu: Option<f64>,
    /// The largest share of a stage's own span in which it waited for other stages, 0 to 1; absent for a single stage.
    pub bubble_fraction: Option<f64>,
    /// Power and energy of its GPUs; absent where no kernels are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerUse>,
    /// Micro-batches of a step.
    pub micro_batches: Option<u64>,
    /// Step time by cause, mean over ranks: the words of [`crate::state`]. Adds up to the step.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub time_breakdown_s: IndexMap<String, f64>,
    /// The compute of it by what bounds kernels; absent where layers are computed again, or kernels
    /// are not known.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub kernel_time_s: IndexMap<String, f64>,
    /// The rank that keeps the others waiting.
    pub slowest_rank: Option<RankTime>,
    /// The same breakdown for every rank, or for every group of equal ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankTime>,
    /// The high-water mark of every memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peak_memory_bytes: Vec<DevicePeak>,
    /// Interval in which nine of ten measurements of the fullest device's mark should lie, the least and the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_interval_bytes: Option<[u64; 2]>,
    /// What of these a step brings with it, activations and workspaces: that of the device where it is most.
    pub peak_activation_bytes: Option<u64>,
    /// Peaks of the framework's caching allocator by stage, where it gives the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocator: Vec<AllocatorPeak>,
    /// Time of a step for memory that allocators return in each one and ask for again (s): it is
    /// so much longer than with all that they take. Absent where none returned any, or where nobody
    /// knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_s: Option<f64>,
    /// Why the allocator was not asked, so that storages alone say that it fits: its ranks execute too many operators.
    pub allocator_unknown: Option<String>,
    /// Notes for readers who compare the run with others: sentences without final full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What was decided about tensors that leave the GPU for memory that the step fits in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swap: Vec<swap::SwapPlan>,
    /// What ranks keep of the activations that might leave, where a profiled step tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptActivations>,
    /// What every link, memory or device carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceUse>,
    /// Communication by kind. What is exposed adds up to the communication and the waiting for transfers of the breakdown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub communication: Vec<CommunicationUse>,
    /// Arrays of drives that something is kept on, those that are written most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveUse>,
    /// Years that drives last in this step again and again: those of the array that lasts least.
    pub drive_lifetime_years: Option<f64>,
    /// State of the drives, where steps of new ones do not repeat.
    pub drive_state: Option<DriveState>,
    /// The links of a machine that were used most, busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkUse>,
    /// The critical path of the step by cause. Adds up to the step.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub critical_path_s: IndexMap<String, f64>,
    /// A training run of such steps; absent unless the scenario has one.
    pub campaign: Option<Campaign>,
    /// The epoch that its step is a mini-batch of; absent where the model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The recorded steps that were replayed; absent where the model is no trace.
    pub replay: Option<ReplayedTrace>,
    /// The program that was executed; absent where the model is none.
    pub program: Option<ExecutedProgram>,
    /// Share of the slowest rank's work and communication that rests on each kind of evidence ("measured here", "data sheet",
    /// "estimate"), 0 to 1.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub provenance: IndexMap<String, f64>,
    /// GPUs of the machine that no rank runs on, where some are left over.
    pub idle_gpus: Option<IdleGpus>,
    /// Activities simulated.
    pub activities: Option<u64>,
    /// Sets of concurrent transfers whose bandwidth shares did not converge and are approximate; absent if there are none.
    pub unsettled: Option<u64>,
    /// True if steps repeat: they took equally long, and left memories and drives as they found them. Absent if only one
    /// was measured that may.
    pub steady: Option<bool>,
    /// Step time over the seeds, where there were several.
    pub step_time_spread: Option<Spread>,
    /// Step time with each seed, in their order, where there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seed_step_times_s: Vec<f64>,
    /// Why it has no step time.
    pub failure: Option<Failure>,
    /// The last step in the time of the run, for whoever draws it. `None`: nobody knows any more.
    #[serde(skip)]
    pub last_step: Option<LastStep>,
    /// One step, drawn in the report only.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
    /// That step with every lane and operator. `None`: `timeline` has all there is.
    #[serde(skip)]
    pub detail: Option<DetailedTimeline>,
    /// Why it has neither timeline nor memory curve, if that is because it is too long: "more than
    /// 100000000 activities".
    #[serde(skip)]
    pub not_drawn: Option<String>,
    /// Memory over time of the devices worth looking at (the fullest), drawn in the report only.
    #[serde(skip)]
    pub memory_curves: Vec<MemoryCurve>,
}

/// GPUs that no rank runs on: those after the last rank's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdleGpus {
    /// How many.
    pub count: u64,
    /// The name of the first (`node[1].gpu[4]`).
    pub first: String,
    /// The name of the last.
    pub last: String,
}

/// How one rank spent the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// The rank's name ("stage 3").
    pub name: String,
    /// Time by cause; adds up to the step.
    pub time_breakdown_s: IndexMap<String, f64>,
}

/// The high-water mark of one memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DevicePeak {
    /// Its name ("stage 3").
    pub device: String,
    /// What it can hold, if it is bounded.
    pub capacity_bytes: Option<u64>,
    /// The most it held.
    pub peak_bytes: u64,
    /// When it first held that.
    pub at_s: f64,
    /// The operation that brought it there ("forward of micro-batch 7"); absent if it was full from the start.
    pub operation: Option<String>,
    /// What it held then, by kind.
    pub by_kind_bytes: IndexMap<String, u64>,
    /// The most micro-batches whose activations it held at once.
    pub resident_micro_batches: Option<u64>,
}

/// What one resource carried during the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Its name ("link stage 0 to 1").
    pub name: String,
    /// Bytes carried.
    pub bytes: u64,
    /// Share of what it could have carried, 0 to 1.
    pub utilisation: Option<f64>,
}

/// Step time over several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Shortest.
    pub min_s: f64,
    /// Mean.
    pub mean_s: f64,
    /// Longest.
    pub max_s: f64,
    /// Number of seeds.
    pub seeds: u64,
}

/// Why a run has no step time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// In one sentence, without final full stop.
    pub message: String,
    /// True if a system lacks what is asked for, where settings are impossible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// When.
    pub time_s: Option<f64>,
    /// On which stream ("stage 0").
    pub stream: Option<String>,
    /// In which operation ("forward of micro-batch 6").
    pub operation: Option<String>,
    /// Which memory was too small ("gpu-memory of stage 0").
    pub store: Option<String>,
    /// The kind of bytes asked for ("activations").
    pub requested_kind: Option<String>,
    /// Bytes asked for.
    pub requested_bytes: Option<u64>,
    /// Bytes missing.
    pub short_bytes: Option<u64>,
    /// Bytes of the memory.
    pub capacity_bytes: Option<u64>,
    /// Who held it, by kind, largest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub holders_bytes: IndexMap<String, u64>,
    /// Bytes that the plan would take of the device at its peak without fragments, where the allocator was asked.
    #[serde(skip)]
    pub unfragmented_bytes: Option<u64>,
    /// Changes with which it would run, the fastest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// In a deadlock: who waits for what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// What went wrong in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A memory was too small.
    #[default]
    OutOfMemory,
    /// Streams wait for each other for ever.
    Deadlock,
    /// A limit on activities or simulated time was reached.
    Limit,
    /// The sizes of this point do not multiply, so there is nothing to run.
    Infeasible,
}

/// Moments of the last step of a run (ps), and the streams of the engine that they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastStep {
    /// Begin of the step on the first rank that begins it.
    pub start: u64,
    /// End of the step on the last rank that ends it.
    pub end: u64,
    /// End of the run.
    pub until: u64,
    /// Compute lane of that last rank. `None`: no step ended.
    pub last: Option<u32>,
    /// Compute lane whose measured steps take longest. `None`: no step ended.
    pub longest: Option<u32>,
}

/// Who did what when, for one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The end of the step; spans lie in `0..=end_s`.
    pub end_s: f64,
    /// One per rank, or per group of equal ranks.
    pub rows: Vec<TimelineRow>,
}

/// One rank of a timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineRow {
    /// The rank's name.
    pub name: String,
    /// What it did, in order of time, without overlap; gaps are idle.
    pub spans: Vec<TimelineSpan>,
}

/// A stretch of time of one rank in one state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineSpan {
    /// Where it starts.
    pub start_s: f64,
    /// Where it ends.
    pub end_s: f64,
    /// A word of [`crate::state`], optionally with its kind ("compute: forward").
    pub state: String,
    /// What a reader wants to know ("F7", "forward of micro-batch 7, chunk 1").
    pub label: String,
}

/// What one memory held over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryCurve {
    /// Its name.
    pub device: String,
    /// What it can hold, if it is bounded.
    pub capacity_bytes: Option<u64>,
    /// Kinds of bytes, the order of `MemoryPoint::bytes`.
    pub kinds: Vec<String>,
    /// Ascending in time; each holds until the next.
    pub points: Vec<MemoryPoint>,
}

/// What one memory held from one moment on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryPoint {
    /// From when.
    pub at_s: f64,
    /// Bytes, one per kind.
    pub bytes: Vec<u64>,
}

/// One promise of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The expectation in words ("bpipe is faster than recompute by 1.05 to 1.2 times").
    pub text: String,
    /// Whether it held.
    pub passed: bool,
    /// What was found ("1.12 times").
    pub measured: String,
    /// File and line it stands in.
    pub location: Option<String>,
}

/// A figure of others, beside ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// What the figure is ("bubble fraction of 1f1b").
    pub text: String,
    /// The point of the sweep that it is at, in words ("micro-batch 2"); empty without sweep, or for a mean.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// Where it was published.
    pub source: String,
    /// Their figure, as written with its unit.
    pub published: String,
    /// Ours, in the same unit.
    pub ours: String,
    /// How far ours is from theirs; absent if theirs is a range or one of the two does not exist.
    pub difference: Option<Difference>,
    /// Both figures as plain numbers in one unit, for the plot of ours against theirs.
    pub pair: Option<Pair>,
    /// What the figure is about, if that is one metric of one variant.
    pub subject: Option<Subject>,
}

/// What a published figure is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The metric in words ("bubble fraction").
    pub metric: String,
    /// The variant's name.
    pub variant: String,
    /// Swept paths and the values they have there; those that are not named may have any.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub at: IndexMap<String, String>,
}

/// How far our figure is from theirs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// (ours - theirs) / theirs; 0.01 is one per cent more.
    Relative(f64),
    /// ours - theirs for figures that are themselves shares; 0.01 is one percentage point more.
    Points(f64),
}

/// One figure twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// As others published it.
    pub published: f64,
    /// As we found it.
    pub ours: f64,
}

/// A value that was not written in the scenario file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assumption {
    /// The field ("parallelism.send").
    pub what: String,
    /// Its value, with unit.
    pub value: String,
    /// Where it comes from ("default", "data sheet: ...", "estimate").
    pub origin: String,
}

impl RunSummary {
    /// The variant, and in brackets the whole point if there is one: `bpipe (micro-batch 4)`. Beside other runs
    /// [`crate::naming::Naming`] says only what tells them apart.
    pub fn label(&self) -> String {
        let value = |(path, value): (&String, &String)| format!("{} {}", short_path(path), said(value));
        let values: Vec<_> = self.point.iter().map(value).collect();
        if values.is_empty() {
            self.variant.clone()
        } else {
            format!("{} ({})", self.variant, values.join(", "))
        }
    }

    /// Step time of a run that fits.
    pub fn step_time(&self) -> Option<f64> {
        self.step_time_s.filter(|time| self.fits && time.is_finite() && *time > 0.0)
    }

    /// The device closest to its capacity, or the fullest one if none has a capacity.
    pub fn worst_device(&self) -> Option<&DevicePeak> {
        self.peak_memory_bytes
            .iter()
            .reduce(|worst, next| if next.fullness() > worst.fullness() { next } else { worst })
    }

    /// The stage whose allocator comes closest to what its GPU has.
    pub fn fullest_allocator(&self) -> Option<&AllocatorPeak> {
        self.allocator
            .iter()
            .reduce(|worst, next| if next.fullness() > worst.fullness() { next } else { worst })
    }
}

impl DevicePeak {
    /// Sorts by share of the capacity; devices without capacity come first, by bytes.
    fn fullness(&self) -> (f64, u64) {
        let share =
            self.capacity_bytes.map_or(-1.0, |capacity| self.peak_bytes as f64 / (capacity.max(1) as f64));
        (share, self.peak_bytes)
    }
}

/// The last key of a path in words, which says enough where space is short: `training.micro_batch` is `micro-batch`.
pub fn short_path(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).replace('_', "-")
}
