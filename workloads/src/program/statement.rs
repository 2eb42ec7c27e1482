//! Programs as they are written: statements over the operators of a model, run in every iteration.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use hw_models::settings::written::{Scalar, Written};
use hw_models::settings::{Bytes, Count, Duration, Share};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Error, SeqAccess};
use serde::ser::{Serialize, Serializer};

/// A program over the operators of a model: what settings say beside that model.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Operators that `run` may name, in addition to those of the model.
    pub fragments: &'a IndexMap<String, Fragment>,
    /// Source of batches; if not given, they are in the memory of the GPU.
    pub loader: Option<&'a BatchLoader>,
    /// Statements of each iteration, in order.
    pub iteration: &'a [Statement],
}

/// Elementwise operators that follow each other on a tensor.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fragment {
    /// Operators in the forward pass; compiled they are one kernel.
    pub operators: Count<1, 10_000>,
    /// Operators of their backward pass, which the backward pass executes where the fragment ran.
    #[serde(default = "none")]
    pub backward: Count<0, 10_000>,
    /// Size of the tensor, which each operator reads and writes.
    pub bytes: Bytes,
}

/// A loader of batches.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchLoader {
    /// Time of a processor to make a batch.
    #[schemars(extend("examples" = ["60 ms"]))]
    pub time: Duration,
    /// Size of a batch, which is copied to the GPU.
    pub bytes: Bytes,
    /// Processes that make batches; with 0 the main thread makes each on demand.
    #[serde(default = "no_worker")]
    pub workers: Count<0, 64>,
    /// Batches that each worker makes ahead (`prefetch_factor` of PyTorch).
    #[serde(default = "two")]
    pub prefetch: Count<1, 64>,
    /// True if batches are in page-locked memory: their copies do not block the host.
    #[serde(default)]
    pub pinned: bool,
}

const fn none() -> Count<0, 10_000> {
    Count::literal(0)
}

const fn no_worker() -> Count<0, 64> {
    Count::literal(0)
}

const fn two() -> Count<1, 64> {
    Count::literal(2)
}

/// A statement of a program.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// Hands a batch or a number of Python's to the device.
    Feed(Feed),
    /// Runs operators: `forward`, `forward 0..8` (some of its blocks), `backward` of all that ran
    /// forward, `update`, or a fragment; one or a list.
    Run(Runs),
    /// Time of the interpreter that a compiler of Python can trace.
    Python(Duration),
    /// A call of a library that no compiler of Python sees into.
    ThirdParty(ThirdParty),
    /// Changes an attribute of a Python object, by name.
    Mutate(String),
    /// Reads the value of a tensor.
    Fetch(Fetch),
    /// Takes one of two ways.
    Branch(Branch),
    /// Repeats statements.
    Loop(Loop),
    /// Statements that handle exceptions.
    Try(Vec<Statement>),
    /// Statements of a generator, which yields after them.
    Generator(Vec<Statement>),
}

impl Statement {
    /// Lists of statements within it, each with its path from the statement.
    pub fn lists(&self) -> Vec<(&'static str, &[Self])> {
        match self {
            Self::Branch(branch) => vec![("branch.then", &branch.then), ("branch.else", &branch.otherwise)],
            Self::Loop(it) => vec![("loop.body", &it.body)],
            Self::Try(body) => vec![("try", body)],
            Self::Generator(body) => vec![("generator", body)],
            _ => Vec::new(),
        }
    }
}

impl Branch {
    /// A probability of 1.
    pub const WHOLE: u64 = 1_000_000_000;

    /// True if Python decides it by itself.
    pub fn is_by_host(&self) -> bool {
        self.by == HOST
    }

    /// True if some iteration may take `then`, and whether some may take `else`.
    pub fn may_take(&self) -> [bool; 2] {
        [self.probability.billionths() > 0, self.probability.billionths() < Self::WHOLE]
    }
}

/// Something that Python hands over.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Feed {
    /// The batch of the loader.
    pub batch: bool,
    /// A number, by name.
    pub scalar: Option<String>,
}

/// A call of a library.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThirdParty {
    /// Time it takes.
    pub time: Duration,
    /// True if it holds the interpreter lock; NumPy gives it up in long calls.
    #[serde(default = "yes")]
    pub holds_lock: bool,
}

const fn yes() -> bool {
    true
}

/// A value that Python reads.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// `loss`, the end of the forward pass; `gradients`, the end of the backward pass; or the result
    /// of a fragment.
    pub tensor: String,
    /// In which iterations: `always` or `every 10`.
    #[serde(default)]
    pub when: When,
}

/// A choice between two ways.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// Decides it: `host`, an attribute of Python's; or a tensor, whose value Python reads.
    #[serde(default = "host")]
    pub by: String,
    /// Share of the iterations that take `then`, drawn before the run.
    pub probability: Share,
    /// Statements of the first way.
    #[serde(default)]
    pub then: Vec<Statement>,
    /// Statements of the other way.
    #[serde(default, rename = "else")]
    pub otherwise: Vec<Statement>,
}

