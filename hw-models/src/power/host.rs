//! Power of a host: its processors and its memory.
//!
//! ```text
//! P = sum over sockets of TDP f(busy cores / cores) + w memory
//! ```
//!
//! f goes through points that were measured: much of what a processor draws beyond idle comes with
//! the first cores that are busy, whose clocks are high. Memory draws by its size; its traffic adds
//! little. Fans, boards, and losses of power supplies are beside it.

use serde::Deserialize;

use crate::catalogue::Processor;
use crate::provenance::Provenance;

/// The catalogue of what hosts draw: a [`HostPower`].
pub const HOST_POWER: &str = include_str!("../../catalogue/host_power.yaml");

/// Constants of what hosts draw.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPower {
    /// Processors.
    pub processor: ProcessorPower,
    /// Memory.
    pub memory: MemoryPower,
}

/// Power of a processor by its load.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorPower {
    /// Points of a line: the share of its cores that are busy, and what it draws as a share of its
    /// TDP. The first is at no load, the last at full load.
    pub points: Vec<[f64; 2]>,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Power of memory by its size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPower {
    /// Drawn by each GiB (W).
    pub w_per_gib: f64,
    /// Where it is from.
    pub provenance: Provenance,
}

impl HostPower {
    /// Power of a host with these processors and this memory (GiB), of whose cores `busy` work on
    /// average (W).
    pub fn drawn(&self, processors: &[Processor], memory_gib: f64, busy: f64) -> f64 {
        let cores: f64 = processors.iter().map(|processor| f64::from(processor.cores)).sum();
        let of_tdp = self.processor.of_tdp(busy / cores.max(1.0));
        let tdp_w: f64 = processors.iter().map(|processor| processor.tdp_w).sum();
        of_tdp * tdp_w + self.memory.w_per_gib * memory_gib
    }
}

impl ProcessorPower {
    /// Share of its TDP that a processor draws, of whose cores a share is busy.
    fn of_tdp(&self, load: f64) -> f64 {
        let between = self.points.windows(2).find(|ends| load <= ends[1][0]);
        match (between, self.points.last()) {
            (Some(&[[from, low], [to, high]]), _) => {
                low + (high - low) * (load.max(from) - from) / (to - from)
            }
            (_, Some(&[_, full])) => full,
            (_, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostPower {
        let provenance = Provenance::written();
        let points = vec![[0.0, 0.1], [0.5, 0.7], [1.0, 1.0]];
        let processor = ProcessorPower { points, provenance: provenance.clone() };
        HostPower { processor, memory: MemoryPower { w_per_gib: 0.5, provenance } }
    }

    /// Two processors of 10 cores and 100 W: a half of the idle 10 W each, and 60 W more at half load.
    #[test]
    fn power_follows_the_line_between_its_points() {
        let two = [Processor { cores: 10, tdp_w: 100.0 }; 2];
        for (busy, watts) in
            [(0.0, 20.0), (5.0, 80.0), (10.0, 140.0), (15.0, 170.0), (20.0, 200.0), (30.0, 200.0)]
        {
            assert!((host().drawn(&two, 0.0, busy) - watts).abs() < 1e-9, "{busy}");
            assert!((host().drawn(&two, 64.0, busy) - watts - 32.0).abs() < 1e-9, "{busy}");
        }
    }
}
