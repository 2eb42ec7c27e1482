//! Search for drives as long training leaves them: write caches and heat at levels to which a run
//! returns.
//!
//! Both are token buckets ([`sim_core::platform::Bucket`]). No transfer is under way where a run
//! begins and where it ends, so that a run maps levels to levels, the higher the start the higher
//! the end. New drives have full buckets; long training takes them to a fixed point of that map. A
//! bucket that runs empty in a run, or is filled up in it, ends at one level wherever it began: the
//! fixed point is where a run from an empty bucket ends, or one from a full one. Where neither is,
//! steps alternate around the fixed point, as tensors leave whole or not at all. Longer and longer
//! runs, each from where the one before ended, then tell the mean.
//!
//! All that adapts to the speed of drives is decided in every run at its own levels.

use std::collections::BTreeMap;

use reports::summary::{DriveState, NewDrives, RunSummary};
use sim_core::outcome::Run;
use workloads::lower::Lowered;
use workloads::plan::Levels;

use super::one::Ran;
use crate::plans;
use crate::schema::{self, Count, Scenario};

/// Distance between both ends of a run at which a bucket counts as returned, relative to what passed
/// it. Bytes written in a step are as near to those that last, and so is the life of drives.
const RETURNED: f64 = 1e-3;

/// Runs of as many steps as asked for: of new drives, from empty buckets, from where that ended, and
/// from where that of new drives did.
const RUNS: u32 = 4;
/// Runs after these at most, and how many times longer than the one before each is.
const LONGER_MAX: u32 = 4;
const TIMES_LONGER: u64 = 4;
/// Activities of such a run at most.
const ACTIVITIES_MAX: u64 = 20_000_000;

/// A bucket that something passed in a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BucketUse {
    /// The name of its fluid.
    fluid: String,
    /// Tokens when it is full.
    volume: u64,
    /// Tokens at the start of the run.
    start: u64,
    /// Tokens at its end.
    end: u64,
    /// Units that passed.
    served: u128,
    /// Units that its sustained rate takes from the end of the last step to the end of the run: writes
    /// may outlast a step, the next of which would find them under way.
    late: f64,
}

/// A run in the state of drives that its scenario asks for.
pub(super) struct Found<R> {
    pub(super) run: R,
    /// What results say of the state. `None`: a run leaves new drives as it finds them.
    pub(super) state: Option<DriveState>,
}

/// Runs a scenario in the state of drives that it asks for; `ran` is what ran to its end, if it did.
///
/// # Errors
/// The errors of `run`.
pub(super) fn found<R>(
    scenario: &Scenario,
    run: impl Fn(&Scenario) -> Result<R, String>,
    ran: impl Fn(&R) -> Option<&Ran>,
) -> Result<Found<R>, String> {
    let new = run(scenario)?;
    let moved = buckets_of(ran(&new));
    if all_returned(moved) {
        return Ok(Found { run: new, state: None });
    }
    if scenario.run.drives == schema::DriveState::New {
        let state = Some(state(moved, None));
        return Ok(Found { run: new, state });
    }
    let mut search = Search::default();
    search.learn(moved);
    let mut scenario = scenario.clone();
    loop {
        scenario.levels = search.levels();
        let run = run(&scenario)?;
        let moved = buckets_of(ran(&run));
        search.learn(moved);
        if all_returned(moved) || (search.runs >= RUNS && !lengthen(&mut scenario, search.runs)) {
            let state = Some(state(moved, ran(&new).map(|ran| &ran.summary)));
            return Ok(Found { run, state });
        }
    }
}

/// Multiplies the steps of a scenario, if that many may be simulated.
fn lengthen(scenario: &mut Scenario, runs: u32) -> bool {
    let mut longer = scenario.clone();
    let steps = &mut longer.run.steps.measured;
    let Some(more) = Count::new(TIMES_LONGER * steps.get()) else { return false };
    *steps = more;
    let activities_max = longer.run.limit.get().min(ACTIVITIES_MAX);
    let may_be = runs < RUNS + LONGER_MAX && plans::activities(&longer) <= activities_max;
    if may_be {
        *scenario = longer;
    }
    may_be
}

/// Buckets that a run passed; none if it did not come to its end.
fn buckets_of(ran: Option<&Ran>) -> &[BucketUse] {
    ran.map_or(&[], |ran| &ran.buckets)
}

/// Buckets that something passed in a run.
pub(super) fn buckets(lowered: &Lowered, run: &Run) -> Vec<BucketUse> {
    let marks = lowered.ranks.iter().filter_map(|rank| run.streams[rank.compute.index()].marks.last());
    let late = run.time.as_secs() - marks.max().map_or(0.0, |mark| mark.as_secs());
    let of_fluids = lowered.platform.fluids.iter().zip(&run.fluids);
    let used = of_fluids.filter(|(_, used)| used.served > 0).filter_map(|(fluid, used)| {
        let (bucket, end) = fluid.bucket.zip(used.tokens)?;
        Some(BucketUse {
            fluid: fluid.name.clone(),
            volume: bucket.volume,
            start: bucket.tokens.min(bucket.volume),
            end,
            served: used.served,
            late: late.max(0.0) * fluid.capacity.units_per_second(),
        })
    });
    used.collect()
}

/// True if a run leaves all buckets where it found them.
pub(super) fn all_returned(buckets: &[BucketUse]) -> bool {
    buckets.iter().all(BucketUse::has_returned)
}

impl BucketUse {
    fn has_returned(&self) -> bool {
        self.start.abs_diff(self.end) as f64 + self.late <= RETURNED * self.served as f64
    }

    /// Share of its tokens that is left at the start of the run and at its end.
    fn left(&self) -> [f64; 2] {
        [self.start, self.end].map(|tokens| tokens as f64 / self.volume.max(1) as f64)
    }
}

/// Levels that last, as far as runs have told.
#[derive(Default)]
struct Search {
    runs: u32,
    /// By the name of its fluid.
    buckets: BTreeMap<String, Ends>,
}

/// Where runs left a bucket.
#[derive(Default)]
struct Ends {
    /// That of new drives.
    of_full: u64,
    /// The third, which began where that from the empty bucket ended.
    of_empty: u64,
    /// The level at which the next begins.
    next: u64,
}

impl Search {
    /// Takes another run, the first of which is of new drives.
    fn learn(&mut self, buckets: &[BucketUse]) {
        self.runs += 1;
        for used in buckets {
            let ends = self.buckets.entry(used.fluid.clone()).or_default();
            match self.runs {
                1 => ends.of_full = used.end,
                3 => ends.of_empty = used.end,
                _ => {}
            }
            ends.next = match self.runs {
                _ if used.has_returned() => used.end,
                1 => 0,
                3 => ends.of_full,
                4 => ends.of_empty,
                _ => used.end,
            };
        }
    }

    /// Levels of the next run.
    fn levels(&self) -> Levels {
        self.buckets.iter().map(|(fluid, ends)| (fluid.clone(), ends.next)).collect()
    }
}

/// What results say of drives whose buckets new drives do not return to; `new` is the run of these
/// where another is told.
fn state(buckets: &[BucketUse], new: Option<&RunSummary>) -> DriveState {
    let least = |which: usize| buckets.iter().map(|used| used.left()[which]).reduce(f64::min);
    DriveState {
        lasting: new.is_some(),
        left_at_start: least(0),
        left_at_end: least(1),
        new: new.map(|new| NewDrives {
            step_time_s: new.step_time_s,
            drive_lifetime_years: new.drive_lifetime_years,
        }),
    }
}