/// Decider of a branch that Python takes by itself.
pub const HOST: &str = "host";

fn host() -> String {
    HOST.to_owned()
}

/// Statements that are repeated.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Its name.
    pub name: String,
    /// How often: a number, or the least and the most of numbers drawn before the run.
    pub trips: Trips,
    /// Its statements.
    pub body: Vec<Statement>,
}

/// A number of iterations, or the distance between some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Distance in iterations; at least 1.
    pub every: u32,
}

/// Trips of a loop: at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trips {
    /// Least.
    pub least: u32,
    /// Most.
    pub most: u32,
}

/// Operators to run, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs(pub Vec<Runnable>);

/// Operators to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runnable {
    /// The forward pass, or some of its blocks: from, to and not including.
    Forward(Option<(u32, u32)>),
    /// The backward pass of all that ran forward.
    Backward,
    /// The update.
    Update,
    /// A fragment, by name.
    Fragment(String),
}

/// Trips that a loop may have: enough for tokens of a sequence.
const TRIPS_MAX: u32 = 4_096;

impl Default for When {
    fn default() -> Self {
        Self { every: 1 }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.every {
            1 => f.write_str("always"),
            every => write!(f, "every {every}"),
        }
    }
}

impl FromStr for When {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "always" {
            return Ok(Self::default());
        }
        let every = text.strip_prefix("every ").and_then(|number| number.trim().parse().ok());
        every.filter(|&every| every > 0).map(|every| Self { every }).ok_or(())
    }
}

impl fmt::Display for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(None) => f.write_str("forward"),
            Self::Forward(Some((from, to))) => write!(f, "forward {from}..{to}"),
            Self::Backward => f.write_str("backward"),
            Self::Update => f.write_str("update"),
            Self::Fragment(name) => f.write_str(name),
        }
    }
}

impl FromStr for Runnable {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "forward" => Self::Forward(None),
            "backward" => Self::Backward,
            "update" => Self::Update,
            _ => match text.strip_prefix("forward ") {
                Some(range) => {
                    let (from, to) = range.split_once("..").ok_or(())?;
                    let number = |text: &str| text.trim().parse().map_err(|_| ());
                    Self::Forward(Some((number(from)?, number(to)?)))
                }
                None if text.is_empty() => return Err(()),
                None => Self::Fragment(text.to_owned()),
            },
        })
    }
}

hw_models::deserialize_written!(When, Trips, Runs, Runnable);

impl<'de> Written<'de> for When {
    fn expected() -> String {
        "`always`, or `every 10` for each tenth iteration".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(text) => text.parse().or_else(|()| scalar.refuse()),
            _ => scalar.refuse(),
        }
    }
}

impl<'de> Written<'de> for Runnable {
    fn expected() -> String {
        "`forward`, `forward 0..8`, `backward`, `update` or the name of a fragment".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(text) => text.parse().or_else(|()| scalar.refuse()),
            _ => scalar.refuse(),
        }
    }
}

impl<'de> Written<'de> for Runs {
    fn expected() -> String {
        format!("{}, or a list of them", Runnable::expected())
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(text) => text.parse().map(|run| Self(vec![run])).or_else(|()| scalar.refuse()),
            _ => scalar.refuse(),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Self)
    }
}

impl<'de> Written<'de> for Trips {
    fn expected() -> String {
        format!("a number of trips up to {TRIPS_MAX}, or the least and the most such as `[1, 5]`")
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Integer(trips) if (0..=i128::from(TRIPS_MAX)).contains(&trips) => {
                Ok(Self { least: trips as u32, most: trips as u32 })
            }
            _ => scalar.refuse(),
        }
    }

    fn list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        let bounds: Vec<Count<0, 4_096>> = Vec::deserialize(SeqAccessDeserializer::new(items))?;
        match bounds[..] {
            [least, most] if least.get() <= most.get() => {
                Ok(Self { least: least.get() as u32, most: most.get() as u32 })
            }
            _ => Err(A::Error::custom(format!("must be {}", Self::expected()))),
        }
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Runnable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [run] => run.serialize(serializer),
            runs => runs.serialize(serializer),
        }
    }
}

impl Serialize for Trips {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.least, self.most) {
            (least, most) if least == most => least.serialize(serializer),
            bounds => bounds.serialize(serializer),
        }
    }
}

/// Schemas of the types that are written in several ways.
macro_rules! schemas {
    ($($kind:ident: $schema:tt),+ $(,)?) => {
        $(impl JsonSchema for $kind {
            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })+
    };
}

schemas! {
    When: { "description": "`always`, or `every 10`: each tenth iteration.", "type": "string", "pattern": "^(always|every [1-9][0-9]*)$" },
    Trips: {
        "description": "A number of trips, or the least and the most.",
        "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": TRIPS_MAX },
            { "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": TRIPS_MAX }, "minItems": 2, "maxItems": 2 },
        ],
    },
    Runs: {
        "description": "`forward`, `forward 0..8`, `backward`, `update`, the name of a fragment, or a list of them.",
        "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
    },
}
