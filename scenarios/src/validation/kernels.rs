//! Kernels: the rows of the test quarter, each timed by the model of its device.

use calibration::{self, KernelShape, Sample};
use hw_models::kernels::{Attention, Convolution, Correct, Gemm, KernelClass, KernelCost, Stream};
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::validation::{LeftOut, Row, Unit};
use serde::Serialize;

use super::timing::timing;
use super::{Judged, embedded};
use crate::catalogue;

/// A measured kernel and where it is written.
struct Placed {
    place: String,
    sample: Sample,
}

/// The rows of the test quarter. A part is a class of kernels on a device.
pub(super) fn judged(tables: &[String]) -> Vec<(String, Judged)> {
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

fn of_device(device: &str, class: KernelClass, rows: &[Placed]) -> Vec<(String, Judged)> {
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
    judging.into_iter().map(|row| (part.clone(), judge(row, cost(&row.sample), timing_s))).collect()
}

fn judge(row: &Placed, cost: Result<KernelCost, String>, timing_s: f64) -> Judged {
    let (place, inputs) = (row.place.clone(), inputs(&row.sample.shape));
    match cost {
        Ok(cost) => {
            let (start, alone) = (cost.fixed.as_secs(), cost.alone().as_secs());
            let predicted = alone + timing_s;
            let parts = [("timing", timing_s), ("start", start), ("blocks", alone - start)];
            let shares = parts.map(|(name, time)| (name.to_owned(), time / predicted)).into();
            let measured = row.sample.seconds;
            Judged::Row(Row {
                place,
                inputs,
                measured,
                predicted,
                shares,
                unit: Unit::Seconds,
                ..Row::default()
            })
        }
        Err(reason) => Judged::LeftOut(LeftOut { place, inputs, reason }),
    }
}

/// What was run, dimension by dimension.
fn inputs(shape: &KernelShape) -> IndexMap<String, String> {
    let told: Vec<(&str, String)> = match shape {
        KernelShape::Gemm(Gemm { batch, m, n, k, layout, accumulate, .. }) => vec![
            ("batch", batch.to_string()),
            ("m", m.to_string()),
            ("n", n.to_string()),
            ("k", k.to_string()),
            ("layout", word(layout)),
            ("accumulate", accumulate.is_some().to_string()),
        ],
        KernelShape::Grouped(grouped) => return inputs(&KernelShape::Gemm(grouped.groups)),
        KernelShape::Convolution(Convolution {
            pass,
            batch,
            in_channels,
            out_channels,
            input,
            filter,
            padding,
            stride,
            ..
        }) => vec![
            ("pass", word(pass)),
            ("batch", batch.to_string()),
            ("channels", format!("{in_channels} to {out_channels}")),
            ("input", by(*input)),
            ("filter", by(*filter)),
            ("padding", by(*padding)),
            ("stride", by(*stride)),
        ],
        KernelShape::Attention(Attention {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            head_dim,
            value_dim,
            causal,
            ..
        }) => vec![
            ("batch", batch.to_string()),
            ("heads", heads.to_string()),
            ("kv_heads", kv_heads.to_string()),
            ("queries", queries.to_string()),
            ("keys", keys.to_string()),
            ("head_dim", head_dim.to_string()),
            ("value_dim", value_dim.to_string()),
            ("causal", causal.to_string()),
        ],
        KernelShape::Stream(stream) | KernelShape::Cold(stream) => {
            let Stream { bytes_read, bytes_written, rows, .. } = stream;
            let rows = rows.map(|rows| ("rows", rows.to_string()));
            let bytes =
                [("bytes_read", bytes_read.to_string()), ("bytes_written", bytes_written.to_string())];
            bytes.into_iter().chain(rows).collect()
        }
    };
    told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A choice as files write it.
fn word(choice: &impl Serialize) -> String {
    serde_json::to_value(choice).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

fn by([height, width]: [u64; 2]) -> String {
    format!("{height} x {width}")
}
