//! Collectives inside a node: the rows of the test quarter, by a table of the other rows and by the library's formula.

use hw_models::calibration::split;
use hw_models::collectives::{
    Collective, CollectiveCatalogue, CollectiveKind, CollectiveModel, GroupShape, LogTable, plan,
};
use hw_models::kernels::Libraries;
use indexmap::IndexMap;
use reports::validation::{LeftOut, Row};
use workloads::model::transformer::Group;
use workloads::placement::{Extent, Placement};
use workloads::site::Job;

use super::set::CollectiveTable;
use super::{Judged, cells, embedded};
use crate::catalogue;
use crate::plans::machine;
use crate::schema::{Machine, SingleNode};

/// The parts of a set: what a prediction is from.
const PARTS: [&str; 2] = ["by table", "by formula"];

/// A row of a table.
struct Measured {
    place: String,
    inputs: IndexMap<String, String>,
    series: Series,
    bytes: u64,
    time_us: f64,
}

/// What the rows of one log-log table have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Series {
    node: String,
    kind: CollectiveKind,
    ranks: u32,
}

/// Every row of the test quarter twice, each with its part.
pub(super) fn judged(table: &CollectiveTable) -> Vec<(String, Judged)> {
    let (mut series, mut found) = (IndexMap::<Series, Vec<Measured>>::new(), Vec::new());
    for row in rows(table) {
        match row {
            Ok(row) => series.entry(row.series.clone()).or_default().push(row),
            Err(row) => found.extend(PARTS.map(|part| (part.to_owned(), Judged::LeftOut(row.clone())))),
        }
    }
    for (series, rows) in series {
        let (judging, others): (Vec<Measured>, Vec<Measured>) = rows.into_iter().partition(Measured::judges);
        let points: Vec<[f64; 2]> = others.iter().map(|row| [row.bytes as f64, row.time_us]).collect();
        let predictor = series.model().map(|(model, group)| (model, group, LogTable::from(points)));
        for row in judging {
            let both = predictor.as_ref().map(|(model, group, table)| {
                let formula = |bytes: f64| {
                    plan(model, group, &Collective { kind: series.kind, bytes: bytes as u64 })
                        .alone()
                        .as_secs()
                };
                [table.seconds(row.bytes as f64, formula), formula(row.bytes as f64)]
            });
            for (part, index) in PARTS.into_iter().zip(0..) {
                let predicted = both.map(|both| both[index]).map_err(Clone::clone);
                found.push((part.to_owned(), row.judged(predicted)));
            }
        }
    }
    found
}

/// The rows of a table, or why they are not judged.
fn rows(table: &CollectiveTable) -> Vec<Result<Measured, LeftOut>> {
    let read = embedded::table(&table.data);
    let row = |row: hw_models::calibration::Row<'_>| {
        let (place, cells) = (format!("{}:{}", read.name, row.line()), cells(read.columns(), &row));
        let told = |column: &&String| table.is_input(column);
        let inputs: IndexMap<String, String> = read
            .columns()
            .iter()
            .filter(told)
            .map(|column| (column.clone(), row.text(column).to_owned()))
            .collect();
        let measured = table.measured(&cells);
        measured
            .map(|(series, bytes, time_us)| Measured {
                place: place.clone(),
                inputs: inputs.clone(),
                series,
                bytes,
                time_us,
            })
            .map_err(|reason| LeftOut { place, inputs, reason })
    };
    read.rows().map(row).collect()
}

impl CollectiveTable {
    /// Whether a column says what was run.
    fn is_input(&self, column: &str) -> bool {
        let told = [self.node.column(), self.kind.column(), Some(&*self.ranks), Some(&*self.bytes)];
        told.contains(&Some(column)) || self.inputs.iter().any(|input| input == column)
    }

    fn measured(&self, cells: &IndexMap<String, String>) -> Result<(Series, u64, f64), String> {
        let number = |column: &String| {
            let cell = cells.get(column).map_or("", String::as_str);
            cell.parse::<f64>()
                .ok()
                .filter(|n| *n > 0.0 && n.is_finite())
                .ok_or_else(|| format!("`{column}` is `{cell}`"))
        };
        let bytes = number(&self.bytes)? as u64;
        if bytes < self.bytes_min {
            return Err(format!("under {} bytes {}", self.bytes_min, self.because));
        }
        let kind = self.kind.of(cells)?;
        let series = Series {
            node: self.node.of(cells)?,
            kind: serde_json::from_value(kind.clone().into())
                .map_err(|_| format!("there is no collective `{kind}`"))?,
            ranks: number(&self.ranks)? as u32,
        };
        Ok((series, bytes, number(&self.time_us)?))
    }
}

impl Series {
    /// What the library would do, without any measured table, among the first GPUs of the node.
    fn model(&self) -> Result<(CollectiveModel, GroupShape), String> {
        let node =
            SingleNode { name: self.node.clone(), gpu: None, set: IndexMap::new(), degrade: Vec::new() };
        let machine = machine::build(&Machine::Node(node)).map_err(|errors| format!("{errors:?}"))?;
        let hardware = machine::hardware(&machine, Libraries::default());
        let (_, gpu) = hardware.gpu().map_err(|error| error.to_string())?;
        let formulas = CollectiveCatalogue { tables: Vec::new(), ..catalogue::collectives().clone() };
        let extent = Extent { tensor: self.ranks, data: 1, stages: 1 };
        let job = Job { machine: &machine, extent, placement: Placement::Sequential, capacity: 0 };
        let group = job.shape(Group::Tensor).map_err(|error| error.to_string())?;
        Ok((formulas.model(&gpu.architecture).map_err(|error| error.to_string())?, group))
    }
}

impl Measured {
    fn judges(&self) -> bool {
        split::judges(split::hash(&self.inputs.values().collect::<Vec<_>>()))
    }

    fn judged(&self, predicted: Result<f64, String>) -> Judged {
        let (place, inputs) = (self.place.clone(), self.inputs.clone());
        match predicted {
            Ok(predicted_s) => Judged::Row(Row {
                place,
                inputs,
                measured_s: self.time_us * 1e-6,
                predicted_s,
                shares: IndexMap::new(),
                interval_s: None,
                explanation: None,
            }),
            Err(reason) => Judged::LeftOut(LeftOut { place, inputs, reason }),
        }
    }
}
