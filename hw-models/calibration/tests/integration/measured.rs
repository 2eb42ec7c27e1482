//! Measuring devices that are made up: what is found of them can be compared with the truth.

use calibration::estimate::{Estimate, Told, across_decades, estimate};
use calibration::hardware::Hardware;
use calibration::laws::{Law, law_of, laws};
use calibration::measure::{
    Capability, Conditions, CudaFacts, Device, DeviceError, Disk, End, Flag, Heading, HostMemory, Identity,
    Observer, Others, Pattern, Plan, Probe, Record, Recorded, Suite, Synthetic, Task, cuda_suite,
    framework_suite, host_suite, run,
};

/// Keeps what it is told, and stops after so many records.
#[derive(Default)]
struct Keeper {
    kept: Vec<Record>,
    stops_at: Option<usize>,
    full: bool,
}

impl Observer for Keeper {
    fn begins(&mut self, _: &Probe, _: &Task, done: usize, all: usize) {
        assert!(done < all);
    }

    fn keep(&mut self, record: &Record) -> Result<(), String> {
        self.kept.push(record.clone());
        if self.full { Err("no space left on device".to_owned()) } else { Ok(()) }
    }

    fn stop(&self) -> bool {
        self.stops_at.is_some_and(|at| self.kept.len() >= at)
    }
}

fn plan(suite: Suite) -> Plan {
    Plan { suite, budget_s: 300.0, written_max: u64::MAX, seed: 7 }
}

/// Constants that are none of those a search starts from.
fn truth(law: &Law) -> Vec<f64> {
    let constants = law.constants.iter().zip([1.7, 0.6, 0.4, 1.3, 0.8]);
    constants.map(|(constant, factor)| constant.usual * factor).collect()
}

/// 2 % of log-normal noise, and one batch of a hundred three times as long.
fn device(seed: u64) -> Synthetic {
    Synthetic::new(truth, 0.02, 0.01, seed)
}

/// A device that gets slower.
struct Slowing {
    device: Synthetic,
    slower: Vec<Slower>,
    elapsed: f64,
}

/// From a time (s) on everything takes so many times as long.
struct Slower {
    from_s: f64,
    by: f64,
    /// True if the device says that its clocks are down.
    told: bool,
}

impl Slowing {
    fn of(device: Synthetic, slower: Vec<Slower>) -> Self {
        Self { device, slower, elapsed: 0.0 }
    }

    fn now(&self) -> impl Iterator<Item = &Slower> {
        self.slower.iter().filter(|slower| self.elapsed >= slower.from_s)
    }
}

impl Device for Slowing {
    fn identity(&self) -> Identity {
        self.device.identity()
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.device.capabilities()
    }

    fn suite(&self, quick: bool) -> Suite {
        self.device.suite(quick)
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        self.device.prepare(task)
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        let slower: f64 = self.now().map(|slower| slower.by).product();
        let seconds = self.device.time(executions)? * slower;
        self.elapsed += seconds;
        Ok(seconds)
    }

    fn conditions(&mut self) -> Conditions {
        let throttled = self.now().any(|slower| slower.told);
        let throttled_by = if throttled { vec!["made up".to_owned()] } else { Vec::new() };
        Conditions { throttled_by, ..Conditions::default() }
    }

    fn elapsed(&self) -> f64 {
        self.elapsed
    }
}

fn found(records: &[Record]) -> Vec<(&'static Law, Estimate)> {
    laws().filter_map(|law| Some((law, estimate(law, records)?))).collect()
}

#[test]
fn every_constant_of_a_made_up_device_is_found_within_two_per_cent() {
    for seed in 0..3 {
        let mut device = device(seed);
        let suite = device.suite(false);
        let outcome = run(&mut device, &plan(suite), &[], &mut Keeper::default());
        assert_eq!(outcome.end, End::Complete);
        assert_eq!(outcome.failures, []);
        let found = found(&outcome.records);
        assert_eq!(found.len(), laws().count(), "every law has records in the suite");
        for (law, estimate) in found {
            for ((constant, told), truth) in law.constants.iter().zip(&estimate.constants).zip(truth(law)) {
                let off = told.value / truth - 1.0;
                let what = format!("{} {}, seed {seed}: {estimate:?}", law.name, constant.name);
                assert!(off.abs() < 0.02, "{what}: {truth} is told as {}", told.value);
                assert!(told.is_told(), "{what}");
            }
            assert!(estimate.held_out.worst < 0.05, "{}: {}", law.name, estimate.held_out);
        }
    }
}

