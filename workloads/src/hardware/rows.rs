//! Costs of rows of a graph on their way to a GPU: drawn or copied by threads of the host, or read
//! by the GPU over its links, from its host, from other GPUs or from drives.

use std::collections::BTreeMap;

use hw_models::host::HostCosts;
use hw_models::machine::{DirectedLink, Route, RouteKind};
use hw_models::reads::{
    HostGather, INDEX_BYTES, LinkReads, ManagedReads, Order, PageReaders, PageReads, RowReads, sorting,
};
use sim_core::fixed::Rate;
use sim_core::program::{CapRow, CapTable};
use sim_core::time::Time;

use super::{CostModels, HardwareError};
use crate::cost::OpCost;
use crate::graph::operator::{Afar, Medium, RowWork, Sockets};
use crate::site::{LineRequests, RowSource, RowWay};

impl CostModels<'_> {
    /// Cost of work on rows.
    pub(super) fn rows(&mut self, kind: usize, work: RowWork) -> Result<OpCost, HardwareError> {
        match work {
            RowWork::Sample { edges, threads } => {
                let time = edges as f64 * self.host.neighbour.time().as_secs() / f64::from(threads.max(1));
                Ok(of_host(SAMPLED_BYTES * edges, time))
            }
            RowWork::Copy { rows, row_bytes, order, threads, on } => {
                let memory_bytes_per_s = f64::INFINITY;
                let gather = HostGather { rows, row_bytes, order, threads, memory_bytes_per_s };
                let (bytes, seconds) = (gather.traffic(), gather.alone().as_secs());
                if on == Sockets::Each {
                    return Ok(of_host(bytes, seconds));
                }
                let way = self.way_of_rows(RowWay::of(RowSource::Copied(on)));
                Ok(OpCost::Fetch { bytes, way, cap: rate(bytes, seconds) })
            }
            RowWork::Allocate(segments) => {
                let HostCosts { allocation, release, synchronise, .. } = self.host;
                let calls = allocation.time(segments).saturating_add(release.time(segments));
                Ok(OpCost::Lasting(calls.saturating_add(synchronise.time())))
            }
            RowWork::Read { rows, from, multiprocessors } => self.read(kind, rows, from, multiprocessors),
            RowWork::Pages { pages, payload } => self.pages(kind, pages, payload),
            RowWork::Fault { rows, room } => {
                let moved = ManagedReads::measured(room).steady(&rows);
                let cap = rate(moved.bytes, moved.time.as_secs());
                let (from, to) = (Medium::HOST, Medium::HBM);
                Ok(OpCost::Transfer { from, to, bytes: moved.bytes, latency: Time::ZERO, cap })
            }
        }
    }

    /// Rows that threads of the GPU read in place.
    fn read(&mut self, kind: usize, rows: RowReads, from: Afar, most: u32) -> Result<OpCost, HardwareError> {
        if rows.rows == 0 {
            return Ok(OpCost::Lasting(Time::ZERO));
        }
        let device = self.gpus[kind].devices.first().ok_or(HardwareError::NoGpu)?;
        let facts = &device.model.facts;
        let sorted = match rows.order {
            Order::Sorted => sorting(rows.rows, facts.hbm_bytes_per_s),
            Order::Random => Time::ZERO,
        };
        let most = most.min(facts.sms);
        let (link, source, own) = match from {
            Afar::Host(on) => (self.link_reads(kind)?, RowSource::Host(on), 0),
            Afar::Peers { own } => (self.peer_reads(kind)?, RowSource::Peers, own),
        };
        let cost = link.cost(&rows, most);
        let bytes = cost.bytes as f64;
        let requests = link.in_flight.is_finite().then(|| LineRequests {
            lines_per_s: link.requests_per_s().units_per_second() * LINE,
            lines: cost.requests as f64 * LINE / bytes,
            round_trip_us: link.round_trip_us,
        });
        // Rows of its own are read and written there.
        let hbm = (rows.rows * rows.row_bytes + 2 * own) as f64 / bytes;
        let way = self.way_of_rows(RowWay { source, requests, hbm });
        let held = cost.sms.min(most).max(1);
        let speed = self.by_multiprocessors(kind, held, |units| link.cost(&rows, units).cap);
        let fixed = self.gap.saturating_add(cost.fixed).saturating_add(sorted);
        Ok(OpCost::Read { fixed, bytes: cost.bytes, way, speed, sms: held })
    }

    /// Pages of drives that threads of the host read into its memory, or threads of the GPU into
    /// its own, where they copy rows out of them.
    fn pages(&mut self, kind: usize, reads: PageReads, payload: u64) -> Result<OpCost, HardwareError> {
        let bytes = reads.bytes();
        if bytes == 0 {
            return Ok(OpCost::Lasting(Time::ZERO));
        }
        let (machine, number) = (self.job.machine, self.first_gpu(kind));
        let gpu = machine.gpu(number);
        let array = self.job.array_of_rows(number)?;
        let PageReaders::Gpu(most) = reads.by else {
            let memory = machine.memory_of(gpu).ok_or_else(|| machine.no_memory(gpu))?;
            let cap = Rate::per_second(reads.bytes_per_s(machine, &array, memory)?);
            let way = self.way_of_rows(RowWay::of(RowSource::Pages(reads)));
            return Ok(OpCost::Fetch { bytes, way, cap });
        };
        let device = self.gpus[kind].devices.first().ok_or(HardwareError::NoGpu)?;
        let most = most.min(device.model.facts.sms).max(1);
        let on = |units| PageReads { by: PageReaders::Gpu(units), ..reads };
        let bytes_per_s = |units| on(units).bytes_per_s(machine, &array, gpu);
        let enough = SATURATED * bytes_per_s(most)?;
        let mut held = 1;
        while held < most && bytes_per_s(held)? < enough {
            held = (2 * held).min(most);
        }
        // A drive writes each page; rows are read there and written once more.
        let hbm = 1.0 + 2.0 * payload as f64 / bytes as f64;
        let source = RowSource::Pages(on(held));
        let way = self.way_of_rows(RowWay { source, requests: None, hbm });
        let speed = self
            .by_multiprocessors(kind, held, |units| Rate::per_second(bytes_per_s(units).unwrap_or(enough)));
        Ok(OpCost::Read { fixed: self.gap, bytes, way, speed, sms: held })
    }

    /// The position of a way among those of the site.
    fn way_of_rows(&mut self, way: RowWay) -> u32 {
        let at = self.ways.iter().position(|known| *known == way).unwrap_or_else(|| {
            self.ways.push(way);
            self.ways.len() - 1
        });
        at as u32
    }

    /// The speeds of a kernel over the multiprocessors that it holds, at most `held`.
    fn by_multiprocessors(&mut self, kind: usize, held: u32, cap: impl Fn(u32) -> Rate) -> u32 {
        let few = [1, held / 4, held / 2, held].into_iter().filter(|&units| units > 0);
        let mut rows: Vec<CapRow> = few.map(|units| CapRow { units, cap: cap(units), waves: 1 }).collect();
        rows.dedup_by_key(|row| row.units);
        let clocks = self.gpus[kind].devices.len();
        self.speeds.push(vec![CapTable { rows }; clocks]);
        self.speeds.len() as u32 - 1
    }

    /// The number of the first GPU of a kind.
    fn first_gpu(&self, kind: usize) -> u32 {
        self.job.gpu(self.kinds.stages_of(kind).next().unwrap_or(0), 0)
    }

    /// Reads over the link between the first GPU of a kind and its host.
    fn link_reads(&self, kind: usize) -> Result<LinkReads, HardwareError> {
        let machine = self.job.machine;
        let gpu = machine.gpu(self.first_gpu(kind));
        let memory = machine.memory_of(gpu).ok_or_else(|| machine.no_memory(gpu))?;
        let route = machine.route(memory, gpu)?;
        Ok(reads_of(self, &route).ok_or_else(|| machine.no_memory(gpu))?)
    }

    /// Reads of the memories of the other GPUs of a node by the first GPU of a kind, an equal part
    /// of the bytes from each: the link that carries most of them, for what it gives, decides.
    fn peer_reads(&self, kind: usize) -> Result<LinkReads, HardwareError> {
        let machine = self.job.machine;
        let gpu = self.first_gpu(kind);
        let by_node = self.job.gpus_by_node();
        let routes = self.job.ways_from_peers(gpu, &by_node[&(gpu / machine.gpus_per_node())])?;
        let part = 1.0 / routes.len().max(1) as f64;
        let mut carried: BTreeMap<DirectedLink, f64> = BTreeMap::new();
        for link in routes.iter().flat_map(|route| &route.links) {
            *carried.entry(*link).or_default() += part;
        }
        let rates = carried.iter().map(|(&link, share)| machine.link(link).bytes_per_s / share);
        let payload_gb_per_s = rates.fold(f64::INFINITY, f64::min) * 1e-9;
        let over_pcie = routes.iter().filter(|route| route.kind != RouteKind::NvLink);
        let share = over_pcie.clone().count() as f64 * part;
        let slowest = over_pcie.filter_map(|route| reads_of(self, route)).next();
        Ok(slowest.map_or_else(
            || LinkReads::of_nvlink(payload_gb_per_s),
            |pcie| LinkReads { in_flight: pcie.in_flight / share, payload_gb_per_s, ..pcie },
        ))
    }
}

/// Reads over the last link of a route that carries any.
fn reads_of(models: &CostModels<'_>, route: &Route) -> Option<LinkReads> {
    route.links.iter().rev().find_map(|&link| models.job.machine.link(link).reads)
}

/// Bytes of a request: the unit in which they are counted, near one for each byte.
const LINE: f64 = 128.0;
/// Bytes of host memory that drawing a neighbour touches: the line of its index, and what is
/// written.
const SAMPLED_BYTES: u64 = 64 + 2 * INDEX_BYTES;
/// Share of the rate of all multiprocessors with which a kernel does without the others.
const SATURATED: f64 = 0.97;

/// Work of threads that move bytes in a time (s).
fn of_host(bytes: u64, seconds: f64) -> OpCost {
    OpCost::Host { bytes, cap: rate(bytes, seconds) }
}

/// Rate of bytes that take a time (s); nothing is limited that takes none.
fn rate(bytes: u64, seconds: f64) -> Rate {
    if bytes == 0 || seconds <= 0.0 { Rate::UNLIMITED } else { Rate::per_second(bytes as f64 / seconds) }
}
