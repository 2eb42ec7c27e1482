//! Collectives inside a node: the rows of the test quarter, by a table of the other rows and by the library's formula.

use calibration::{Table, split};
use hw_models::collectives::{
    Collective, CollectiveCatalogue, CollectiveKind, CollectiveModel, GroupShape, LogTable, plan,
};
use indexmap::IndexMap;
use reports::validation::Row;
use workloads::model::transformer::Group;
use workloads::passes::host_buffers::HostBuffers;
use workloads::placement::{Extent, Placement};
use workloads::site::{Drives, Job};

use super::set::CollectiveTable;
use super::settings::{self, Fault, number};
use super::timing::timing;
use super::{Judged, cells, embedded};
use crate::catalogue;
use crate::schema::{Machine, SingleNode, word};

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

/// The rows of a series that judge and the others, with what predicts them.
struct Split {
    judging: Vec<Measured>,
    others: Vec<Measured>,
    predictor: Result<(CollectiveModel, GroupShape), String>,
}

/// Every row of the test quarter twice.
pub(super) fn judged(table: &CollectiveTable) -> Vec<Judged> {
    let (mut series, mut found) = (IndexMap::<Series, Vec<Measured>>::new(), Vec::new());
    for row in rows(table, &embedded::table(&table.data)) {
        match row {
            Ok(row) => series.entry(row.series.clone()).or_default().push(row),
            Err(row) => found.push(Judged { part: table.by_table(), ..*row }),
        }
    }
    let formulas = CollectiveCatalogue { tables: Vec::new(), ..catalogue::collectives().clone() };
    // What a node does in one way is timed in one way, whatever the size of its groups.
    let mut timed_alike: IndexMap<(String, CollectiveKind), Vec<Split>> = IndexMap::new();
    for (series, rows) in series {
        let (judging, others) = rows.into_iter().partition(Measured::judges);
        let predictor = series.model(&formulas).map_err(|fault| fault.reason);
        let split = Split { judging, others, predictor };
        timed_alike.entry((series.node, series.kind)).or_default().push(split);
    }
    for splits in timed_alike.values() {
        let pairs = splits.iter().flat_map(|split| {
            let pair = |row: &Measured| Some((split.formula(row.call()).ok()?, row.time_us * 1e-6));
            split.others.iter().filter_map(pair)
        });
        let timing_s = timing(&pairs.collect::<Vec<_>>());
        for split in splits {
            let points = split.points();
            for row in &split.judging {
                let (by_table, by_formula) = (split.by_table(&points, row), split.formula(row.call()));
                let by_formula = by_formula.map(|seconds| [("timing", timing_s), ("formula", seconds)]);
                found.push(row.judged(table.by_table(), by_table.map(|seconds| [("table", seconds)])));
                found.push(row.judged(table.by_formula(row.series.ranks), by_formula));
            }
        }
    }
    found
}

/// Every row of a table that nothing was fitted to, as a simulation takes its collective.
pub(super) fn simulated(described: &CollectiveTable, table: &Table) -> Vec<Judged> {
    let judge = |row: Result<Measured, Box<Judged>>| match row {
        Ok(row) => {
            let part = described.by_ranks(&row.series);
            let seconds = row.series.seconds(row.call()).map_err(|fault| fault.reason);
            row.judged(part, seconds.map(|seconds| [("collective", seconds)]))
        }
        Err(row) => Judged { part: described.data.clone(), ..*row },
    };
    rows(described, table).into_iter().map(judge).collect()
}

/// The fault of a row that is to be judged.
pub(super) fn fault(described: &CollectiveTable, cells: &IndexMap<String, String>) -> Option<Fault> {
    if described.left_out(cells).is_some() {
        return None;
    }
    let measured = described.measured(cells);
    measured.and_then(|(series, bytes, _)| series.seconds(Collective { kind: series.kind, bytes })).err()
}

impl Split {
    /// What NCCL's constants say, without a table (s).
    fn formula(&self, call: Collective) -> Result<f64, String> {
        let (model, group) = self.predictor.as_ref().map_err(Clone::clone)?;
        Ok(plan(model, group, &call).alone().as_secs())
    }

    fn points(&self) -> LogTable {
        self.others.iter().map(|row| [row.bytes as f64, row.time_us]).collect::<Vec<_>>().into()
    }

    fn by_table(&self, points: &LogTable, row: &Measured) -> Result<f64, String> {
        self.formula(row.call())?;
        let formula = |bytes: f64| {
            self.formula(Collective { bytes: bytes as u64, ..row.call() }).unwrap_or(f64::INFINITY)
        };
        Ok(points.seconds(row.bytes as f64, formula))
    }
}

/// The rows of a table, or why they are not judged.
fn rows(table: &CollectiveTable, read: &Table) -> Vec<Result<Measured, Box<Judged>>> {
    let row = |row: calibration::Row<'_>| {
        let (place, cells) = (format!("{}:{}", read.name, row.line()), cells(read.columns(), &row));
        let told = |column: &&String| table.is_input(column);
        let inputs: IndexMap<String, String> = read
            .columns()
            .iter()
            .filter(told)
            .map(|column| (column.clone(), row.text(column).to_owned()))
            .collect();
        let measured = match table.left_out(&cells) {
            Some(reason) => Err(reason),
            None => table.measured(&cells).map_err(|fault| fault.reason),
        };
        match measured {
            Ok((series, bytes, time_us)) => Ok(Measured { place, inputs, series, bytes, time_us }),
            Err(reason) => Err(Box::new(Judged { part: String::new(), place, inputs, row: Err(reason) })),
        }
    };
    read.rows().map(row).collect()
}

