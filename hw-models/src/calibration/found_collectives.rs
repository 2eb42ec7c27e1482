//! Times of collectives in a hardware file, as the tables of the catalogue have them.

use serde::{Deserialize, Serialize};

use super::Errors;
use super::laws::{Law, law_of};
use super::measure::{Collective, Record, Task};
use crate::collectives::{CollectiveKind, LogTable};

/// What was found of collectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundCollectives {
    /// By collective and size of the group.
    pub tables: Vec<FoundTable>,
    /// Errors of tables of the others on the quarter that judges.
    pub held_out: Errors,
}

/// Times of one collective in groups of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundTable {
    /// The collective.
    pub kind: CollectiveKind,
    /// Members of the group.
    pub ranks: u32,
    /// (bytes of the whole tensor, us).
    pub points: Vec<[f64; 2]>,
}

impl FoundCollectives {
    /// What sound records tell, each size as it was timed; `constants` of the laws say how times grow between sizes. None where
    /// there are no records.
    pub(super) fn of(records: &[Record], constants: impl Fn(&Law) -> Vec<f64>) -> Option<Self> {
        let mut tables: Vec<FoundTable> = Vec::new();
        let mut signed = Vec::new();
        for record in records.iter().filter(|record| record.is_sound()) {
            let Task::Collective(Collective { kind, ranks, bytes }) = record.of else { continue };
            let point = [bytes as f64, super::hardware::rounded(record.seconds() * 1e6)];
            match tables.iter_mut().find(|table| table.kind == kind && table.ranks == ranks) {
                Some(table) => table.points.push(point),
                None => tables.push(FoundTable { kind, ranks, points: vec![point] }),
            }
            signed.extend(record.judges().then(|| off(record, records, &constants)).flatten());
        }
        tables.iter_mut().for_each(|table| table.points.sort_by(|a, b| a[0].total_cmp(&b[0])));
        (!tables.is_empty()).then(|| Self { tables, held_out: Errors::of(&signed) })
    }
}

/// Signed relative error on a record of a table of those of its kind that do not judge; none where there are no such.
fn off(record: &Record, records: &[Record], constants: &impl Fn(&Law) -> Vec<f64>) -> Option<f64> {
    let Task::Collective(of) = record.of else { return None };
    let law = law_of(&record.of)?;
    let values = constants(law);
    let others = records.iter().filter(|other| other.is_sound() && !other.judges());
    let points = others.filter_map(|other| match other.of {
        Task::Collective(Collective { kind, ranks, bytes }) if (kind, ranks) == (of.kind, of.ranks) => {
            Some([bytes as f64, other.seconds() * 1e6])
        }
        _ => None,
    });
    let points: Vec<[f64; 2]> = points.collect();
    let between = |bytes: f64| {
        let task = Task::Collective(Collective { bytes: bytes as u64, ..of });
        (law.seconds)(&values, &task).unwrap_or(0.0)
    };
    let predicted = (!points.is_empty()).then(|| LogTable::from(points).seconds(of.bytes as f64, between));
    predicted.map(|predicted| predicted / record.seconds() - 1.0)
}
