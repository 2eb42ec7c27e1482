//! The network between the nodes of a cluster. It is not stored: the numbers of its parts and links are computed.
//!
//! Two interfaces below different leaves meet in the spine. Where routing does not block, all
//! uplinks of a leaf are one. Where it is hashed, a leaf has an uplink for each interface below it,
//! fewer by oversubscription, each to a switch of the spine; all messages from one interface to
//! another go through one of these switches, drawn for the two from the seed. Of n messages over n
//! uplinks the fullest has some ln n / ln ln n: neighbours in a ring then get a third of a port.

use std::ops::{Range, RangeInclusive};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::Rate;
use sim_core::time::Time;

use crate::catalogue::{Catalogue, Fabric, Nic, Topology, look_up};
use crate::provenance::Provenance;

use super::graph::NodeGraph;
use super::part::Constant;
use super::settings::{AlikeNodes, Routing};
use super::wiring::microseconds;
use super::{Cluster, GPUS_MAX, MachineError};

/// A fabric over the interfaces of nodes. Its parts are the leaves or rails, then the spine; its
/// links are that of every interface, by (node, interface), then the uplink of every leaf or rail.
#[derive(Clone, Debug)]
pub(super) struct FabricPlan {
    topology: Topology,
    /// By group of alike nodes.
    sides: Vec<Side>,
    /// Leaves or rails; 0 if the spine alone can stand for the fabric because nothing inside limits.
    pub inner: u32,
    nodes_per_leaf: u32,
    oversubscription: f64,
    /// Links of a leaf or rail to the spine.
    uplinks: u32,
    /// Seed of the choice between them.
    seed: u64,
    pub hop_latency: Time,
    pub hop_provenance: Provenance,
    pub constants: Vec<Constant>,
}

/// The interfaces of alike nodes.
#[derive(Clone, Debug)]
pub(super) struct Side {
    nodes: Range<u32>,
    /// Interfaces of a node.
    nics: u32,
    /// The link of the first one.
    first_port: u32,
    /// Of an interface, per direction (byte/s).
    pub port_nominal: f64,
    /// Of an interface, per direction (byte/s).
    pub port_effective: f64,
    pub port_latency: Time,
    pub port_provenance: Provenance,
}

/// Interfaces of alike nodes: their entry of the catalogue, how many each node has, and how many
/// nodes.
struct Interfaces<'a> {
    name: &'a str,
    nic: &'a Nic,
    each: u32,
    nodes: u32,
}

/// The network of a cluster of several nodes; of an unknown node it is only looked for.
pub(super) fn plan(
    catalogue: &Catalogue,
    spec: &Cluster,
    groups: &[(&AlikeNodes, Option<&NodeGraph>)],
) -> Result<Option<FabricPlan>, Vec<MachineError>> {
    let lacks = |nodes: &AlikeNodes, what: &str| {
        let (node, count) = (nodes.node(), nodes.count());
        let error = match groups.len() {
            1 => MachineError::of(node, format!("{count} nodes `{node}` need {what}, or `count: 1`")),
            _ => MachineError::of(node, format!("a node `{node}` of a cluster needs {what}")),
        };
        Err(vec![error])
    };
    let own = catalogue.nodes.get(&spec.node).and_then(|node| node.fabric.as_deref());
    let named = spec.fabric.as_deref().or(own);
    let found = named.map(|name| look_up(&catalogue.fabrics, "fabric", name).map(|fabric| (name, fabric)));
    let found = found.transpose().map_err(|error| vec![error.into()])?;
    // Of a machine that is too large nothing is numbered.
    let count = groups.iter().map(|(nodes, _)| u64::from(nodes.count())).sum::<u64>();
    if !(2..=u64::from(GPUS_MAX)).contains(&count) {
        return Ok(None);
    }
    let mut interfaces = Vec::new();
    for &(nodes, graph) in groups {
        let Some(graph) = graph else { return Ok(None) };
        let Some(&nic) = graph.nics.first() else {
            // An unknown model or a missing one has its own error.
            if nodes.cluster.set.get("nic").is_some_and(|nic| nic.count.is_none_or(|count| count.get() > 0)) {
                return Ok(None);
            }
            let some = "`set: { nic: { model: roce-25gbe, count: 1 } }`";
            return lacks(nodes, &format!("network interfaces, and it has none: write some, such as {some}"));
        };
        let name = graph.parts[nic as usize].model.as_deref().unwrap_or_default();
        let nic = look_up(&catalogue.nics, "nic", name).map_err(|error| vec![error.into()])?;
        interfaces.push(Interfaces { name, nic, each: graph.nics.len() as u32, nodes: nodes.count() });
    }
    let Some((name, fabric)) = found else {
        let node = &spec.node;
        let text = format!(
            "{count} nodes `{node}` need a `fabric`, and it has no usual one: name one of the catalogue"
        );
        return Err(vec![MachineError::of(node, text)]);
    };
    let outside =
        |of: &str, constant: &'static str, value: f64, range: RangeInclusive<f64>, expected: &'static str| {
            let error = || MachineError::bad_constant(of, constant, value, expected);
            (!range.contains(&value)).then(error)
        };
    let of_nics = interfaces.iter().map(|Interfaces { name, nic, .. }| {
        outside(name, "rate_gbit_per_s", nic.rate_gbit_per_s, 1e-3..=1e6, "a positive rate")
    });
    let wrong: Vec<MachineError> = [
        outside(name, "oversubscription", fabric.oversubscription, 1.0..=1e6, "at least 1; 1 never limits"),
        outside(name, "port_gbit_per_s", fabric.port_gbit_per_s, 1e-3..=1e6, "a positive rate"),
        outside(name, "hop_latency_us", fabric.hop_latency_us, 0.0..=1e6, "at most a second"),
    ]
    .into_iter()
    .chain(of_nics)
    .flatten()
    .collect();
    if matches!(spec.routing, Routing::Hashed(_)) && fabric.topology == Topology::RailOptimised {
        let text = format!(
            "hashed routes are for fat trees, and `{name}` has rails: write `routing: non-blocking`, or name a fat tree as `fabric`"
        );
        return Err(vec![MachineError::of(name, text)]);
    }
    if wrong.is_empty() {
        Ok(Some(FabricPlan::new((name, fabric), &interfaces, spec.routing)))
    } else {
        Err(wrong)
    }
}

