//! Judging the simulator on measurements.
//!
//! ```text
//! validation/NAME.yaml  what was measured, how rows become predictions, the error to reach
//! validation/*.csv      the measurements, with source and licence
//! ```
//!
//! Kernels and collectives are judged on the quarter of the rows that nothing is fitted to
//! ([`split`](calibration::split)). A set of training steps turns each row into settings on top of a scenario, and
//! the scenario is checked, sized up and run as any other.

mod collectives;
mod copies;
mod embedded;
mod fits;
mod graphs;
mod kernels;
pub mod on_device;
mod one_of;
mod own;
mod plans;
mod probe;
mod reads;
mod samples;
mod set;
mod settings;
mod state;
mod step_errors;
mod steps;
mod storage;
mod tiles;
mod timing;
mod tuned;

use calibration::Table;
use hw_models::catalogue::nearest;
use indexmap::IndexMap;
use reports::summary::Uncertainty;
use reports::validation::{Intervals, LeftOut, Pairs, Part, Regret, Row, SetResult, Unit, Validation};

use crate::catalogue;
use crate::run::step_spreads::{STEP_SPREADS, StepSpreads};
use crate::run::{Progress, in_parallel};
use crate::schema::Share;
use set::{Limits, Measurements, Set};
use state::with_committed;

pub use embedded::names;
pub use embedded::{kernel_table, kernel_tables};
pub use own::OwnSet;
pub use state::{STATE, state};
pub use step_errors::step_errors;
pub use tuned::tuned;

/// How to validate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Predictions at a time; none: one per processor.
    pub jobs: Option<usize>,
    /// The version of foretrain.
    pub version: String,
    /// A command line that gives the same results again, for the report.
    pub reproduce: String,
}

/// One row of a set, with or without a prediction.
#[derive(Clone, Debug)]
struct Judged {
    /// The part of the set.
    part: String,
    /// The file and the line in it.
    place: String,
    inputs: IndexMap<String, String>,
    /// Measurement and prediction, or why the row is left out.
    row: Result<Row, String>,
}

/// What a set measures, in a sentence; none if there is no set of that name.
pub fn title(name: &str) -> Option<String> {
    embedded::set(name).map(|set| set.title)
}

/// Judges the sets of these names; all if there are none. None if `progress` stopped it.
///
/// # Errors
/// Names that no set has, each with what may have been meant.
pub fn validate(
    chosen: &[String],
    options: &Options,
    progress: &dyn Progress,
) -> Result<Option<Validation>, Vec<String>> {
    let sets = sets(chosen)?;
    progress.begin(sets.iter().map(|(_, set)| set.runs()).sum());
    let judged = |name: &str, set: &Set| {
        let found = judged(name, set, progress)?;
        let beside = (sources(name, set), regret(set, &found));
        Some(with_committed(result(name, set, beside, found)))
    };
    Ok(validation(&sets, options, judged))
}

/// Sets with what is `judged` of each. `None` where that was stopped.
fn validation(
    sets: &[(&str, Set)],
    options: &Options,
    judged: impl Fn(&str, &Set) -> Option<SetResult> + Sync,
) -> Option<Validation> {
    let all = || sets.iter().map(|(name, set)| judged(name, set)).collect::<Option<Vec<_>>>();
    in_parallel(options.jobs, all)
        .map(|sets| Validation::new(options.version.clone(), options.reproduce.clone(), sets))
}

fn sets(chosen: &[String]) -> Result<Vec<(&str, Set)>, Vec<String>> {
    let known: Vec<&str> = names().collect();
    let wanted = self::chosen(chosen, &known, "validation set")?;
    Ok(wanted.into_iter().filter_map(|name| Some((name, embedded::set(name)?))).collect())
}

/// The names among the known ones that were chosen, all if none was.
fn chosen<'a>(chosen: &[String], known: &[&'a str], what: &str) -> Result<Vec<&'a str>, Vec<String>> {
    let unknown = chosen.iter().filter(|name| !known.contains(&name.as_str()));
    let wrong = |name: &String| {
        let remedy = nearest::remedy(name, known, what);
        format!("there is no {what} `{name}`: {remedy}")
    };
    let wrong: Vec<String> = unknown.map(wrong).collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let wanted = |name: &&str| chosen.is_empty() || chosen.iter().any(|wanted| wanted == name);
    Ok(known.iter().copied().filter(wanted).collect())
}

/// Where the measurements of a set are from.
fn sources(name: &str, set: &Set) -> Vec<String> {
    let records = embedded::records(name).map(|(recorded, _)| recorded.source());
    set.tables().map(|table| table.source).chain(records).collect()
}

