//! The page of `calibrate`: what was measured, the constants with their errors, and for every law a plot of what it predicts
//! beside what was measured, and what is left over.

use std::collections::BTreeSet;
use std::io::{self, Write};

use indexmap::IndexMap;
use maud::{Markup, html};

use crate::html::{document, figure};
use crate::plots::PlotError;
use crate::plots::agreement::Cloud;
use crate::plots::fit;
use crate::plots::palette::Categories;
use crate::quantity;

/// What calibrating a device found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Version of foretrain.
    pub version: String,
    /// Name of the hardware file.
    pub file: String,
    /// Name of the device.
    pub device: String,
    /// Version of its driver.
    pub driver: String,
    /// Other facts that its speed depends on.
    pub facts: IndexMap<String, String>,
    /// When: year, month, day.
    pub date: String,
    /// How far the slowest look at the sentinels was from the fastest, relative to it; absent where nobody looked.
    pub drift: Option<f64>,
    /// Whether no change of the device was noticed.
    pub steady: bool,
    /// In the order of the file.
    pub laws: Vec<Law>,
    /// Work beside other work.
    pub met: Vec<Met>,
    /// Constants that no scenario rests on yet.
    pub unused: Vec<String>,
}

/// What was found of a law.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Law {
    /// Its name.
    pub name: String,
    /// How its constants were found.
    pub method: String,
    /// The constants.
    pub constants: Vec<Constant>,
    /// What it was measured by.
    pub points: Vec<FitPoint>,
    /// Errors on what nothing was fitted to; none where nothing was held out.
    pub held_out: Option<Errors>,
    /// Errors on every decade of sizes by a fit to the others.
    pub decades: Option<Errors>,
    /// Errors of the catalogue's constants on what nothing was fitted to.
    pub catalogue: Option<Errors>,
    /// Records of a device that was held back: none was used.
    pub refused: usize,
}

/// A constant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constant {
    /// Its name within the law.
    pub name: String,
    /// Its value in `unit`.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Its relative standard error; absent where the records do not depend on it, or nobody knows.
    pub error: Option<f64>,
    /// Whether the records tell it.
    pub told: bool,
}

/// Errors, relative to what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Of how many measurements.
    pub samples: usize,
    /// Their mean, without sign.
    pub mean: f64,
    /// What the mean of others of the kind lies between in 19 of 20 cases; absent of few.
    pub interval: Option<[f64; 2]>,
    /// Their median, without sign.
    pub median: f64,
    /// Their 95th percentile, without sign.
    pub p95: f64,
    /// The largest, without sign.
    pub worst: f64,
    /// Their mean with sign, positive where the law is slow.
    pub bias: f64,
}

/// What work took beside other work, relative to what it took alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Met {
    /// What was timed.
    pub timed: String,
    /// What went on meanwhile.
    pub meanwhile: String,
    /// As it was measured.
    pub measured: f64,
    /// As the engine says.
    pub predicted: f64,
}

/// A task that was timed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitPoint {
    /// What was timed.
    pub task: String,
    /// Its time (s).
    pub measured_s: f64,
    /// What the law says (s).
    pub predicted_s: f64,
    /// Whether nothing was fitted to it.
    pub held_out: bool,
    /// Whether its samples scatter, or the device was changing.
    pub unstable: bool,
}

/// Fewest values of which there are statistics.
const SAMPLES_MIN: usize = 5;
/// Tasks of a law that are told one by one.
const FARTHEST: usize = 5;
/// Seconds that a second look may take (`--budget`).
const BUDGET_S: u32 = 300;
const FITTED: &str = "fitted";
const HELD_OUT: &str = "held out";

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn html(out: &mut impl Write, calibration: &Calibration) -> io::Result<()> {
    let page = render(calibration).map_err(io::Error::other)?;
    out.write_all(page.into_string().as_bytes())
}

