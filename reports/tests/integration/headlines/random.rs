//! Random experiments: some variants over some choices and cases, that tie, fail and need memory in
//! all ways.

use reports::summary::{CommonError, DevicePeak, Failure, FailureKind, Interrupted, RunSummary, Uncertainty};

/// Results, with what is known about their sweep.
pub(super) struct Experiment {
    pub(super) runs: Vec<RunSummary>,
    pub(super) axes: Vec<String>,
    pub(super) cases: Vec<String>,
    pub(super) interrupted: Option<Interrupted>,
}

const NAMES: [&str; 6] = ["plain", "bpipe", "recompute", "offload", "swap", "fused"];
const AXES: [(&str, [&str; 3]); 5] = [
    ("model.layers", ["8", "16", "32"]),
    ("memory.limit", ["40 GiB", "80 GiB", "90 GiB"]),
    ("training.micro_batch", ["1", "2", "4"]),
    ("parallelism.schedule", ["1f1b", "gpipe", "zb-h1"]),
    ("techniques.swap.prefetch", ["3", "5", "7"]),
];

/// SplitMix64: the same experiments on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..count`.
    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// True in this many per cent of calls.
    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// An experiment.
    pub(super) fn experiment(&mut self) -> Experiment {
        let variants = &NAMES[..1 + self.below(NAMES.len())];
        let (mut axes, mut cases, mut points) = (Vec::new(), Vec::new(), vec![Vec::new()]);
        for (path, values) in AXES {
            if axes.len() == 3 || self.happens(60) {
                continue;
            }
            axes.push(path.to_owned());
            cases.extend(self.happens(50).then(|| path.to_owned()));
            let values = &values[..2 + self.below(2)];
            let with = |point: Vec<_>| {
                values.iter().map(move |value| [point.clone(), vec![(path, *value)]].concat())
            };
            points = points.into_iter().flat_map(with).collect();
        }
        let habits = Habits {
            failing: self.pick(&[0, 0, 20, 60, 95, 100]),
            one_reason: self.happens(50),
            peaks: self.pick(&[0, 80, 100, 100]),
            levels: self.pick(&[1, 2, 4]),
            errors: self.happens(40),
            work: self.below(5),
            one_leads: self.happens(25),
        };
        let mut runs = Vec::new();
        for point in &points {
            for variant in variants {
                let mut run = self.run(&habits, *variant == variants[0]);
                run.variant = (*variant).to_owned();
                run.point =
                    point.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
                runs.push(run);
            }
        }
        let planned = runs.len();
        if planned > 1 && self.happens(15) {
            runs.truncate(1 + self.below(planned - 1));
        }
        let interrupted = Interrupted { ended: runs.len() as u64, planned: planned as u64 };
        let interrupted = (runs.len() < planned).then_some(interrupted);
        reports::note_ties(&mut runs, &axes, &cases);
        Experiment { runs, axes, cases, interrupted }
    }

    fn run(&mut self, habits: &Habits, first: bool) -> RunSummary {
        if self.happens(habits.failing) {
            return RunSummary { failure: self.failure(habits), ..RunSummary::default() };
        }
        // Exact ties, ties within the tolerance, and just beyond.
        let level = [1.0, 1.3, 1.32, 2.7][self.below(habits.levels)];
        let near = self.pick(&[0.0, 0.0, 0.000_1, 0.000_45, 0.000_55, 0.03]);
        let lead = if habits.one_leads && first { 3.0 } else { 1.0 };
        let step_time_s = level * (1.0 + near) / lead;
        let rate = |known: bool| known.then(|| 128.0 / step_time_s);
        let error = CommonError { weight: self.pick(&[0.1, 0.1, 0.2, 0.9]), deviation: 0.1 };
        let errors = [("copies".to_owned(), error)].into_iter().collect();
        let peak = [1000, 1003, 1015, 1400, 2400][self.below(5)] * 1_000_000;
        let device = DevicePeak { device: "stage 0".to_owned(), peak_bytes: peak, ..DevicePeak::default() };
        RunSummary {
            fits: true,
            step_time_s: Some(step_time_s),
            tokens_per_s: rate(habits.work == 0).map(|rate| rate * 2048.0),
            samples_per_s: rate(habits.work <= 2),
            micro_batches: (habits.work <= 3).then_some(64),
            step_time_uncertainty: habits.errors.then(|| Uncertainty { errors, ..Uncertainty::default() }),
            peak_memory_bytes: self.happens(habits.peaks).then_some(device).into_iter().collect(),
            ..RunSummary::default()
        }
    }

    fn failure(&mut self, habits: &Habits) -> Option<Failure> {
        use FailureKind::{Deadlock, Infeasible, Limit, OutOfMemory};
        if habits.one_reason {
            return Some(self.out_of_memory());
        }
        match self.pick(&[OutOfMemory, Deadlock, Limit, Infeasible]) {
            OutOfMemory if self.happens(10) => None,
            OutOfMemory => Some(self.out_of_memory()),
            kind => {
                let message = "there, \"as said\", it ends".to_owned();
                Some(Failure { kind, message, ..Failure::default() })
            }
        }
    }

    fn out_of_memory(&mut self) -> Failure {
        let short = 1_000_000 * (1 + self.below(50) as u64);
        Failure {
            kind: FailureKind::OutOfMemory,
            message: "memory of stage 0 runs out".to_owned(),
            store: Some("memory of stage 0".to_owned()),
            short_bytes: self.happens(80).then_some(short),
            ..Failure::default()
        }
    }
}

/// Properties that the runs of an experiment share.
struct Habits {
    /// Per cent that fail.
    failing: usize,
    /// True if all of these lack memory.
    one_reason: bool,
    /// Per cent of which the memory is known.
    peaks: usize,
    /// Different speeds; one: all tie, or nearly.
    levels: usize,
    /// True if the errors of step times are known.
    errors: bool,
    /// Measures of work that are known: 0 is all, 4 none.
    work: usize,
    /// True if the first variant is faster than all others.
    one_leads: bool,
}
