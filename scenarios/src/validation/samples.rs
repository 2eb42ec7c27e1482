//! Graphs: rows of a mini-batch, what caches serve of them, and distinct pairs.

use calibration::Row as Cells;
use graphs::cache::{Policy, Reads};
use graphs::sampling::{Batch, Hop, expected};
use graphs::{Graph, GraphSource};
use indexmap::IndexMap;
use reports::validation::{Row, Unit};
use serde::Deserialize;

use super::set::{Known, NotJudged};
use super::settings::{number, of_column};
use super::{Judged, cells, embedded};

/// A table of figures of graphs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleTable {
    /// The table.
    pub(super) data: String,
    /// The part of the set that a row is in.
    part: Known,
    /// Kind of the figure.
    figure: Figure,
    /// The column with the figure.
    measured: String,
    /// The graph: a preset.
    graph: Known,
    /// Seeds of a mini-batch.
    seeds: Option<Known>,
    /// Neighbours of each hop, from the seeds outward: `15-10-5`.
    fan_out: Option<Known>,
    /// Policy of a cache: `random`, `degree`, `presample_1`.
    policy: Option<Known>,
    /// The column with the share of the rows that is cached (%).
    percent: Option<String>,
    /// The columns that say what was measured.
    inputs: Vec<String>,
    /// Rows that are not judged.
    #[serde(default)]
    left_out: Vec<NotJudged>,
}

/// A figure of a graph.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    /// Distinct rows of a mini-batch.
    Rows,
    /// Hits of a cache (%).
    Hits,
    /// Hits of the best cache (%).
    BestHits,
    /// Distinct pairs of a source and a type.
    Pairs,
}

/// The rows of a table.
pub(super) fn judged(table: &SampleTable) -> Vec<Judged> {
    let embedded = embedded::table(&table.data);
    let judged = |row: Cells<'_>| {
        let cells = cells(embedded.columns(), &row);
        let told = cells.iter().filter(|(column, _)| table.inputs.contains(column));
        Judged {
            part: table.part.of(&cells).unwrap_or_else(|_| "left out".to_owned()),
            place: format!("{}:{}", table.data, row.line()),
            inputs: told.map(|(column, value)| (column.clone(), value.clone())).collect(),
            row: table.compared(&cells),
        }
    };
    embedded.rows().map(judged).collect()
}

impl SampleTable {
    /// Measured and predicted figures of a row.
    fn compared(&self, cells: &IndexMap<String, String>) -> Result<Row, String> {
        if let Some(row) = self.left_out.iter().find(|row| row.says(cells)) {
            return Err(row.because.clone());
        }
        let name = self.graph.of(cells)?;
        let graph = GraphSource::Preset(name).graph().map_err(|problem| problem.to_string())?;
        let measured = number(cells, &self.measured)?;
        let (unit, measured, predicted) = match self.figure {
            Figure::Pairs => (Unit::Count, measured, graph.distinct_pairs() as f64),
            Figure::Rows => {
                let rows = self.batch(cells, |batch| expected(&graph, batch).last().map_or(0.0, Hop::rows));
                (Unit::Count, measured, rows?)
            }
            Figure::Hits => (Unit::Share, measured / 100.0, self.hits(cells, &graph, self.policy(cells)?)?),
            Figure::BestHits => (Unit::Share, measured / 100.0, self.hits(cells, &graph, Policy::Optimal)?),
        };
        Ok(Row { unit, measured, predicted, ..Row::default() })
    }

    fn hits(&self, cells: &IndexMap<String, String>, graph: &Graph, policy: Policy) -> Result<f64, String> {
        let percent = number(cells, self.percent.as_deref().unwrap_or_default())?;
        let reads = self.batch(cells, |batch| Reads::of(graph, batch))?;
        let reads = reads.map_err(|problem| problem.to_string())?;
        Ok(reads.hit_rate(policy, percent / 100.0))
    }

    fn policy(&self, cells: &IndexMap<String, String>) -> Result<Policy, String> {
        let policy = known(self.policy.as_ref(), "policy", cells)?;
        match (policy.as_str(), policy.strip_prefix("presample_").map(str::parse)) {
            ("random", _) => Ok(Policy::Random),
            ("degree", _) => Ok(Policy::Degree),
            (_, Some(Ok(epochs))) => Ok(Policy::Presample { epochs }),
            _ => Err(format!("`{policy}` is no policy")),
        }
    }

    fn batch<T>(&self, cells: &IndexMap<String, String>, of: impl Fn(Batch<'_>) -> T) -> Result<T, String> {
        let whole = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no whole number"));
        let seeds = whole(&known(self.seeds.as_ref(), "seeds", cells)?)?;
        let fan_out = known(self.fan_out.as_ref(), "fan_out", cells)?;
        let fan_out = fan_out.split('-').map(whole).collect::<Result<Vec<_>, _>>()?;
        Ok(of(Batch { seeds, seed_type: 0, fan_out: &fan_out }))
    }
}

fn known(known: Option<&Known>, name: &str, cells: &IndexMap<String, String>) -> Result<String, String> {
    match known {
        Some(known) => known.of(cells),
        None => of_column(cells, name).map(str::to_owned),
    }
}