/// The rows of a set.
fn judged(name: &str, set: &Set, progress: &dyn Progress) -> Option<Vec<Judged>> {
    match &set.measurements {
        Measurements::Kernels(_) => Some(kernels::judged(&set.tables().collect::<Vec<_>>())),
        Measurements::HeldOut(_) => {
            let judged = kernels::simulated(&set.tables().collect::<Vec<_>>());
            Some(judged.unwrap_or_else(|errors| panic!("{errors:?}")))
        }
        Measurements::Collectives(tables) => {
            let mut judged: Vec<Judged> = tables.iter().flat_map(collectives::judged).collect();
            judged.sort_by(|a, b| a.part.cmp(&b.part));
            Some(judged)
        }
        Measurements::Copies(tables) => {
            let judged = |of: &set::CopyTable| copies::judged(of, &embedded::table(&of.data));
            Some(tables.iter().flat_map(judged).collect())
        }
        Measurements::Storage(tables) => Some(tables.iter().flat_map(storage::judged).collect()),
        Measurements::Samples(tables) => Some(tables.iter().flat_map(samples::judged).collect()),
        Measurements::Reads(tables) => Some(tables.iter().flat_map(reads::judged).collect()),
        Measurements::Graphs(tables) => Some(tables.iter().flat_map(graphs::judged).collect()),
        Measurements::Tiles(spaces) => Some(spaces.iter().flat_map(tiles::judged).collect()),
        Measurements::Steps(steps) => steps::shipped(&set.title, steps, progress),
        Measurements::Fits(fits) => fits::judged(&set.title, fits, progress),
        Measurements::OnDevice(_) => {
            let of_record = |(recorded, machine)| on_device::judged(name, set, &recorded, &machine, progress);
            let judged: Vec<_> = embedded::records(name).map(of_record).collect::<Option<_>>()?;
            Some(judged.into_iter().flatten().collect())
        }
    }
}

/// Cost of picks by prediction, on the rows of a set.
fn regret(set: &Set, judged: &[Judged]) -> Option<Regret> {
    match &set.measurements {
        Measurements::Steps(steps) => plans::regret(steps, &embedded::table(&steps.data), judged),
        Measurements::OnDevice(workloads) => on_device::regret(workloads, judged),
        _ => None,
    }
}

fn result(
    name: &str,
    set: &Set,
    (sources, regret): (Vec<String>, Option<Regret>),
    judged: Vec<Judged>,
) -> SetResult {
    let judged = match set.steps().and_then(|steps| steps.one_of.as_ref()) {
        Some(one_of) => one_of.each(judged),
        None => judged,
    };
    let mut parts: IndexMap<String, (Vec<Row>, Vec<LeftOut>)> = IndexMap::new();
    for Judged { part, place, inputs, row } in judged {
        let explanation = set.explanation(&part, &inputs);
        let (rows, left_out) = parts.entry(part).or_default();
        match row {
            Ok(row) => {
                let left_out = set.left_out(name, &inputs);
                rows.push(with_interval(&left_out, Row { place, inputs, explanation, ..row }));
            }
            Err(reason) => left_out.push(LeftOut { place, inputs, reason }),
        }
    }
    let parts = parts.into_iter().map(|(part, (rows, left_out))| {
        let limits = set.exceptions.get(&part).unwrap_or(&set.tolerance);
        let first_reading = set.first_readings.get(&part).copied().map(Share::as_f64);
        Part { first_reading, ..Part::new(part, Limits::tolerance(limits), rows, left_out) }
    });
    let parts: Vec<Part> = parts.collect();
    let rows = || parts.iter().flat_map(|part| &part.rows);
    let alike = set.steps().and_then(|steps| steps.alike.as_ref());
    // Peaks of memory beside steps are told by part.
    let has_steps = rows().any(|row| row.uncertainty.is_some());
    SetResult {
        name: name.to_owned(),
        title: set.title.clone(),
        sources,
        protocol: set.protocol.trim().to_owned(),
        best_known: set.best_known.clone(),
        intervals: Intervals::of(rows().filter(|row| !has_steps || row.uncertainty.is_some())),
        pairs: alike.and_then(|alike| Pairs::of(rows(), alike)),
        regret,
        parts,
    }
}

/// A row with the interval that it has where how far steps are off was found on rows other than those `left_out`.
fn with_interval(left_out: &str, row: Row) -> Row {
    if row.unit != Unit::Bytes && row.uncertainty.is_none() {
        return row;
    }
    let without = StepSpreads::read(STEP_SPREADS, left_out);
    if row.unit == Unit::Bytes {
        let steps = without.as_ref().unwrap_or(catalogue::step_spreads());
        return Row { interval: Some(steps.of_memory(row.predicted)), ..row };
    }
    // Sets that tell nothing of whole steps leave nothing out.
    let laid =
        |errors: &Uncertainty| without.as_ref().map_or(errors.clone(), |steps| steps.laid_over(errors));
    let uncertainty = row.uncertainty.as_ref().map(laid);
    Row { interval: uncertainty.as_ref().map(|errors| errors.interval(row.predicted)), uncertainty, ..row }
}

/// The rows of a table in a part of a set whose times `found` says, measured and predicted (s), or why a row is not judged;
/// `told` says which of its cells are inputs.
fn compared(
    (table, part): (&Table, &str),
    told: impl Fn(&IndexMap<String, String>) -> IndexMap<String, String>,
    found: impl Fn(&IndexMap<String, String>) -> Result<[f64; 2], String>,
) -> Vec<Judged> {
    let judged = |row: calibration::Row<'_>| {
        let cells = cells(table.columns(), &row);
        let row_of = |[measured, predicted]: [f64; 2]| Row { measured, predicted, ..Row::default() };
        Judged {
            part: part.to_owned(),
            place: format!("{}:{}", table.name, row.line()),
            inputs: told(&cells),
            row: found(&cells).map(row_of),
        }
    };
    table.rows().map(judged).collect()
}

/// The cells of a row, by column.
fn cells(columns: &[String], row: &calibration::Row<'_>) -> IndexMap<String, String> {
    columns.iter().map(|column| (column.clone(), row.text(column).to_owned())).collect()
}
