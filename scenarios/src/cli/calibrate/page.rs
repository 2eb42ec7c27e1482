//! The page of a calibration.

use calibration::estimate::{Beside, beside};
use calibration::hardware::{Found, Hardware};
use calibration::interference::Slowdown;
use calibration::laws::laws;
use calibration::measure::{Record, Task};
use calibration::overlay::COLLECTIVES;
use calibration::{Errors, FoundClass};
use hw_models::kernels::{Correct, KernelModel};
use reports::calibration::{Calibration, Constant, FitPoint, Law, Met, html};

use scenarios::catalogue::kernels_of;
use scenarios::hardware::{kernel_constants, unused};

use crate::cli::output::page;
use crate::cli::trouble::Trouble;

/// The page of a device that was measured, as bytes; `file`: the name of its hardware file.
///
/// # Errors
/// A plot that cannot be drawn.
pub(super) fn of_device(
    hardware: &Hardware,
    file: &str,
    records: &[Record],
    interference: &[Slowdown],
) -> Result<Vec<u8>, Trouble> {
    let known = laws().filter_map(|law| Some((law, hardware.laws.get(law.name)?)));
    let model = hardware.gpu.as_ref().and_then(|gpu| model(hardware, gpu));
    let kernels = of_kernels(hardware, |class| {
        let point = |record| of_kernel(record, class, model.as_ref()?);
        records.iter().filter_map(point).collect()
    });
    let laws = known.map(|(law, found)| of_law(law, found, records));
    let laws = laws.chain(of_collectives(hardware, records)).chain(kernels).collect();
    let met = |one: &Slowdown| Met {
        timed: one.timed.clone(),
        meanwhile: one.meanwhile.clone(),
        measured: one.measured,
        predicted: one.predicted,
    };
    drawn(hardware, file, laws, interference.iter().map(met).collect())
}

/// The page of a GPU that tables tell of, as bytes; `file`: the name of its hardware file.
///
/// # Errors
/// A plot that cannot be drawn.
pub(super) fn of_tables(
    hardware: &Hardware,
    file: &str,
    found: &scenarios::calibration::Calibration,
) -> Result<Vec<u8>, Trouble> {
    let points = |class: &str| found.beside(&hardware.device.name, class);
    drawn(hardware, file, of_kernels(hardware, points), Vec::new())
}

fn drawn(hardware: &Hardware, file: &str, laws: Vec<Law>, met: Vec<Met>) -> Result<Vec<u8>, Trouble> {
    let Hardware { foretrain, device, date, drift, steady, .. } = hardware.clone();
    let calibration = Calibration {
        version: foretrain,
        file: file.to_owned(),
        device: device.name,
        driver: device.driver,
        facts: device.facts,
        date,
        drift,
        steady,
        laws,
        met,
        unused: unused(hardware),
    };
    page(&format!("the page of {file}"), |out| html(out, &calibration))
}

/// Classes of kernels, which are laws with corrections near measured shapes; `points`: what each was measured by.
fn of_kernels(hardware: &Hardware, points: impl Fn(&str) -> Vec<FitPoint>) -> Vec<Law> {
    let Some(kernels) = &hardware.kernels else { return Vec::new() };
    let constants = kernel_constants(hardware);
    let of_class = |(name, found): (&String, &FoundClass)| {
        // Constants of `gemm-bf16` are called `gemm.bf16.e_max`, those of `layer-norm` `stream.layer-norm.achieved`.
        let beginnings = [format!("{}.", name.replacen('-', ".", 1)), format!("stream.{name}.")];
        let own = constants.iter().filter_map(|(constant, value)| {
            let own = beginnings.iter().find_map(|beginning| constant.strip_prefix(beginning))?;
            Some(Constant { name: own.to_owned(), value: *value, told: true, ..Constant::default() })
        });
        Law {
            name: name.clone(),
            method: format!(
                "relative least squares, corrected near measured shapes; from {}",
                found.sources.join("; ")
            ),
            constants: own.collect(),
            points: points(name),
            held_out: errors(&found.held_out),
            decades: None,
            catalogue: found.catalogue.as_ref().and_then(errors),
            refused: found.refused,
        }
    };
    kernels.classes.iter().map(of_class).collect()
}

/// A kernel of a class that was timed.
fn of_kernel(record: &Record, class: &str, model: &KernelModel) -> Option<FitPoint> {
    let shape = record.of.kernel()?;
    (record.is_sound() && shape.class().to_string() == class).then_some(())?;
    Some(FitPoint {
        task: record.of.to_string(),
        measured_s: record.seconds(),
        predicted_s: shape.cost(model).ok()?.alone().as_secs(),
        held_out: record.judges(),
        unstable: record.is_unstable(),
    })
}

/// The kernels of a GPU as they were judged.
fn model(hardware: &Hardware, gpu: &str) -> Option<KernelModel> {
    let mut model = kernels_of(gpu).ok()?.correcting(Correct::Near);
    let kernels = hardware.kernels.as_ref()?;
    model.parameters.replace(kernels.constants.clone());
    model.parameters.corrections.extend(kernels.corrections(gpu).ok()?);
    Some(model)
}

fn of_law(law: &calibration::laws::Law, found: &Found, records: &[Record]) -> Law {
    let values: Vec<f64> = found.constants.values().map(|constant| constant.value).collect();
    let constants = found.constants.iter().map(|(name, constant)| Constant {
        name: name.clone(),
        value: constant.value,
        unit: constant.unit.symbol().to_owned(),
        error: constant.error,
        told: constant.told,
    });
    let points = beside(law, &values, records, found.held_out.samples > 0);
    Law {
        name: law.name.to_owned(),
        method: found.method.clone(),
        constants: constants.collect(),
        points: points.into_iter().map(point).collect(),
        held_out: errors(&found.held_out),
        decades: found.decades.as_ref().and_then(errors),
        catalogue: None,
        refused: found.refused,
    }
}

/// Tables of collectives, on the sizes that none of them needs.
fn of_collectives(hardware: &Hardware, records: &[Record]) -> Option<Law> {
    let collectives = hardware.collectives.as_ref()?;
    let refused =
        records.iter().filter(|record| matches!(record.of, Task::Collective(_)) && !record.is_sound());
    Some(Law {
        name: COLLECTIVES.to_owned(),
        method: format!(
            "{} tables of times, which scenarios take; between sizes they grow as the law of their ring does",
            collectives.tables.len()
        ),
        constants: Vec::new(),
        points: hardware.unseen_collectives(records).into_iter().map(point).collect(),
        held_out: errors(&collectives.held_out),
        decades: None,
        catalogue: None,
        refused: refused.count(),
    })
}

fn point(Beside { record, seconds, held_out }: Beside<'_>) -> FitPoint {
    FitPoint {
        task: record.of.to_string(),
        measured_s: record.seconds(),
        predicted_s: seconds,
        held_out,
        unstable: record.is_unstable(),
    }
}

/// None of no measurement.
fn errors(errors: &Errors) -> Option<reports::calibration::Errors> {
    let Errors { samples, mean, interval, median, p95, worst, bias, .. } = *errors;
    (samples > 0).then_some(reports::calibration::Errors {
        samples,
        mean,
        interval,
        median,
        p95,
        worst,
        bias,
    })
}
