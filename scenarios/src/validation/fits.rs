//! Verdicts on memory: runs that ran and runs that ran out of it, each on the card that it had.

use calibration::Row;
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::quantity;
use reports::summary::{AllocatorPeak, Failure, FailureKind, RunSummary};
use reports::validation::{self, Unit};

use super::set::{Exhausted, Fits, Measurements, Steps};
use super::{Judged, cells, embedded, steps};
use crate::run::Progress;

/// The part of runs that ran.
const RAN: &str = "ran";
/// The part of runs that ran out of memory.
const EXHAUSTED: &str = "out of memory";

/// Runs the scenario of every row of the sets and tables, in parallel. None if `progress` stopped it.
pub(super) fn judged(title: &str, fits: &Fits, progress: &dyn Progress) -> Option<Vec<Judged>> {
    let mut rows = Vec::new();
    for name in &fits.ran {
        let set = embedded::set(name).unwrap_or_else(|| panic!("there is no set {name}"));
        let Measurements::Steps(steps) = &set.measurements else { panic!("{name} has no steps") };
        rows.extend(ran(name, &set.title, steps, progress)?);
    }
    for table in &fits.out_of_memory {
        rows.extend(exhausted(title, table, progress)?);
    }
    Some(rows)
}

fn ran(name: &str, title: &str, set: &Steps, progress: &dyn Progress) -> Option<Vec<Judged>> {
    let files = steps::files(title, &set.scenario);
    let of_set = IndexMap::from([("set".to_owned(), name.to_owned())]);
    each(&set.data, progress, |cells| {
        let inputs = steps::inputs(set, cells);
        let changes = set.judges(&inputs).and_then(|()| steps::settings(&set.settings, &inputs));
        let run = changes.and_then(|changes| steps::simulated(&files, &changes));
        (RAN, of_set.clone().into_iter().chain(inputs).collect(), run)
    })
}

fn exhausted(title: &str, table: &Exhausted, progress: &dyn Progress) -> Option<Vec<Judged>> {
    let files = steps::files(title, &table.scenario);
    each(&table.data, progress, |cells| {
        let changes = steps::settings(&table.settings, cells);
        (EXHAUSTED, cells.clone(), changes.and_then(|changes| steps::simulated(&files, &changes)))
    })
}

/// Inputs and run of a row, with the part that it belongs to.
type Found = (&'static str, IndexMap<String, String>, Result<RunSummary, String>);

fn each(
    table: &str,
    progress: &dyn Progress,
    found: impl Fn(&IndexMap<String, String>) -> Found + Sync,
) -> Option<Vec<Judged>> {
    let table = embedded::table(table);
    let rows: Vec<Row<'_>> = table.rows().collect();
    let judge = |row: &Row<'_>| {
        if progress.stop() {
            return None;
        }
        let (part, inputs, run) = found(&cells(table.columns(), row));
        let place = format!("{}:{}", table.name, row.line());
        progress.done();
        let row = run.and_then(|run| verdict(&run)).map(|(fits, evidence)| validation::Row {
            unit: Unit::Verdict,
            measured: f64::from(u8::from(part == RAN)),
            predicted: f64::from(u8::from(fits)),
            evidence: Some(evidence),
            ..validation::Row::default()
        });
        Some(Judged { part: part.to_owned(), place, inputs, row })
    };
    rows.par_iter().map(judge).collect()
}

/// Whether a run fits, and what of memory is needed.
fn verdict(run: &RunSummary) -> Result<(bool, String), String> {
    match &run.failure {
        None => Ok((true, fullest(run))),
        Some(failure) if failure.kind == FailureKind::OutOfMemory => Ok((false, shortage(failure))),
        Some(failure) => Err(failure.message.clone()),
    }
}

/// `needs 39.1 GB of 42.9 GB` on the GPU that is fullest.
fn fullest(run: &RunSummary) -> String {
    let by_allocator = run.allocator.iter().max_by_key(|stage| stage.needed_bytes());
    let of_allocator = |stage: &AllocatorPeak| (stage.needed_bytes(), Some(stage.capacity_bytes));
    let of_stores = run.worst_device().map(|device| (device.peak_bytes, device.capacity_bytes));
    match by_allocator.map(of_allocator).or(of_stores) {
        Some((needed, Some(capacity))) => {
            format!("needs {} of {}", quantity::bytes(needed), quantity::bytes(capacity))
        }
        _ => "needs less than there is".to_owned(),
    }
}

fn shortage(failure: &Failure) -> String {
    let short = failure.short_bytes.map(|bytes| format!("{} short, ", quantity::bytes(bytes)));
    format!("{}{}", short.unwrap_or_default(), failure.message)
}
