//! Closed workloads of flows on a switch tree (8 hosts per leaf, host links 1 GB/s, leaf uplinks 2 GB/s per
//! direction, a core that never blocks): each of N slots runs one random flow after the other, `local`
//! percent of them inside a leaf. The network with progress and a heap of finish times, beside the same loop
//! over the reference, in one process.
//!
//! `cargo bench -p sim-core --bench sharing`, with `-- '4096 slots'` to choose rows

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

#[path = "../tests/integration/sharing/reference.rs"]
#[expect(dead_code, reason = "tests verify rates, the bench only takes them")]
mod reference;

use std::collections::BTreeMap;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim_core::fixed::{RATE_BITS, Rate};
use sim_core::id::{CauseId, FluidId};
use sim_core::platform::{Demand, Platform};
use sim_core::queue::finish::FinishTree;
use sim_core::sharing::{FlowId, Network};
use sim_core::time::Time;

use reference::Activity;

const HOSTS_PER_LEAF: u32 = 8;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let chosen = |name: &str| words.iter().all(|word| name.contains(word.as_str()));
    println!("flows/s                     network    reference     ratio");
    for hosts in [512, 8192] {
        let name = format!("ring of {hosts}");
        if !chosen(&name) {
            continue;
        }
        let tree = Tree::new(hosts);
        let steps = 4_000_000 / hosts;
        let fast = best(|| ring(&tree, &mut Network::new(&tree.platform), steps));
        let slow = ring(&tree, &mut Plain::new(&tree.platform), 20);
        report(&name, fast, slow);
    }
    let tree = Tree::new(512);
    for (local, slots, flows, plain) in [
        (100, 512, 1_000_000, 2_000),
        (90, 64, 1_000_000, 10_000),
        (90, 512, 500_000, 1_000),
        (90, 1024, 300_000, 300),
        (90, 4096, 60_000, 40),
        (0, 64, 300_000, 3_000),
        (0, 512, 30_000, 300),
        (0, 1024, 15_000, 100),
        (0, 4096, 6_000, 20),
    ] {
        let name = format!("{slots} slots, {local} % local");
        if !chosen(&name) {
            continue;
        }
        let fast = best(|| closed(&tree, &mut Network::new(&tree.platform), slots, local, flows));
        let slow = closed(&tree, &mut Plain::new(&tree.platform), slots, local, plain);
        report(&name, fast, slow);
    }
    for (slots, flows, plain) in [(64, 1_000_000, 3_000), (1024, 300_000, 100)] {
        if chosen(&format!("{slots} prior flows")) {
            beside_prior(slots, flows, plain);
        }
    }
}

/// Flows that are prior on a memory, each held back by a link of its own, beside one that takes what they leave.
fn beside_prior(slots: u32, flows: u32, plain: u32) {
    let mut platform = Platform::default();
    let memory = platform.fluid("memory", f64::from(slots) * 2e9, CauseId(0));
    let links: Vec<FluidId> = (0..slots).map(|_| platform.fluid("link", 1e9, CauseId(0))).collect();
    let fast = best(|| prior(memory, &links, &mut Network::new(&platform), flows));
    let slow = prior(memory, &links, &mut Plain::new(&platform), plain);
    report(&format!("{slots} prior flows"), fast, slow);
}

/// Flows per second of the wall clock.
fn prior(memory: FluidId, links: &[FluidId], network: &mut impl Sharing, flows: u32) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut progress = Progress::default();
    let next = |slot: u32, network: &mut _, progress: &mut Progress| {
        let demands = [Demand::on(links[slot as usize]), Demand::on(memory).prior()];
        let flow = Sharing::start(network, &demands);
        progress.start(flow, random.random_range(100_000_000..1_000_000_000), slot);
    };
    let rest = network.start(&[Demand::on(memory)]);
    progress.start(rest, 1 << 50, u32::MAX);
    progress.drive(network, links.len() as u32, flows, next)
}

