//! Copies by copy engines between devices and host memories, as demands on the links that they cross.
//!
//! A link carries copies at other rates than what collectives plan with, and each direction slower while the other is busy:
//!
//! ```text
//! switch[0] -> socket[0]     one direction: `alone` of that direction
//! socket[0] -> switch[0]     the other
//! switch[0] <-> socket[0]    both together: the sum of both `against`, shared by the directions, however many copies each has
//! ```
//!
//! An output port of a PCIe switch serves its input ports in turn, so that what comes through another switch shares the turn
//! of one port (Martinasso et al., SC 2016). Reads of host memory meet where they are answered, at the memory, and share that
//! copy by copy.
//!
//! Whoever reads a memory has so many requests there at most, and waits as long as all others for each once it is saturated
//! (Vuppalapati et al., Understanding the Host Network, SIGCOMM 2024), so that it is shared by their numbers: a copy engine has a part of
//! what all cores of a host have.

use std::collections::BTreeMap;

use sim_core::fixed::{Rate, Ratio};
use sim_core::id::{CauseId, PortId};
use sim_core::platform::{Demand, Platform};

use crate::catalogue::{CopyRates, LinkKind, OneWay};

use super::part::PartKind;
use super::{DirectedLink, Link, Machine, MachineResources, PartId, Route};

/// Requests of all processors of a host at a memory for each of a copy engine: 77 and 42 GB/s of two Xeon Silver 4510 and one engine over
/// PCIe 5 that read it at once (github.com/JustVugg/colibri issue 537).
const OF_PROCESSORS: f64 = 77.0 / 42.0;

/// What is shared by the copies of a machine, as far as any crosses it.
#[derive(Clone, Debug)]
pub struct Transfers<'a> {
    machine: &'a Machine,
    /// What time lost where directions meet counts under.
    cause: CauseId,
    /// By the first direction of a link, both directions together.
    both_ways: BTreeMap<DirectedLink, [Demand; 2]>,
    /// By the link into a switch and the one out of it.
    inputs: BTreeMap<[DirectedLink; 2], PortId>,
}

/// Where a copy is on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leg {
    /// Towards host memory.
    FromDevice,
    /// Away from it.
    ToDevice,
}

impl<'a> Transfers<'a> {
    /// Nothing is shared yet.
    pub const fn new(machine: &'a Machine, cause: CauseId) -> Self {
        Self { machine, cause, both_ways: BTreeMap::new(), inputs: BTreeMap::new() }
    }

    /// The demands of a copy on links, one per fluid; what is shared is added to the platform when it is first crossed. The
    /// memories of GPUs at its ends are not among them. A byte passes a host memory `passes` times: once, or thrice where it is
    /// pageable.
    pub fn demands(
        &mut self,
        platform: &mut Platform,
        resources: &MachineResources,
        route: &Route,
        passes: f64,
    ) -> Vec<Demand> {
        let mut demands = Vec::new();
        for (at, &id) in route.links.iter().enumerate() {
            let link = self.machine.link(id);
            let on = Demand::on(resources.links[id.index()]);
            let Some(rates) = link.copies else {
                let times = if link.kind == LinkKind::Memory { passes } else { 1.0 };
                join(&mut demands, self.through(platform, route, at, on).coefficient(times));
                continue;
            };
            // A link that carries copies faster than other transfers carries that; each of those keeps its own limit. Of one that is
            // slower for copies they take the more.
            let way = rates.of(self.machine.leg(route, at));
            let capacity = &mut platform.fluids[on.fluid.index()].capacity;
            *capacity = (*capacity).max(Rate::per_second(way.alone));
            let share = (self.machine.capacity(id) / way.alone).max(1.0);
            join(&mut demands, self.through(platform, route, at, on).coefficient(share).weight(share));
            let both = self.meeting(platform, id, rates).weight(way.against / rates.both_ways());
            join(&mut demands, both);
        }
        demands
    }

    /// The same demand, through the port of a switch where several switches meet.
    fn through(&mut self, platform: &mut Platform, route: &Route, at: usize, demand: Demand) -> Demand {
        let (Some(before), link) = (at.checked_sub(1), route.links[at]) else { return demand };
        if !self.machine.meets_switches(link) {
            return demand;
        }
        let pair = [route.links[before], link];
        demand.port(*self.inputs.entry(pair).or_insert_with(|| platform.port()))
    }

