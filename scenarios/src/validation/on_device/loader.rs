//! A training loop that waits for batches: threads of the host prepare them, a queue holds a few, a step takes one.

use indexmap::IndexMap;
use reports::state;
use reports::summary::RunSummary;
use serde::{Deserialize, Serialize};
use sim_core::engine::{Options, simulate};
use sim_core::fixed::Rate;
use sim_core::outcome::Run;
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op, Program, Shortage, Slot, StartState};
use sim_core::time::Time;

use crate::schema::{Count, Duration};

/// Who prepares batches, who takes them, and what that takes each of them alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Loader {
    /// Threads that prepare one batch after the other.
    threads: Count<1, 1024>,
    /// Batches that the queue holds; who has another waits with it.
    prefetch: Count<1, 1024>,
    /// Cores that the threads share evenly: as many as a thread alone has, times how much faster all are at once.
    cores: f64,
    /// What a step takes whose batch is there.
    step: Duration,
    /// What all threads together need for a batch, as a multiple of a step.
    load: f64,
    /// What a thread needs for a batch with a core of its own; without it what follows from `load`.
    batch: Option<Duration>,
}

/// The same, as `loader.py` takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loading {
    threads: u64,
    prefetch: u64,
    /// What a thread should need for a batch, and what a step should take (s).
    batch_s: f64,
    step_s: f64,
}

/// Work of a core in a second: nanoseconds.
const CORE: f64 = 1e9;
/// Least number of steps whose mean is taken.
const WINDOW: u64 = 48;
/// Rounds in which the queue becomes as full as it stays, beyond those that fill it, and rounds after the steps that count.
const SETTLING: u64 = 4;

impl Loader {
    /// What all rows have in common, with the settings of one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(common: &serde_yaml::Mapping, settings: &[String]) -> Result<Self, String> {
        let mut all = common.clone();
        for setting in settings {
            let (name, value) = setting.split_once('=').expect("settings are `path=value`");
            let value: serde_yaml::Value = serde_yaml::from_str(value).map_err(|error| error.to_string())?;
            all.insert(name.into(), value);
        }
        let loader: Self = serde_yaml::from_value(all.into()).map_err(|error| error.to_string())?;
        for (name, value) in [("load", loader.load), ("cores", loader.cores)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(format!("`{name}`: expected a number above 0, found {value}"));
            }
        }
        Ok(loader)
    }

    pub(super) fn loading(&self) -> Loading {
        let (threads, prefetch) = (self.threads.get(), self.prefetch.get());
        Loading { threads, prefetch, batch_s: self.batch_s(), step_s: seconds(self.step) }
    }

    /// The mean of steps that find the queue as full as it stays.
    pub(super) fn simulated(&self) -> RunSummary {
        let (run, causes) = self.run();
        let [begin, end] = self.counted().map(|step| step as usize);
        let steps = (end - begin) as f64;
        let host = run.streams.last().expect("the stream that steps is the last");
        let between = |from: Time, to: Time| to.saturating_sub(from).as_secs() / steps;
        let spent = causes.iter().zip(host.spent_at_marks[begin].iter().zip(host.spent_at_marks[end]));
        let breakdown = spent.map(|(cause, (&from, to))| (cause.clone(), between(from, to)));
        RunSummary {
            fits: true,
            step_time_s: Some(between(host.marks[begin], host.marks[end])),
            time_breakdown_s: breakdown.filter(|(_, time)| *time > 0.0).collect::<IndexMap<_, _>>(),
            ..RunSummary::default()
        }
    }

    /// What the threads and, last, the one that steps did, and the names of causes.
    fn run(&self) -> (Run, Vec<String>) {
        let (mut platform, mut program) = (Platform::default(), Program::default());
        let [work, wait] = [state::COMPUTE, state::WAITING_FOR_TRANSFER].map(|name| program.cause(name));
        let batch = program.kind("batches");
        let cores = platform.fluid("cores", self.cores * CORE, work);
        let core = platform.route([Demand::on(cores)]);
        let queue = platform.store("queue", self.prefetch.get());
        let ready = program.counter();
        let prepare = Activity {
            cap: Rate::per_second(CORE),
            ..Activity::moving((self.batch_s() * CORE).round() as u64, CORES, work)
        };
        let step = Activity::lasting(Time(self.step.picoseconds()), work);
        let costs = program.cost_table(vec![prepare, step], vec![1]);
        let binding = program.binding([core.0, queue.0, ready.0], Some(costs));

        let one = Affine::constant(0);
        let (shortage, priority) = (Shortage::Wait, 0);
        let load = program.block(
            "load",
            [
                Op::Mark,
                Op::Run { activity: one },
                Op::Acquire { store: QUEUE, bytes: one, kind: batch, shortage, priority, cause: wait },
                Op::Add { counter: READY, amount: 1, after: None },
            ],
        );
        let step = program.block(
            "step",
            [
                Op::Wait { counter: READY, at_least: Affine::offset(0, 0), cause: wait },
                Op::Release { store: QUEUE, bytes: one, kind: batch },
                Op::Mark,
                Op::Run { activity: Affine::constant(1) },
            ],
        );
        let rounds = self.settled() + self.window() + SETTLING;
        let loads = program.role([Call { repeat: rounds as u32, ..Call::once(load) }]);
        for thread in 0..self.threads.get() {
            program.stream(format!("loader[{thread}]"), binding, Body::Role(loads));
        }
        let steps = (rounds * self.threads.get()) as u32;
        let steps = program.role([Call::counting(step, 1, steps)]);
        program.stream("host", binding, Body::Role(steps));
        let run = simulate(&platform, &program, &StartState::default(), &Options::default());
        (run.expect("loaders and a loop are a program"), program.causes)
    }

    /// What a thread needs for a batch (s).
    fn batch_s(&self) -> f64 {
        let of_load = || self.load * self.threads.get() as f64 * seconds(self.step);
        self.batch.map_or_else(of_load, seconds)
    }

    /// The steps that count: the first, and the first that does not. Threads that take turns make a round of batches of the same
    /// length each, batches of one round may come together.
    fn counted(&self) -> [u64; 2] {
        let begin = self.settled();
        [begin, begin + self.window()].map(|round| round * self.threads.get())
    }

    fn settled(&self) -> u64 {
        self.prefetch.get().div_ceil(self.threads.get()) + SETTLING
    }

    fn window(&self) -> u64 {
        WINDOW.div_ceil(self.threads.get())
    }
}

