//! What nodes and edges must have in common to be alike.

use std::collections::HashMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use super::graph::{Edge, GROUP_ROUTE, Graph, Kind};
use super::usage::{Object, slots_of};
use crate::id::FluidId;
use crate::platform::Demand;
use crate::program::{Body, CostTable, StartState};

impl Graph<'_> {
    /// A rank is what its streams execute, in their order, at what cost. Noise is off, so the device does not matter.
    pub(super) fn label_ranks(&mut self, labels: &mut Interner) -> Option<()> {
        let program = self.program;
        let costs: Vec<u32> = program.costs.iter().map(|table| labels.id(&content(table))).collect();
        for (binding, streams) in program.bindings.iter().zip(&self.streams) {
            let bodies: Vec<Body> =
                streams.iter().map(|stream| program.streams[stream.index()].body).collect();
            let cost = binding.costs.and_then(|table| costs.get(table.index()));
            let mut key = vec![0, cost.map_or(u64::MAX, |&cost| u64::from(cost))];
            key.extend(bodies.iter().map(|body| match body {
                Body::Role(role) => u64::from(role.0),
                Body::Serve(_) => u64::MAX,
            }));
            let label = labels.id(&key);
            if let Entry::Vacant(unknown) = self.uses.entry(label) {
                let table = binding.costs.and_then(|table| program.costs.get(table.index()));
                unknown.insert(slots_of(program, &bodies, table)?.into());
            }
            self.labels.push(label);
        }
        Some(())
    }

    /// Objects are what they can do and what they start with.
    pub(super) fn label_objects(&mut self, labels: &mut Interner, start: &StartState) {
        let started = self.started(start);
        let mut started = started.chunk_by(|a, b| a.0 == b.0).peekable();
        let mut key = Vec::new();
        for node in self.nodes(Kind::Rank).end..self.len() {
            let (kind, id) = self.kind(node);
            key.clear();
            key.push(kind as u64);
            self.describe(kind, id as usize, &mut key);
            if let Some(values) = started.next_if(|values| values[0].0 == node) {
                key.extend(values.iter().flat_map(|&(_, _, values)| values));
            }
            self.labels.push(labels.id(&key));
        }
    }

    /// Start values of objects (kind or offset, and quantity) by node, in the order of their declaration.
    fn started(&self, start: &StartState) -> Vec<(usize, usize, [u64; 2])> {
        let counters = start.counters.iter().map(|&(id, value)| (self.node(Kind::Counter, id.0), [0, value]));
        let stores = start
            .stores
            .iter()
            .map(|&(id, kind, bytes)| (self.node(Kind::Store, id.0), [u64::from(kind.0), bytes]));
        let cells = start.cells.iter().filter_map(|&(cell, state)| {
            let (region, offset) = self.place(cell.0)?;
            Some((self.node(Kind::Region, region), [u64::from(offset), u64::from(state)]))
        });
        let all = counters.chain(stores).chain(cells).enumerate();
        let mut all: Vec<_> = all.map(|(place, (node, values))| (node, place, values)).collect();
        all.sort_unstable();
        all
    }

    /// Adds to a key what an object can do.
    fn describe(&self, kind: Kind, id: usize, key: &mut Vec<u64>) {
        match kind {
            Kind::Fluid => {
                let fluid = &self.platform.fluids[id];
                key.extend([fluid.capacity.0, u64::from(fluid.cause.0)]);
                key.extend(
                    fluid.bucket.iter().flat_map(|bucket| [bucket.burst.0, bucket.volume, bucket.tokens]),
                );
            }
            Kind::Pool => key.push(u64::from(self.platform.pools[id].units)),
            Kind::Store => key.push(self.platform.stores[id].capacity),
            Kind::Region => {
                let (first, last) = self.regions[id];
                key.push(u64::from(last - first));
            }
            Kind::Group => {
                let group = &self.program.groups[id];
                key.extend([u64::from(group.members), u64::from(group.route.is_some())]);
            }
            Kind::Rank | Kind::Port | Kind::Counter | Kind::Queue => {}
        }
    }

    /// Edges of ranks by slot, then of groups by their routes.
    pub(super) fn connect(&mut self, labels: &mut Interner) {
        let program = self.program;
        let groups = self.nodes(Kind::Group);
        for node in 0..self.len() {
            if node < program.bindings.len() {
                self.connect_rank(labels, node);
            } else if let Some(route) =
                groups.contains(&node).then(|| program.groups[node - groups.start].route).flatten()
            {
                self.connect_route(labels, node, GROUP_ROUTE, route.0);
            }
            self.first_edge.push(self.edges.len());
        }
    }

    fn connect_rank(&mut self, labels: &mut Interner, rank: usize) {
        let program = self.program;
        let uses = Rc::clone(&self.uses[&self.labels[rank]]);
        for used in uses.iter() {
            let value = program.bindings[rank].slots[used.slot as usize];
            let slot = u32::from(used.slot);
            let Some(to) = self.object(used.object, value) else {
                self.connect_route(labels, rank, slot, value);
                continue;
            };
            let detail = match used.object {
                Object::Cell => u64::from(value - self.regions[self.region(value) as usize].0),
                _ => u64::from(used.joiners),
            };
            let key = [used.object as u64, u64::from(slot), detail, u64::from(used.posted)];
            self.edges.push(Edge { from: rank as u32, to: to as u32, slot, label: labels.id(&key) });
        }
        for (position, stream) in self.streams[rank].iter().enumerate() {
            if let Body::Serve(queue) = program.streams[stream.index()].body {
                let to = self.node(Kind::Queue, queue.0) as u32;
                let label = labels.id(&[position as u64]);
                self.edges.push(Edge { from: rank as u32, to, slot: GROUP_ROUTE, label });
            }
        }
    }

    fn connect_route(&mut self, labels: &mut Interner, from: usize, slot: u32, route: u32) {
        for (position, demand) in self.platform.routes[route as usize].demands.iter().enumerate() {
            let Demand { fluid: FluidId(fluid), coefficient, weight, port, prior, multiplicity } = *demand;
            let (from, through) = (from as u32, port.map_or(0, |_| position as u64 + 1));
            let (coefficient, weight) = (u64::from(coefficient.0), u64::from(weight.0));
            let key =
                [u64::from(slot), coefficient, weight, u64::from(prior), u64::from(multiplicity), through];
            let label = labels.id(&key);
            self.edges.push(Edge { from, to: self.node(Kind::Fluid, fluid) as u32, slot, label });
            if let Some(port) = port {
                self.edges.push(Edge { from, to: self.node(Kind::Port, port.0) as u32, slot, label });
            }
        }
    }
}