/// From one thread alone nothing follows of what all of them get; from blocks that are large nothing of what comes before
/// the bytes.
#[test]
fn what_the_records_do_not_show_is_not_told() {
    let outcome = run(&mut device(1), &plan(host_suite(8, 32 << 20, false)), &[], &mut Keeper::default());
    let some = |keep: &dyn Fn(&Task) -> bool| -> Vec<Record> {
        outcome.records.iter().filter(|record| keep(&record.of)).cloned().collect()
    };
    let told = |records: &[Record], name: &str| -> Vec<bool> {
        let law = laws().find(|law| law.name == name).unwrap();
        estimate(law, records).unwrap().constants.iter().map(Told::is_told).collect()
    };
    let alone = some(&|task| matches!(task, Task::HostMemory(HostMemory { threads: 1, .. })));
    assert_eq!(told(&alone, "memory.copy"), [true, false]);
    let large = some(&|task| matches!(task, Task::Disk(Disk { block: 16_777_216, depth: 8, .. })));
    assert_eq!(told(&large, "disk.read"), [false, true]);
    assert_eq!(told(&outcome.records, "disk.read"), [true, true]);
}

/// A device that says that it is held back is not measured: its records are kept, and no law is fitted to them.
#[test]
fn what_is_measured_of_a_throttled_device_is_refused() {
    let mut device = Slowing::of(device(2), vec![Slower { from_s: 3.0, by: 1.4, told: true }]);
    let outcome = run(&mut device, &plan(host_suite(8, 32 << 20, false)), &[], &mut Keeper::default());
    let throttled = |record: &&Record| record.flags.contains(&Flag::Throttled);
    let (slow, sound): (Vec<&Record>, Vec<&Record>) = outcome.records.iter().partition(throttled);
    assert!(slow.len() > 5 && sound.len() > 5, "{} and {}", slow.len(), sound.len());
    let found = found(&outcome.records);
    assert!(found.iter().any(|(_, estimate)| estimate.refused > 0));
    for (law, estimate) in found {
        for ((constant, told), truth) in law.constants.iter().zip(&estimate.constants).zip(truth(law)) {
            if told.is_told() {
                let off = told.value / truth - 1.0;
                assert!(off.abs() < 0.05, "{} {}: {estimate:?}", law.name, constant.name);
            }
        }
    }
}

/// A device that gets slower and says nothing: what was measured around the change is measured anew, and the change is told.
#[test]
fn a_device_that_changes_is_noticed() {
    let steady = run(&mut device(3), &plan(host_suite(8, 32 << 20, false)), &[], &mut Keeper::default());
    assert!(steady.drift < 0.03, "{}", steady.drift);
    let mut keeper = Keeper::default();
    let mut once = Slowing::of(device(3), vec![Slower { from_s: 8.0, by: 1.2, told: false }]);
    let outcome = run(&mut once, &plan(host_suite(8, 32 << 20, false)), &[], &mut keeper);
    assert!((outcome.drift - 0.2).abs() < 0.03, "{}", outcome.drift);
    assert!(keeper.kept.len() > outcome.records.len(), "some were measured twice");
    assert!(
        outcome.records.iter().all(|record| !record.flags.contains(&Flag::Drifting)),
        "it was steady after"
    );
    // One that goes on getting slower cannot be measured at all.
    let steps = (0..60).map(|step| Slower { from_s: 2.0 * f64::from(step), by: 1.02, told: false });
    let mut falling = Slowing::of(device(3), steps.collect());
    let outcome = run(&mut falling, &plan(host_suite(8, 32 << 20, false)), &[], &mut Keeper::default());
    assert!(outcome.records.iter().any(|record| record.flags.contains(&Flag::Drifting)));
}

#[test]
fn a_run_that_was_ended_goes_on_where_it_was() {
    let suite = || plan(host_suite(8, 32 << 20, true));
    let mut first = Keeper { stops_at: Some(9), ..Keeper::default() };
    let outcome = run(&mut device(4), &suite(), &[], &mut first);
    assert_eq!((outcome.end, outcome.records.len()), (End::Stopped, 9));
    let mut second = Keeper::default();
    let outcome = run(&mut device(5), &suite(), &first.kept, &mut second);
    assert_eq!(outcome.end, End::Complete);
    assert_eq!(second.kept.len() + 9, suite().suite.tasks(), "nothing is measured twice");
    let tasks: Vec<Task> = outcome.records.iter().map(|record| record.of).collect();
    let asked: Vec<Task> = suite().suite.probes.iter().flat_map(|probe| probe.tasks.clone()).collect();
    assert_eq!(tasks, asked, "in the order of the suite, whatever they were measured in");
}