fn seconds(duration: Duration) -> f64 {
    Time(duration.picoseconds()).as_secs()
}

/// Slots of the binding: all threads share the same.
const CORES: Slot = 0;
const QUEUE: Slot = 1;
const READY: Slot = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn loader(settings: &[&str]) -> Loader {
        let common = "{ threads: 1, prefetch: 4, cores: 64, step: 10 ms, load: 1 }";
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        Loader::read(&serde_yaml::from_str(common).unwrap(), &settings).unwrap()
    }

    /// The slower of loaders and steps, whatever the queue holds.
    #[test]
    fn the_slower_side_sets_the_pace() {
        for threads in [1, 2, 3, 8] {
            for (prefetch, load) in [(1, 2.0), (4, 2.0), (4, 1.0), (1, 0.5), (4, 0.5), (32, 0.5)] {
                let settings =
                    [format!("threads={threads}"), format!("prefetch={prefetch}"), format!("load={load}")];
                let run = loader(&settings.each_ref().map(String::as_str)).simulated();
                let [expected, step] = [0.01 * f64::max(load, 1.0), run.step_time_s.unwrap()];
                assert!((step / expected - 1.0).abs() < 1e-9, "{settings:?}: {step}");
                let idle = run.time_breakdown_s.get(state::WAITING_FOR_TRANSFER).copied().unwrap_or(0.0);
                assert!((idle - (expected - 0.01)).abs() < 1e-9, "{settings:?}: waits {idle}");
            }
        }
    }

    /// Eight threads on four cores prepare as many batches as four.
    #[test]
    fn threads_share_cores() {
        let step = |cores: &str| loader(&["threads=8", "load=1.5", cores]).simulated().step_time_s.unwrap();
        for (cores, expected) in [
            ("cores=64", 0.015),
            ("cores=8", 0.015),
            ("cores=4", 0.03),
            ("cores=6.4", 0.01875),
            ("cores=1", 0.12),
        ] {
            assert!((step(cores) / expected - 1.0).abs() < 1e-6, "{cores}: {}", step(cores));
        }
    }

    #[test]
    fn what_was_measured_of_a_batch_goes_before_what_the_load_says() {
        let measured = loader(&["load=9", "batch=14000000.500 ns", "cores=2"]);
        assert!((measured.simulated().step_time_s.unwrap() - 0.0140000005).abs() < 2e-9);
    }

    /// Batches that were begun and not taken: those of the queue and one of each thread, and no more. Loaders that are too fast
    /// reach that.
    #[test]
    fn loaders_are_ahead_by_the_queue_and_a_batch_each() {
        for (threads, prefetch) in [(1, 1), (1, 4), (3, 2), (8, 4)] {
            let settings =
                [format!("threads={threads}"), format!("prefetch={prefetch}"), "load=0.25".to_owned()];
            let (run, _) = loader(&settings.each_ref().map(String::as_str)).run();
            let (host, loaders) = run.streams.split_last().unwrap();
            let begun: Vec<Time> = loaders.iter().flat_map(|loader| loader.marks.clone()).collect();
            let ahead = (1..)
                .zip(&host.marks)
                .map(|(taken, now)| begun.iter().filter(|begun| *begun <= now).count() - taken);
            assert_eq!(ahead.max(), Some(threads + prefetch), "{settings:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_loader_is_told() {
        let read = |setting: &str| {
            let common = "{ threads: 1, prefetch: 4, cores: 64, step: 10 ms, load: 1 }";
            Loader::read(&serde_yaml::from_str(common).unwrap(), &[setting.to_owned()]).unwrap_err()
        };
        for (setting, expected) in [
            ("threads=0", "1 to 1"),
            ("load=0", "`load`"),
            ("cores=-1", "`cores`"),
            ("thread=2", "thread"),
            ("step=10", "duration"),
        ] {
            let told = read(setting);
            assert!(told.contains(expected), "{setting}: {told}");
        }
    }
}