/// The content of a cost table as a key.
fn content(table: &CostTable) -> Vec<u64> {
    let optional = |value: Option<u16>| value.map_or(u64::MAX, u64::from);
    let mut key = vec![table.activities.len() as u64];
    for activity in &table.activities {
        key.extend([activity.latency.0, activity.work, activity.cap.0, optional(activity.route)]);
        key.extend([u64::from(activity.cause.0), optional(activity.units.map(|units| units.pool))]);
        key.extend(
            activity
                .units
                .iter()
                .flat_map(|units| [units.want, u32::from(units.priority), units.table.0].map(u64::from)),
        );
    }
    key.extend(&table.sizes);
    key
}

/// Gives equal keys equal small numbers.
#[derive(Default)]
pub(super) struct Interner {
    ids: HashMap<Box<[u64]>, u32, BuildHasherDefault<Mixer>>,
    /// The key asked for last, as neighbours are often alike.
    latest: (Vec<u64>, u32),
}

impl Interner {
    pub(super) fn id(&mut self, key: &[u64]) -> u32 {
        if self.latest.0 != key || self.ids.is_empty() {
            let next = self.ids.len() as u32;
            let known = self.ids.get(key).copied();
            self.latest.1 = known.unwrap_or_else(|| {
                self.ids.insert(key.into(), next);
                next
            });
            self.latest.0.clear();
            self.latest.0.extend_from_slice(key);
        }
        self.latest.1
    }
}

/// Hashes words alike in every run.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_le_bytes(padded));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, length: usize) {
        self.write_u64(length as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
