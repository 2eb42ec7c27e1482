//! NCCL's choice of algorithm and protocol: the least `latency + bytes / bandwidth` (NVIDIA, nccl `src/graph/tuning.cc`).
//!
//! With n ranks on N nodes, `steps` of a ring 2 (n-1) for an all-reduce and n-1 otherwise, `crossing` of them between
//! nodes, and the bus bandwidth of [`GroupShape`]'s links:
//!
//! ```text
//! ring:  latency = base + (steps - crossing) inside + crossing net,          bandwidth = bus n / (steps + local)
//! tree:  latency = base + 2 ((n/N - 1) inside + log2(N) net),                bandwidth = bus / 2
//! NVLS:  latency = base + nvls [+ 2 log2(N) nvls_net between nodes],         bandwidth = bus efficiency (c-1)/c / (1 + N/n)
//! ```
//!
//! with the bus lowered by the protocol. A tree's bandwidth has a correction by size, interpolated here, because steps
//! would let a larger message be faster. The tuner ranks; it is no measurement: its latencies are optimistic. What it
//! leaves out is what makes small groups slow: a block that moves one chunk after the other is `local` steps at the ends
//! of a ring inside a node, where it copies and sends nothing; and a switch that sums reads the tensor from every member
//! and is given each member's part of the sum.

use super::{Algorithm, Collective, CollectiveKind, CollectiveModel, GroupShape, InsideLink, Protocol};

/// A choice with its estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) algorithm: Algorithm,
    pub(super) protocol: Protocol,
    /// Estimate of the whole (s).
    pub(super) seconds: f64,
    /// Of which latency (s).
    pub(super) latency: f64,
    /// What a rank can send in a second at most.
    pub(super) bus: f64,
    channels: u32,
}

/// The fastest by the tuner's estimate.
pub(super) fn choose(model: &CollectiveModel, group: &GroupShape, call: &Collective) -> Choice {
    if call.kind == CollectiveKind::AllToAll {
        return pairwise(model, group, call);
    }
    let all = [Algorithm::Ring, Algorithm::Tree, Algorithm::Nvls, Algorithm::NvlsTree]
        .into_iter()
        .filter(|&algorithm| available(model, group, call.kind, algorithm))
        .flat_map(|algorithm| {
            [Protocol::Ll, Protocol::Ll128, Protocol::Simple]
                .into_iter()
                .filter(move |&protocol| runs_with(group, algorithm, protocol))
                .map(move |protocol| estimate(model, group, call, algorithm, protocol))
        });
    let ring = estimate(model, group, call, Algorithm::Ring, Protocol::Simple);
    all.fold(ring, |best, other| if other.seconds < best.seconds { other } else { best })
}

fn available(
    model: &CollectiveModel,
    group: &GroupShape,
    kind: CollectiveKind,
    algorithm: Algorithm,
) -> bool {
    let summed = kind == CollectiveKind::AllReduce && group.ranks > 2;
    let switched = summed
        && group.inside.link == InsideLink::NvSwitch
        && model.limits.nvls.as_ref().is_some_and(|nvls| group.ranks_per_node >= nvls.ranks_min);
    match algorithm {
        Algorithm::Ring => true,
        Algorithm::Tree => summed,
        Algorithm::Nvls => switched && group.nodes() == 1,
        Algorithm::NvlsTree => switched && group.nodes() > 1,
        Algorithm::Pairwise => false,
    }
}

fn runs_with(group: &GroupShape, algorithm: Algorithm, protocol: Protocol) -> bool {
    match (algorithm, protocol) {
        (Algorithm::Nvls | Algorithm::NvlsTree, protocol) => protocol == Protocol::Simple,
        (_, Protocol::Ll128) => group.inside.link != InsideLink::Pcie,
        _ => true,
    }
}