fn report(name: &str, fast: f64, slow: f64) {
    println!("{name:<22} {fast:>12.0} {slow:>12.0} {:>8.0}x", fast / slow);
}

/// The best of three, as everything else is other load of the machine.
fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..3).map(|_| run()).fold(0.0, f64::max)
}

/// What both solvers do.
trait Sharing {
    fn start(&mut self, demands: &[Demand]) -> FlowId;
    fn stop(&mut self, flow: FlowId);
    /// The flows whose rate changed, and those rates.
    fn reshare(&mut self, changed: impl FnMut(FlowId, Rate));
}

impl Sharing for Network {
    fn start(&mut self, demands: &[Demand]) -> FlowId {
        self.start(demands, Rate::UNLIMITED)
    }

    fn stop(&mut self, flow: FlowId) {
        self.stop(flow);
    }

    fn reshare(&mut self, mut changed: impl FnMut(FlowId, Rate)) {
        self.reshare();
        for &flow in self.changed() {
            changed(flow, self.rate(flow));
        }
    }
}

/// The reference, solving everything each time.
struct Plain {
    capacities: Vec<Rate>,
    active: BTreeMap<u32, (Activity, Rate)>,
    vacant: Vec<u32>,
}

impl Plain {
    fn new(platform: &Platform) -> Self {
        let capacities = platform.fluids.iter().map(|fluid| fluid.capacity).collect();
        Self { capacities, active: BTreeMap::new(), vacant: Vec::new() }
    }
}

impl Sharing for Plain {
    fn start(&mut self, demands: &[Demand]) -> FlowId {
        let id = self.vacant.pop().unwrap_or(self.active.len() as u32);
        self.active.insert(id, (Activity { demands: demands.to_vec(), cap: Rate::UNLIMITED }, Rate(0)));
        FlowId(id)
    }

    fn stop(&mut self, flow: FlowId) {
        self.active.remove(&flow.0);
        self.vacant.push(flow.0);
    }

    fn reshare(&mut self, mut changed: impl FnMut(FlowId, Rate)) {
        let activities: Vec<Activity> = self.active.values().map(|(activity, _)| activity.clone()).collect();
        let rates = reference::rates(&self.capacities, &activities).expect("plain flows are uniform");
        for ((id, (_, rate)), new) in self.active.iter_mut().zip(rates) {
            if std::mem::replace(rate, new) != new {
                changed(FlowId(*id), new);
            }
        }
    }
}

struct Tree {
    platform: Platform,
    hosts: u32,
}

impl Tree {
    /// Fluids: up and down of every host, then up and down of every leaf.
    fn new(hosts: u32) -> Self {
        let mut platform = Platform::default();
        for host in 0..hosts {
            platform.fluid(format!("host[{host}].up"), 1e9, CauseId(0));
            platform.fluid(format!("host[{host}].down"), 1e9, CauseId(0));
        }
        for leaf in 0..hosts / HOSTS_PER_LEAF {
            platform.fluid(format!("leaf[{leaf}].up"), 2e9, CauseId(0));
            platform.fluid(format!("leaf[{leaf}].down"), 2e9, CauseId(0));
        }
        Self { platform, hosts }
    }

    fn route(&self, from: u32, to: u32, demands: &mut Vec<Demand>) {
        demands.clear();
        let on = |fluid| Demand::on(FluidId(fluid));
        demands.push(on(2 * from));
        let (leaf, other) = (from / HOSTS_PER_LEAF, to / HOSTS_PER_LEAF);
        if leaf != other {
            demands.push(on(2 * (self.hosts + leaf)));
            demands.push(on(2 * (self.hosts + other) + 1));
        }
        demands.push(on(2 * to + 1));
    }
}

/// Work left of every flow, and when it ends.
#[derive(Default)]
struct Progress {
    now: Time,
    flows: Vec<Left>,
    finishes: FinishTree,
}

#[derive(Clone, Copy)]
struct Left {
    /// 2^-40 bytes.
    work: u128,
    rate: Rate,
    since: Time,
    slot: u32,
}

