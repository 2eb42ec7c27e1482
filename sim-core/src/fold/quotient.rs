//! The folded program: representatives, in the order of their ids, with what stands behind their demands.

use std::collections::BTreeMap;

use super::Folded;
use super::conflicts::kept_streams;
use super::graph::{GROUP_ROUTE, Graph, KINDS, Kind};
use super::labels::Interner;
use super::teams::Classes;
use super::usage::Object;
use crate::id::{BindingId, CellId, CounterId, FluidId, PortId, QueueId, RouteId, StoreId, StreamId};
use crate::platform::{Demand, Platform, Route};
use crate::program::{Binding, Body, Group, Program, StartState, Stream};

/// The program of the representatives; none if a multiplicity exceeds `u32`.
pub(super) fn build(graph: &Graph<'_>, classes: &Classes, start: &StartState) -> Option<Folded> {
    let mut quotient = Quotient::new(graph, classes);
    let bindings = quotient.bindings()?;
    let groups = quotient.groups()?;
    let kept = kept_streams(graph, classes);
    let ids: BTreeMap<u32, u32> =
        (0..).zip(&kept).filter(|&(old, &kept)| old == kept).map(|(old, _)| old).zip(0..).collect();
    Some(Folded {
        program: quotient.program(bindings, groups, &kept),
        start: quotient.start(start),
        streams: kept.iter().map(|old| StreamId(ids[old])).collect(),
        stores: graph.nodes(Kind::Store).map(|node| StoreId(quotient.id(node))).collect(),
        fluids: graph.nodes(Kind::Fluid).map(|node| FluidId(quotient.id(node))).collect(),
        platform: quotient.platform(),
    })
}

struct Quotient<'a> {
    graph: &'a Graph<'a>,
    classes: &'a Classes,
    /// For each class the position of its representative among those of its kind.
    ids: Vec<u32>,
    /// First new cell of each region that is kept, by old region.
    first_cell: Vec<u32>,
    cells: u32,
    /// Edges of one label from one class onto one fluid, by (class of the fluid, class, label).
    multiplicity: BTreeMap<(u32, u32, u32), u32>,
    routes: Vec<Route>,
    /// Finds equal routes.
    known_routes: Interner,
}

