//! Classes of parts at another speed, for questions such as "what if links were twice as fast?".

use crate::catalogue::{Gpu, LinkKind, PeakRates, Ssd};

use super::Machine;
use super::graph::NodeGraph;

/// A class of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartClass {
    /// Arithmetic of all GPUs: their clocks, and the peak rates that go with these.
    GpuCompute,
    /// Bandwidth of the memory of all GPUs.
    GpuMemory,
    /// All links of a kind.
    Links(LinkKind),
}

impl Machine {
    /// The machine with parts of a class `factor` times as fast.
    #[must_use]
    pub fn at_speed(&self, class: PartClass, factor: f64) -> Self {
        let (alone, digest) = Default::default();
        let mut machine = Self { alone, digest, ..self.clone() };
        match class {
            PartClass::GpuCompute => machine.groups.change_gpus(|gpu| compute_at(gpu, factor)),
            PartClass::GpuMemory => machine.groups.change_gpus(|gpu| gpu.bandwidth_gb_per_s *= factor),
            PartClass::Links(kind) => {
                machine.groups.change_graphs(|graph| links_at(graph, kind, factor));
                if let (LinkKind::Network, Some(fabric)) = (kind, &mut machine.fabric) {
                    fabric.change_ports(factor);
                }
            }
        }
        machine
    }
}

fn links_at(graph: &mut NodeGraph, kind: LinkKind, factor: f64) {
    for wire in graph.wires.iter_mut().filter(|wire| wire.kind == kind) {
        wire.effective.iter_mut().chain(&mut wire.nominal).for_each(|rate| *rate *= factor);
    }
    // Transfers go by the rates of a drive, beside those of its link.
    let drives = graph.drives.iter_mut().filter(|_| kind == LinkKind::SsdLink);
    for (_, drive) in drives {
        let Ssd {
            read_gb_per_s,
            write_gb_per_s,
            burst_write_gb_per_s,
            one_read_gb_per_s,
            read_kiops,
            write_kiops,
            read_latency_us,
            write_latency_us,
            ..
        } = drive;
        let rates = [read_gb_per_s, write_gb_per_s, burst_write_gb_per_s, one_read_gb_per_s];
        rates.into_iter().chain([read_kiops, write_kiops]).flatten().for_each(|rate| *rate *= factor);
        [read_latency_us, write_latency_us].into_iter().flatten().for_each(|time| *time /= factor);
    }
}

fn compute_at(gpu: &mut Gpu, factor: f64) {
    gpu.clock_mhz *= factor;
    gpu.highest_clock_mhz.iter_mut().for_each(|clock| *clock *= factor);
    let PeakRates { fp64, fp32, tf32, fp16, fp16_accumulating_fp16, bf16, fp8, int8 } = &mut gpu.peak_tflops;
    let everywhere = [fp64, fp32].into_iter();
    let on_tensor_cores = [tf32, fp16, fp16_accumulating_fp16, bf16, fp8, int8].into_iter().flatten();
    everywhere.chain(on_tensor_cores).for_each(|rate| *rate *= factor);
}
