//! Parts of a node that are not those of the catalogue: GPUs with more memory, fewer network interfaces, a slower slot.
//!
//! What devices are is changed in a copy of their catalogue entries, so that everything that reads those agrees; what joins
//! a part to the one above it is asked for when it is wired.

use std::borrow::Cow;

use indexmap::IndexMap;

use crate::catalogue::nearest::{closest, list, remedy};
use crate::catalogue::{
    Branch, Catalogue, HostMemory, LinkKind, Node, NvLinkFabric, Processor, UnknownEntry, look_up,
};
use crate::provenance::Provenance;
use crate::settings::{Bytes, Count, Power, Rate};

use super::graph::NodeGraph;
use super::wiring::{Lanes, Wiring};
use super::{Choice, Cluster, MachineError, PartSettings, Under};

/// Changes of a node by part: `nic` for all network interfaces, `nic[3]` for one, which wins.
pub(super) type PartChanges = IndexMap<String, PartSettings>;

/// What can be set of a kind of part.
struct Kind {
    name: &'static str,
    /// The same for all parts of the kind.
    of_all: &'static [&'static str],
    of_each: &'static [&'static str],
}

const KINDS: [Kind; 6] = [
    Kind { name: "gpu", of_all: &["memory", "rate", "nvlinks"], of_each: &["class", "lanes"] },
    Kind { name: "nic", of_all: &["model", "count", "under"], of_each: &["class", "lanes"] },
    Kind { name: "ssd", of_all: &["model", "count", "under"], of_each: &["class", "lanes"] },
    Kind { name: "switch", of_all: &[], of_each: &["class", "lanes"] },
    Kind { name: "socket", of_all: &[], of_each: &["cores", "power"] },
    Kind { name: "memory", of_all: &[], of_each: &["memory", "rate"] },
];

impl PartSettings {
    /// The names of what is given.
    fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
        [
            ("model", self.model.is_some()),
            ("count", self.count.is_some()),
            ("under", self.under.is_some()),
            ("memory", self.memory.is_some()),
            ("rate", self.rate.is_some()),
            ("nvlinks", self.nvlinks.is_some()),
            ("cores", self.cores.is_some()),
            ("power", self.power.is_some()),
            ("class", self.class.is_some()),
            ("lanes", self.lanes.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
    }
}

/// What is said of the part called `name`, and where it says nothing, of its kind.
fn of<'s, T>(set: &'s PartChanges, name: &str, what: impl Fn(&'s PartSettings) -> Option<T>) -> Option<T> {
    [name, kind_of(name)].into_iter().find_map(|part| what(set.get(part)?))
}

fn kind_of(part: &str) -> &str {
    part.split('[').next().unwrap_or(part)
}

/// The catalogue with the devices of a node changed, as far as they can be: one mistake must not hide the others.
pub(super) fn changed<'a>(catalogue: &'a Catalogue, spec: &Cluster) -> Cow<'a, Catalogue> {
    let mut catalogue = Cow::Borrowed(catalogue);
    if spec.set.is_empty() || !catalogue.nodes.contains_key(&spec.node) {
        return catalogue;
    }
    let Catalogue { nodes, gpus, nics, ssds, .. } = catalogue.to_mut();
    let node = &mut nodes[&spec.node];
    let known = |change: &PartSettings, is_known: &dyn Fn(&str) -> bool| {
        change.model.as_ref().map(Choice::name).filter(|model| is_known(model)).map(str::to_owned)
    };
    if let Some(change) = spec.set.get("nic") {
        node.nic = known(change, &|model| nics.contains_key(model)).or(node.nic.take());
        if node.nic.is_some() {
            place(node, INTERFACES, change);
        }
    }
    if let Some(change) = spec.set.get("ssd") {
        node.ssd = known(change, &|model| ssds.contains_key(model)).or(node.ssd.take());
        if node.ssd.is_some() {
            place(node, DRIVES, change);
        }
    }
    let gpu = gpus.get_mut(spec.gpu.as_ref().map_or(&*node.gpu, Choice::name));
    if let (Some(change), Some(gpu)) = (spec.set.get("gpu"), gpu) {
        let rate = change.rate.map(gb_per_s).filter(possible);
        for (constant, value, slot) in [
            ("memory_gib", change.memory.map(gib), &mut gpu.memory_gib),
            ("bandwidth_gb_per_s", rate, &mut gpu.bandwidth_gb_per_s),
        ] {
            if let Some(value) = value {
                *slot = value;
                gpu.sources.constants.insert(constant.to_owned(), Provenance::written());
            }
        }
        match (change.nvlinks.map(Count::get), &mut gpu.nvlink) {
            (Some(0), own) => {
                *own = None;
                node.nvlink = NvLinkFabric::default();
            }
            (Some(links), Some(own)) => own.links = links as u32,
            _ => {}
        }
    }
    catalogue
}