impl<'a> Quotient<'a> {
    fn new(graph: &'a Graph<'a>, classes: &'a Classes) -> Self {
        let mut ids = vec![0; classes.representative.len()];
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Region) {
            for (id, node) in graph.nodes(kind).filter(|&node| classes.represents(node)).enumerate() {
                ids[classes.of[node] as usize] = id as u32;
            }
        }
        let (mut first_cell, mut cells) = (Vec::new(), 0);
        for (node, (first, last)) in graph.nodes(Kind::Region).zip(&graph.regions) {
            first_cell.push(cells);
            cells += if classes.represents(node) { last - first + 1 } else { 0 };
        }
        let mut multiplicity = BTreeMap::new();
        let fluids = graph.nodes(Kind::Fluid);
        for edge in graph.edges.iter().filter(|edge| fluids.contains(&(edge.to as usize))) {
            if classes.represents(edge.to as usize) {
                let key = (classes.of[edge.to as usize], classes.of[edge.from as usize], edge.label);
                *multiplicity.entry(key).or_insert(0) += 1;
            }
        }
        Self {
            graph,
            classes,
            ids,
            first_cell,
            cells,
            multiplicity,
            routes: Vec::new(),
            known_routes: Interner::default(),
        }
    }

    /// The new id of what stands for a node.
    fn id(&self, node: usize) -> u32 {
        self.ids[self.classes.of[node] as usize]
    }

    fn representatives(&self, kind: Kind) -> impl Iterator<Item = usize> {
        let classes = self.classes;
        self.graph.nodes(kind).filter(move |&node| classes.represents(node))
    }

    fn bindings(&mut self) -> Option<Vec<Binding>> {
        let program = self.graph.program;
        let ranks: Vec<usize> = self.representatives(Kind::Rank).collect();
        ranks
            .into_iter()
            .map(|rank| {
                let mut binding = program.bindings[rank].clone();
                for used in self.graph.slots_of(rank) {
                    let value = &mut binding.slots[used.slot as usize];
                    *value = match used.object {
                        Object::Route => self.route(rank, used.slot.into(), RouteId(*value))?.0,
                        Object::Cell => self.cell(*value)?.0,
                        object => self.id(self.graph.object(object, *value)?),
                    };
                }
                Some(binding)
            })
            .collect()
    }

    /// The new cell for one that some rank reaches.
    fn cell(&self, cell: u32) -> Option<CellId> {
        let (region, offset) = self.graph.place(cell)?;
        let node = self.classes.representative_of(self.graph.node(Kind::Region, region));
        let (_, region) = self.graph.kind(node);
        Some(CellId(self.first_cell[region as usize] + offset))
    }

    /// The route of a representative: one demand on each class of fluids, with all that the class puts on one of them.
    fn route(&mut self, node: usize, slot: u32, route: RouteId) -> Option<RouteId> {
        let (graph, classes) = (self.graph, self.classes);
        let mut demands: Vec<Demand> = Vec::new();
        for (demand, edge) in
            graph.platform.routes[route.index()].demands.iter().zip(graph.demands_of(node, slot))
        {
            let fluid = FluidId(self.id(edge.to as usize));
            if demands.iter().any(|known| known.fluid == fluid) {
                continue;
            }
            let key = (classes.of[edge.to as usize], classes.of[node], edge.label);
            let multiplicity = demand.multiplicity.checked_mul(self.multiplicity[&key])?;
            let port = demand.port.map(|port| PortId(self.id(graph.node(Kind::Port, port.0))));
            demands.push(Demand { fluid, port, multiplicity, ..*demand });
        }
        let key: Vec<u64> = demands.iter().flat_map(words).collect();
        let id = self.known_routes.id(&key) as usize;
        if id == self.routes.len() {
            self.routes.push(Route { demands });
        }
        Some(RouteId::from(id))
    }

    /// A group waits for one stream of each class in place of all, unless it serves in order (its ranks are kept).
    fn groups(&mut self) -> Option<Vec<Group>> {
        let graph = self.graph;
        let mut arrivals = vec![0u32; self.classes.representative.len()];
        for rank in graph.nodes(Kind::Rank).filter(|&rank| self.classes.represents(rank)) {
            for used in graph.slots_of(rank).iter().filter(|used| used.object == Object::Group) {
                let group =
                    graph.object(Object::Group, graph.program.bindings[rank].slots[used.slot as usize])?;
                arrivals[self.classes.of[group] as usize] += used.joiners;
            }
        }
        let groups: Vec<usize> = self.representatives(Kind::Group).collect();
        groups
            .into_iter()
            .map(|node| {
                let Group { members, route } = graph.program.groups[graph.kind(node).1 as usize];
                let together = !graph.in_order[node];
                let members = if together { arrivals[self.classes.of[node] as usize] } else { members };
                let route = match route {
                    Some(route) => Some(self.route(node, GROUP_ROUTE, route)?),
                    None => None,
                };
                Some(Group { members, route })
            })
            .collect()
    }

    fn program(&self, bindings: Vec<Binding>, groups: Vec<Group>, kept: &[u32]) -> Program {
        let (graph, program) = (self.graph, self.graph.program);
        let streams = program.streams.iter().zip(0u32..).filter(|&(_, id)| kept[id as usize] == id);
        let streams = streams.map(|(stream, _)| Stream {
            name: stream.name.clone(),
            binding: BindingId(self.id(stream.binding.index())),
            body: match stream.body {
                Body::Role(role) => Body::Role(role),
                Body::Serve(queue) => Body::Serve(QueueId(self.id(graph.node(Kind::Queue, queue.0)))),
            },
            device: stream.device,
        });
        Program {
            streams: streams.collect(),
            bindings,
            groups,
            counters: self.representatives(Kind::Counter).count() as u32,
            cells: self.cells,
            queues: self.kept(Kind::Queue, &program.queues),
            reclaim: Vec::new(),
            roles: program.roles.clone(),
            blocks: program.blocks.clone(),
            costs: program.costs.clone(),
            branches: program.branches.clone(),
            caps: program.caps.clone(),
            kinds: program.kinds.clone(),
            causes: program.causes.clone(),
            noise: program.noise,
        }
    }

    fn platform(self) -> Platform {
        let platform = self.graph.platform;
        Platform {
            fluids: self.kept(Kind::Fluid, &platform.fluids),
            ports: self.representatives(Kind::Port).count() as u32,
            pools: self.kept(Kind::Pool, &platform.pools),
            stores: self.kept(Kind::Store, &platform.stores),
            routes: self.routes,
        }
    }

    /// The objects of a kind that stand for their class.
    fn kept<T: Clone>(&self, kind: Kind, objects: &[T]) -> Vec<T> {
        self.representatives(kind).map(|node| objects[self.graph.kind(node).1 as usize].clone()).collect()
    }

    /// What the representatives start with.
    fn start(&self, start: &StartState) -> StartState {
        let graph = self.graph;
        let represents = |kind, id| self.classes.represents(graph.node(kind, id));
        let new = |kind, id| self.id(graph.node(kind, id));
        let counters = start.counters.iter().filter(|(counter, _)| represents(Kind::Counter, counter.0));
        let stores = start.stores.iter().filter(|(store, ..)| represents(Kind::Store, store.0));
        let cells = start.cells.iter().filter(|(cell, _)| {
            graph.place(cell.0).is_some_and(|(region, _)| represents(Kind::Region, region))
        });
        StartState {
            counters: counters.map(|&(id, value)| (CounterId(new(Kind::Counter, id.0)), value)).collect(),
            cells: cells.filter_map(|&(cell, state)| Some((self.cell(cell.0)?, state))).collect(),
            stores: stores.map(|&(id, kind, bytes)| (StoreId(new(Kind::Store, id.0)), kind, bytes)).collect(),
        }
    }
}

/// A demand as part of a key.
fn words(demand: &Demand) -> [u64; 6] {
    let port = demand.port.map_or(u64::MAX, |port| port.0.into());
    let Demand { fluid, coefficient, weight, prior, multiplicity, .. } = *demand;
    [fluid.0.into(), coefficient.0.into(), weight.0.into(), port, prior.into(), multiplicity.into()]
}
