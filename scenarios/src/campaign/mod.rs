//! From a step to a training run: checkpoints, failures, goodput, days and money.
//!
//! ```text
//! plan        bytes of a checkpoint, each written by one of its replicas     workloads::plan::checkpoint
//! machine     time of a write                                                write
//! failures    expected time, best interval                                   expected
//!             the same by simulated histories                                history
//! prices      cost                                                           cost
//! ```
//!
//! The step is that of a run without failures; every step of a campaign takes as long. GPUs and nodes
//! count where ranks run on them.

mod cost;
mod expected;
mod history;
mod write;

use indexmap::IndexMap;
use reports::summary::{self, Histories, RunSummary};
use workloads::names::kind;
use workloads::plan::StageCheckpoint;

use crate::plans;
use crate::schema::{self, Campaign, Interval, MeanTime, Prices, Scenario};

use cost::Units;
use write::Write;

pub use expected::{Course, Failing, best_interval_s, daly_s, young_s};
pub use history::{History, history};

/// Least goodput of a run that ends.
const GOODPUT_MIN: f64 = 1e-3;
/// Failures that are expected in all histories together, at most.
const FAILURES_MAX: f64 = 5e6;
/// A history stops at this multiple of the failures that are expected, and a thousand more.
const FAILURES_BEYOND: f64 = 4.0;

const HOUR_S: f64 = 3600.0;

/// Adds the campaign of a checked scenario to the run of its step, which must have ended.
pub(crate) fn add(scenario: &Scenario, seed: u64, run: &mut RunSummary) {
    let Some((campaign, step_s)) = scenario.campaign.as_ref().zip(run.step_time()) else { return };
    match campaign_of(scenario, campaign, step_s, seed) {
        Ok(campaign) => run.campaign = Some(campaign),
        Err(reason) => run.notes.push(format!("no campaign: {reason}")),
    }
}

/// Cost of a token, or a sample, for each second of the step of a checked scenario, where all time
/// makes progress and nothing is written. `None`: time has no price.
pub(crate) fn least_cost_per_second(scenario: &Scenario) -> Option<f64> {
    let prices = scenario.campaign.as_ref().filter(|it| it.has_price_of_time())?.prices.as_ref()?;
    let (tokens, samples) = of_step(scenario);
    let hours = Used::of(scenario).ok()?.units(1.0, 0.0);
    cost::cost(prices, hours, (tokens, samples))?.per_unit()
}

/// The campaign of a step that takes so long (s).
fn campaign_of(
    scenario: &Scenario,
    campaign: &Campaign,
    step_s: f64,
    seed: u64,
) -> Result<summary::Campaign, String> {
    let length = Length::of(scenario, campaign)?;
    let stages = plans::checkpoints(scenario).map_err(|error| error.to_string())?;
    let write = match &campaign.checkpoints {
        Some(checkpoints) => write::write(scenario, checkpoints, &stages)?,
        None => Write::default(),
    };
    let used = Used::of(scenario)?;
    let course = Course {
        work_s: length.steps as f64 * step_s,
        pause_s: write.pause_s,
        lag_s: write.lag_s,
        failures: campaign.failures.as_ref().map(|failures| used.failing(failures)),
    };
    // A checkpoint ends a step.
    let whole = course.work_s;
    let at_most_whole = |interval_s: f64| interval_s.max(step_s).min(whole);
    let interval_s = match campaign.checkpoints.as_ref().map(|checkpoints| checkpoints.every) {
        Some(Interval::Every(period)) => at_most_whole(period.seconds()),
        Some(Interval::Best) => at_most_whole(course.best_interval_s().unwrap_or(whole)),
        None => whole,
    };
    let goodput = Some(course.goodput(interval_s)).filter(|&goodput| goodput >= GOODPUT_MIN);
    let expected_s = goodput.map(|goodput| whole / goodput);
    let failures = course.failures.zip(expected_s).map(|(failing, wall_s)| wall_s / failing.mean_s);
    let checkpoint = campaign
        .checkpoints
        .as_ref()
        .map(|settings| checkpoint(settings, &stages, write, (&course, interval_s)));
    // Work done twice has no checkpoint behind it.
    let written = checkpoint.as_ref().map_or(0.0, |it| whole / interval_s * it.bytes as f64);
    let counts = (length.tokens, length.samples);
    let costs = |(prices, wall_s): (&Prices, f64)| cost::cost(prices, used.units(wall_s, written), counts);
    let histories = campaign.failures.as_ref().zip(failures).and_then(|(settings, expected)| {
        histories(&course, interval_s, (seed, settings.seeds.get()), expected)
    });
    Ok(summary::Campaign {
        steps: length.steps,
        tokens: length.tokens,
        samples: length.samples,
        gpus: used.gpus,
        work_s: whole,
        checkpoint,
        failures: course.failures.map(|failing| summary::JobFailures {
            mean_time_between_s: failing.mean_s,
            restart_s: failing.restart_s,
            expected: failures,
        }),
        expected_s,
        goodput,
        histories,
        gpu_hours: expected_s.map(|wall_s| used.gpu_hours(wall_s)),
        effective_gpu_hours: used.gpu_hours(whole),
        cost: campaign.prices.as_ref().zip(expected_s).and_then(costs),
    })
}