fn estimate(
    model: &CollectiveModel,
    group: &GroupShape,
    call: &Collective,
    algorithm: Algorithm,
    protocol: Protocol,
) -> Choice {
    let channels = model.limits.channels(group);
    let bytes = call.bytes as f64;
    let bus = bus(model, group, algorithm, protocol, channels);
    let bandwidth = match algorithm {
        Algorithm::Ring => bus / (call.kind.passes(group.ranks) * (1.0 + local(model, group, call.kind))),
        Algorithm::Tree => bus / 2.0 * model.tuner.tree_correction(protocol, bytes),
        Algorithm::Nvls | Algorithm::NvlsTree | Algorithm::Pairwise => bus,
    };
    let latency = 1e-6 * latency_us(model, group, call.kind, algorithm, protocol);
    let alone = if group.ranks < 2 { 0.0 } else { latency + bytes / bandwidth };
    let most = group.bus(model.relayed.fraction);
    Choice { algorithm, protocol, seconds: alone, latency: latency.min(alone), bus: most, channels }
}

/// What the ends of a ring inside a node add to its steps, as a share of them.
fn local(model: &CollectiveModel, group: &GroupShape, kind: CollectiveKind) -> f64 {
    let over_nvlink = group.nodes() == 1 && group.inside.link != InsideLink::Pcie;
    if over_nvlink { model.limits.ring_local_step / kind.steps(group.ranks).max(1.0) } else { 0.0 }
}

/// Bus bandwidth (bytes/s) that a protocol leaves to an algorithm.
fn bus(
    model: &CollectiveModel,
    group: &GroupShape,
    algorithm: Algorithm,
    protocol: Protocol,
    channels: u32,
) -> f64 {
    let (limits, tuner, full) = (&model.limits, &model.tuner, group.bus(model.relayed.fraction));
    let over_channels = |gb_per_s: f64| f64::from(channels) * gb_per_s * 1e9;
    match (algorithm, protocol) {
        (Algorithm::Ring, Protocol::Ll) => {
            (tuner.ll_fraction * full).min(limits.at(&limits.ll_max_gb_per_s, group) * 1e9)
        }
        (Algorithm::Ring, Protocol::Ll128) => {
            (tuner.ll128_fraction * full).min(over_channels(limits.ring_ll128_per_channel_gb_per_s))
        }
        (Algorithm::Ring, Protocol::Simple) | (Algorithm::Pairwise, _) => full,
        (Algorithm::Tree, _) => {
            let most = over_channels(limits.at(&limits.tree_per_channel_gb_per_s, group));
            (tuner.tree_fraction * full).min(most) * tuner.tree_protocol_fraction(protocol, group.nodes())
        }
        (Algorithm::Nvls | Algorithm::NvlsTree, _) => {
            let efficiency = limits.nvls.as_ref().map_or(1.0, |nvls| nvls.efficiency);
            let channels = f64::from(channels.max(2));
            let part = 1.0 / f64::from(group.ranks_per_node.max(1));
            let inside = group.inside.bytes_per_s * efficiency * (channels - 1.0) / channels / (1.0 + part);
            // Between nodes every byte passes the cards of a node twice, up and down the trees.
            if group.nodes() > 1 { inside.min(full / 2.0) } else { inside }
        }
    }
}

fn latency_us(
    model: &CollectiveModel,
    group: &GroupShape,
    kind: CollectiveKind,
    algorithm: Algorithm,
    protocol: Protocol,
) -> f64 {
    let tuner = &model.tuner;
    let nodes = f64::from(group.nodes());
    let hops = match (group.inside.link, algorithm) {
        // NCCL takes hops over a third member for as long as those over PCI Express; trees have none.
        (InsideLink::Pcie, _) | (InsideLink::Relayed, Algorithm::Ring) => &tuner.pcie_us,
        _ => &tuner.nvlink_us,
    };
    let at = |row: &super::parameters::ByProtocol| row.of(protocol);
    let net_overhead = tuner.net_overhead_us * if protocol == Protocol::Simple { 3.0 } else { 1.0 };
    match algorithm {
        Algorithm::Ring => {
            let (steps, crossing) = (kind.steps(group.ranks), kind.steps(group.nodes()));
            let inside = if nodes > 1.0 { at(&hops.ring).max(net_overhead) } else { at(&hops.ring) };
            let plateau = nodes > 1.0 && protocol == Protocol::Simple;
            let factor = if plateau { model.limits.ring_simple_latency_factor } else { 1.0 };
            factor
                * (at(&tuner.base_us.ring) + (steps - crossing) * inside + crossing * at(&tuner.net_us.ring))
        }
        Algorithm::Tree => {
            let local = f64::from(group.ranks_per_node.min(group.ranks)) - 1.0;
            at(&tuner.base_us.tree) + 2.0 * (local * at(&hops.tree) + nodes.log2() * at(&tuner.net_us.tree))
        }
        Algorithm::Nvls => tuner.nvls_us,
        Algorithm::NvlsTree => tuner.nvls_us + 2.0 * nodes.log2() * tuner.nvls_net_us,
        Algorithm::Pairwise => 0.0,
    }
}