fn constant(of: &str, name: &'static str, value: f64, provenance: &Provenance) -> Constant {
    Constant { of: of.to_owned(), name, value, provenance: provenance.clone() }
}

impl Side {
    /// Behind the interfaces of other nodes.
    fn new(
        Interfaces { nic, each, nodes, .. }: &Interfaces<'_>,
        fabric: &Fabric,
        before: Option<&Self>,
    ) -> Self {
        // A port of a slower switch slows the interface.
        let share = (fabric.port_gbit_per_s / nic.rate_gbit_per_s).min(1.0);
        let first = before.map_or(0, |before| before.nodes.end);
        Self {
            nodes: first..first + nodes,
            nics: *each,
            first_port: before.map_or(0, Self::end),
            port_nominal: nic.rate_gbit_per_s * share * 1e9 / 8.0,
            port_effective: nic.effective_gb_per_s * share * 1e9,
            port_latency: microseconds(nic.latency_us),
            port_provenance: nic.sources.of("effective_gb_per_s").clone(),
        }
    }

    /// The link behind its last one.
    fn end(&self) -> u32 {
        self.first_port + self.nodes.len() as u32 * self.nics
    }

    /// Interfaces of those of its nodes that are among some.
    fn ports_among(&self, nodes: &Range<u32>) -> u32 {
        let (first, end) = (self.nodes.start.max(nodes.start), self.nodes.end.min(nodes.end));
        end.saturating_sub(first) * self.nics
    }
}

impl FabricPlan {
    /// Makes all interfaces, and what is behind them, `factor` times as fast.
    pub(super) fn change_ports(&mut self, factor: f64) {
        for side in &mut self.sides {
            side.port_nominal *= factor;
            side.port_effective *= factor;
        }
    }

    fn new((name, fabric): (&str, &Fabric), interfaces: &[Interfaces<'_>], routing: Routing) -> Self {
        let nodes_per_leaf = fabric.nodes_per_leaf.unwrap_or(1).max(1);
        let mut sides: Vec<Side> = Vec::with_capacity(interfaces.len());
        for interfaces in interfaces {
            sides.push(Side::new(interfaces, fabric, sides.last()));
        }
        let inner = match fabric.topology {
            Topology::FatTree if fabric.oversubscription <= 1.0 && routing == Routing::NonBlocking => 0,
            Topology::FatTree => sides.last().map_or(0, |last| last.nodes.end).div_ceil(nodes_per_leaf),
            Topology::RailOptimised => sides.iter().map(|side| side.nics).max().unwrap_or(0),
        };
        let (uplinks, seed) = match routing {
            Routing::NonBlocking => (1, 0),
            Routing::Hashed(hashed) => {
                let each = sides.iter().map(|side| side.nics).max().unwrap_or(0);
                let below = f64::from(nodes_per_leaf) * f64::from(each);
                ((below / fabric.oversubscription).ceil().max(1.0) as u32, hashed.seed)
            }
        };
        let of_nic = |Interfaces { name, nic, .. }: &Interfaces<'_>| {
            let rate = nic.sources.of("effective_gb_per_s");
            [
                constant(name, "effective_gb_per_s", nic.effective_gb_per_s, rate),
                constant(name, "latency_us", nic.latency_us, nic.sources.of("latency_us")),
            ]
        };
        let of_fabric =
            [("oversubscription", fabric.oversubscription), ("hop_latency_us", fabric.hop_latency_us)];
        let of_fabric = of_fabric.map(|(what, value)| constant(name, what, value, fabric.sources.of(what)));
        Self {
            topology: fabric.topology,
            sides,
            inner,
            nodes_per_leaf,
            oversubscription: fabric.oversubscription,
            uplinks,
            seed,
            hop_latency: microseconds(fabric.hop_latency_us),
            hop_provenance: fabric.sources.of("oversubscription").clone(),
            constants: interfaces.iter().flat_map(of_nic).chain(of_fabric).collect(),
        }
    }