#[test]
fn a_budget_leaves_out_what_does_not_fit() {
    let short = Plan { budget_s: 10.0, ..plan(host_suite(8, 32 << 20, false)) };
    let outcome = run(&mut device(6), &short, &[], &mut Keeper::default());
    assert_eq!(outcome.end, End::OutOfBudget);
    assert_eq!(outcome.records.len() + outcome.left_out, short.suite.tasks());
    let dry = Plan { written_max: 0, ..plan(host_suite(8, 32 << 20, true)) };
    let outcome = run(&mut device(6), &dry, &[], &mut Keeper::default());
    assert!(outcome.records.iter().all(|record| record.of.written() == 0));
    assert_eq!(outcome.end, End::OutOfBudget);
}

#[test]
fn nothing_more_is_measured_when_records_cannot_be_kept() {
    let mut full = Keeper { full: true, ..Keeper::default() };
    let outcome = run(&mut device(6), &plan(host_suite(8, 32 << 20, true)), &[], &mut full);
    assert_eq!((outcome.end, full.kept.len()), (End::Unkept("no space left on device".to_owned()), 1));
}

/// What was measured once is measured again from its records, task by task, and what it had not measured fails.
#[test]
fn records_stand_in_for_the_device() {
    let measured = run(&mut device(8), &plan(host_suite(4, 32 << 20, true)), &[], &mut Keeper::default());
    let heading = Heading {
        foretrain: "0".to_owned(),
        device: device(8).identity(),
        date: "2026-01-01".to_owned(),
        suite: Vec::new(),
        seed: 7,
    };
    let mut recorded = Recorded::new(heading, measured.records.clone());
    let replayed = run(&mut recorded, &plan(host_suite(4, 32 << 20, true)), &[], &mut Keeper::default());
    for (was, is) in measured.records.iter().zip(&replayed.records) {
        assert!(
            (is.seconds() / was.seconds() - 1.0).abs() < 0.01,
            "{}: {} {}",
            was.of,
            was.seconds(),
            is.seconds()
        );
    }
    let more = run(&mut recorded, &plan(host_suite(4, 32 << 20, false)), &[], &mut Keeper::default());
    assert!(!more.failures.is_empty());
    let unmeasured = Task::HostMemory(HostMemory { pattern: Pattern::Triad, threads: 3, bytes: 1 });
    assert!(matches!(recorded.prepare(&unmeasured), Err(DeviceError::Unable { .. })));
}

/// By estimate: what has a law as it is timed on a device that is made up, `other_s` for each other task. Seconds, and how many
/// have no law.
fn estimated(mut suite: Suite, other_s: f64) -> (f64, usize) {
    let all = suite.tasks();
    suite.probes.iter_mut().for_each(|probe| probe.tasks.retain(|task| law_of(task).is_some()));
    let others = all - suite.tasks();
    let mut device = device(1);
    run(&mut device, &plan(Suite { sentinels: Vec::new(), ..suite }), &[], &mut Keeper::default());
    (device.elapsed() + other_s * others as f64, others)
}

/// One GPU of eight: a communicator for each size of groups takes seconds, and the host a while to call for all of them, during
/// which they are held up. Products or work beside other work take the longest that samples of a task go on, with warm-up and preparation, a load that is
/// sustained what it waits for; kernels of a framework less, but are captured by a script. A framework is measured in the time
/// of its GPU, of which it takes a minute, or if it is to be quick 20 s.
#[test]
fn the_suite_of_a_gpu_fits_its_time() {
    const OTHER_S: f64 = 0.4;
    const LOAD_S: f64 = 9.0;
    const SCRIPT_S: f64 = 0.2;
    const COMMUNICATOR_S: f64 = 3.0;
    const CALLS_S: f64 = 0.1;
    let others = Some(Others { gpus: 8, peer: true, collectives: true });
    let gpu = CudaFacts {
        sms: 132,
        cache: 50 << 20,
        memory: 140 << 30,
        capability: 90,
        link: Some((5, 16)),
        others,
    };
    for (quick, of_framework_s, most_s) in [(false, 60.0, 270.0), (true, 20.0, 55.0)] {
        let suite = cuda_suite(&gpu, quick);
        let calls = suite.probes.iter().find(|probe| probe.name == "collective").unwrap().tasks.len() as f64;
        let (seconds, others) = estimated(suite, OTHER_S);
        let (loads, groups) = if quick { (0.0, 1.0) } else { (4.0, 3.0) };
        let (more, kernels) = estimated(framework_suite(Some(&gpu), quick), SCRIPT_S);
        assert!(more < of_framework_s, "{more} s, {kernels} kernels");
        let seconds = seconds + LOAD_S * loads + COMMUNICATOR_S * groups + CALLS_S * calls + more;
        assert!(seconds < most_s, "{seconds} s, {others} tasks without a law, {kernels} kernels");
    }
}