/// Sizes in GiB and rates in GB/s go no further.
const MOST: f64 = 1e6;

/// Whether a memory can have a rate.
fn possible(gb_per_s: &f64) -> bool {
    *gb_per_s > 0.0 && *gb_per_s <= MOST
}

pub(super) fn gib(memory: Bytes) -> f64 {
    memory.bytes() as f64 / f64::from(1 << 30)
}

pub(super) fn gb_per_s(rate: Rate) -> f64 {
    rate.bytes_per_second() as f64 / 1e9
}

pub(super) fn watts(power: Power) -> f64 {
    power.milliwatts() as f64 / 1e3
}

/// Spreads devices evenly over the branches that have some.
fn spread(tree: &mut [Branch], devices: impl Fn(&mut Branch) -> &mut u32, count: Option<Count<0, 4_096>>) {
    let Some(count) = count.map(Count::get) else { return };
    let places: Vec<&mut u32> = tree.iter_mut().map(devices).filter(|devices| **devices > 0).collect();
    let before = |place: u64| count * place / places.len() as u64;
    let shares: Vec<u32> = (0..places.len() as u64).map(|k| (before(k + 1) - before(k)) as u32).collect();
    for (devices, share) in places.into_iter().zip(shares) {
        *devices = share;
    }
}

/// Cards that a node may get although it has none of its own.
#[derive(Clone, Copy)]
struct Cards {
    kind: &'static str,
    of: fn(&Branch) -> u32,
    of_mut: fn(&mut Branch) -> &mut u32,
    /// Place of the first ones.
    usual: Under,
    /// Models that they can be, for errors.
    models: &'static str,
    called: &'static str,
}

/// Traffic of a network goes to the memory of its socket as well as to GPUs.
const INTERFACES: Cards = Cards {
    kind: "nic",
    of: |branch| branch.nics,
    of_mut: |branch| &mut branch.nics,
    usual: Under::Sockets,
    models: "a name of `foretrain list nics`",
    called: "network interfaces",
};
const DRIVES: Cards = Cards {
    kind: "ssd",
    of: |branch| branch.ssds,
    of_mut: |branch| &mut branch.ssds,
    usual: Under::Switches,
    models: "a name of `foretrain list ssds`, or a map that describes one",
    called: "drives",
};

/// Gives cards their number and their places: those of the node's own, or those that are asked for,
/// or of a node without such cards the usual ones, which are sockets where no GPU hangs on a switch.
/// Only sockets with GPUs below get some.
fn place(node: &mut Node, cards: Cards, change: &PartSettings) {
    let tree = &mut node.pcie.tree;
    let own: u32 = tree.iter().map(cards.of).sum();
    let places = match change.under {
        None if own > 0 => return spread(tree, cards.of_mut, change.count),
        Some(places) => places,
        None if tree.iter().any(feeds_gpus) => cards.usual,
        None => Under::Sockets,
    };
    tree.iter_mut().for_each(|branch| *(cards.of_mut)(branch) = 0);
    match places {
        Under::Switches => {
            let switches = tree.iter_mut().filter(|branch| feeds_gpus(branch));
            switches.for_each(|branch| *(cards.of_mut)(branch) = 1);
        }
        Under::Sockets => {
            let roots = (0..node.sockets).map(|socket| format!("socket[{socket}]"));
            let feeds = |root: &String| tree.iter().any(|branch| branch.gpus > 0 && branch.under == *root);
            for root in roots.filter(feeds).collect::<Vec<_>>() {
                let at = tree.iter().position(|branch| !branch.switch && branch.under == root);
                let at = at.unwrap_or_else(|| {
                    tree.push(Branch::on(root));
                    tree.len() - 1
                });
                *(cards.of_mut)(&mut tree[at]) = 1;
            }
        }
    }
    let own = Count::new(own.into()).filter(|_| own > 0);
    spread(tree, cards.of_mut, change.count.or(own));
}

/// True of a switch that GPUs hang on.
fn feeds_gpus(branch: &Branch) -> bool {
    branch.switch && branch.gpus > 0
}

