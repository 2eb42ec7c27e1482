//! Settings of a machine: nodes of the catalogue, or parts that are spelled out.

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess};
use serde::{Deserialize, Serialize};

use crate::settings::written::{Scalar, Written};
use crate::settings::{Bytes, Count, Power, Rate, Share, first_seed};

use super::described::{Choice, DriveSettings, GpuSettings, LinkSettings};

/// Machine that a model is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Machine")]
pub enum Settings {
    /// Nodes of the catalogue, and a network between them.
    Cluster(Cluster),
    /// One node of the catalogue.
    Node(SingleNode),
    /// A machine whose parts and links are spelled out.
    Parts(Box<Parts>),
}

impl Settings {
    /// Their path in a scenario.
    pub const fn path(&self) -> &'static str {
        match self {
            Self::Cluster(_) => "machine.cluster",
            Self::Node(_) => "machine.node",
            Self::Parts(_) => "machine.parts",
        }
    }
}

/// Nodes of the catalogue, and a network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name of the node in the catalogue; `foretrain list machines` has them.
    #[schemars(extend("examples" = ["dgx-a100-80g"]))]
    pub node: String,
    /// Number of nodes; at most 131,072 GPUs.
    pub count: Count<1, 131_072>,
    /// Name of the network in the catalogue; the node's usual one when absent.
    #[schemars(extend("examples" = ["hdr200-fat-tree"]))]
    pub fabric: Option<String>,
    /// How messages between leaves of the network find a way.
    #[serde(default, skip_serializing_if = "Routing::is_non_blocking")]
    pub routing: Routing,
    /// Another GPU than the node's own: its name in the catalogue, or a map that describes it.
    #[schemars(extend("examples" = ["a100-sxm4-80gb"]))]
    pub gpu: Option<Choice<GpuSettings>>,
    /// Parts of each node that differ from the catalogue: `gpu`, `nic`, `ssd`, `switch`, `socket` and
    /// `memory` name all of a kind, `gpu[3]` a single one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub set: IndexMap<String, PartSettings>,
    /// Nodes of other kinds behind the first ones, group after group. All have as many GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [[{ "node": "dgx-1v-32g", "count": 2 }]]))]
    pub more: Vec<MoreNodes>,
    /// Slow parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degrade: Vec<Degrade>,
}

/// How messages between leaves of a network find a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// All uplinks of a leaf are one: only oversubscription limits. So adaptive routing nearly
    /// works.
    #[default]
    NonBlocking,
    /// All messages between two interfaces take one uplink, chosen by a hash, as static routes and
    /// ECMP do: those that meet on one share it. For fat trees.
    #[schemars(extend("examples" = [{ "hashed": { "seed": 1 } }]))]
    Hashed(Hashed),
}

/// Static routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hashed {
    /// The root of the hash: another one sends messages other ways. Sweep it to see how far steps
    /// differ.
    #[serde(default = "first_seed")]
    pub seed: u64,
}

impl Routing {
    const fn is_non_blocking(&self) -> bool {
        matches!(self, Self::NonBlocking)
    }
}

/// Alike nodes behind the first ones of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoreNodes {
    /// Name of the node in the catalogue; `foretrain list machines` has them.
    #[schemars(extend("examples" = ["dgx-1v-32g"]))]
    pub node: String,
    /// Number of nodes.
    pub count: Count<1, 131_072>,
    /// Another GPU than the node's own: its name in the catalogue, or a map that describes it.
    #[schemars(extend("examples" = ["a100-sxm4-80gb"]))]
    pub gpu: Option<Choice<GpuSettings>>,
    /// Parts of each of these nodes that differ from the catalogue.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub set: IndexMap<String, PartSettings>,
}

/// A group of alike nodes of a cluster.
pub(super) struct AlikeNodes {
    /// The group as a cluster of its own.
    pub cluster: Cluster,
    /// Number of its nodes.
    count: u32,
    /// Its line of `more`. `None`: the first ones.
    line: Option<usize>,
}

impl AlikeNodes {
    pub(super) fn node(&self) -> &str {
        &self.cluster.node
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The path of a setting of the group below the cluster.
    pub(super) fn path(&self, setting: &str) -> String {
        match self.line {
            Some(line) => format!("more.{line}.{setting}"),
            None => setting.to_owned(),
        }
    }
}

impl Cluster {
    /// Nodes as the catalogue has them.
    ///
    /// # Panics
    /// If there are none, or more than any machine has.
    pub fn new(node: &str, count: u32) -> Self {
        Self {
            node: node.to_owned(),
            count: Count::literal(count.into()),
            fabric: None,
            routing: Routing::default(),
            gpu: None,
            set: IndexMap::new(),
            more: Vec::new(),
            degrade: Vec::new(),
        }
    }