/// Two records and two constants leave nothing over, and yet do not tell the constants exactly.
#[test]
fn as_many_records_as_constants_tell_no_more_than_their_samples() {
    let mut suite = device(9).suite(false);
    suite.probes.retain(|probe| probe.name == "gap");
    let outcome = run(&mut device(9), &plan(suite), &[], &mut Keeper::default());
    let law = laws().find(|law| law.name == "gap.graph").unwrap();
    let about: Vec<Record> = outcome
        .records
        .into_iter()
        .filter(|record| (law.seconds)(&[1.0, 1.0], &record.of).is_some())
        .collect();
    let both = estimate(law, &about[..2]).unwrap();
    assert!(both.fitted.worst < 1e-3, "{}", both.fitted);
    for told in both.constants {
        let error = told.error.unwrap();
        assert!((0.002..0.2).contains(&error), "{error}");
    }
}

/// What holds over all sizes holds in a decade that was left out; what steps up somewhere does not.
#[test]
fn a_decade_of_sizes_that_was_left_out_tells_how_far_a_law_carries() {
    let mut device = device(10);
    let mut suite = device.suite(false);
    suite.probes.retain(|probe| probe.name == "copy");
    let mut records = run(&mut device, &plan(suite), &[], &mut Keeper::default()).records;
    let law = laws().find(|law| law.name == "copy.to-device").unwrap();
    let alike = across_decades(law, &records).unwrap();
    assert_eq!(alike.samples, records.iter().filter(|record| law.tells(&record.of)).count());
    assert!(alike.p95 < 0.06, "{alike}");
    for record in &mut records {
        // From 64 MiB on another way is taken, of half the rate.
        let slower = if record.of.bytes() >= 64 << 20 { 2.0 } else { 1.0 };
        record.samples_ns.iter_mut().for_each(|sample| *sample *= slower);
    }
    let stepped = across_decades(law, &records).unwrap();
    assert!(stepped.p95 > 0.3 && stepped.mean > 5.0 * alike.mean, "{stepped}");
    let launches = laws().find(|law| law.name == "launch").unwrap();
    assert_eq!(across_decades(launches, &records), None, "they move no bytes");
}

/// A library that takes a way of its own for sizes in the middle: the law of a ring is far off there, tables are not.
#[test]
fn times_of_collectives_are_kept_as_tables() {
    let mut device = device(11);
    let mut suite = device.suite(false);
    suite.probes.retain(|probe| probe.name == "collective");
    let mut outcome = run(&mut device, &plan(suite), &[], &mut Keeper::default());
    for record in &mut outcome.records {
        let slower = if (16_384..8 << 20).contains(&record.of.bytes()) { 2.0 } else { 1.0 };
        record.samples_ns.iter_mut().for_each(|sample| *sample *= slower);
    }
    let heading = Heading {
        foretrain: "0".to_owned(),
        device: device.identity(),
        date: "2026-01-01".to_owned(),
        suite: Vec::new(),
        seed: 7,
    };
    let hardware = Hardware::of(&heading, &outcome, |_| None);
    let found = hardware.collectives.as_ref().unwrap();
    assert_eq!(found.tables.len(), 6 * 3, "six collectives of 2, 4 and 8");
    for table in &found.tables {
        assert!(table.points.len() >= 13 && table.points.is_sorted_by(|a, b| a[0] < b[0]), "{table:?}");
    }
    let collectives = outcome.records.iter().filter(|record| matches!(record.of, Task::Collective(_)));
    assert_eq!(found.held_out.samples, collectives.filter(|record| record.judges()).count());
    let by_law = hardware.laws["all-gather"].held_out;
    assert!(found.held_out.median < 0.02 && by_law.median > 0.1, "{} and {by_law}", found.held_out);
    assert!(found.held_out.median > 1e-3, "what judges is in no table that it judges: {}", found.held_out);
    let text = serde_yaml::to_string(&hardware).unwrap();
    assert_eq!(serde_yaml::from_str::<Hardware>(&text).unwrap(), hardware);
}