    /// Both directions of a link together, through the one that is crossed.
    fn meeting(&mut self, platform: &mut Platform, id: DirectedLink, rates: CopyRates) -> Demand {
        let first = DirectedLink(id.0 & !1);
        let ways = self.both_ways.entry(first).or_insert_with(|| {
            let link = self.machine.link(first);
            let [from, to] = [link.from, link.to].map(|end| self.machine.part(end).name);
            both_ways(platform, format!("{from} <-> {to}"), rates, self.cause)
        });
        ways[(id.0 & 1) as usize]
    }
}

/// What the directions of a link share when both are busy, as the demand of each: a port of its own.
pub(super) fn both_ways(
    platform: &mut Platform,
    name: String,
    rates: CopyRates,
    cause: CauseId,
) -> [Demand; 2] {
    let fluid = platform.fluid(name, rates.both_ways(), cause);
    [(); 2].map(|()| Demand::on(fluid).port(platform.port()))
}

impl Machine {
    /// What one of so many equal `parts` of the processors reads and writes of a host memory, beside copies; none if nothing is joined
    /// to it.
    pub fn processors(&self, resources: &MachineResources, memory: PartId, parts: u32) -> Option<Demand> {
        let link = self.links_from(memory).next()?;
        Some(Demand::on(resources.links[link.index()]).weight(OF_PROCESSORS / f64::from(parts.max(1))))
    }

    /// What a copy gets when nothing else is on its links (byte/s); infinite within a part. A byte passes a host memory
    /// `passes` times.
    pub fn copy_bytes_per_s(&self, route: &Route, passes: f64) -> f64 {
        // A byte that crosses a memory twice, or both ways of a link, takes as much longer.
        let mut spent: BTreeMap<(DirectedLink, bool), f64> = BTreeMap::new();
        for (at, &id) in route.links.iter().enumerate() {
            let link = self.link(id);
            let together = DirectedLink(id.0 & !1);
            match link.copies {
                Some(rates) => {
                    *spent.entry((id, false)).or_default() += 1.0 / rates.of(self.leg(route, at)).alone;
                    *spent.entry((together, true)).or_default() += 1.0 / rates.both_ways();
                }
                None => {
                    let times = if link.kind == LinkKind::Memory { passes } else { 1.0 };
                    let shared = if link.half_duplex { together } else { id };
                    *spent.entry((shared, false)).or_default() += times / link.bytes_per_s;
                }
            }
        }
        spent.values().fold(f64::INFINITY, |least, seconds| least.min(1.0 / seconds))
    }

    /// Whether copies are on their way to host memory or away from it. Between a drive and a GPU the GPU is the device; a drive reads
    /// what is written to it out of host memory.
    fn leg(&self, route: &Route, at: usize) -> Leg {
        let ends_in = |kind: PartKind, links: &[DirectedLink]| {
            links.iter().any(|&link| self.part(self.link(link).to).kind == kind)
        };
        let ahead = &route.links[at..];
        let from_memory = self.part(self.link(route.links[0]).from).kind == PartKind::Memory;
        let towards = ends_in(PartKind::Memory, ahead) || (ends_in(PartKind::Ssd, ahead) && !from_memory);
        if towards { Leg::FromDevice } else { Leg::ToDevice }
    }

    /// Whether a link leaves a switch that another switch hangs on.
    fn meets_switches(&self, link: DirectedLink) -> bool {
        let Link { from, to, .. } = self.link(link);
        let is_switch = |part| self.part(part).kind == PartKind::Switch;
        let below = |&other: &DirectedLink| self.link(other).to != to && is_switch(self.link(other).to);
        is_switch(from) && self.links_from(from).any(|other| below(&other))
    }
}

impl CopyRates {
    const fn of(&self, leg: Leg) -> OneWay {
        match leg {
            Leg::FromDevice => self.from_device,
            Leg::ToDevice => self.to_device,
        }
    }
}

/// Adds a demand to those of one transfer, at most one per fluid: what crosses one twice counts twice, and through no port if it
/// comes from both sides.
pub fn join(demands: &mut Vec<Demand>, demand: Demand) {
    match demands.iter_mut().find(|known| known.fluid == demand.fluid) {
        Some(known) => {
            known.coefficient.0 += demand.coefficient.0;
            known.weight.0 += demand.weight.0;
            known.port = known.port.filter(|&port| demand.port == Some(port));
        }
        None => demands.push(demand),
    }
}

/// A part of a demand, with the weight of as much as goes through it.
pub fn part_of(demand: Demand, part: f64) -> Demand {
    let one = f64::from(Ratio::ONE.0);
    let [coefficient, weight] = [demand.coefficient, demand.weight].map(|of| f64::from(of.0) * part / one);
    demand.coefficient(coefficient).weight(weight)
}
