//! A whole training run: how long it is, how it survives failures, what it costs.

use std::borrow::Cow;

use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::{Amount, Count, Date, Money, Period, Rate};

/// A training run of many steps, on hardware that fails, for money. Its length is one of `tokens`,
/// `samples` and `steps`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "tokens": "15 T" }]))]
pub struct Campaign {
    /// Tokens to train on.
    pub tokens: Option<Amount>,
    /// Samples to train on.
    pub samples: Option<Amount>,
    /// Steps to train for.
    pub steps: Option<Amount>,
    /// Checkpoints, from which training restarts; none when absent.
    pub checkpoints: Option<Checkpoints>,
    /// Failures that end all ranks; none when absent.
    pub failures: Option<Failures>,
    /// Prices; without any, no cost is told.
    pub prices: Option<Prices>,
}

/// Checkpoints: parameters and states of the optimizer, each byte written by one of its replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "to": "drives" }]))]
pub struct Checkpoints {
    /// Work between two checkpoints, or `best`: the interval of least expected time.
    #[serde(default)]
    pub every: Interval,
    /// Place that they are written to.
    pub to: CheckpointStore,
    /// Training waits for the copy to host memory only; the write goes on in the background. It is
    /// assumed to slow no step.
    #[serde(default)]
    pub background: bool,
}

/// Work between two checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interval {
    /// The interval of least expected time.
    #[default]
    Best,
    /// A given time of training.
    Every(Period),
}

/// Place of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointStore {
    /// Memory of the hosts, which is assumed to outlive a failure, as with a copy on a peer.
    Host,
    /// Drives of the nodes, in the arrays of `storage`.
    Drives,
    /// A store of the cluster that all nodes together write at this rate.
    Storage(Rate),
}

/// Failures of independent parts, each exponentially distributed in time. One stops the whole job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "mean_time_between": { "node": "50000 h" }, "restart": "10 min" }]))]
pub struct Failures {
    /// Mean time between two failures of one GPU, of one node, or of the whole job.
    pub mean_time_between: MeanTime,
    /// Time from a failure to the next step: detection, replacement, start, and reading the
    /// checkpoint.
    pub restart: Period,
    /// Simulated histories, in addition to the expected time.
    #[serde(default = "histories")]
    pub seeds: Count<1, 10_000>,
}

/// Mean time between failures of a part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeanTime {
    /// Time between failures of one GPU; all GPUs with ranks count.
    Gpu(Period),
    /// Time between failures of one node; all nodes with ranks count.
    Node(Period),
    /// Time between failures of the whole job.
    Job(Period),
}

/// Prices, all in one currency. Those that are given add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("examples" = [
    { "gpu_hour": { "price": "2.49 USD", "source": "list price", "date": "2026-11-01" } }
]))]
pub struct Prices {
    /// An hour of one GPU.
    pub gpu_hour: Option<Price>,
    /// An hour of one node.
    pub node_hour: Option<Price>,
    /// 10^12 bytes of checkpoints written.
    pub terabyte_written: Option<Price>,
}

/// A price with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [
    { "price": "2.49 USD", "source": "list price", "date": "2026-11-01" }
]))]
pub struct Price {
    /// Amount and currency.
    pub price: Money,
    /// Document, contract or offer that says so.
    #[schemars(extend("examples" = ["list price"]))]
    pub source: String,
    /// Day on which it was valid.
    pub date: Date,
}

fn histories() -> Count<1, 10_000> {
    Count::literal(200)
}

impl Campaign {
    /// Lengths that are given, each by the name of its setting.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (&'static str, Amount)> {
        let all = [("tokens", self.tokens), ("samples", self.samples), ("steps", self.steps)];
        all.into_iter().filter_map(|(name, length)| Some((name, length?)))
    }

    /// Tells whether an hour of the machine has a price.
    pub(crate) fn has_price_of_time(&self) -> bool {
        self.prices.as_ref().is_some_and(|prices| prices.gpu_hour.is_some() || prices.node_hour.is_some())
    }
}

impl Prices {
    /// Prices that are given, each by the name of its setting.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &Price)> {
        let all = [
            ("gpu_hour", &self.gpu_hour),
            ("node_hour", &self.node_hour),
            ("terabyte_written", &self.terabyte_written),
        ];
        all.into_iter().filter_map(|(name, price)| Some((name, price.as_ref()?)))
    }
}

impl MeanTime {
    /// The name of its setting, and the time.
    pub(crate) fn given(self) -> (&'static str, Period) {
        match self {
            Self::Gpu(time) => ("gpu", time),
            Self::Node(time) => ("node", time),
            Self::Job(time) => ("job", time),
        }
    }
}

const BEST: &str = "best";

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Best => serializer.serialize_str(BEST),
            Self::Every(period) => period.serialize(serializer),
        }
    }
}

hw_models::deserialize_written!(Interval);

impl Written<'_> for Interval {
    fn expected() -> String {
        "`best` or a period such as `30 min`".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(BEST) => Ok(Self::Best),
            Scalar::Text(word) if word.starts_with(char::is_alphabetic) => scalar.refuse(),
            period => Period::scalar(period).map(Self::Every),
        }
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> Cow<'static, str> {
        "Interval".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let period = generator.subschema_for::<Period>();
        json_schema!({
            "description": "`best`, or a period.",
            "anyOf": [{ "type": "string", "pattern": "^best$" }, period],
            "examples": [BEST, "30 min"],
        })
    }
}
