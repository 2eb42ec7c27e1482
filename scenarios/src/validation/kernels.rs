//! Kernels: the rows of the test quarter, each timed by the model of its device.

use std::collections::BTreeSet;

use calibration::{self, Growth, KernelShape, Sample, Table, TableError};
use hw_models::kernels::{Correct, KernelClass, KernelCost};
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::validation::Row;

use super::timing::timing;
use super::{Judged, cells};
use crate::catalogue;
use crate::schema::word;

/// A measured kernel and where it is written.
struct Placed {
    place: String,
    sample: Sample,
}

/// Reason for which a row of a table is not judged.
pub(super) const UNREAD: &str = "tables of this form tell no kernel of such a GPU or type";

/// Measured kernels by device and class.
type Parts = Vec<((String, KernelClass), Vec<Placed>)>;

/// The rows of the test quarter. A part is a class of kernels on a device.
pub(super) fn judged(tables: &[Table]) -> Vec<Judged> {
    let parts = parts(tables).unwrap_or_else(|errors| panic!("{errors:?}"));
    parts.par_iter().flat_map_iter(|((device, class), rows)| of_device(device, *class, rows)).collect()
}

/// Every row of tables that nothing was fitted to, as a simulation takes its kernel.
///
/// # Errors
/// All that is wrong with any of the tables.
pub(super) fn simulated(tables: &[Table]) -> Result<Vec<Judged>, Vec<TableError>> {
    let of_device = |((device, class), rows): ((String, KernelClass), Vec<Placed>)| {
        let model = catalogue::kernels_of(&device);
        let part = format!("{device} {class}");
        let judge = move |row: Placed| {
            let cost = model.as_ref().map_err(Clone::clone);
            let cost = cost.and_then(|model| row.sample.shape.cost(model).map_err(|error| error.to_string()));
            judge(&part, &row, cost, 0.0)
        };
        rows.into_iter().map(judge).collect::<Vec<_>>()
    };
    let parts = parts(tables)?;
    let read: BTreeSet<&str> = parts.iter().flat_map(|(_, rows)| rows).map(|row| &*row.place).collect();
    let unread = tables.iter().flat_map(|table| table.rows().map(move |row| (table, row)));
    let unread = unread.filter_map(|(table, row)| {
        let place = format!("{}:{}", table.name, row.line());
        let is_read = read.contains(&*place);
        let (part, inputs) = (table.name.clone(), cells(table.columns(), &row));
        (!is_read).then(|| Judged { part, place, inputs, row: Err(UNREAD.to_owned()) })
    });
    let unread: Vec<Judged> = unread.collect();
    Ok(parts.into_iter().flat_map(of_device).chain(unread).collect())
}

/// The rows of tables.
fn parts(tables: &[Table]) -> Result<Parts, Vec<TableError>> {
    let mut parts: IndexMap<(String, KernelClass), Vec<Placed>> = IndexMap::new();
    for table in tables {
        for set in calibration::measured(std::slice::from_ref(table))? {
            let placed = |sample: Sample| Placed { place: format!("{}:{}", table.name, sample.line), sample };
            parts.entry((set.device, set.class)).or_default().extend(set.samples.into_iter().map(placed));
        }
    }
    Ok(parts.into_iter().collect())
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
    let evenly: Vec<Sample> = evenly.map(|row| row.sample).collect();
    let growth = model.as_ref().map(|model| Growth::of(&evenly, model)).unwrap_or_default();
    let first = evenly.iter().map(|sample| sample.without(growth));
    let pair = |sample: Sample| Some((cost(&sample).ok()?.alone().as_secs(), sample.seconds));
    let timing_s = timing(&first.filter_map(pair).collect::<Vec<_>>());
    let part = format!("{device} {class}");
    let judge = |row: &Placed| {
        let timing_s = timing_s + growth.added(row.sample.nth);
        judge(&part, row, cost(&row.sample), timing_s)
    };
    judging.into_iter().map(judge).collect()
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
