//! Graphs as they are written: a preset, or statistics.

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_yaml::with::singleton_map_recursive;
use thiserror::Error;

use crate::degrees::Degrees;
use crate::graph::{Graph, NodeType, Relation};
use crate::laws::{EXPONENT, Law, Totals};
use crate::{presets, relations};

/// Nodes and edges that a graph may have: sums over histograms stay far below what overflows.
pub const LARGEST: u64 = 1_000_000_000_000;

/// Types of nodes or edges that a graph may have.
pub const MOST_TYPES: usize = 20_000;

/// Source of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum GraphSource {
    /// A graph that others published, by its name.
    Preset(String),
    /// Statistics of a graph, spelled out.
    Statistics(Box<Statistics>),
}

/// Statistics of a graph. A homogeneous one has `nodes` and `edges`; others `node_types` and
/// `relations`, or `estimated_relations` where only totals are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Name, for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes, where all are of one type or `estimated_node_types` splits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Nodes of each type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_types: Option<IndexMap<String, u64>>,
    /// Number of node types, where nodes of each are not known: split by Zipf's law.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_node_types: Option<u64>,
    /// Edges of a homogeneous graph, each direction counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<u64>,
    /// Every edge stands in both directions: the degrees in are those out, node by node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub symmetric: bool,
    /// Share of the edges of a homogeneous graph whose reverse stands, too: nodes with many edges
    /// in then have many out. Without it edges in and out of a node are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reciprocal: Option<f64>,
    /// Adds the reverse of every edge of a homogeneous graph, as DGL's built-in papers100M has it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub both_ways: bool,
    /// Edges into each node of a homogeneous graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_degrees: Option<DegreeSettings>,
    /// Edges out of each node of a homogeneous graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_degrees: Option<DegreeSettings>,
    /// Types of edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relations: Option<Vec<RelationSettings>>,
    /// Types of edges of which only totals are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_relations: Option<EstimatedRelations>,
    /// Nodes to train on: seeds of the mini-batches of an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_nodes: Option<u64>,
    /// True if each node to train on has an edge in, so that all seeds sample. False: an edge in or
    /// out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub training_edges_in: bool,
    /// Features of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<u64>,
    /// Share of the nodes over which the neighbourhoods of the training nodes spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<f64>,
    /// Nodes of a homogeneous graph that have no edge at all. When absent, edges in and out of a
    /// node are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<u64>,
    /// Source and confidence of each figure, by its key.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub evidence: IndexMap<String, Evidence>,
}

/// Source of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Publication, repository or rule.
    pub source: String,
    /// Confidence in the figure.
    pub confidence: Confidence,
}

/// Confidence in a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Counted on the graph itself, or documented with it.
    Counted,
    /// Read in a publication.
    High,
    /// Reported by a reader.
    Medium,
    /// Doubtful.
    Low,
    /// Fitted on a measurement that the source names.
    Fitted,
    /// Given by a rule.
    Estimate,
}

/// The word of a graph file.
impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Degrees of nodes: counted, or a law. Without them a power law of exponent 2.5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum DegreeSettings {
    /// Pairs of a degree and its nodes.
    Histogram(Vec<[u64; 2]>),
    /// A power law.
    PowerLaw(PowerLaw),
    /// Each further edge is as likely as the one before.
    Geometric(Geometric),
}

/// A power law of degrees, of which the mean is that of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerLaw {
    /// Nodes with an edge; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<u64>,
    /// Largest degree, at which the law ends. The exponent follows from it where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<u64>,
    /// Exponent, above 1; when absent, from the largest degree, or 2.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exponent: Option<f64>,
}

/// A geometric law of degrees, of which the mean is that of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Geometric {
    /// Nodes with an edge; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<u64>,
}

