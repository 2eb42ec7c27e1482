//! How far whole steps are off beyond the models of their kernels, from rows of steps that nothing was fitted on.
//!
//! With e = ln(measured / ours) and V what models explain of its variance, every term is estimated by its moments, below 0 as 0:
//!
//! ```text
//! GENERATION^2 = mean over sets of (mean e)^2 - V in common        rows that devices decide, by generation
//! PLAN^2       = mean over sets of sum x (d^2 - V) / sum x^2       pairs: d the difference of e, x how much they do apart
//! FABRIC^2     = sum f^2 (e^2 - V - GENERATION^2 - PLAN^2) / sum f^4
//! HOSTS^2, RECURRENT^2: the same with h and r
//! MEMORY^2     = mean of e^2 over peaks
//! ```
//!
//! Rows of parts of steps tell of RECURRENT alone. Sets weigh the same, however many rows they
//! have. A generation that a single set tells of gets what all generations have. Estimators were
//! compared with the coverage of steps in view: with medians for means 86 % of rows are within,
//! without V 93 %. These are the moments that the model of [`Uncertainty`] asks for; read blind,
//! that would have decided.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use reports::summary::Uncertainty;
use reports::validation::{Row, SetResult, Unit, Validation, pairs};

use super::embedded;
use crate::run::step_spreads::{STEP_SPREADS_HEADER, StepSpreads};

/// Hosts decide nothing where they are less of the critical path.
const HOST_LEAST: f64 = 0.1;
/// Bytes between nodes, and recurrent layers, count where they are more of the time.
const SHARE_LEAST: f64 = 0.05;

/// The table of deviations: of all sets, and of all but each one.
pub fn step_errors(found: &Validation) -> String {
    // Devices that were calibrated first tell nothing of those that were not.
    let uncalibrated = |set: &&SetResult| embedded::workloads().all(|name| name != set.name);
    let rows: Vec<Told<'_>> = found.sets.iter().filter(uncalibrated).flat_map(told).collect();
    let peaks: Vec<(String, &Row)> = found.sets.iter().filter(uncalibrated).flat_map(peaks).collect();
    let tells = |row: &&Told<'_>| row.whole || row.recurrent >= SHARE_LEAST;
    let sets: BTreeSet<&str> = rows.iter().filter(tells).map(|row| row.set).collect();
    let families: BTreeSet<&str> = peaks.iter().map(|(family, _)| family.as_str()).collect();
    let mut table = format!("{STEP_SPREADS_HEADER}\n");
    for left_out in [""].into_iter().chain(sets).chain(families.iter().copied()) {
        let of_steps: Vec<&Told<'_>> = rows.iter().filter(|row| row.set != left_out).collect();
        let of_memory: Vec<_> = peaks.iter().filter(|(family, _)| family != left_out).collect();
        let mut terms = terms(&of_steps);
        terms.push((StepSpreads::MEMORY.to_owned(), memory(&of_memory)));
        for (error, Term { sets, rows, variance }) in terms {
            let deviation = variance.max(0.0).sqrt();
            writeln!(table, "{left_out},{error},{sets},{rows},{deviation:.3}").expect("a string takes all");
        }
    }
    table
}

/// A row of a step.
struct Told<'a> {
    set: &'a str,
    row: &'a Row,
    /// Errors of models alone.
    models: Uncertainty,
    generation: String,
    host: f64,
    fabric: f64,
    recurrent: f64,
    /// True of rows of whole training steps.
    whole: bool,
    /// Values in which rows of one model on one machine are alike; none where the set does not say.
    alike: Option<Vec<&'a str>>,
}

/// An estimate, and what it rests on.
#[derive(Clone, Copy, Default)]
struct Term {
    sets: usize,
    rows: usize,
    variance: f64,
}

fn told(set: &SetResult) -> impl Iterator<Item = Told<'_>> {
    let file = embedded::set(&set.name);
    let steps = file.as_ref().and_then(|file| file.steps());
    let alike = steps.and_then(|steps| steps.alike.clone());
    let whole = steps.is_none_or(|steps| !steps.partial);
    set.parts.iter().flat_map(|part| &part.rows).filter_map(move |row| {
        let errors = row.uncertainty.as_ref()?;
        let weight = |name: &str| errors.errors.get(name).map_or(0.0, |error| error.weight);
        let generation = errors.errors.keys().find(|name| StepSpreads::is_of_generation(name))?.clone();
        let value = |column: &String| row.inputs.get(column).map_or("", String::as_str);
        Some(Told {
            set: &set.name,
            row,
            models: StepSpreads::default().laid_over(errors),
            host: weight(StepSpreads::HOSTS),
            fabric: weight(StepSpreads::BETWEEN_NODES),
            recurrent: weight(StepSpreads::RECURRENT),
            whole,
            generation,
            alike: alike.as_ref().map(|columns| columns.iter().map(value).collect()),
        })
    })
}

/// Peaks of memory of sets that tell of nothing else, by family.
fn peaks(set: &SetResult) -> Vec<(String, &Row)> {
    let rows = || set.parts.iter().flat_map(|part| &part.rows);
    let Some(file) = embedded::set(&set.name).filter(|_| rows().all(|row| row.unit == Unit::Bytes)) else {
        return Vec::new();
    };
    rows().map(|row| (file.left_out(&set.name, &row.inputs), row)).collect()
}

