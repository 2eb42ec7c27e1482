//! Times of collectives in a hardware file, as the tables of the catalogue have them.

use serde::{Deserialize, Serialize};

use super::Errors;
use super::estimate::Beside;
use super::hardware::rounded;
use super::laws::{Law, law_of};
use super::measure::{Collective, Record, Task};
use hw_models::collectives::{CollectiveKind, LogTable};

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
        let timed = timed(records);
        let mut tables: Vec<FoundTable> = Vec::new();
        for (record, Collective { kind, ranks, bytes }) in &timed {
            let point = [*bytes as f64, rounded(record.seconds() * 1e6)];
            match tables.iter_mut().find(|table| (table.kind, table.ranks) == (*kind, *ranks)) {
                Some(table) => table.points.push(point),
                None => tables.push(FoundTable { kind: *kind, ranks: *ranks, points: vec![point] }),
            }
        }
        tables.iter_mut().for_each(|table| table.points.sort_by(|a, b| a[0].total_cmp(&b[0])));
        let unseen = unseen(records, constants);
        let signed: Vec<f64> = unseen.iter().map(|one| one.seconds / one.record.seconds() - 1.0).collect();
        (!tables.is_empty()).then(|| Self { tables, held_out: Errors::of(&signed) })
    }
}

/// The records that judge, beside tables of the others; those of groups that have no others are left out. `constants` of the
/// laws say how times grow between sizes.
pub(super) fn unseen(records: &[Record], constants: impl Fn(&Law) -> Vec<f64>) -> Vec<Beside<'_>> {
    let timed = timed(records);
    let table = |of: &Collective| {
        let others = timed
            .iter()
            .filter(|(record, other)| !record.judges() && (other.kind, other.ranks) == (of.kind, of.ranks));
        let points: Vec<[f64; 2]> =
            others.map(|(record, other)| [other.bytes as f64, record.seconds() * 1e6]).collect();
        (!points.is_empty()).then(|| LogTable::from(points))
    };
    let one = |(record, of): &(&'_ Record, Collective)| {
        let (law, table) = (law_of(&record.of)?, table(of)?);
        let values = constants(law);
        let by_law = |bytes: f64| {
            let task = Task::Collective(Collective { bytes: bytes as u64, ..*of });
            (law.seconds)(&values, &task).unwrap_or(0.0)
        };
        Some(table.seconds(of.bytes as f64, by_law))
    };
    let judging = timed.iter().filter(|(record, _)| record.judges());
    judging
        .filter_map(|timed| Some(Beside { record: timed.0, seconds: one(timed)?, held_out: true }))
        .collect()
}

/// Collectives whose times are believed.
fn timed(records: &[Record]) -> Vec<(&Record, Collective)> {
    let collective = |record: &Record| match record.of {
        Task::Collective(collective) => Some(collective),
        _ => None,
    };
    let sound = records.iter().filter(|record| record.is_sound());
    sound.filter_map(|record| Some((record, collective(record)?))).collect()
}
