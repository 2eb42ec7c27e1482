//! Execution modes: four independent choices, and names for common settings of them.
//!
//! | mode | captured | launched | kernels | Python beside the graph |
//! |---|---|---|---|---|
//! | `eager` | nothing | by kernel | of the library | |
//! | `cuda-graphs` | static visits | by graph | of the library | |
//! | `static` | the whole program, or refusal | by kernel | merged | |
//! | `lazy` | from barrier to barrier | by kernel | merged | |
//! | `compiled` | regions between breaks | by kernel | merged | |
//! | `compiled-graphs` | the same | by graph | merged | |
//! | `co-execution` | a graph of all traces | by kernel | merged | yes |

use std::borrow::Cow;

use hw_models::settings::Count;
use hw_models::settings::written::{Scalar, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// How a program is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The mode.
    pub mode: Mode,
    /// How its work is launched.
    pub launch: LaunchedBy,
    /// Which kernels it executes.
    pub kernels: Kernels,
    /// Choices that only co-execution has.
    pub beside: Beside,
}

/// Execution mode: the part of a program that is captured, and when.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: operators are dispatched one by one.
    #[default]
    Eager,
    /// Forward pass, backward pass and update, each as one graph, replayed.
    CudaGraphs,
    /// The whole program, converted once; what cannot be converted is refused.
    Static,
    /// Operators are recorded and executed when a value is read, or at the end of the iteration.
    Lazy,
    /// Regions between what cannot be compiled, with guards.
    Compiled,
    /// Regions between breaks, each launched as one graph.
    CompiledGraphs,
    /// A graph of all traces, which a thread executes while Python runs on.
    CoExecution,
}

/// How kernels are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchedBy {
    /// One by one.
    Kernel,
    /// As one graph between two waits of the host.
    Graph,
}

/// Kernels that are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kernels {
    /// One for each operator.
    Library,
    /// Passes over memory merged.
    Merged,
}

/// How Python and the graph run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// True if they run at the same time.
    pub overlap: bool,
    /// Graphs that may be under way when Python begins an iteration.
    pub depth: u32,
    /// Loops whose trips vary.
    pub loops: Loops,
    /// An iteration that no trace has.
    pub fall_back: FallBack,
}

/// Loops whose trips vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Loops {
    /// One node, whose condition Python feeds.
    Rolled,
    /// As many nodes as trips: other trips are another trace.
    Unrolled,
}

/// How an iteration goes on that no trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FallBack {
    /// It is repeated eagerly from its start, with what the graph updated restored.
    Replay,
    /// The graph goes on to where Python is, and the rest runs eagerly.
    Continue,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Eager,
        Self::CudaGraphs,
        Self::Static,
        Self::Lazy,
        Self::Compiled,
        Self::CompiledGraphs,
        Self::CoExecution,
    ];

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::CudaGraphs => "cuda-graphs",
            Self::Static => "static",
            Self::Lazy => "lazy",
            Self::Compiled => "compiled",
            Self::CompiledGraphs => "compiled-graphs",
            Self::CoExecution => "co-execution",
        }
    }
}

impl Execution {
    /// A mode with its usual choices.
    pub const fn of(mode: Mode) -> Self {
        let beside = Beside { overlap: true, depth: 1, loops: Loops::Rolled, fall_back: FallBack::Replay };
        let launch = match mode {
            Mode::CudaGraphs | Mode::CompiledGraphs => LaunchedBy::Graph,
            _ => LaunchedBy::Kernel,
        };
        let kernels = match mode {
            Mode::Eager | Mode::CudaGraphs => Kernels::Library,
            _ => Kernels::Merged,
        };
        Self { mode, launch, kernels, beside }
    }
}

impl Execution {
    /// True if a plan without a program can be executed so: its passes are captured as they are, or
    /// its layers compiled.
    pub fn suits_a_plan(self) -> bool {
        let modes = [Mode::Eager, Mode::CudaGraphs, Mode::Compiled, Mode::CompiledGraphs];
        modes.into_iter().any(|mode| self == Self::of(mode))
    }

    /// True if what is captured is Python again, which a compiler has written.
    pub(super) const fn enters_regions(self) -> bool {
        matches!(self.mode, Mode::Compiled | Mode::CompiledGraphs)
    }
}