/// The memory of a socket as set; none where nothing is, and `usual` holds.
pub(super) fn memory(set: &PartChanges, name: &str, usual: HostMemory) -> Option<HostMemory> {
    let gib = of(set, name, |change| change.memory.map(gib));
    let rate = of(set, name, |change| change.rate.map(gb_per_s)).filter(possible);
    let kept = HostMemory { gib: gib.unwrap_or(usual.gib), ..usual };
    match rate {
        None => gib.map(|_| kept),
        Some(gb_per_s) => Some(HostMemory { gb_per_s, streaming_fraction: 1.0, ..kept }),
    }
}

/// The processor of a socket, `usual` or as set; none where cores or power are not known.
pub(super) fn processor(set: &PartChanges, name: &str, usual: Option<Processor>) -> Option<Processor> {
    let cores = of(set, name, |change| change.cores.map(|cores| cores.get() as u32));
    let power = of(set, name, |change| change.power.map(watts));
    Some(Processor {
        cores: cores.or(usual.map(|usual| usual.cores))?,
        tdp_w: power.or(usual.map(|usual| usual.tdp_w))?,
    })
}

/// The PCIe link of a part to what it hangs on: `usual`, or as set.
pub(super) fn link<'a>(wiring: &Wiring<'a>, set: &'a PartChanges, part: u32, usual: Lanes<'a>) -> Lanes<'a> {
    let part = wiring.name(part);
    let class = of(set, part, |change| change.class.as_ref().map(Choice::name));
    let class = class.and_then(|name| Some((name, wiring.catalogue.links.get(name)?)));
    let (name, class) = class.unwrap_or((usual.name, usual.class));
    Lanes {
        name,
        class,
        lanes: of(set, part, |change| change.lanes).map_or(usual.lanes, |lanes| lanes.get() as u32),
    }
}

/// Everything that is wrong with the changes. `graph` is the node as changed, if it could be built.
pub(super) fn check(catalogue: &Catalogue, spec: &Cluster, graph: Option<&NodeGraph>) -> Vec<MachineError> {
    let mut errors = Vec::new();
    let node = catalogue.nodes.get(&spec.node);
    for (part, change) in &spec.set {
        let kind = KINDS.iter().find(|kind| kind.name == kind_of(part));
        let there = match graph {
            Some(graph) if part.contains('[') => graph.by_name.contains_key(part),
            _ => node.is_none_or(|node| has(node, kind_of(part))),
        };
        let Some(kind) = kind.filter(|_| there) else {
            errors.push(unknown(part, node, graph));
            continue;
        };
        errors.extend(settings(part, kind, change));
        errors.extend(values(catalogue, spec, part, change));
        errors.extend(names(catalogue, part, change).map(MachineError::from));
    }
    errors
}

/// Whether a node of the catalogue has parts of a kind.
fn has(node: &Node, kind: &str) -> bool {
    node.pcie.tree.iter().any(|branch| match kind {
        "gpu" => branch.gpus > 0,
        "switch" => branch.switch,
        _ => true,
    })
}

fn unknown(part: &str, node: Option<&Node>, graph: Option<&NodeGraph>) -> MachineError {
    let parts = graph.into_iter().flat_map(|graph| graph.by_name.keys().map(String::as_str));
    let kinds = KINDS.iter().map(|kind| kind.name);
    let names: Vec<&str> = kinds.filter(|kind| node.is_none_or(|node| has(node, kind))).collect();
    let settable = parts.filter(|name| names.contains(&kind_of(name)));
    let remedy = match closest(part, names.iter().copied().chain(settable)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its parts are {}, or a single one such as `gpu[0]`", list(names)),
    };
    let text = format!("the node has no part `{part}` to set: {remedy}");
    MachineError::of_setting(format!("set.{part}"), text)
}

/// Settings that the part has not, or not of its own.
fn settings(part: &str, kind: &'static Kind, change: &PartSettings) -> impl Iterator<Item = MachineError> {
    change.given().filter_map(move |setting| {
        let text = if kind.of_each.contains(&setting) {
            return None;
        } else if !kind.of_all.contains(&setting) {
            let known = list(kind.of_all.iter().chain(kind.of_each).copied());
            format!("`{part}` has no `{setting}` to set: a {} has {known}", kind.name)
        } else if part == kind.name {
            return None;
        } else {
            let kind = kind.name;
            format!("`{setting}` is the same for every {kind}, also for `{part}`: set that of `{kind}`")
        };
        Some(MachineError::of_setting(format!("set.{part}.{setting}"), text))
    })
}