/// A type of edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationSettings {
    /// Name.
    pub name: String,
    /// Node type of the sources.
    pub from: String,
    /// Node type of the destinations.
    pub to: String,
    /// Edges.
    pub edges: u64,
    /// Every edge stands in both directions.
    #[serde(default, skip_serializing_if = "is_false")]
    pub symmetric: bool,
    /// Edges into each destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_degrees: Option<DegreeSettings>,
    /// Edges out of each source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_degrees: Option<DegreeSettings>,
}

/// Types of edges of which totals are known; the rest is estimated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EstimatedRelations {
    /// Number of types, over which Zipf's law splits `edges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Edges of all types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<u64>,
    /// Edges of each type, instead of `count` and `edges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges_each: Option<Vec<u64>>,
    /// Distinct pairs of a source and a type; when absent, as many for an edge as FB15k-237 has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_pairs: Option<u64>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A statistic that is wrong, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{setting}` {fault}: {remedy}")]
pub struct Problem {
    /// Path of the setting.
    pub setting: String,
    /// Fault, which continues the setting.
    pub fault: String,
    /// Remedy.
    pub remedy: String,
}

impl Problem {
    pub(crate) fn new(
        setting: impl Into<String>,
        fault: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { setting: setting.into(), fault: fault.into(), remedy: remedy.into() }
    }
}

impl GraphSource {
    /// The graph.
    ///
    /// # Errors
    /// The first of [`problems`](Self::problems).
    pub fn graph(&self) -> Result<Graph, Problem> {
        match self {
            Self::Preset(name) => presets::preset(name)?.graph(),
            Self::Statistics(statistics) => statistics.graph(),
        }
    }

    /// All that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            Self::Preset(name) => presets::preset(name).err().into_iter().collect(),
            Self::Statistics(statistics) => statistics.problems(),
        }
    }
}

/// Reads YAML in which choices are maps of one key.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_yaml::Error> {
    singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(text))
}

impl Statistics {
    /// Reads a graph file.
    ///
    /// # Errors
    /// If it is not YAML of these keys.
    pub fn read(text: &str) -> Result<Self, Problem> {
        parse(text).map_err(|error| {
            let remedy = "write it with `foretrain import graph`";
            Problem::new("file", format!("is no graph file ({error})"), remedy)
        })
    }

    /// The text of a graph file.
    pub fn write(&self) -> String {
        let mut text = Vec::new();
        let mut serializer = serde_yaml::Serializer::new(&mut text);
        singleton_map_recursive::serialize(self, &mut serializer).expect("plain maps, lists and numbers");
        pairs_in_line(&String::from_utf8(text).expect("YAML is UTF-8"))
    }

    /// The graph.
    ///
    /// # Errors
    /// The first of [`problems`](Self::problems).
    pub fn graph(&self) -> Result<Graph, Problem> {
        match self.problems().into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(self.checked()),
        }
    }

    /// All that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        crate::checks::problems(self)
    }

    /// The graph of statistics without problems.
    fn checked(&self) -> Graph {
        let node_types = self.types();
        let places = places(&node_types);
        let relations = match (&self.relations, &self.estimated_relations) {
            (Some(written), _) => written.iter().map(|of| of.relation(&places)).collect(),
            (None, Some(estimated)) => relations::estimated(estimated, &node_types),
            (None, None) => {
                let mut relation = self.homogeneous().relation(&places);
                relation.reciprocal = self.reciprocal.unwrap_or(relation.reciprocal);
                vec![if self.both_ways { relation.both_ways(self.isolated) } else { relation }]
            }
        };
        Graph {
            name: self.name.clone().unwrap_or_else(|| "graph".to_owned()),
            node_types,
            relations,
            training_nodes: self.training_nodes,
            training_edges_in: self.training_edges_in,
            feature_width: self.features,
            reach: self.reach,
            isolated: self.isolated.filter(|_| self.edges.is_some() && !self.symmetric),
        }
    }

    /// Node types, estimated where only their number is known.
    pub(crate) fn types(&self) -> Vec<NodeType> {
        let of = |(name, nodes): (&String, &u64)| NodeType { name: name.clone(), nodes: *nodes };
        match (&self.node_types, self.estimated_node_types) {
            (Some(types), _) => types.iter().map(of).collect(),
            (None, Some(count)) => relations::node_types(self.nodes.unwrap_or_default(), count),
            (None, None) => {
                vec![NodeType { name: "node".to_owned(), nodes: self.nodes.unwrap_or_default() }]
            }
        }
    }

    /// The one relation of a homogeneous graph.
    pub(crate) fn homogeneous(&self) -> RelationSettings {
        RelationSettings {
            name: "edge".to_owned(),
            from: "node".to_owned(),
            to: "node".to_owned(),
            edges: self.edges.unwrap_or_default(),
            symmetric: self.symmetric,
            in_degrees: self.in_degrees.clone(),
            out_degrees: self.out_degrees.clone(),
        }
    }
}