    /// Groups of alike nodes; lines that say what those before them say are one group with them.
    pub(super) fn groups(&self) -> Vec<AlikeNodes> {
        let alone = |node: &str, gpu: &Option<_>, set: &IndexMap<_, _>| Self {
            gpu: gpu.clone(),
            set: set.clone(),
            ..Self::new(node, 1)
        };
        let Self { node, count, gpu, set, .. } = self;
        let first = AlikeNodes { cluster: alone(node, gpu, set), count: count.get() as u32, line: None };
        let mut groups = vec![first];
        for (line, MoreNodes { node, count, gpu, set }) in self.more.iter().enumerate() {
            let (cluster, count) = (alone(node, gpu, set), count.get() as u32);
            match groups.last_mut().filter(|before| before.cluster == cluster) {
                Some(before) => before.count = before.count.saturating_add(count),
                None => groups.push(AlikeNodes { cluster, count, line: Some(line) }),
            }
        }
        groups
    }
}

/// Differences of a part, or of all of a kind, from the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PartSettings {
    /// Name of another network interface or drive of the catalogue, or a map that describes a
    /// drive.
    #[schemars(extend("examples" = ["connectx-7-ndr400"]))]
    pub model: Option<Choice<DriveSettings>>,
    /// Network interfaces or drives of a node, spread evenly over the places where it has some. A
    /// node that has none gets network interfaces on its sockets, and drives on the switches of its
    /// GPUs, or on its sockets if it has no such switches.
    pub count: Option<Count<0, 4_096>>,
    /// Place of network interfaces or drives, where it is not that of the node's own.
    pub under: Option<Under>,
    /// Size of the memory of each GPU, or of each socket.
    pub memory: Option<Bytes>,
    /// Nominal rate of the memory of a GPU, or streaming rate of the memory of a socket.
    pub rate: Option<Rate>,
    /// Cores of the processor of each socket.
    pub cores: Option<Count<1, 4_096>>,
    /// Power that the processor of each socket is cooled for (TDP).
    pub power: Option<Power>,
    /// NVLinks of each GPU; with 0 the node has none.
    pub nvlinks: Option<Count<0, 1_024>>,
    /// Class of the PCIe link to the switch or socket above it, such as `pcie3`.
    #[schemars(extend("examples" = ["pcie3"]))]
    pub class: Option<Choice<LinkSettings>>,
    /// Lanes of that link.
    #[schemars(extend("examples" = [8]))]
    pub lanes: Option<Count<1, 16>>,
}

/// Places of drives or network interfaces in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Under {
    /// The PCIe switches that GPUs hang on, so that transfers to those pass no socket.
    Switches,
    /// The root ports of the sockets.
    Sockets,
}

/// One node of the catalogue; its bare name is enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SingleNode {
    /// Name of the node in the catalogue.
    pub name: String,
    /// Another GPU than the node's own.
    pub gpu: Option<Choice<GpuSettings>>,
    /// Parts that are not those of the catalogue.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub set: IndexMap<String, PartSettings>,
    /// Slow parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degrade: Vec<Degrade>,
}

impl SingleNode {
    /// The node as a cluster of one.
    pub(super) fn cluster(&self) -> Cluster {
        let Self { name, gpu, set, degrade } = self.clone();
        Cluster { gpu, set, degrade, ..Cluster::new(&name, 1) }
    }
}

/// A machine whose parts and links are spelled out. Names are unique over all lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// GPUs, numbered in this order: names, and which of the catalogue each is, or a map that
    /// describes it.
    #[schemars(extend("examples" = [{ "gpu0": "a100-sxm4-80gb" }]))]
    pub gpus: IndexMap<String, Choice<GpuSettings>>,
    /// CPU sockets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<String>,
    /// Processors of sockets; hosts draw power that is known where all sockets have one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub processors: IndexMap<String, SocketProcessor>,
    /// Host memories.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub memories: IndexMap<String, SocketMemory>,
    /// PCIe switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// Switches that join NVLinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvswitches: Vec<String>,
    /// Network interfaces: names, and which of the catalogue each is.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub nics: IndexMap<String, String>,
    /// Network switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_switches: Vec<String>,
    /// Drives: names, and which of the catalogue each is, or a map that describes it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub ssds: IndexMap<String, Choice<DriveSettings>>,
    /// Links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PartLink>,
    /// Slow parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degrade: Vec<Degrade>,
}

