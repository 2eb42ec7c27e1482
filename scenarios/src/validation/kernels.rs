//! Kernels: the rows of the test quarter, each timed by the model of its device.

use calibration::{self, KernelShape, Sample};
use hw_models::kernels::{Correct, KernelClass, KernelCost};
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::validation::Row;

use super::timing::timing;
use super::{Judged, embedded};
use crate::catalogue;
use crate::schema::word;

/// A measured kernel and where it is written.
struct Placed {
    place: String,
    sample: Sample,
}

/// The rows of the test quarter. A part is a class of kernels on a device.
pub(super) fn judged(tables: &[String]) -> Vec<Judged> {
    let mut parts: IndexMap<(String, KernelClass), Vec<Placed>> = IndexMap::new();
    for name in tables {
        let measured = calibration::measured(&[embedded::table(name)]);
        for set in measured.unwrap_or_else(|errors| panic!("{errors:?}")) {
            let placed = |sample: Sample| Placed { place: format!("{name}:{}", sample.line), sample };
            parts.entry((set.device, set.class)).or_default().extend(set.samples.into_iter().map(placed));
        }
    }
    let parts: Vec<_> = parts.into_iter().collect();
    parts.par_iter().flat_map_iter(|((device, class), rows)| of_device(device, *class, rows)).collect()
}

fn of_device(device: &str, class: KernelClass, rows: &[Placed]) -> Vec<Judged> {
    let (judging, others): (Vec<&Placed>, Vec<&Placed>) = rows.iter().partition(|row| row.sample.held_out());
    // No shape is overridden by its own measurement.
    let model = catalogue::kernels_of(device).map(|model| model.correcting(Correct::Near));
    let cost = |sample: &Sample| {
        let model = model.as_ref().map_err(Clone::clone)?;
        sample.shape.cost(model).map_err(|error| error.to_string())
    };
    let evenly = others.iter().step_by(others.len().div_ceil(calibration::MOST).max(1));
    let pair = |row: &&Placed| Some((cost(&row.sample).ok()?.alone().as_secs(), row.sample.seconds));
    let timing_s = timing(&evenly.filter_map(pair).collect::<Vec<_>>());
    let part = format!("{device} {class}");
    judging.into_iter().map(|row| judge(&part, row, cost(&row.sample), timing_s)).collect()
}

fn judge(part: &str, row: &Placed, cost: Result<KernelCost, String>, timing_s: f64) -> Judged {
    let of = |cost: KernelCost| {
        let (start, alone) = (cost.fixed.as_secs(), cost.alone().as_secs());
        let predicted = alone + timing_s;
        let parts = [("timing", timing_s), ("start", start), ("blocks", alone - start)];
        let shares = parts.map(|(name, time)| (name.to_owned(), time / predicted)).into();
        Row { measured: row.sample.seconds, predicted, shares, ..Row::default() }
    };
    Judged {
        part: part.to_owned(),
        place: row.place.clone(),
        inputs: inputs(&row.sample.shape),
        row: cost.map(of),
    }
}

/// What was run, dimension by dimension.
fn inputs(shape: &KernelShape) -> IndexMap<String, String> {
    let told: Vec<(&str, String)> = match shape {
        KernelShape::Gemm(of) => vec![
            ("batch", of.batch.to_string()),
            ("m", of.m.to_string()),
            ("n", of.n.to_string()),
            ("k", of.k.to_string()),
            ("layout", word(&of.layout)),
            ("accumulate", of.accumulate.is_some().to_string()),
        ],
        KernelShape::Grouped(grouped) => return inputs(&KernelShape::Gemm(grouped.groups)),
        KernelShape::Convolution(of) => vec![
            ("pass", word(&of.pass)),
            ("batch", of.batch.to_string()),
            ("channels", format!("{} to {}", of.in_channels, of.out_channels)),
            ("input", by(of.input)),
            ("filter", by(of.filter)),
            ("padding", by(of.padding)),
            ("stride", by(of.stride)),
        ],
        KernelShape::Attention(of) => vec![
            ("batch", of.batch.to_string()),
            ("heads", of.heads.to_string()),
            ("kv_heads", of.kv_heads.to_string()),
            ("queries", of.queries.to_string()),
            ("keys", of.keys.to_string()),
            ("head_dim", of.head_dim.to_string()),
            ("value_dim", of.value_dim.to_string()),
            ("causal", of.causal.to_string()),
        ],
        KernelShape::Stream(of) | KernelShape::Cold(of) => {
            let bytes =
                [("bytes_read", of.bytes_read.to_string()), ("bytes_written", of.bytes_written.to_string())];
            bytes.into_iter().chain(of.rows.map(|rows| ("rows", rows.to_string()))).collect()
        }
    };
    told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn by([height, width]: [u64; 2]) -> String {
    format!("{height} x {width}")
}