/// Everyone sends to everyone: the slower of the links inside and the card of each source.
fn pairwise(model: &CollectiveModel, group: &GroupShape, call: &Collective) -> Choice {
    let mut choice = Choice {
        algorithm: Algorithm::Pairwise,
        protocol: Protocol::Simple,
        seconds: 0.0,
        latency: 0.0,
        bus: f64::INFINITY,
        channels: model.limits.channels(group),
    };
    let (inside, between) = choice.demands(group);
    choice.bus = match group.between {
        Some(cards) if between > 0.0 => {
            let shared = f64::from(group.ranks_per_node.max(1)) / f64::from(cards.nics.max(1));
            (cards.bytes_per_s / (between * shared.max(1.0)))
                .min(group.inside.bytes_per_s / inside.max(1e-12))
        }
        _ => group.inside.bytes_per_s,
    };
    if group.ranks > 1 {
        let hop =
            if group.nodes() > 1 { &model.point_to_point.network } else { &model.point_to_point.nv_link };
        choice.latency = 1e-6 * (hop.latency_us + hop.rendezvous_us);
        choice.seconds = choice.latency + choice.work(group, call) / choice.bus;
    }
    choice
}

impl Choice {
    /// Bytes that each rank sends over its busiest link.
    pub(super) fn work(&self, group: &GroupShape, call: &Collective) -> f64 {
        let (n, bytes) = (f64::from(group.ranks.max(1)), call.bytes as f64);
        if group.ranks < 2 {
            return 0.0;
        }
        match self.algorithm {
            Algorithm::Ring => call.kind.passes(group.ranks) * bytes,
            // Up once and down once.
            Algorithm::Tree => 2.0 * bytes,
            // The switch reads the tensor from everyone, and everyone writes its part of the sum once.
            Algorithm::Nvls | Algorithm::NvlsTree => {
                bytes * (1.0 + 1.0 / f64::from(group.ranks_per_node.max(1)))
            }
            Algorithm::Pairwise => bytes * (n - 1.0) / n,
        }
    }

    /// Bytes on the link inside and on each card, per unit of work.
    pub(super) fn demands(&self, group: &GroupShape) -> (f64, f64) {
        let nodes = group.nodes();
        let (n, local) = (f64::from(group.ranks), f64::from(group.ranks_per_node.max(1)));
        let cards = group.between.filter(|_| nodes > 1).map(|cards| f64::from(cards.nics.max(1)));
        match (self.algorithm, cards) {
            (_, None) => (1.0, 0.0),
            (Algorithm::Pairwise, Some(_)) => {
                let near = (local - 1.0) / (n - 1.0).max(1.0);
                (near, 1.0 - near)
            }
            // Trees between the nodes carry the tensor twice, through all cards of a node.
            (Algorithm::NvlsTree, Some(cards)) => (1.0, 2.0 / (1.0 + 1.0 / local) / cards),
            // Each ring and tree enters and leaves a node once; they are spread over its cards.
            (_, Some(cards)) => (if local > 1.0 { 1.0 } else { 0.0 }, 1.0 / cards),
        }
    }

    /// Channels that are started: one for so many bytes, up to all.
    pub(super) fn sms(&self, model: &CollectiveModel, call: &Collective) -> u32 {
        let wanted = call.bytes.div_ceil(model.tuner.bytes_per_channel.max(1));
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, self.channels.max(1))
    }
}
