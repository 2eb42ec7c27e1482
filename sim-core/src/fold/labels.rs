//! What nodes and edges must have in common to be alike.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
                unknown.insert(slots_of(program, &bodies, table)?);
            }
            self.labels.push(label);
        }
        Some(())
    }

    /// Objects are what they can do and what they start with.
    pub(super) fn label_objects(&mut self, labels: &mut Interner, start: &StartState) {
        let mut keys: Vec<Vec<u64>> = vec![Vec::new(); self.len()];
        for (node, fluid) in self.nodes(Kind::Fluid).zip(&self.platform.fluids) {
            keys[node] = vec![fluid.capacity.0, u64::from(fluid.cause.0)];
            keys[node].extend(fluid.bucket.iter().flat_map(|bucket| [bucket.burst.0, bucket.volume]));
        }
        for (node, pool) in self.nodes(Kind::Pool).zip(&self.platform.pools) {
            keys[node].push(u64::from(pool.units));
        }
        for (node, store) in self.nodes(Kind::Store).zip(&self.platform.stores) {
            keys[node].push(store.capacity);
        }
        for (node, (first, last)) in self.nodes(Kind::Region).zip(&self.regions) {
            keys[node].push(u64::from(last - first));
        }
        for (node, group) in self.nodes(Kind::Group).zip(&self.program.groups) {
            keys[node] = vec![u64::from(group.members), u64::from(group.route.is_some())];
        }
        for &(counter, value) in &start.counters {
            keys[self.node(Kind::Counter, counter.0)].push(value);
        }
        for &(store, kind, bytes) in &start.stores {
            keys[self.node(Kind::Store, store.0)].extend([u64::from(kind.0), bytes]);
        }
        for &(cell, state) in &start.cells {
            if let Some((region, offset)) = self.place(cell.0) {
                keys[self.node(Kind::Region, region)].extend([u64::from(offset), u64::from(state)]);
            }
        }
        for (node, mut key) in keys.into_iter().enumerate().skip(self.nodes(Kind::Rank).end) {
            key.insert(0, self.kind(node).0 as u64);
            self.labels.push(labels.id(&key));
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
        let mut edges = Vec::new();
        for used in &self.uses[&self.labels[rank]] {
            let value = program.bindings[rank].slots[used.slot as usize];
            let detail = match used.object {
                Object::Cell => u64::from(value - self.regions[self.region(value) as usize].0),
                _ => u64::from(used.joiners),
            };
            let slot = u32::from(used.slot);
            let key = [used.object as u64, u64::from(slot), detail, u64::from(used.posted)];
            edges.push((slot, value, self.object(used.object, value), labels.id(&key)));
        }
        for (slot, value, object, label) in edges {
            match object {
                Some(to) => self.edges.push(Edge { from: rank as u32, to: to as u32, slot, label }),
                None => self.connect_route(labels, rank, slot, value),
            }
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
pub(super) struct Interner(BTreeMap<Vec<u64>, u32>);

impl Interner {
    pub(super) fn id(&mut self, key: &[u64]) -> u32 {
        if let Some(&id) = self.0.get(key) {
            return id;
        }
        let id = self.0.len() as u32;
        self.0.insert(key.to_vec(), id);
        id
    }
}
