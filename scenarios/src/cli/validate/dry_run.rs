//! Which workloads would run on a GPU, what they need, and what is predicted of them.

use indexmap::IndexMap;
use reports::quantity;
use scenarios::expectation::Metric;
use scenarios::hardware;
use scenarios::validation::on_device::{OnMachine, Question, questions};
use serde::Serialize;

use super::Arguments;
use super::recorded::{calibrations, mistake};
use crate::cli::Exit;
use crate::cli::printer::Printer;
use crate::cli::run::Output;
use crate::cli::trouble::{self, Trouble};

/// A row that would run.
#[derive(Serialize)]
struct Row {
    workload: String,
    row: IndexMap<String, String>,
    /// Predicted (s).
    step_time_s: Option<f64>,
    /// Predicted: what PyTorch takes from the driver (bytes).
    peak_reserved_bytes: Option<f64>,
    /// Why nothing is predicted.
    unpredicted: Option<String>,
}

/// Tells the workloads of the GPU that is named, or that a hardware file is of.
pub(super) fn tell(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let calibrations = calibrations(&arguments.calibration)?;
    let measured = calibrations.iter().find_map(|(_, bytes)| hardware::read(bytes).ok()?.gpu);
    let gpu = arguments.gpu.clone().or(measured).ok_or_else(|| {
        let remedy = "name one with `--gpu` (`foretrain list gpus`), or a hardware file with `--calibration`";
        Trouble::Mistake(format!("predictions are for a GPU: {remedy}"))
    })?;
    let machine = OnMachine { gpu, calibrations };
    let questions =
        questions(&arguments.names, &machine, arguments.quick).map_err(|wrong| mistake(&wrong))?;
    let rows: Vec<Row> = questions.iter().map(row).collect();
    printer.print(&match arguments.format {
        Output::Json => trouble::json(&rows),
        Output::Table | Output::Csv => text(&questions, &rows, &machine.gpu),
    })?;
    Ok(Exit::Fine)
}

fn row(question: &Question) -> Row {
    let run = question.predicted();
    let figure = |metric: Metric| run.as_ref().ok().and_then(|run| metric.of(run));
    let failure = |run: &reports::summary::RunSummary| Some(run.failure.as_ref()?.message.clone());
    Row {
        workload: question.workload.clone(),
        row: question.row.clone(),
        step_time_s: figure(Metric::StepTimeS),
        peak_reserved_bytes: figure(Metric::PeakReservedBytes),
        unpredicted: run.as_ref().map_or_else(|refused| Some(refused.clone()), failure),
    }
}

fn text(questions: &[Question], rows: &[Row], gpu: &str) -> String {
    let names: Vec<String> =
        questions.iter().map(|row| format!("{}: {}", row.workload, row.name())).collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |(name, row): (&String, &Row)| {
        let figure =
            |value: Option<f64>, words: fn(f64) -> String| value.map_or(quantity::NONE.to_owned(), words);
        let step = figure(row.step_time_s, quantity::seconds);
        let memory = figure(row.peak_reserved_bytes, |bytes| quantity::bytes(bytes as u64));
        let why = row.unpredicted.as_ref().map(|why| format!("  {why}")).unwrap_or_default();
        format!("  {name:widest$}  {step:>10}  {memory:>10}{why}\n")
    };
    let head = format!("  {:widest$}  {:>10}  {:>10}\n", "workload", "step", "memory");
    let lines: String = names.iter().zip(rows).map(line).collect();
    format!("predicted for {gpu}; running them needs it and PyTorch 2.1 or newer with CUDA\n{head}{lines}")
}
