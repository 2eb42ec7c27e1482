//! What must hold (`expect`) and what others published (`published`).
//!
//! Both say the same kinds of things; a promise that fails changes the exit code, a citation never does.

mod evaluate;
pub mod metric;
mod read;
mod selector;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

pub use metric::Metric;
pub(crate) use read::{Names, read};
pub use selector::{Range, Selector};

use crate::schema::{Figure, Share};
use crate::text::source::Mark;

/// A statement about runs, and the point of the sweep it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// What is stated.
    pub statement: Statement,
    /// Swept paths and the values they have where the statement is about; empty for "wherever".
    pub at: BTreeMap<String, String>,
    /// Where others published it; citations have one.
    pub source: Option<String>,
    /// Where it is written.
    pub mark: Mark,
}

/// The kinds of statements; each is known by its first key.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum Statement {
    /// `{ faster: S, than: S, by: [lo, hi] }`
    Faster(Faster),
    /// `{ less: S, than: S, metric: M, by: [lo, hi] }`
    Less(Less),
    /// `{ order: [S, S, ...], metric: M }`
    Order(Order),
    /// `{ equal: S, to: S, metric: M, within: 2 % }`
    Equal(Equal),
    /// `{ metric: M, of: S, between: [lo, hi] }` or `{ metric: M, of: S, is: x, within: 2 % }`
    Value(MetricValue),
    /// `{ fits: S }`
    Fits(Fits),
    /// `{ does_not_fit: S, because: gpu-memory }`
    DoesNotFit(DoesNotFit),
}

/// One run has a higher throughput than another.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Faster {
    /// Faster run.
    pub faster: Selector,
    /// Slower run.
    pub than: Selector,
    /// Least and greatest ratio of the throughputs; any above 1 when absent.
    #[serde(default)]
    pub by: Option<Range>,
    /// Axes of the sweep over whose values the ratio is averaged, where both have a result. At each
    /// value a run is the best over the other axes. Without axes: the ratio of the best of all.
    #[serde(default)]
    pub mean_over: Vec<String>,
    /// Axes of the sweep over whose values the largest ratio is taken, where both have a result.
    /// The promise then names these values and the causes of the time gained. It excludes
    /// `mean_over`.
    #[serde(default)]
    pub most_over: Vec<String>,
}

impl Faster {
    /// Axes whose values are compared each by itself.
    fn axes(&self) -> &[String] {
        if self.mean_over.is_empty() { &self.most_over } else { &self.mean_over }
    }
}

/// One run has less of a metric than another.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Less {
    /// Run with less of the metric.
    pub less: Selector,
    /// Run that it is compared with.
    pub than: Selector,
    /// Figure that is compared.
    pub metric: Metric,
    /// Least and greatest saving, as a share of the other run's metric (`[28 %, 40 %]`); any saving
    /// when absent.
    #[serde(default)]
    pub by: Option<Range>,
    /// Axes of the sweep over whose values the saving is averaged, as for `faster`.
    #[serde(default)]
    pub mean_over: Vec<String>,
}

/// Runs in ascending order of a metric.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Runs, the smallest value first; no two values are equal.
    pub order: Vec<Selector>,
    /// Figure that is compared.
    pub metric: Metric,
}

/// Two runs have the same value of a metric.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Equal {
    /// One run.
    pub equal: Selector,
    /// The other run.
    pub to: Selector,
    /// Figure that is compared.
    pub metric: Metric,
    /// Greatest difference, relative to the second run; none when absent.
    #[serde(default)]
    pub within: Option<Share>,
}

/// A metric has a certain value, or one in a range.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricValue {
    /// The metric.
    pub metric: Metric,
    /// The run.
    pub of: Selector,
    /// Least and greatest value.
    #[serde(default)]
    pub between: Option<Range>,
    /// The value.
    #[serde(default)]
    pub is: Option<Figure>,
    /// Greatest distance of the value from `is`, relative to it; none when absent.
    #[serde(default)]
    pub within: Option<Share>,
}

/// Runs fit into memory and reach their end.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fits {
    /// The runs; with a list, at least one fits.
    pub fits: Selector,
}

/// Runs do not reach their end.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DoesNotFit {
    /// The runs; with a list, none fits.
    pub does_not_fit: Selector,
    /// Reason why they do not run.
    #[serde(default)]
    pub because: Option<Cause>,
}

/// Why a run does not reach its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The memory of a device is too small.
    GpuMemory,
    /// Stages wait for each other for ever.
    Deadlock,
    /// A limit on activities was reached.
    Limit,
    /// The sizes do not multiply.
    Infeasible,
}

impl Expectation {
    /// True for a statement that runs do not reach their end.
    pub fn says_does_not_fit(&self) -> bool {
        matches!(self.statement, Statement::DoesNotFit(_))
    }

    /// The variants it is about.
    pub fn variants(&self) -> Vec<&str> {
        let selectors: Vec<&Selector> = match &self.statement {
            Statement::Faster(faster) => vec![&faster.faster, &faster.than],
            Statement::Less(less) => vec![&less.less, &less.than],
            Statement::Order(order) => order.order.iter().collect(),
            Statement::Equal(equal) => vec![&equal.equal, &equal.to],
            Statement::Value(value) => vec![&value.of],
            Statement::Fits(fits) => vec![&fits.fits],
            Statement::DoesNotFit(fits) => vec![&fits.does_not_fit],
        };
        selectors.into_iter().flat_map(|selector| selector.variants.iter().map(String::as_str)).collect()
    }
}