/// Place and nodes of each node type, by name.
pub(crate) fn places(types: &[NodeType]) -> BTreeMap<&str, (usize, u64)> {
    types.iter().enumerate().map(|(place, of)| (&*of.name, (place, of.nodes))).collect()
}

/// YAML with each pair of a histogram in one line instead of two.
fn pairs_in_line(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let second = lines.peek().and_then(|next| next.trim_start().strip_prefix("- "));
        match (line.split_once("- - "), second) {
            (Some((indent, first)), Some(second)) => {
                joined.push_str(&format!("{indent}- [{first}, {second}]\n"));
                lines.next();
            }
            _ => {
                joined.push_str(line);
                joined.push('\n');
            }
        }
    }
    joined
}

impl RelationSettings {
    fn relation(&self, places: &BTreeMap<&str, (usize, u64)>) -> Relation {
        let ((source, from), (destination, to)) = (places[&*self.from], places[&*self.to]);
        let default = DegreeSettings::PowerLaw(PowerLaw::default());
        let settings = |degrees: &Option<DegreeSettings>| degrees.clone().unwrap_or(default.clone());
        let mirrored = self.in_degrees.as_ref().or(self.out_degrees.as_ref()).filter(|_| self.symmetric);
        let [into, out] = match mirrored {
            Some(degrees) => [degrees.clone(), degrees.clone()],
            None => [settings(&self.in_degrees), settings(&self.out_degrees)],
        };
        let in_degrees = into.degrees(to, self.edges, from);
        let out_degrees = out.degrees(from, self.edges, to);
        Relation {
            name: self.name.clone(),
            source,
            destination,
            edges: self.edges,
            sources: out_degrees.connected(),
            destinations: in_degrees.connected(),
            in_degrees,
            out_degrees,
            reciprocal: if self.symmetric { 1.0 } else { 0.0 },
        }
    }
}

impl DegreeSettings {
    /// Nodes with an edge among `nodes`.
    pub(crate) fn connected(&self, nodes: u64, edges: u64) -> u64 {
        let connected = match self {
            Self::Histogram(counts) => {
                return counts.iter().filter(|[degree, _]| *degree > 0).map(|[_, nodes]| nodes).sum();
            }
            Self::PowerLaw(law) => law.connected,
            Self::Geometric(law) => law.connected,
        };
        connected.unwrap_or(nodes.min(edges))
    }

    fn degrees(&self, nodes: u64, edges: u64, partners: u64) -> Degrees {
        let connected = self.connected(nodes, edges);
        let totals = Totals { isolated: nodes - connected, connected, edges, partners };
        match self {
            Self::Histogram(counts) => Degrees::exact(counts.iter().map(|&[degree, nodes]| (degree, nodes))),
            Self::PowerLaw(law) => match (law.exponent, law.largest) {
                (Some(exponent), Some(largest)) => Law::PowerCut { exponent, largest },
                (None, Some(largest)) => Law::PowerUpTo { largest },
                (exponent, None) => Law::Power { exponent: exponent.unwrap_or(EXPONENT) },
            }
            .degrees(totals),
            Self::Geometric(_) => Law::Geometric.degrees(totals),
        }
    }
}
