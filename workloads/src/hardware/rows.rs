//! Costs of rows of a graph on their way to a GPU: drawn or copied by threads of the host, or read
//! by the GPU over its link.

use hw_models::reads::{HostGather, LinkReads, ManagedReads, Order, RowReads, sorting};
use sim_core::fixed::Rate;
use sim_core::program::{CapRow, CapTable};
use sim_core::time::Time;

use super::{CostModels, HardwareError};
use crate::cost::OpCost;
use crate::graph::operator::{EDGE_BYTES, Medium, RowWork};
use crate::site::ReadSpec;

impl CostModels<'_> {
    /// Cost of work on rows.
    pub(super) fn rows(&mut self, kind: usize, work: RowWork) -> Result<OpCost, HardwareError> {
        match work {
            RowWork::Sample { edges, threads } => {
                let time = edges as f64 * self.neighbour.as_secs() / f64::from(threads.max(1));
                Ok(of_host(SAMPLED_BYTES * edges, time))
            }
            RowWork::Copy { rows, row_bytes, order, threads } => {
                let memory_bytes_per_s = f64::INFINITY;
                let gather = HostGather { rows, row_bytes, order, threads, memory_bytes_per_s };
                Ok(of_host(gather.traffic(), gather.alone().as_secs()))
            }
            RowWork::Read { rows, multiprocessors } => self.read(kind, rows, multiprocessors),
            RowWork::Fault { rows, room } => {
                let moved = ManagedReads::measured(room).steady(&rows);
                let cap = rate(moved.bytes, moved.time.as_secs());
                let (from, to) = (Medium::HOST, Medium::HBM);
                Ok(OpCost::Transfer { from, to, bytes: moved.bytes, latency: Time::ZERO, cap })
            }
        }
    }

    /// Rows that threads of the GPU read in place.
    fn read(&mut self, kind: usize, rows: RowReads, most: u32) -> Result<OpCost, HardwareError> {
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
        let link = self.link_reads(kind)?;
        let cost = link.cost(&rows, most);
        let spec = ReadSpec {
            lines_per_s: link.requests_per_s().units_per_second() * LINE,
            lines: cost.requests as f64 * LINE / cost.bytes as f64,
            written: (rows.rows * rows.row_bytes) as f64 / cost.bytes as f64,
        };
        let at = self.reads.iter().position(|known| *known == spec).unwrap_or_else(|| {
            self.reads.push(spec);
            self.reads.len() - 1
        });
        let row = |units: u32| CapRow { units, cap: link.cost(&rows, units).cap, waves: 1 };
        let held = cost.sms.min(most).max(1);
        let few = [1, held / 4, held / 2, held];
        let mut table: Vec<CapRow> = few.into_iter().filter(|&units| units > 0).map(row).collect();
        table.dedup_by_key(|row| row.units);
        let clocks = self.gpus[kind].devices.len();
        self.speeds.push(vec![CapTable { rows: table }; clocks]);
        let speed = self.speeds.len() as u32 - 1;
        let fixed = self.gap.saturating_add(cost.fixed).saturating_add(sorted);
        Ok(OpCost::Read { fixed, bytes: cost.bytes, way: at as u32, speed, sms: held })
    }

    /// Reads over the link between the first GPU of a kind and its host.
    fn link_reads(&self, kind: usize) -> Result<LinkReads, HardwareError> {
        let machine = self.job.machine;
        let stage = self.kinds.stages_of(kind).next().unwrap_or(0);
        let gpu = machine.gpu(self.job.gpu(stage, 0));
        let memory = machine.memory_of(gpu).ok_or_else(|| machine.no_memory(gpu))?;
        let route = machine.route(memory, gpu)?;
        let reads = route.links.iter().rev().find_map(|&link| machine.link(link).reads);
        Ok(reads.ok_or_else(|| machine.no_memory(gpu))?)
    }
}

/// Bytes of a request: the unit in which they are counted, near one for each byte.
const LINE: f64 = 128.0;
/// Bytes of host memory that drawing a neighbour touches: the line of its index, and what is
/// written.
const SAMPLED_BYTES: u64 = 64 + 2 * EDGE_BYTES;

/// Work of threads that move bytes in a time (s).
fn of_host(bytes: u64, seconds: f64) -> OpCost {
    OpCost::Host { bytes, cap: rate(bytes, seconds) }
}

/// Rate of bytes that take a time (s); nothing is limited that takes none.
fn rate(bytes: u64, seconds: f64) -> Rate {
    if bytes == 0 || seconds <= 0.0 { Rate::UNLIMITED } else { Rate::per_second(bytes as f64 / seconds) }
}