/// The parts of a set: what a prediction is from.
impl CollectiveTable {
    fn by_table(&self) -> String {
        self.apart.as_ref().map_or("by table".to_owned(), |apart| format!("by table, {apart}"))
    }

    fn by_formula(&self, ranks: u32) -> String {
        match &self.apart {
            Some(apart) => format!("by formula, {apart}"),
            None => format!("by formula, {ranks} GPUs"),
        }
    }

    fn by_ranks(&self, Series { kind, ranks, .. }: &Series) -> String {
        self.apart.clone().unwrap_or_else(|| format!("{}, {ranks} GPUs", word(kind)))
    }
}

impl CollectiveTable {
    /// Whether a column says what was run.
    fn is_input(&self, column: &str) -> bool {
        let told = [self.node.column(), self.kind.column(), Some(&*self.ranks), Some(&*self.bytes)];
        told.contains(&Some(column)) || self.inputs.iter().any(|input| input == column)
    }

    /// Why a row is not judged, be it whole.
    fn left_out(&self, cells: &IndexMap<String, String>) -> Option<String> {
        let bytes = number(cells, &self.bytes).ok()? as u64;
        (bytes < self.bytes_min).then(|| format!("under {} bytes {}", self.bytes_min, self.because))
    }

    fn measured(&self, cells: &IndexMap<String, String>) -> Result<(Series, u64, f64), Fault> {
        let bytes = number(cells, &self.bytes).map_err(Fault::of("bytes"))? as u64;
        let kind = self.kind.of(cells).map_err(Fault::of("kind"))?;
        let unknown = |_| format!("there is no collective `{kind}`: name one of {}", kinds());
        let series = Series {
            node: self.node.of(cells).map_err(Fault::of("node"))?,
            kind: serde_json::from_value(kind.clone().into()).map_err(unknown).map_err(Fault::of("kind"))?,
            ranks: number(cells, &self.ranks).map_err(Fault::of("ranks"))? as u32,
        };
        Ok((series, bytes, number(cells, &self.time_us).map_err(Fault::of("time_us"))?))
    }
}

/// Names of collectives, as a list.
fn kinds() -> String {
    CollectiveKind::ALL.map(|kind| format!("`{}`", word(&kind))).join(", ")
}

impl Series {
    /// Time of a collective in a simulation (s).
    fn seconds(&self, call: Collective) -> Result<f64, Fault> {
        let (model, group) = self.model(catalogue::collectives())?;
        Ok(plan(&model, &group, &call).alone().as_secs())
    }

    /// The way that the library takes by a catalogue, among the first GPUs of the node.
    fn model(&self, catalogue: &CollectiveCatalogue) -> Result<(CollectiveModel, GroupShape), Fault> {
        let node =
            SingleNode { name: self.node.clone(), gpu: None, set: IndexMap::new(), degrade: Vec::new() };
        let machine = hw_models::machine::Machine::of(catalogue::devices(), &Machine::Node(node));
        let machine = machine.map_err(|errors| Fault::of("node")(settings::together(&errors)))?;
        let gpu = machine.gpu_model(machine.gpu(0));
        let gpu = gpu.ok_or("the node has no GPU of the catalogue").map_err(Fault::of("node"))?;
        if !(2..=machine.gpus()).contains(&self.ranks) {
            let reason = format!("{} GPUs of `{}`, which has {}", self.ranks, self.node, machine.gpus());
            return Err(Fault::of("ranks")(format!("a collective takes 2 or more: not {reason}")));
        }
        let extent = Extent::new(self.ranks, 1, 1);
        let (placement, drives) = (&Placement::Sequential, &Drives::NONE);
        let buffers = HostBuffers::ENOUGH;
        let job = Job { machine: &machine, extent, placement, limit: None, drives, buffers };
        let group = job.shape(Group::Tensor, |_| true).map_err(Fault::of("ranks"))?;
        Ok((catalogue.model(&gpu.architecture).map_err(Fault::of("node"))?, group))
    }
}

impl Measured {
    fn judges(&self) -> bool {
        split::judges(split::hash(&self.inputs.values().collect::<Vec<_>>()))
    }

    const fn call(&self) -> Collective {
        Collective { kind: self.series.kind, bytes: self.bytes }
    }

    /// In a part of the set, with the parts of the prediction (s).
    fn judged<const N: usize>(&self, part: String, predicted: Result<[(&str, f64); N], String>) -> Judged {
        let row = predicted.map(|parts| {
            let predicted: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
            let shares = parts.map(|(name, seconds)| (name.to_owned(), seconds / predicted)).into();
            Row { measured: self.time_us * 1e-6, predicted, shares, ..Row::default() }
        });
        Judged { part, place: self.place.clone(), inputs: self.inputs.clone(), row }
    }
}