    /// Links of all interfaces.
    fn ports(&self) -> u32 {
        self.sides.last().map_or(0, Side::end)
    }

    /// The interfaces of a node and those like it.
    pub(super) fn side(&self, node: u32) -> &Side {
        let later = self.sides.iter().skip(1).take_while(|side| side.nodes.start <= node).count();
        &self.sides[later]
    }

    /// Leaves or rails, and the spine.
    pub(super) fn parts(&self) -> u32 {
        self.inner + 1
    }

    /// Links, both directions as one.
    pub(super) fn links(&self) -> u32 {
        self.ports() + self.inner * self.uplinks
    }

    /// The part that an interface hangs on.
    pub(super) fn switch_of(&self, node: u32, nic: u32) -> u32 {
        match self.topology {
            _ if self.inner == 0 => 0,
            Topology::FatTree => node / self.nodes_per_leaf,
            Topology::RailOptimised => nic,
        }
    }

    /// The link of an interface.
    pub(super) fn port(&self, node: u32, nic: u32) -> u32 {
        let side = self.side(node);
        side.first_port + (node - side.nodes.start) * side.nics + nic
    }

    /// The interface of a link, if it is not an uplink.
    pub(super) fn port_at(&self, link: u32) -> Option<(u32, u32)> {
        let side = self.sides.iter().find(|side| link < side.end())?;
        let within = link - side.first_port;
        Some((side.nodes.start + within / side.nics, within % side.nics))
    }

    /// The links of a leaf or rail to the spine.
    pub(super) fn uplinks(&self, inner: u32) -> Range<u32> {
        let first = self.ports() + inner * self.uplinks;
        first..first + self.uplinks
    }

    /// The leaf or rail of an uplink.
    pub(super) fn below(&self, uplink: u32) -> u32 {
        (uplink - self.ports()) / self.uplinks
    }

    /// Which of the uplinks of both leaves messages from one interface to another take.
    pub(super) fn lane(&self, from: (u32, u32), to: (u32, u32)) -> u32 {
        if self.uplinks == 1 {
            return 0;
        }
        let [from, to] = [from, to].map(|(node, nic)| u64::from(self.port(node, nic)));
        let mut words = ChaCha8Rng::seed_from_u64(self.seed);
        words.set_stream(from << 32 | to);
        ((u128::from(words.next_u64()) * u128::from(self.uplinks)) >> u64::BITS) as u32
    }

    /// Interfaces of some nodes below a leaf or rail; the last leaf may be half empty.
    fn ports_below(&self, inner: u32, side: &Side) -> u32 {
        match self.topology {
            Topology::FatTree => {
                let first = inner * self.nodes_per_leaf;
                side.ports_among(&(first..first.saturating_add(self.nodes_per_leaf)))
            }
            Topology::RailOptimised if inner < side.nics => side.nodes.len() as u32,
            Topology::RailOptimised => 0,
        }
    }

    /// Nominal and effective rate of an uplink per direction (byte/s), as far as the engine counts: nothing that large
    /// limits.
    pub(super) fn uplink_rates(&self, inner: u32) -> [f64; 2] {
        let largest = Rate::MAX_CAPACITY.units_per_second();
        let rate = |port: fn(&Side) -> f64| {
            let of_side =
                |side: &Side| port(side) * (f64::from(self.ports_below(inner, side)) / self.oversubscription);
            // A leaf that is half empty has as many uplinks as a full one.
            let of_port = |side: &Side| {
                let below = f64::from(self.nodes_per_leaf) * f64::from(side.nics);
                port(side) * below / self.oversubscription / f64::from(self.uplinks)
            };
            let all = if self.uplinks > 1 {
                self.sides.iter().map(of_port).fold(0.0, f64::max)
            } else {
                self.sides.iter().map(of_side).sum()
            };
            all.min(largest)
        };
        [rate(|side| side.port_nominal), rate(|side| side.port_effective)]
    }

    /// The name of a part.
    pub(super) fn name(&self, part: u32) -> String {
        match self.topology {
            _ if part == self.inner => "fabric.spine".to_owned(),
            Topology::FatTree => format!("fabric.leaf[{part}]"),
            Topology::RailOptimised => format!("fabric.rail[{part}]"),
        }
    }
}
