//! Measures a device and fits its constants.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use calibration::Errors;
use calibration::hardware::{Constant, Found, Hardware};
use calibration::interference::Slowdown;
use calibration::laws::Law;
use calibration::measure::{
    Device, End, Failure, Found as Need, Heading, Joined, Observer, Outcome, Plan, Probe, Record, Recorded,
    Suite, Synthetic, Task, run,
};
use calibration::overlay::COLLECTIVES;
use indicatif::ProgressBar;
use reports::quantity;
use scenarios::catalogue::kernels_of;
use scenarios::hardware::{interference, unused};
use serde::Serialize;

use super::samples::{self, SAMPLES};
use super::{Arguments, FOLDER, SAMPLES_MIN, devices, in_words, page, put_hardware, today};
use crate::cli::lines::Lines;
use crate::cli::output::REPORT;
use crate::cli::printer::Printer;
use crate::cli::trouble::{self, Trouble};
use crate::cli::{Exit, Format, SEED, VERSION, files, interrupt, progress};

/// Bytes that may be written to a drive.
const WRITTEN: u64 = 16 << 30;
/// Budget (s) of what is made up or recorded, which takes no time of its own.
const ENDLESS: u32 = 86_400;
/// The hardware file.
const HARDWARE: &str = "hardware.yaml";
/// The folder of results, unless told otherwise.
const OUT: &str = "out";

/// A device to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// This machine.
    Host,
    /// Its GPU of this number.
    Cuda(u32),
    /// What was measured before.
    Recorded(PathBuf),
    /// One that is made up.
    Synthetic,
}

/// What was found, for programs.
#[derive(Serialize)]
struct Answer<'a> {
    hardware: &'a Hardware,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interference: Vec<Slowdown>,
    failures: Vec<String>,
    left_out: usize,
    files: Vec<PathBuf>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected `host`, `cuda`, `cuda:1`, `recorded:FILE` or `synthetic`".to_owned();
        match text.split_once(':').unwrap_or((text, "")) {
            ("host", "") => Ok(Self::Host),
            ("cuda", "") => Ok(Self::Cuda(0)),
            ("cuda", number) => number.parse().map(Self::Cuda).map_err(|_| expected()),
            ("synthetic", "") => Ok(Self::Synthetic),
            ("recorded", file) if !file.is_empty() => Ok(Self::Recorded(file.into())),
            _ => Err(expected()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Recorded(file) => write!(f, "recorded:{}", file.display()),
            Self::Synthetic => f.write_str("synthetic"),
        }
    }
}

impl Target {
    /// Seconds after which no task is begun, unless told otherwise: what is begun before ends within a minute and a half on a
    /// host, within five minutes on a GPU, and within one if it is to be quick.
    const fn budget(&self, quick: bool) -> u32 {
        match self {
            Self::Host if quick => 40,
            Self::Host => 75,
            Self::Cuda(_) if quick => 55,
            Self::Cuda(_) => 270,
            Self::Recorded(_) | Self::Synthetic => ENDLESS,
        }
    }

    /// Opens the device, and PyTorch on it if that is asked for.
    pub(super) fn open(&self, arguments: &Arguments) -> Result<Box<dyn Device>, Trouble> {
        let device = self.alone(&arguments.dir)?;
        if !arguments.with_torch {
            return Ok(device);
        }
        Ok(Box::new(Joined::new(device, self.torch(&arguments.python)?)))
    }

    /// PyTorch on the device.
    pub(super) fn torch(&self, python: &Path) -> Result<Box<dyn Device>, Trouble> {
        match self {
            Self::Host => devices::torch(python, None),
            Self::Cuda(number) => devices::torch(python, Some(*number)),
            Self::Recorded(_) | Self::Synthetic => Err(Trouble::Mistake(format!(
                "`--with-torch` measures PyTorch on `host` or `cuda`, not on `{self}`: leave it out"
            ))),
        }
    }

    /// The device alone; `folder` is on the drive that is measured.
    fn alone(&self, folder: &Path) -> Result<Box<dyn Device>, Trouble> {
        match self {
            Self::Host => devices::host(folder),
            Self::Cuda(number) => devices::cuda(*number, folder),
            Self::Recorded(file) => {
                let (heading, records) = samples::read(file)?;
                Ok(Box::new(Recorded::new(heading, records)))
            }
            Self::Synthetic => Ok(Box::new(Synthetic::new(Law::usual, 0.01, 0.0, SEED))),
        }
    }
}