/// Numbers that no part can have.
fn values(
    catalogue: &Catalogue,
    spec: &Cluster,
    part: &str,
    change: &PartSettings,
) -> impl Iterator<Item = MachineError> {
    let node = catalogue.nodes.get(&spec.node);
    let gpu = spec
        .gpu
        .as_ref()
        .map(Choice::name)
        .or(node.map(|node| &*node.gpu))
        .filter(|_| part == "gpu")
        .and_then(|name| catalogue.gpus.get(name));
    let reserved = gpu.map_or(0.0, |gpu| gpu.reserved_gib);
    let memory = change.memory.and_then(|memory| match gib(memory) {
        large if large > MOST => Some("is too large: write at most 1,000,000 GiB".to_owned()),
        small if small > reserved => None,
        _ if reserved > 0.0 => {
            Some(format!("is too small: write more than the {reserved} GiB that driver and context keep"))
        }
        _ => Some("is nothing: write a size".to_owned()),
    });
    let rate = change.rate.map(gb_per_s).filter(|rate| !possible(rate));
    let rate = rate.map(|_| "is no rate of a memory: write one up to 1,000,000 GB/s".to_owned());
    let unknown = kind_of(part) == "socket" && node.is_some_and(|node| node.processor.is_none());
    let lacks = |given: bool, other: &str, is_there: bool| {
        (unknown && given && !is_there).then(|| {
            format!("needs `{other}` beside it: the catalogue does not say which processors the node has")
        })
    };
    let [has_cores, has_power] = [change.cores.is_some(), change.power.is_some()];
    let cores = lacks(has_cores, "power", has_power);
    let power = lacks(has_power, "cores", has_cores);
    let unwired = node.is_some_and(|node| node.nvlink == NvLinkFabric::default());
    let nvlinks = change.nvlinks.filter(|links| unwired && links.get() > 0);
    let nvlinks = nvlinks.map(|_| "joins nothing: the node wires no NVLinks".to_owned());
    let faults =
        [("memory", memory), ("rate", rate), ("cores", cores), ("power", power), ("nvlinks", nvlinks)];
    faults.into_iter().chain(bare(node, part, change)).filter_map(move |(setting, problem)| {
        let text = format!("`{setting}` of `{part}` {}", problem?);
        Some(MachineError::of_setting(format!("set.{part}.{setting}"), text))
    })
}

/// Faults of cards that are to be where the node has none, by setting.
fn bare(node: Option<&Node>, part: &str, change: &PartSettings) -> [(&'static str, Option<String>); 3] {
    let Some(cards) = [INTERFACES, DRIVES].into_iter().find(|cards| cards.kind == part) else {
        return Default::default();
    };
    let Cards { called, models, .. } = cards;
    let bare = node.is_some_and(|node| node.pcie.tree.iter().all(|branch| (cards.of)(branch) == 0));
    let needed = |given: bool, what: &str| {
        let text = || format!("is missing: the node has no {called} of its own, so write {what}");
        (bare && !given).then(text)
    };
    let switches = change.under == Some(Under::Switches);
    let switchless = node.is_some_and(|node| switches && !node.pcie.tree.iter().any(feeds_gpus));
    [
        ("model", needed(change.model.is_some(), models)),
        ("count", needed(change.count.is_some(), "how many each node gets")),
        (
            "under",
            switchless.then(|| {
                "is `switches`, but no GPU of the node hangs on one: write `under: sockets`, or remove it"
                    .to_owned()
            }),
        ),
    ]
}

/// Names that the catalogue has not, or not for PCIe.
fn names(catalogue: &Catalogue, part: &str, change: &PartSettings) -> impl Iterator<Item = UnknownEntry> {
    let Catalogue { nics, ssds, links, .. } = catalogue;
    let model = change.model.as_ref().map(Choice::name).and_then(|model| match part {
        "nic" => look_up(nics, "nic", model).err(),
        "ssd" => look_up(ssds, "ssd", model).err(),
        _ => None,
    });
    let pcie: Vec<&str> = links
        .iter()
        .filter(|(_, class)| class.kind == LinkKind::Pcie)
        .map(|(name, _)| name.as_str())
        .collect();
    let class = change.class.as_ref().map(Choice::name).filter(|name| !pcie.contains(name)).map(|name| {
        let noun = "PCIe class";
        UnknownEntry { noun, name: name.to_owned(), remedy: remedy(name, &pcie, noun) }
    });
    [model, class].into_iter().flatten()
}