fn render(calibration: &Calibration) -> Result<Markup, PlotError> {
    let laws = calibration.laws.iter().map(law).collect::<Result<Vec<_>, _>>()?;
    // Several laws may tell of one.
    let tasks: BTreeSet<&str> =
        calibration.laws.iter().flat_map(|law| &law.points).map(|point| point.task.as_str()).collect();
    let untold = calibration.laws.iter().flat_map(|law| &law.constants).filter(|constant| !constant.told);
    let untold = untold.count();
    let body = html! {
        main {
            p.kicker { "foretrain " (calibration.version) }
            h1 { "What this machine does: " (calibration.device) }
            p.finding {
                (calibration.laws.len()) @if calibration.laws.len() == 1 { " law" } @else { " laws" } " from " (tasks.len()) " tasks"
                @if let Some(error) = held_out(calibration) { "; of those that nothing was fitted to half are within " (quantity::percent(error)) }
                @match untold {
                    0 => ".",
                    1 => "; one constant is not identifiable: scenarios keep the catalogue's.",
                    more => { "; " (more) " constants are not identifiable: scenarios keep the catalogue's." }
                }
            }
            @if !calibration.steady {
                p {
                    span.bad { "Results drifted" }
                    @if let Some(drift) = calibration.drift { " by " (quantity::percent(drift)) }
                    " during the run: is the machine busy, or does it slow down as it gets warm? Repeat when it is idle, or look longer: "
                    code { "--budget " (BUDGET_S) } "."
                }
            }
            dl.parameters {
                @for (name, value) in facts(calibration) { div { dt { (name) } dd { (value) } } }
            }
            p.aid {
                "A law is judged by a quarter of its tasks to which nothing was fitted. Lay the file over a scenario with " code { "calibration: [" (calibration.file) "]" } "."
            }
            (constants(calibration))
            (errors(calibration))
            @if !calibration.met.is_empty() { (met(&calibration.met)) }
            @for law in laws { (law) }
        }
    };
    Ok(document("Calibration", &calibration.version, &body))
}

fn facts(calibration: &Calibration) -> impl Iterator<Item = (&str, String)> {
    let own = [
        ("driver", Some(calibration.driver.clone())),
        ("date", Some(calibration.date.clone())),
        ("drift", calibration.drift.map(quantity::percent)),
    ];
    let others = calibration.facts.iter().map(|(name, value)| (name.as_str(), value.clone()));
    own.into_iter().filter_map(|(name, value)| Some((name, value?))).chain(others)
}

/// What each law is off, on what it was not fitted to.
fn errors(calibration: &Calibration) -> Markup {
    const DECADES: &str = "of other decades";
    const CATALOGUE: &str = "of the catalogue";
    let aid = "Of the quarter that was held out; where there are such, the mean error on each decade of sizes by a fit to all \
               others, and that of the catalogue's constants on the same quarter. Fewer than five tasks have no statistics.";
    let has = |errors: fn(&Law) -> Option<Errors>| {
        calibration.laws.iter().any(|law| errors(law).is_some_and(Errors::tells))
    };
    let (decades, catalogue) = (has(|law| law.decades), has(|law| law.catalogue));
    let mean = |errors: &Option<Errors>| {
        let errors = errors.filter(|errors| errors.tells());
        errors.map_or(quantity::NONE.to_owned(), |errors| quantity::percent(errors.mean))
    };
    html! {
        section {
            h2 #errors { "Errors" }
            p.aid { (aid) }
            div.wide { table.judged {
                thead { tr {
                    th { "law" } th.number { "measured" } th.number { "held out" } th.number { "mean" }
                    th.number { "95 % interval" } th.number { "median" } th.number { "p95" } th.number { "worst" }
                    th.number { "bias" }
                    @if decades { th.number { (DECADES) } } @if catalogue { th.number { (CATALOGUE) } }
                } }
                tbody { @for law in &calibration.laws { tr {
                    td { a href=(format!("#{}", law.name)) { (law.name) } }
                    td.number { (law.points.len()) }
                    @match &law.held_out {
                        None => { td.number { "0" } @for _ in 0..6 { td.number { (quantity::NONE) } } }
                        Some(errors) if !errors.tells() => {
                            td.number { (errors.samples) }
                            @for _ in 0..6 { td.number { (quantity::NONE) } }
                        }
                        Some(errors) => { (judged(errors)) }
                    }
                    @if decades { td.number { (mean(&law.decades)) } }
                    @if catalogue { td.number { (mean(&law.catalogue)) } }
                } } }
            } }
        }
    }
}

fn judged(errors: &Errors) -> Markup {
    let Errors { samples, mean, median, p95, worst, bias, interval } = *errors;
    let interval = interval.map(|ends| ends.map(quantity::percent).join(" to "));
    html! {
        td.number { (samples) }
        td.number { (quantity::percent(mean)) }
        td.number { (interval.as_deref().unwrap_or(quantity::NONE)) }
        @for error in [median, p95, worst] { td.number { (quantity::percent(error)) } }
        td.number { (quantity::change(bias)) }
    }
}

