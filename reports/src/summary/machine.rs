//! The machine an experiment ran on, as it is drawn, and the constants it rests on.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// One node of the machine, with its side of the network. It stands for all that are like it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineDrawing {
    /// What the node is called ("dgx-a100-80g").
    pub name: String,
    /// How many there are.
    pub nodes: u32,
    /// Its parts, and the switches of the network it is plugged into.
    pub node: Vec<DrawnPart>,
    /// What joins the parts; both directions of a link are one entry.
    pub links: Vec<DrawnLink>,
    /// The network between nodes ("hdr200-fat-tree"); absent for a single node.
    pub network: Option<String>,
    /// What each GPU of the drawn node holds: its name to "stage 0, tensor 3".
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub placement: IndexMap<String, String>,
    /// The variant of which that is the placement, where others place in another way.
    pub placement_of: Option<String>,
    /// A node of each other kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MachineDrawing>,
}

/// One part of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DrawnPart {
    /// Its name within the node (`gpu[2]`), by which links and placement speak of it.
    pub name: String,
    /// What it is.
    pub kind: PartKind,
    /// Which one it is ("a100-sxm4-80gb", "1.10 TB"); may be empty.
    pub label: String,
}

/// What a part is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A GPU with its memory.
    #[default]
    Gpu,
    /// A PCIe switch.
    PcieSwitch,
    /// A CPU socket with its root ports.
    Socket,
    /// The memory of a socket.
    HostMemory,
    /// What joins the NVLinks of a node.
    #[serde(rename = "nvswitch")]
    NvSwitch,
    /// A network interface.
    Nic,
    /// An NVMe drive.
    Ssd,
    /// A switch of the network between nodes.
    NetworkSwitch,
}

/// A link between two parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DrawnLink {
    /// The name of one end.
    pub from: String,
    /// The name of the other.
    pub to: String,
    /// What it is made of.
    pub kind: LinkKind,
    /// What one direction carries.
    #[serde(default = "crate::json::nan")]
    pub bytes_per_s: f64,
}

/// What a link is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Between GPUs, or a GPU and its NVSwitch.
    NvLink,
    /// Between a device, a switch and a root port.
    #[default]
    Pcie,
    /// Between sockets.
    SocketLink,
    /// Between a socket and its memory.
    Memory,
    /// Between a network interface and the network, and inside it.
    Network,
    /// Between a drive and the PCIe tree.
    SsdLink,
}

/// A constant of the machine or of a model of it, and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConstantOrigin {
    /// What it is a constant of ("nvlink3").
    pub of: String,
    /// Its name ("effective rate").
    pub name: String,
    /// Its value in `unit`.
    #[serde(default = "crate::json::nan")]
    pub value: f64,
    /// Its unit ("GB/s"); empty for a plain number.
    pub unit: String,
    /// What kind of source it is ("measured elsewhere").
    pub origin: String,
    /// Page, paper, file or measurement.
    pub source: String,
    /// How far it is to be trusted: "high", "medium" or "low".
    pub confidence: String,
}

/// A hardware file whose constants replace those of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibrated {
    /// Its path, as the scenario names it.
    pub file: String,
    /// What was measured.
    pub device: String,
    /// When: year, month, day.
    pub date: String,
    /// The variants that it is laid over.
    pub variants: Vec<String>,
    /// What it replaces, `memory.copy.all`.
    pub replaced: Vec<String>,
    /// What it was to replace and its records do not tell: the catalogue's holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<String>,
    /// What it measured and no scenario rests on yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
    /// Whether no change of the device was noticed while it was measured.
    pub steady: bool,
}

impl Calibrated {
    /// What it replaces and what it does not, in one sentence without final full stop.
    pub(crate) fn in_words(&self) -> String {
        let Self { file, device, date, replaced, untold, unused, steady, .. } = self;
        let replaced = match replaced.len() {
            0 => "nothing".to_owned(),
            _ => replaced.join(", "),
        };
        let untold = match untold.len() {
            0 => String::new(),
            _ => format!("; its records do not tell {}", untold.join(", ")),
        };
        let unused = match unused.len() {
            0 => String::new(),
            1 => "; no scenario rests on one more constant of it".to_owned(),
            more => format!("; no scenario rests on {more} more constants of it"),
        };
        let unsteady = if *steady { "" } else { "; the device changed while it was measured" };
        format!("{file} ({device}, {date}) replaces {replaced}{untold}{unused}{unsteady}")
    }
}

impl LinkKind {
    /// All kinds, in the order of every legend.
    pub(crate) const ALL: [LinkKind; 6] = [
        LinkKind::NvLink,
        LinkKind::Pcie,
        LinkKind::Network,
        LinkKind::SsdLink,
        LinkKind::SocketLink,
        LinkKind::Memory,
    ];

    /// In words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            LinkKind::NvLink => "NVLink",
            LinkKind::Pcie => "PCIe",
            LinkKind::SocketLink => "between sockets",
            LinkKind::Memory => "host memory",
            LinkKind::Network => "network",
            LinkKind::SsdLink => "SSD",
        }
    }
}

impl PartKind {
    /// In words, for one and for several.
    pub(crate) fn noun(self, count: usize) -> &'static str {
        let (one, several) = match self {
            PartKind::Gpu => ("GPU", "GPUs"),
            PartKind::PcieSwitch => ("PCIe switch", "PCIe switches"),
            PartKind::Socket => ("socket", "sockets"),
            PartKind::HostMemory => ("host memory", "host memories"),
            PartKind::NvSwitch => ("NVSwitch", "NVSwitches"),
            PartKind::Nic => ("NIC", "NICs"),
            PartKind::Ssd => ("SSD", "SSDs"),
            PartKind::NetworkSwitch => ("network switch", "network switches"),
        };
        if count == 1 { one } else { several }
    }
}

impl ConstantOrigin {
    /// Whether it should be measured before anything hangs on it.
    pub(crate) fn doubtful(&self) -> bool {
        self.confidence == "low"
    }
}