fn off(row: &Row) -> f64 {
    (row.measured / row.predicted).ln()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The errors of steps, those of generations first.
fn terms(rows: &[&Told<'_>]) -> Vec<(String, Term)> {
    let of_steps: Vec<&Told<'_>> = rows.iter().filter(|row| row.whole).copied().collect();
    let by_devices: Vec<&Told<'_>> = of_steps.iter().filter(|row| row.host < HOST_LEAST).copied().collect();
    let mut terms = generations(&by_devices);
    let plans = plans(&by_devices);
    let of_generation: BTreeMap<String, f64> =
        terms.iter().map(|(name, term)| (name.clone(), term.variance.max(0.0))).collect();
    let rest = |row: &Told<'_>| {
        let device = 1.0 - row.host;
        let models = row.models.variance_of_ratio(&Uncertainty::default());
        let generation = of_generation.get(&row.generation).unwrap_or(&of_generation[StepSpreads::OTHERS]);
        models + device.powi(2) * generation + device * plans.variance.max(0.0)
    };
    let weighed = |rows: &[&Told<'_>], weight: &dyn Fn(&Told<'_>) -> f64, least: f64| {
        let rows: Vec<&&Told<'_>> = rows.iter().filter(|row| weight(row) >= least).collect();
        let beyond = rows.iter().map(|row| weight(row).powi(2) * (off(row.row).powi(2) - rest(row)));
        let weights: f64 = rows.iter().map(|row| weight(row).powi(4)).sum();
        let variance = if weights > 0.0 { beyond.sum::<f64>() / weights } else { 0.0 };
        Term { sets: sets(rows.iter().map(|row| row.set)), rows: rows.len(), variance }
    };
    terms.push((StepSpreads::PLANS.to_owned(), plans));
    terms.push((StepSpreads::BETWEEN_NODES.to_owned(), weighed(&of_steps, &|row| row.fabric, SHARE_LEAST)));
    terms.push((StepSpreads::HOSTS.to_owned(), weighed(&of_steps, &|row| row.host, HOST_LEAST)));
    terms.push((StepSpreads::RECURRENT.to_owned(), weighed(rows, &|row| row.recurrent, SHARE_LEAST)));
    terms
}

fn sets<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.collect::<BTreeSet<_>>().len()
}

/// The error of all steps on a generation, and that of generations without two sets.
fn generations(rows: &[&Told<'_>]) -> Vec<(String, Term)> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Told<'_>>> = BTreeMap::new();
    for row in rows {
        groups.entry((&row.generation, row.set)).or_default().push(row);
    }
    let beyond = |rows: &Vec<&Told<'_>>| {
        let in_common = |row: &&Told<'_>| row.models.variance_in_common(&Uncertainty::default());
        mean(rows.iter().map(|row| off(row.row))).powi(2) - mean(rows.iter().map(in_common))
    };
    let term = |of: &dyn Fn(&str) -> bool| {
        let groups: Vec<_> = groups.iter().filter(|((generation, _), _)| of(generation)).collect();
        let squares = groups.iter().map(|(_, rows)| beyond(rows));
        let variance = mean(squares);
        Term {
            sets: sets(groups.iter().map(|((_, set), _)| *set)),
            rows: groups.iter().map(|(_, rows)| rows.len()).sum(),
            variance,
        }
    };
    let all = term(&|_| true);
    let known: BTreeSet<&str> = groups.keys().map(|(generation, _)| *generation).collect();
    let of = |name: &str| match term(&|generation| generation == name) {
        own if own.sets >= 2 => own,
        _ => all,
    };
    let known = known.into_iter().map(|name| (name.to_owned(), of(name)));
    known.chain([(StepSpreads::OTHERS.to_owned(), all)]).collect()
}

/// The error of peaks.
fn memory(peaks: &[&(String, &Row)]) -> Term {
    Term {
        sets: sets(peaks.iter().map(|(family, _)| family.as_str())),
        rows: peaks.len(),
        variance: mean(peaks.iter().map(|(_, row)| off(row).powi(2))),
    }
}

/// The error of plans on their own, from pairs of one set, model and machine.
fn plans(rows: &[&Told<'_>]) -> Term {
    let mut of_sets: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut found = 0;
    let same = |a: &&Told<'_>, b: &&Told<'_>| a.set == b.set && a.alike.is_some() && a.alike == b.alike;
    for (a, b) in pairs(rows, same) {
        let apart = a.models.apart(&b.models);
        let beyond = (off(a.row) - off(b.row)).powi(2) - a.models.variance_of_ratio(&b.models);
        let (sum, weights) = of_sets.entry(a.set).or_default();
        *sum += apart * beyond;
        *weights += apart.powi(2);
        found += 1;
    }
    let of_sets: Vec<f64> = of_sets
        .into_values()
        .filter(|(_, weights)| *weights > 0.0)
        .map(|(sum, weights)| sum / weights)
        .collect();
    Term { sets: of_sets.len(), rows: found, variance: mean(of_sets.into_iter()) }
}