impl Default for Execution {
    fn default() -> Self {
        Self::of(Mode::Eager)
    }
}

/// Choices of a mode as they are written; those left out are the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "ExecutionChoices")]
struct Choices {
    /// How kernels are launched.
    #[serde(skip_serializing_if = "Option::is_none")]
    launch: Option<LaunchedBy>,
    /// Kernels that are executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels: Option<Kernels>,
    /// Co-execution: whether Python and the graph run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<bool>,
    /// Co-execution: graphs that may be under way when Python begins an iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<Count<0, 16>>,
    /// Co-execution: loops whose trips vary.
    #[serde(skip_serializing_if = "Option::is_none")]
    loops: Option<Loops>,
    /// Co-execution: how an iteration goes on that no trace has.
    #[serde(skip_serializing_if = "Option::is_none")]
    fall_back: Option<FallBack>,
}

hw_models::deserialize_written!(Execution);

impl<'de> Written<'de> for Execution {
    fn expected() -> String {
        let names = Mode::ALL.map(|mode| format!("`{}`", mode.name()));
        format!("{}, or one with choices such as `compiled: {{ launch: graph }}`", names.join(", "))
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        let mode =
            Mode::ALL.into_iter().find(|mode| matches!(scalar, Scalar::Text(text) if text == mode.name()));
        mode.map(Self::of).map_or_else(|| scalar.refuse(), Ok)
    }

    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let Some((mode, choices)) = map.next_entry::<Mode, Choices>()? else {
            return Err(A::Error::custom(format!("must be {}", Self::expected())));
        };
        if let Some(other) = map.next_key::<Mode>()? {
            return Err(A::Error::custom(format!("has a second mode, `{}`: write one", other.name())));
        }
        let usual = Self::of(mode);
        let Choices { launch, kernels, overlap, depth, loops, fall_back } = choices;
        let only_beside = overlap.is_some() || depth.is_some() || loops.is_some() || fall_back.is_some();
        if only_beside && mode != Mode::CoExecution {
            let problem =
                "`overlap`, `depth`, `loops` and `fall_back` are choices of `co-execution`: leave them out";
            return Err(A::Error::custom(problem));
        }
        if mode == Mode::Eager && choices != Choices::default() {
            let problem =
                "`eager` launches a kernel for each operator: choose another mode, or leave the choices out";
            return Err(A::Error::custom(problem));
        }
        let beside = Beside {
            overlap: overlap.unwrap_or(usual.beside.overlap),
            depth: depth.map_or(usual.beside.depth, |depth| depth.get() as u32),
            loops: loops.unwrap_or(usual.beside.loops),
            fall_back: fall_back.unwrap_or(usual.beside.fall_back),
        };
        let (launch, kernels) = (launch.unwrap_or(usual.launch), kernels.unwrap_or(usual.kernels));
        Ok(Self { mode, launch, kernels, beside })
    }
}

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let usual = Self::of(self.mode);
        if *self == usual {
            return serializer.serialize_str(self.mode.name());
        }
        let Beside { overlap, depth, loops, fall_back } = self.beside;
        let choices = Choices {
            launch: (self.launch != usual.launch).then_some(self.launch),
            kernels: (self.kernels != usual.kernels).then_some(self.kernels),
            overlap: (overlap != usual.beside.overlap).then_some(overlap),
            depth: (depth != usual.beside.depth).then(|| Count::new(depth.into())).flatten(),
            loops: (loops != usual.beside.loops).then_some(loops),
            fall_back: (fall_back != usual.beside.fall_back).then_some(fall_back),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.mode.name(), &choices)?;
        map.end()
    }
}

impl JsonSchema for Execution {
    fn schema_name() -> Cow<'static, str> {
        "Execution".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (mode, choices) = (generator.subschema_for::<Mode>(), generator.subschema_for::<Choices>());
        json_schema!({
            "description": "A mode, or a mode with its choices.",
            "anyOf": [
                mode,
                {
                    "type": "object",
                    "propertyNames": { "enum": Mode::ALL.map(Mode::name) },
                    "additionalProperties": choices,
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            ],
        })
    }
}