/// The processor of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Processor")]
pub struct SocketProcessor {
    /// Its cores.
    #[schemars(extend("examples" = [24]))]
    pub cores: Count<1, 4_096>,
    /// Power that it is cooled for (TDP).
    pub power: Power,
}

/// The memory of a socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostMemory")]
pub struct SocketMemory {
    /// Name of the socket.
    pub socket: String,
    /// Its size.
    pub memory: Bytes,
    /// Rate of streaming, reads and writes together.
    pub rate: Rate,
}

/// A link between two parts, both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartLink {
    /// The names of its ends.
    #[schemars(extend("examples" = [["gpu0", "cpu0"]]))]
    pub between: Ends,
    /// Class in the catalogue, such as `pcie4` or `nvlink3`, or a map that describes one; none
    /// between a network interface and a network switch, whose rate is the interface's.
    pub class: Option<Choice<LinkSettings>>,
    /// Lanes of PCIe, or number of NVLinks.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub lanes: Count<1, 1_024>,
}

fn one() -> Count<1, 1_024> {
    Count::new(1).expect("within the limits")
}

fn is_one(count: &Count<1, 1_024>) -> bool {
    count.get() == 1
}

/// Slows a part or one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Degrade {
    /// One direction of a link, written `FROM -> TO`; give its `rate`.
    #[schemars(extend("examples" = ["node[0].gpu[0] -> node[0].nvswitch"]))]
    pub link: Option<String>,
    /// A part, such as `node[0].gpu[0]`: give its `clock`, or the `rate` of all its links. A link
    /// between two slow parts has the rate of its slower end.
    #[schemars(extend("examples" = ["node[0].gpu[0]"]))]
    pub part: Option<String>,
    /// Share of the rate that is left.
    pub rate: Option<Share>,
    /// Share of a GPU's clock that is left.
    pub clock: Option<Share>,
}

/// The two ends of a link, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline, description = "")]
pub struct Ends(pub [String; 2]);

impl<'de> Deserialize<'de> for Ends {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        <[String; 2]>::try_from(names).map(Self).map_err(|names| {
            let count = names.len();
            D::Error::custom(format_args!(
                "must name two parts, not {count}\nwrite for example `[gpu0, cpu0]`"
            ))
        })
    }
}

/// A node as a map.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NodeMap {
    /// Name of the node in the catalogue; `foretrain list machines` has them.
    #[schemars(extend("examples" = ["dgx-a100-80g"]))]
    name: String,
    /// Another GPU than the node's own: its name in the catalogue, or a map that describes it.
    #[serde(default)]
    #[schemars(extend("examples" = ["a100-sxm4-80gb"]))]
    gpu: Option<Choice<GpuSettings>>,
    /// Parts of the node that differ from the catalogue: `gpu`, `nic`, `ssd`, `switch`, `socket` and
    /// `memory` name all of a kind, `gpu[3]` a single one.
    #[serde(default)]
    set: IndexMap<String, PartSettings>,
    /// Slow parts.
    #[serde(default)]
    degrade: Vec<Degrade>,
}

crate::deserialize_written!(SingleNode);

impl<'de> Written<'de> for SingleNode {
    fn expected() -> String {
        "the name of a node, or a map".to_owned()
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(name) => {
                Ok(Self { name: name.to_owned(), gpu: None, set: IndexMap::new(), degrade: Vec::new() })
            }
            _ => scalar.refuse(),
        }
    }

    fn map<A: MapAccess<'de>>(entries: A) -> Result<Self, A::Error> {
        let NodeMap { name, gpu, set, degrade } = NodeMap::deserialize(MapAccessDeserializer::new(entries))?;
        Ok(Self { name, gpu, set, degrade })
    }
}

impl JsonSchema for SingleNode {
    fn schema_name() -> Cow<'static, str> {
        "SingleNode".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<NodeMap>();
        schemars::json_schema!({
            "description": "One node of the catalogue; its bare name is enough.",
            "anyOf": [map, { "type": "string" }],
        })
    }
}