/// Measures a device, fits its constants, and writes both.
pub(super) fn measure(target: &Target, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    interrupt::catch();
    let mut device = target.open(arguments)?;
    if !is_measurable(&*device, target, printer) {
        return Ok(Exit::NoDevice);
    }
    let suite = wanted(&*device, target, arguments)?;
    let heading = Heading {
        foretrain: VERSION.to_owned(),
        device: device.identity(),
        date: device.measured_on().map_or_else(today, str::to_owned),
        suite: suite.probes.iter().map(|probe| probe.name.clone()).collect(),
        seed: SEED,
    };
    let folder = arguments.out.clone().unwrap_or_else(|| OUT.into()).join(FOLDER);
    let known = known(&folder, &heading, arguments.resume, printer)?;
    let budget = arguments.budget.unwrap_or(target.budget(arguments.quick));
    let plan = Plan { suite, budget_s: f64::from(budget), written_max: WRITTEN, seed: SEED };
    let mut watching = Watching {
        samples: Lines::begin(&folder, SAMPLES, &heading, &known)?,
        bar: progress::line(arguments.quiet, "tasks", plan.suite.tasks() as u64),
    };
    let outcome = run(&mut *device, &plan, &known, &mut watching);
    let Watching { samples, bar } = watching;
    bar.finish_and_clear();
    tell_failures(&outcome.failures, printer);
    if let Some(exit) = ended_early(&outcome, &plan, &folder, printer)? {
        return Ok(exit);
    }
    let hardware = found(target, &heading, &outcome, printer)?;
    let interference = interference(&hardware, &outcome.records);
    let report = page::of_device(&hardware, HARDWARE, &outcome.records, &interference)?;
    let measured = format!("Measured by foretrain calibrate --device {target}.");
    // Until all is written the records wait under the name that `--resume` goes on with.
    let report = files::put(&folder, REPORT, &report)?;
    let files = vec![put_hardware(&folder, HARDWARE, &measured, &hardware)?, report, samples.complete()?];
    printer.print(&match arguments.format {
        Format::Table => text(&hardware, &interference, &files),
        Format::Json => trouble::json(&Answer {
            hardware: &hardware,
            interference,
            failures: outcome
                .failures
                .iter()
                .map(|failure| format!("{}: {}", failure.of, failure.error))
                .collect(),
            left_out: outcome.left_out,
            files,
        }),
    })
}

/// Whether all is there that measuring cannot do without; what is missing is told.
fn is_measurable(device: &dyn Device, target: &Target, printer: &Printer) -> bool {
    let mut measurable = true;
    for need in device.capabilities() {
        if let Need::Missing { why, remedy } = need.found {
            let missing = format!("{} (for {}): {why}: {remedy}", need.name, need.purpose);
            if need.required {
                printer.complain(&format!("{target} cannot be measured without {missing}"));
            } else {
                printer.tell(&format!("without {missing}\n"));
            }
            measurable &= !need.required;
        }
    }
    measurable
}

/// The probes that were asked for.
fn wanted(device: &dyn Device, target: &Target, arguments: &Arguments) -> Result<Suite, Trouble> {
    let suite = device.suite(arguments.quick);
    if arguments.suite.is_empty() {
        return Ok(suite);
    }
    let names: Vec<String> = suite.probes.iter().map(|probe| probe.name.clone()).collect();
    suite.only(&arguments.suite).map_err(|unknown| {
        Trouble::Mistake(format!("`{unknown}` is no probe of {target}: it has {}", names.join(", ")))
    })
}

/// What an interrupted measurement left that this one goes on with.
fn known(folder: &Path, heading: &Heading, resume: bool, printer: &Printer) -> Result<Vec<Record>, Trouble> {
    let known = if resume { samples::left(folder, heading)? } else { None };
    if resume && known.is_none() {
        printer.tell("nothing was interrupted: everything is measured\n");
    } else if !resume && samples::abandoned(folder) > 0 {
        printer.tell("an interrupted measurement is begun anew; `--resume` would have gone on with it\n");
    }
    Ok(known.unwrap_or_default())
}

/// How a run ended that is not to be evaluated; none of one that is.
fn ended_early(
    outcome: &Outcome,
    plan: &Plan,
    folder: &Path,
    printer: &Printer,
) -> Result<Option<Exit>, Trouble> {
    match &outcome.end {
        End::Complete => Ok(None),
        End::OutOfBudget => {
            printer.tell(&format!(
                "{} tasks did not fit into {} s (`--budget`) or {} GB written\n",
                outcome.left_out,
                plan.budget_s,
                plan.written_max >> 30
            ));
            Ok(None)
        }
        End::Stopped => {
            printer.complain(&format!(
                "interrupted with {} of {} tasks measured; `--resume` goes on",
                outcome.records.len(),
                plan.suite.tasks()
            ));
            Ok(Some(Exit::Interrupted))
        }
        End::Unkept(why) => Err(Trouble::Mistake(format!(
            "cannot write `{}`: {why}; free some space and go on with `--resume`",
            folder.display()
        ))),
    }
}

/// What the records tell.
///
/// # Errors
/// When they tell nothing.
fn found(
    target: &Target,
    heading: &Heading,
    outcome: &Outcome,
    printer: &Printer,
) -> Result<Hardware, Trouble> {
    let hardware = Hardware::of(heading, outcome, |gpu| kernels_of(gpu).ok());
    let held_back = held_back(target, &outcome.records);
    if hardware.laws.is_empty() && hardware.kernels.is_none() {
        return Err(Trouble::Mistake(held_back.unwrap_or_else(|| "nothing could be measured".to_owned())));
    }
    if let Some(why) = held_back {
        printer.tell(&format!("{why}\n"));
    }
    Ok(hardware)
}

