//! Adam by all processors of a host, as what passes the memories of its sockets and their links.
//!
//! Arrays of states have each part in the memory of the socket whose thread touched it first, in the
//! order of threads. An update goes over them tile by tile, and all threads share each
//! tile in that order (`Step_8` of DeepSpeed's csrc/adam/cpu_adam.cpp). Nothing binds threads to
//! sockets, so that one of two is beside what it works on, where there are two:
//!
//! ```text
//! a tile of all states      a part in each memory     all memories work, much crosses the links
//! a tile of a small part    in one socket's memory    that memory works
//! ```

use crate::machine::{Machine, PartId, PartKind};

/// Bytes of a parameter that are read: in fp32 itself, its gradient and two moments.
const READ: f64 = 16.0;
/// Bytes of a parameter that are written: itself and its moments.
const WRITTEN: f64 = 12.0;

/// An update of fp32 states in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostUpdate {
    /// Parameters of the array.
    pub parameters: u64,
    /// Parameters that all threads update before they go on to the next.
    pub tile: u64,
}

impl HostUpdate {
    /// Time on the host of a machine's first node, which does nothing else (s); `None` if it has no
    /// memory.
    pub fn seconds(&self, machine: &Machine) -> Option<f64> {
        let sockets = sockets(machine)?;
        let tile = self.tile.clamp(1, self.parameters.max(1));
        let tiles = self.parameters.div_ceil(tile);
        let ends = |number: u64| (number * tile).min(self.parameters) as f64;
        let time = |number| sockets.seconds(&self.held(ends(number)..ends(number + 1), sockets.count()));
        Some((0..tiles).map(time).sum())
    }

    /// Parameters of a tile that each memory has.
    fn held(&self, tile: std::ops::Range<f64>, sockets: usize) -> Vec<f64> {
        let part = self.parameters as f64 / sockets as f64;
        let overlap = |socket: usize| {
            let (from, to) = (part * socket as f64, part * (socket + 1) as f64);
            (tile.end.min(to) - tile.start.max(from)).max(0.0)
        };
        (0..sockets).map(overlap).collect()
    }
}

/// The sockets of a host.
struct Sockets {
    /// Rates of their memories (byte/s).
    memories: Vec<f64>,
    /// Rates of the links from one to another (byte/s); 0 where there is none.
    links: Vec<Vec<f64>>,
}

/// Sockets of the first node.
fn sockets(machine: &Machine) -> Option<Sockets> {
    let of_node = |part: &PartId| machine.part(*part).node.unwrap_or_default() == 0;
    let memories =
        machine.parts().filter(|&part| machine.part(part).kind == PartKind::Memory).filter(of_node);
    let joined = memories.filter_map(|memory| {
        let link = machine.links_from(memory).next()?;
        Some((machine.link(link).to, machine.capacity(link)))
    });
    let joined: Vec<(PartId, f64)> = joined.collect();
    let carried = |from: PartId, to: PartId| {
        let link = machine.link_between(from, to).map(|link| machine.link(link));
        link.map_or(0.0, |link| link.copies.map_or(link.bytes_per_s, |copies| copies.to_device.alone))
    };
    let links = joined.iter().map(|&(from, _)| joined.iter().map(|&(to, _)| carried(from, to)).collect());
    let links = links.collect();
    let memories: Vec<f64> = joined.into_iter().map(|(_, rate)| rate).collect();
    (!memories.is_empty()).then_some(Sockets { memories, links })
}

impl Sockets {
    fn count(&self) -> usize {
        self.memories.len()
    }

    /// Time of a tile, of which each memory holds a number of parameters: that of the busiest
    /// memory or link (s).
    fn seconds(&self, held: &[f64]) -> f64 {
        let memories = held.iter().zip(&self.memories).map(|(held, rate)| held * (READ + WRITTEN) / rate);
        let pairs = (0..held.len()).flat_map(|from| (0..held.len()).map(move |to| (from, to)));
        let linked = pairs.filter(|&(from, to)| from != to && self.links[from][to] > 0.0);
        let links = linked.map(|(from, to)| {
            // Threads of `to` read there, and those of `from` write back.
            (held[from] * READ + held[to] * WRITTEN) / held.len() as f64 / self.links[from][to]
        });
        memories.chain(links).fold(0.0, f64::max)
    }
}