/// Length of a campaign.
struct Length {
    steps: u64,
    tokens: Option<f64>,
    samples: Option<f64>,
}

impl Length {
    fn of(scenario: &Scenario, campaign: &Campaign) -> Result<Self, String> {
        let (tokens, samples) = of_step(scenario);
        let steps_for = |length: schema::Amount, of_step: Option<f64>| {
            of_step.map(|of_step| (length.number() as f64 / of_step).ceil() as u64)
        };
        let steps = match campaign {
            Campaign { tokens: Some(length), .. } => steps_for(*length, tokens),
            Campaign { samples: Some(length), .. } => steps_for(*length, samples),
            Campaign { steps, .. } => steps.map(schema::Amount::number),
        };
        let steps = steps.ok_or("nobody knows how many steps it has")?.max(1);
        let all = |of_step: f64| of_step * steps as f64;
        Ok(Self { steps, tokens: tokens.map(all), samples: samples.map(all) })
    }
}

/// Tokens and samples of a step, where it has any.
fn of_step(scenario: &Scenario) -> (Option<f64>, Option<f64>) {
    let tokens = plans::effort(scenario).and_then(|effort| effort.tokens);
    (tokens, scenario.training.global_batch.map(|batch| batch.get() as f64))
}

/// Hardware that ranks run on.
struct Used {
    gpus: u64,
    nodes: u64,
}

impl Used {
    fn of(scenario: &Scenario) -> Result<Self, String> {
        let machine = plans::machine::of(scenario).map_err(|error| error.to_string())?;
        let gpus = plans::ranks(scenario);
        Ok(Self { gpus, nodes: gpus.div_ceil(machine.gpus_per_node().max(1).into()) })
    }

    /// Hours of all GPUs in a time (s).
    fn gpu_hours(&self, seconds: f64) -> f64 {
        self.gpus as f64 * seconds / HOUR_S
    }

    /// Units of a time (s) in which this number of bytes is written.
    fn units(&self, wall_s: f64, written: f64) -> Units {
        Units {
            gpu_hours: self.gpu_hours(wall_s),
            node_hours: self.nodes as f64 * wall_s / HOUR_S,
            terabytes_written: written * 1e-12,
        }
    }

    /// Failures of the job: those of all its parts.
    fn failing(&self, failures: &schema::Failures) -> Failing {
        let mean_s = match failures.mean_time_between {
            MeanTime::Gpu(time) => time.seconds() / self.gpus as f64,
            MeanTime::Node(time) => time.seconds() / self.nodes as f64,
            MeanTime::Job(time) => time.seconds(),
        };
        Failing { mean_s, restart_s: failures.restart.seconds() }
    }
}

/// A checkpoint every `interval_s` of work, beside the intervals that are best for it.
fn checkpoint(
    settings: &schema::Checkpoints,
    stages: &[StageCheckpoint],
    write: Write,
    (course, interval_s): (&Course, f64),
) -> summary::Checkpoint {
    let sum = |of: fn(&StageCheckpoint) -> u64| stages.iter().map(of).sum::<u64>();
    let [parameters, optimizer] = [sum(|stage| stage.parameters), sum(|stage| stage.optimizer)];
    let to = match settings.to {
        schema::CheckpointStore::Host => "host",
        schema::CheckpointStore::Drives => "drives",
        schema::CheckpointStore::Storage(_) => "storage",
    };
    let estimate = |of: fn(f64, f64) -> f64| course.failures.map(|it| of(course.pause_s, it.mean_s));
    summary::Checkpoint {
        to: to.to_owned(),
        bytes: parameters + optimizer,
        by_kind_bytes: IndexMap::from([
            (kind::PARAMETERS.to_owned(), parameters),
            (kind::OPTIMIZER.to_owned(), optimizer),
        ]),
        held_bytes: sum(|stage| stage.held),
        pause_s: write.pause_s,
        lag_s: settings.background.then_some(write.lag_s),
        interval_s,
        best_interval_s: course.best_interval_s(),
        young_interval_s: estimate(young_s),
        daly_interval_s: estimate(daly_s),
    }
}

/// Histories of a course, of which `expected` failures are expected. `None`: there would be too many
/// to play.
fn histories(
    course: &Course,
    interval_s: f64,
    (seed, seeds): (u64, u64),
    expected: f64,
) -> Option<Histories> {
    if expected * seeds as f64 > FAILURES_MAX {
        return None;
    }
    let most = (expected * FAILURES_BEYOND) as u64 + 1_000;
    let play = |number| history(course, interval_s, (seed, number), most);
    let mut all = (0..seeds).map(play).collect::<Option<Vec<History>>>()?;
    all.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize].wall_s;
    let mean = |of: fn(&History) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let mean_s = mean(|history| history.wall_s);
    Some(Histories {
        seeds,
        mean_s,
        nine_of_ten_s: [at(0.05), at(0.95)],
        failures: mean(|history| history.failures as f64),
        lost_share: mean(|history| history.lost_s) / mean_s,
    })
}
