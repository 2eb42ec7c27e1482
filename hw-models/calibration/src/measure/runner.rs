//! Measures a suite on a device: every task once, in an order that no slow change of the device can pass for an effect.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::timing::{DRIFT, LEAST_SAMPLES, QUIET, Rules, SAMPLES, WARM_UPS, scatter};
use super::{Device, DeviceError, Flag, Probe, Record, Suite, Task};

/// Time between two looks at the sentinels (s).
const WATCH: f64 = 20.0;

/// What is measured, and within what.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The probes.
    pub suite: Suite,
    /// Time after which no task is begun (s).
    pub budget_s: f64,
    /// Bytes that may be written to drives.
    pub written_max: u64,
    /// The order of the tasks of a probe follows from it.
    pub seed: u64,
}

/// Who hears how a run goes.
pub trait Observer {
    /// A task is about to be timed; so many are done of so many.
    fn begins(&mut self, probe: &Probe, task: &Task, done: usize, all: usize);

    /// A task was timed, maybe anew: what is told last counts.
    ///
    /// # Errors
    /// When it cannot be kept, in words: nothing more is measured then.
    fn keep(&mut self, record: &Record) -> Result<(), String>;

    /// Whether to end.
    fn stop(&self) -> bool;
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What is known of the suite, in its order: what was measured before and now.
    pub records: Vec<Record>,
    /// What could not be timed.
    pub failures: Vec<Failure>,
    /// How many tasks the budget left out.
    pub left_out: usize,
    /// How far the slowest look at the sentinels is from the fastest, relative to it; 0 for a device that does not change.
    pub drift: f64,
    /// How it ended.
    pub end: End,
}

/// A task that could not be timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The probe that asked for it.
    pub probe: String,
    /// The task.
    pub of: Task,
    /// Why.
    pub error: DeviceError,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With every task of the suite.
    Complete,
    /// With those that the budget had room for.
    OutOfBudget,
    /// When it was told to stop.
    Stopped,
    /// When a record could not be kept: why.
    Unkept(String),
}

/// Measures what is not `known` yet.
///
/// Tasks of a probe come in random order. Every twenty seconds the sentinels are timed; where they are not what they were,
/// the tasks since are timed anew, and flagged as drifting unless the device has been steady meanwhile.
pub fn run(device: &mut dyn Device, plan: &Plan, known: &[Record], observer: &mut dyn Observer) -> Outcome {
    let mut run = Run {
        device,
        plan,
        observer,
        records: known.to_vec(),
        failures: Vec::new(),
        written: 0,
        looks: Vec::new(),
    };
    let mut left_out = 0;
    let end = match run.tasks(&mut left_out) {
        Ok(()) if left_out == 0 => End::Complete,
        Ok(()) => End::OutOfBudget,
        Err(end) => end,
    };
    let drift = drift(&run.looks);
    let order = |record: &Record| {
        plan.suite.probes.iter().enumerate().find_map(|(at, probe)| {
            let task = probe.tasks.iter().position(|task| *task == record.of)?;
            (probe.name == record.probe).then_some((at, task))
        })
    };
    let mut records = run.records;
    records.retain(|record| order(record).is_some());
    records.sort_by_key(order);
    Outcome { records, failures: run.failures, left_out, drift, end }
}

struct Run<'a> {
    device: &'a mut dyn Device,
    plan: &'a Plan,
    observer: &'a mut dyn Observer,
    records: Vec<Record>,
    failures: Vec<Failure>,
    /// Bytes written to drives.
    written: u64,
    /// Times of the sentinels (s), by look.
    looks: Vec<Vec<f64>>,
}