/// Measured slowdowns beside predicted ones.
fn met(met: &[Met]) -> Markup {
    html! {
        section {
            h2 #beside { "Work beside other work" }
            p.aid {
                "So many times as long as alone does the timed work take. Predicted by the engine, with the constants of this file."
            }
            div.wide { table.judged {
                thead { tr {
                    th { "timed" } th { "meanwhile" } th.number { "measured" } th.number { "predicted" } th.number { "off" }
                } }
                tbody { @for one in met { tr {
                    td { (one.timed) }
                    td { (one.meanwhile) }
                    td.number { (quantity::times(one.measured)) }
                    td.number { (quantity::times(one.predicted)) }
                    td.number { (quantity::points(one.predicted - one.measured)) }
                } } }
            } }
        }
    }
}

/// The one table of constants: quantity, value, how sure it is, what rests on it.
fn constants(calibration: &Calibration) -> Markup {
    let is_unused = |law: &Law, constant: &Constant| {
        let full = format!("{}.{}", law.name, constant.name);
        calibration.unused.iter().any(|unused| *unused == law.name || *unused == full)
    };
    html! {
        section {
            h2 #constants { "What was found" }
            p.aid { "± is the relative standard error of a value." }
            div.wide { table.judged {
                thead { tr { th { "quantity" } th.number { "value" } th.number { "±" } th { "used by" } } }
                tbody {
                    @for law in &calibration.laws {
                        @for constant in &law.constants {
                            tr {
                                td { a href=(format!("#{}", law.name)) { (law.name) } " " (constant.name) }
                                @if constant.told {
                                    td.number { (quantity::significant(constant.value)) " " (constant.unit) }
                                    td.number { (constant.error.map_or(quantity::NONE.to_owned(), quantity::percent)) }
                                } @else {
                                    td.number { span.bad { "not identifiable" } " (catalogue value kept)" }
                                    td.number { (quantity::NONE) }
                                }
                                td { @if is_unused(law, constant) { "no model yet" } @else { "scenarios with this file" } }
                            }
                        }
                    }
                }
            } }
        }
    }
}

/// Error that half of the tasks are within that nothing was fitted to, of all laws; none of few.
fn held_out(calibration: &Calibration) -> Option<f64> {
    let points = calibration.laws.iter().flat_map(|law| &law.points).filter(|point| point.held_out);
    let errors = points.map(|point| (point.predicted_s / point.measured_s - 1.0).abs());
    let mut errors: Vec<f64> = errors.filter(|error| error.is_finite()).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len().saturating_sub(1) / 2).copied().filter(|_| errors.len() >= SAMPLES_MIN)
}

fn law(law: &Law) -> Result<Markup, PlotError> {
    let colours = Categories::others([FITTED, HELD_OUT]);
    let cloud = |name: &str, held_out: bool| {
        let points = law.points.iter().filter(|point| point.held_out == held_out);
        Cloud {
            name: name.to_owned(),
            pairs: points.map(|point| (point.measured_s, point.predicted_s)).collect(),
        }
    };
    let clouds = [cloud(FITTED, false), cloud(HELD_OUT, true)];
    let plot = fit::draw(&format!("{} beside measurements", law.name), &clouds, &colours)?;
    let legend: Vec<_> = colours.iter().collect();
    let aid = "Left: each task, the black line is equality. Right: what is left over, the law's time over the measured one less \
               one.";
    let mut farthest: Vec<&FitPoint> = law.points.iter().collect();
    farthest.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
    let unstable = law.points.iter().filter(|point| point.unstable).count();
    Ok(html! {
        section id=(law.name) {
            h2 { (law.name) }
            p { (law.method) "." }
            @if unstable > 0 { p { span.bad { (unstable) " of its tasks scatter" } " by more than samples should." } }
            @if law.refused > 0 { p { span.bad { (law.refused) " were left out" } ": something held the device back." } }
            (figure("Does the law hold?", aid, &legend, &plot))
            details {
                summary { "The tasks that are farthest off" }
                div.wide { table {
                    thead { tr { th.number { "error" } th.number { "measured" } th.number { "law" } th { "task" } } }
                    tbody { @for point in farthest.iter().take(FARTHEST) { tr {
                        td.number { (quantity::change(point.error())) }
                        td.number { (quantity::seconds(point.measured_s)) }
                        td.number { (quantity::seconds(point.predicted_s)) }
                        td { (point.task) @if point.held_out { " (held out)" } @if point.unstable { " (scatters)" } }
                    } } }
                } }
            }
        }
    })
}

impl Errors {
    /// True if there are values enough for statistics.
    fn tells(self) -> bool {
        self.samples >= SAMPLES_MIN
    }
}

impl FitPoint {
    /// What the law is off, relative to what was measured.
    fn error(&self) -> f64 {
        self.predicted_s / self.measured_s - 1.0
    }
}