impl Progress {
    fn start(&mut self, flow: FlowId, bytes: u64, slot: u32) {
        let left = Left { work: u128::from(bytes) << RATE_BITS, rate: Rate(0), since: self.now, slot };
        if self.flows.len() <= flow.index() {
            self.flows.resize(flow.index() + 1, left);
        }
        self.flows[flow.index()] = left;
    }

    fn reshare(&mut self, network: &mut impl Sharing) {
        network.reshare(|flow, rate| {
            let left = &mut self.flows[flow.index()];
            let elapsed = u128::from((self.now - left.since).0);
            left.work = left.work.saturating_sub(u128::from(left.rate.0) * elapsed);
            (left.rate, left.since) = (rate, self.now);
            let time = left.work.div_ceil(u128::from(rate.0));
            self.finishes.set(flow.0, Time(self.now.0 + time as u64));
        });
    }

    /// Keeps each slot busy with a flow of `next` until `flows` have ended; gives flows per second of the wall clock.
    fn drive<N: Sharing>(
        &mut self,
        network: &mut N,
        slots: u32,
        flows: u32,
        mut next: impl FnMut(u32, &mut N, &mut Self),
    ) -> f64 {
        (0..slots).for_each(|slot| next(slot, network, self));
        self.reshare(network);
        let (mut ended, mut done) = (Vec::new(), 0);
        let start = Instant::now();
        while done < flows {
            let (time, _) = self.finishes.peek().expect("some slot is busy");
            self.now = time;
            ended.clear();
            self.finishes.drain(time, &mut ended);
            for &flow in &ended {
                network.stop(FlowId(flow));
                next(self.flows[flow as usize].slot, network, self);
                done += 1;
            }
            self.reshare(network);
        }
        f64::from(done) / start.elapsed().as_secs_f64()
    }
}

/// Flows per second of the wall clock.
fn closed(tree: &Tree, network: &mut impl Sharing, slots: u32, local: u32, flows: u32) -> f64 {
    let mut random: Vec<ChaCha8Rng> = (0..slots).map(|slot| ChaCha8Rng::seed_from_u64(slot.into())).collect();
    let mut progress = Progress::default();
    let mut demands = Vec::new();
    let next = |slot: u32, network: &mut _, progress: &mut Progress| {
        let random = &mut random[slot as usize];
        let from = random.random_range(0..tree.hosts);
        let leaf = from / HOSTS_PER_LEAF * HOSTS_PER_LEAF;
        let inside = random.random_range(0..100) < local;
        let (first, count) = if inside { (leaf, HOSTS_PER_LEAF) } else { (0, tree.hosts) };
        let to = first + (from - first + random.random_range(1..count)) % count;
        tree.route(from, to, &mut demands);
        let flow = Sharing::start(network, &demands);
        progress.start(flow, random.random_range(100_000_000..1_000_000_000), slot);
    };
    progress.drive(network, slots, flows, next)
}

/// Every host sends to the next one, all in step.
fn ring(tree: &Tree, network: &mut impl Sharing, steps: u32) -> f64 {
    let routes: Vec<Vec<Demand>> = (0..tree.hosts)
        .map(|host| {
            let mut demands = Vec::new();
            tree.route(host, (host + 1) % tree.hosts, &mut demands);
            demands
        })
        .collect();
    let mut progress = Progress::default();
    let mut ended = Vec::new();
    let start = Instant::now();
    for _ in 0..steps {
        for (host, demands) in (0..).zip(&routes) {
            let flow = network.start(demands);
            progress.start(flow, 1_000_000, host);
        }
        progress.reshare(network);
        let (time, _) = progress.finishes.peek().expect("all hosts send");
        progress.now = time;
        ended.clear();
        progress.finishes.drain(time, &mut ended);
        assert_eq!(ended.len(), routes.len(), "a ring moves in step");
        ended.iter().for_each(|&flow| network.stop(FlowId(flow)));
    }
    f64::from(steps * tree.hosts) / start.elapsed().as_secs_f64()
}