impl Run<'_> {
    /// Times every task; counts those that the budget leaves out.
    fn tasks(&mut self, left_out: &mut usize) -> Result<(), End> {
        let plan = self.plan;
        let all = plan.suite.tasks();
        self.look();
        let mut looked = self.device.elapsed();
        let mut since = Vec::new();
        for probe in &plan.suite.probes {
            let mut tasks: Vec<&Task> = probe.tasks.iter().filter(|task| !self.knows(probe, task)).collect();
            tasks.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed));
            for task in tasks {
                if self.observer.stop() {
                    return Err(End::Stopped);
                }
                let full = task.written() > 0 && self.written >= plan.written_max;
                if full || self.device.elapsed() + Rules::of(task).most_s > plan.budget_s {
                    *left_out += 1;
                    continue;
                }
                self.observer.begins(probe, task, self.records.len() + self.failures.len(), all);
                if self.task(probe, task)? {
                    since.push((probe, task));
                }
                if self.device.elapsed() - looked > WATCH {
                    self.watch(&mut since)?;
                    looked = self.device.elapsed();
                }
            }
        }
        self.watch(&mut since)
    }

    fn knows(&self, probe: &Probe, task: &Task) -> bool {
        self.records.iter().any(|record| record.is_of(&probe.name, task))
    }

    /// Times a task and keeps its record; whether it could be timed.
    fn task(&mut self, probe: &Probe, task: &Task) -> Result<bool, End> {
        match self.timed(probe, task) {
            Ok(record) => {
                let executed =
                    u64::from(record.executions) * (record.samples_ns.len() as u64 + u64::from(WARM_UPS));
                self.written = self.written.saturating_add(task.written().saturating_mul(executed));
                self.keep(record)?;
                Ok(true)
            }
            Err(error) => {
                self.failures.push(Failure { probe: probe.name.clone(), of: *task, error });
                Ok(false)
            }
        }
    }

    /// Keeps a record in the place of an earlier one of its task, but that of a throttled device not in the place of a sound
    /// one.
    fn keep(&mut self, record: Record) -> Result<(), End> {
        let known = self.records.iter().position(|known| known.is_of(&record.probe, &record.of));
        if known.is_some_and(|at| self.records[at].is_sound()) && record.flags.contains(&Flag::Throttled) {
            return Ok(());
        }
        self.observer.keep(&record).map_err(End::Unkept)?;
        match known {
            Some(at) => self.records[at] = record,
            None => self.records.push(record),
        }
        Ok(())
    }

    fn timed(&mut self, probe: &Probe, task: &Task) -> Result<Record, DeviceError> {
        self.device.prepare(task)?;
        let rules = Rules::of(task);
        let before = self.device.conditions();
        let mut executions = 1;
        for _ in 0..WARM_UPS {
            let one = self.device.time(executions)? / f64::from(executions);
            executions = rules.executions(one);
        }
        let mut samples_ns = self.samples(&rules, executions)?;
        if scatter(&samples_ns) > QUIET {
            samples_ns.extend(self.samples(&rules, executions)?);
        }
        let after = self.device.conditions();
        let mut flags = Vec::new();
        if scatter(&samples_ns) > QUIET {
            flags.push(Flag::Noisy);
        }
        if [&before, &after].iter().any(|conditions| !conditions.throttled_by.is_empty()) {
            flags.push(Flag::Throttled);
        }
        Ok(Record { probe: probe.name.clone(), of: *task, executions, samples_ns, flags, before, after })
    }

    /// Times of one execution, by sample (ns).
    fn samples(&mut self, rules: &Rules, executions: u32) -> Result<Vec<f64>, DeviceError> {
        let mut samples = Vec::new();
        let mut taken = 0.0;
        while samples.len() < LEAST_SAMPLES
            || (taken < rules.most_s && (samples.len() < SAMPLES || taken < rules.least_s))
        {
            let seconds = self.device.time(executions)?;
            taken += seconds;
            samples.push(picoseconds(seconds / f64::from(executions) * 1e9));
        }
        Ok(samples)
    }

    /// Looks at the sentinels, and if they are not what they were times anew what was timed since.
    fn watch(&mut self, since: &mut Vec<(&Probe, &Task)>) -> Result<(), End> {
        let tasks = std::mem::take(since);
        if tasks.is_empty() || self.look() <= DRIFT {
            return Ok(());
        }
        for (probe, task) in &tasks {
            if self.observer.stop() {
                return Err(End::Stopped);
            }
            self.task(probe, task)?;
        }
        if self.look() <= DRIFT {
            return Ok(());
        }
        for (probe, task) in tasks {
            let known = self.records.iter().find(|record| record.is_of(&probe.name, task));
            if let Some(mut record) = known.cloned() {
                record.flags.push(Flag::Drifting);
                self.keep(record)?;
            }
        }
        Ok(())
    }

    /// Times the sentinels: how far the one that changed most is from the look before, relative to it.
    fn look(&mut self) -> f64 {
        let plan = self.plan;
        let watched = Probe { name: "sentinel".to_owned(), tells: String::new(), tasks: Vec::new() };
        let times =
            plan.suite.sentinels.iter().filter_map(|task| Some(self.timed(&watched, task).ok()?.seconds()));
        let now: Vec<f64> = times.collect();
        let change = self.looks.last().map_or(0.0, |before| drift(&[before.clone(), now.clone()]));
        self.looks.push(now);
        change
    }
}

/// Nanoseconds to the picosecond, which files keep to the last digit.
fn picoseconds(ns: f64) -> f64 {
    (ns * 1e3).round() / 1e3
}

/// How far the slowest of several looks is from the fastest, relative to it; of several sentinels the most.
fn drift(looks: &[Vec<f64>]) -> f64 {
    let sentinels = looks.iter().map(Vec::len).min().unwrap_or(0);
    let of = |at: usize| {
        let times = || looks.iter().map(move |look| look[at]);
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        if least > 0.0 { most / least - 1.0 } else { 0.0 }
    };
    (0..sentinels).map(of).fold(0.0, f64::max)
}