/// Shows which task is timed, and keeps what is measured.
struct Watching {
    samples: Lines,
    bar: ProgressBar,
}

impl Observer for Watching {
    fn begins(&mut self, probe: &Probe, task: &Task, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(format!("{}: {task}", probe.name));
    }

    fn keep(&mut self, record: &Record) -> Result<(), String> {
        self.samples.append(record).map_err(|error| error.to_string())
    }

    fn stop(&self) -> bool {
        interrupt::interrupted()
    }
}

/// That a device was held back, by what, and what to do about it; none if it was not.
fn held_back(target: &Target, records: &[Record]) -> Option<String> {
    let refused: Vec<&Record> = records.iter().filter(|record| !record.is_sound()).collect();
    let told = refused.iter().flat_map(|record| [&record.before, &record.after]);
    let reasons: BTreeSet<&str> =
        told.flat_map(|conditions| conditions.throttled_by.iter().map(String::as_str)).collect();
    let reasons = reasons.into_iter().collect::<Vec<_>>().join(" and ");
    match (refused.len(), records.len()) {
        (0, _) => None,
        (some, all) if some < all => Some(format!(
            "{target} was held back during {some} of {all} tasks by {reasons}: their times are not used; end that and measure anew"
        )),
        _ => Some(format!("{target} was held back all the while by {reasons}: end that and measure anew")),
    }
}

/// One line for all tasks of a probe that failed for the same reason.
fn tell_failures(failures: &[Failure], printer: &Printer) {
    let mut told: Vec<(&str, String, usize)> = Vec::new();
    for failure in failures {
        let error = failure.error.to_string();
        match told.iter_mut().find(|(probe, known, _)| *probe == failure.probe && *known == error) {
            Some((_, _, count)) => *count += 1,
            None => told.push((&failure.probe, error, 1)),
        }
    }
    for (probe, error, count) in told {
        let noun = if count == 1 { "task" } else { "tasks" };
        printer.tell(&format!("{count} {noun} of {probe} could not be timed: {error}\n"));
    }
}

fn text(hardware: &Hardware, interference: &[Slowdown], files: &[PathBuf]) -> String {
    let mut text = format!("{}, {}, {}\n", hardware.device.name, hardware.device.driver, hardware.date);
    let widest = hardware.laws.keys().map(String::len).max().unwrap_or(0);
    for (name, found) in &hardware.laws {
        let constants: Vec<String> =
            found.constants.iter().map(|(name, constant)| one(name, constant)).collect();
        text +=
            &format!("  {name:widest$}  {}\n  {:widest$}    {}\n", constants.join(", "), "", judged(found));
    }
    for (name, class) in hardware.kernels.iter().flat_map(|kernels| &kernels.classes) {
        text += &format!("  {name:widest$}  held out {}\n", in_words(&class.held_out));
    }
    if let Some(collectives) = &hardware.collectives {
        let (count, held_out) = (collectives.tables.len(), in_words(&collectives.held_out));
        text += &format!(
            "  {COLLECTIVES:widest$}  {count} tables of times, which scenarios take; held out {held_out}\n"
        );
    }
    if !interference.is_empty() {
        let Errors { samples, median, worst, .. } = Slowdown::errors(interference);
        let [median, worst] = [median, worst].map(|share| quantity::significant(100.0 * share));
        text += &format!(
            "work beside other work, predicted by the engine: {samples} slowdowns, off by {median} points (median), {worst} at worst\n"
        );
    }
    let unused = unused(hardware);
    if !unused.is_empty() {
        text += &format!("no scenario rests on {} yet\n", unused.join(", "));
    }
    if let Some(drift) = hardware.drift.filter(|_| !hardware.steady) {
        text += &format!(
            "results drifted by {} during the run: is the machine busy? Repeat when it is idle, or with `--budget 300`\n",
            quantity::percent(drift)
        );
    }
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    text + &format!("\nwritten: {}\n", files.join(", "))
}

fn one(name: &str, constant: &Constant) -> String {
    let value = || format!("{name} {} {}", quantity::significant(constant.value), constant.unit.symbol());
    match constant.error {
        _ if !constant.told => format!("{name} not identifiable (catalogue value kept)"),
        Some(error) => format!("{} ± {}", value(), quantity::percent(error)),
        None => value(),
    }
}

fn judged(found: &Found) -> String {
    let held_out = match found.held_out.samples {
        0 => format!("fitted {}, nothing held out", in_words(&found.fitted)),
        _ => format!("held out {}", in_words(&found.held_out)),
    };
    let count =
        |count: usize, what: &str| if count == 0 { String::new() } else { format!("; {count} {what}") };
    let decades =
        found.decades.filter(|errors| errors.samples >= SAMPLES_MIN).map_or_else(String::new, |errors| {
            format!("; of decades that a fit left out {}", quantity::percent(errors.mean))
        });
    held_out + &decades + &count(found.unstable, "unstable") + &count(found.refused, "refused: throttled")
}
