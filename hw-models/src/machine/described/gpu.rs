//! GPUs that the catalogue lacks.

use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::nearest::remedy;
use crate::catalogue::{Catalogue, Gpu, NvLinks, PeakRates};
use crate::provenance::Sources;
use crate::settings::{Bytes, Count, FlopRate, Frequency, Power, Rate};

use super::super::set::{gb_per_s, gib, watts};
use super::{Choice, Description, LinkSettings, PortSettings, Reading, quantity};

/// A GPU that the catalogue lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DescribedGpu")]
pub struct GpuSettings {
    /// Similar GPU of the catalogue, which supplies the figures that are not given and the
    /// efficiency of kernels.
    #[schemars(extend("examples" = ["rtx-3090"]))]
    pub like: Option<String>,
    /// Name in results; `like-NAME` when absent.
    #[schemars(extend("examples" = ["rtx-4090"]))]
    pub name: Option<String>,
    /// Generation of its kernels; that of `like` when absent.
    #[schemars(extend("examples" = ["ada"]))]
    pub architecture: Option<String>,
    /// Streaming multiprocessors, or compute units.
    pub sms: Option<Count<1, 4_096>>,
    /// Clock of the peak rates.
    pub clock: Option<Frequency>,
    /// Power of the board.
    pub power: Option<Power>,
    /// Memory on the label.
    pub memory: Option<Bytes>,
    /// Part of the memory that driver and context keep; without `like` 1 % and half a GiB.
    pub reserved: Option<Bytes>,
    /// Nominal rate of its memory, reads and writes together.
    pub memory_rate: Option<Rate>,
    /// Second-level cache.
    pub l2: Option<Bytes>,
    /// Dense peak rates of its tensor cores; derived from SMs and clock when absent.
    pub tensor: Option<TensorRates>,
    /// Peak rates outside of its tensor cores; derived from SMs and clock when absent.
    pub vector: Option<VectorRates>,
    /// Links to other GPUs.
    pub nvlink: Option<NvLinkSettings>,
    /// Port to the host.
    pub pcie: Option<PortSettings>,
    /// True if other devices may read and write its memory over PCIe; GeForce drivers refuse that.
    pub peer_to_peer: Option<bool>,
}

/// Peak rates of tensor cores; one that is absent keeps its ratio to one that is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TensorRates {
    /// Products in fp16.
    pub fp16: Option<FlopRate>,
    /// Products in bf16.
    pub bf16: Option<FlopRate>,
    /// Products in fp8.
    pub fp8: Option<FlopRate>,
    /// Products of fp32 in tf32.
    pub tf32: Option<FlopRate>,
}

/// Peak rates outside of tensor cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VectorRates {
    /// Arithmetic in fp32.
    pub fp32: Option<FlopRate>,
    /// Arithmetic in fp64, which keeps its ratio to fp32 when absent.
    pub fp64: Option<FlopRate>,
}

/// Links of a GPU to other GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NvLinkSettings {
    /// Class of the links in the catalogue, or a map that describes one.
    #[schemars(extend("examples" = ["nvlink4"]))]
    pub class: Option<Choice<LinkSettings>>,
    /// Number of links; 0: the GPU has none.
    pub links: Option<Count<0, 1_024>>,
}

/// Memory that a context takes (GiB), and the share of it that the driver keeps: what most GPUs of
/// the catalogue do.
const CONTEXT_GIB: f64 = 0.5;
const OF_DRIVER: f64 = 0.01;

impl Description for GpuSettings {
    type Entry = Gpu;
    const NOUN: &'static str = "GPU";
    const ENTRY: &'static str = "GPU";

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn rename(&mut self, name: String) {
        self.name = Some(name);
    }

    fn like(&self) -> Option<&str> {
        self.like.as_deref()
    }

    fn entries(catalogue: &Catalogue) -> &IndexMap<String, Gpu> {
        &catalogue.gpus
    }

    fn entries_mut(catalogue: &mut Catalogue) -> &mut IndexMap<String, Gpu> {
        &mut catalogue.gpus
    }

    fn needed(&self) -> Vec<(&'static str, bool)> {
        let fp32 = self.vector.as_ref().is_some_and(|vector| vector.fp32.is_some());
        let port = self.pcie.as_ref().is_some_and(PortSettings::is_complete);
        vec![
            ("name", self.name.is_some()),
            ("architecture", self.architecture.is_some()),
            ("sms", self.sms.is_some()),
            ("clock", self.clock.is_some()),
            ("power", self.power.is_some()),
            ("memory", self.memory.is_some()),
            ("memory_rate", self.memory_rate.is_some()),
            ("l2", self.l2.is_some()),
            ("vector.fp32", fp32),
            ("pcie", port),
        ]
    }

    fn read(&self, catalogue: &Catalogue, reading: &mut Reading<'_>, like: Option<&Gpu>) -> Option<Gpu> {
        let figures = self.figures(reading);
        let kin = self.kin(catalogue, reading, like)?;
        Some(self.of_kin(catalogue, reading, &figures, like, kin))
    }

    fn complete(&self, gpu: &Gpu) -> Self {
        let peak = &gpu.peak_tflops;
        let teraflops = |rate: Option<f64>| quantity(rate?, "TFLOP/s");
        let vector = self.vector.clone().unwrap_or_default();
        let tensor = self.tensor.clone().unwrap_or_default();
        let lanes = Count::new(gpu.pcie.lanes.into());
        Self {
            architecture: Some(gpu.architecture.clone()),
            sms: Count::new(gpu.sms.into()),
            clock: self.clock.or_else(|| quantity(gpu.clock_mhz, "MHz")),
            power: self.power.or_else(|| quantity(gpu.tdp_w, "W")),
            memory: self.memory.or_else(|| quantity(gpu.memory_gib, "GiB")),
            reserved: self.reserved.or_else(|| quantity(gpu.reserved_gib, "GiB")),
            memory_rate: self.memory_rate.or_else(|| quantity(gpu.bandwidth_gb_per_s, "GB/s")),
            l2: self.l2.or_else(|| quantity(gpu.l2_mib, "MiB")),
            tensor: Some(TensorRates {
                fp16: tensor.fp16.or_else(|| teraflops(peak.fp16)),
                bf16: tensor.bf16.or_else(|| teraflops(peak.bf16)),
                fp8: tensor.fp8.or_else(|| teraflops(peak.fp8)),
                tf32: tensor.tf32.or_else(|| teraflops(peak.tf32)),
            }),
            vector: Some(VectorRates {
                fp32: vector.fp32.or_else(|| teraflops(Some(peak.fp32))),
                fp64: vector.fp64.or_else(|| teraflops(Some(peak.fp64))),
            }),
            nvlink: self.nvlink.clone().or_else(|| {
                let own = gpu.nvlink.as_ref()?;
                let class = Some(Choice::from(&*own.class));
                Some(NvLinkSettings { class, links: Count::new(own.links.into()) })
            }),
            pcie: Some(PortSettings { lanes, ..PortSettings::like(self.pcie.as_ref(), &gpu.pcie.class) }),
            peer_to_peer: Some(gpu.peer_to_peer),
            ..self.clone()
        }
    }
}

impl GpuSettings {
    /// The GPU that it takes figures from which nobody gives: that which it is like, or the first
    /// of its generation.
    fn kin<'c>(
        &self,
        catalogue: &'c Catalogue,
        reading: &mut Reading<'_>,
        like: Option<&'c Gpu>,
    ) -> Option<(&'c str, &'c Gpu)> {
        let generation = self.architecture.as_deref().or(like.map(|gpu| &*gpu.architecture))?;
        let first = catalogue.gpus.iter().find(|(_, gpu)| gpu.architecture == generation);
        if first.is_none() {
            let known: IndexSet<&str> = catalogue.gpus.values().map(|gpu| &*gpu.architecture).collect();
            let remedy = remedy(generation, &known.into_iter().collect::<Vec<_>>(), "architecture");
            let text = format!("the catalogue has no architecture `{generation}`: {remedy}");
            reading.faults.push(("architecture", text));
        }
        let (name, first) = first?;
        let own = self.like.as_deref().and_then(|name| catalogue.gpus.get_key_value(name));
        Some(own.map_or((name.as_str(), first), |(name, gpu)| (name.as_str(), gpu)))
    }

    /// The figures that are given.
    fn figures(&self, reading: &mut Reading<'_>) -> Figures {
        let teraflops = |rate: Option<FlopRate>| Some(rate?.flop_per_second() as f64 / 1e12);
        let vector = self.vector.clone().unwrap_or_default();
        let tensor = self.tensor.clone().unwrap_or_default();
        Figures {
            clock_mhz: reading.positive("clock", self.clock.map(|clock| clock.hertz() as f64 / 1e6)),
            tdp_w: reading.positive("power", self.power.map(watts)),
            memory_gib: reading.positive("memory", self.memory.map(gib)),
            bandwidth_gb_per_s: reading.positive("memory_rate", self.memory_rate.map(gb_per_s)),
            l2_mib: reading.positive("l2", self.l2.map(|l2| l2.bytes() as f64 / f64::from(1 << 20))),
            fp32: reading.positive("vector.fp32", teraflops(vector.fp32)),
            fp64: reading.positive("vector.fp64", teraflops(vector.fp64)),
            fp16: reading.positive("tensor.fp16", teraflops(tensor.fp16)),
            bf16: reading.positive("tensor.bf16", teraflops(tensor.bf16)),
            fp8: reading.positive("tensor.fp8", teraflops(tensor.fp8)),
            tf32: reading.positive("tensor.tf32", teraflops(tensor.tf32)),
        }
    }

    fn of_kin(
        &self,
        catalogue: &Catalogue,
        reading: &mut Reading<'_>,
        figures: &Figures,
        like: Option<&Gpu>,
        (kin_name, kin): (&str, &Gpu),
    ) -> Gpu {
        let memory = figures.memory_gib.unwrap_or(kin.memory_gib);
        let usual = like.map_or(CONTEXT_GIB + OF_DRIVER * memory, |like| like.reserved_gib);
        let reserved = self.reserved.map_or(usual, gib);
        if memory > 0.0 && reserved >= memory {
            let text = format!(
                "`memory` of `{}` is no more than the {reserved} GiB that driver and context keep: write more",
                reading.part
            );
            reading.faults.push(("memory", text));
        }
        let sms = self.sms.map_or(kin.sms, |sms| sms.get() as u32);
        let clock_mhz = figures.clock_mhz.unwrap_or(kin.clock_mhz);
        let faster = f64::from(sms) / f64::from(kin.sms) * (clock_mhz / kin.clock_mhz);
        let architecture = self.architecture.clone().unwrap_or_else(|| kin.architecture.clone());
        let tdp_w = figures.tdp_w.unwrap_or(kin.tdp_w);
        Gpu {
            vendor: kin.vendor.clone(),
            like: self.like.clone().filter(|_| architecture == kin.architecture),
            architecture,
            compute_capability: kin.compute_capability.clone(),
            multiprocessor: kin.multiprocessor.clone(),
            sms,
            clock_mhz,
            highest_clock_mhz: kin.highest_clock_mhz.map(|highest| highest * clock_mhz / kin.clock_mhz),
            tdp_w,
            peak_tflops: figures.peaks(like, (kin, faster)),
            memory_gib: memory,
            reserved_gib: reserved,
            bandwidth_gb_per_s: figures.bandwidth_gb_per_s.unwrap_or(kin.bandwidth_gb_per_s),
            streaming_fraction: kin.streaming_fraction,
            l2_mib: figures.l2_mib.unwrap_or(kin.l2_mib),
            nvlink: self.nvlinks(reading, like),
            pcie: self.pcie.as_ref().map_or_else(|| kin.pcie.clone(), |port| port.of(catalogue, &kin.pcie)),
            peer_to_peer: self.peer_to_peer.or(like.map(|like| like.peer_to_peer)).unwrap_or(false),
            power: like.and_then(|like| Some(like.power.as_ref()?.carried_to(tdp_w, kin_name))),
            sources: Sources::described(kin_name, self.given()),
        }
    }

    fn nvlinks(&self, reading: &mut Reading<'_>, like: Option<&Gpu>) -> Option<NvLinks> {
        let usual = like.and_then(|like| like.nvlink.as_ref());
        let Some(own) = &self.nvlink else { return usual.cloned() };
        let class = own.class.as_ref().map(Choice::name).or(usual.map(|usual| &*usual.class));
        let links = own.links.map(|links| links.get() as u32).or(usual.map(|usual| usual.links));
        match (class, links) {
            (_, Some(0)) => None,
            (Some(class), Some(links)) => Some(NvLinks { class: class.to_owned(), links }),
            _ => {
                let text = format!(
                    "`nvlink` of `{}` needs a `class` and a number of `links`: write both, or `links: 0`",
                    reading.part
                );
                reading.faults.push(("nvlink", text));
                None
            }
        }
    }

    /// Constants of the catalogue, and which of them are given.
    fn given(&self) -> [(&'static str, bool); 10] {
        [
            ("sms", self.sms.is_some()),
            ("clock_mhz", self.clock.is_some()),
            ("tdp_w", self.power.is_some()),
            ("memory_gib", self.memory.is_some()),
            ("reserved_gib", self.reserved.is_some()),
            ("bandwidth_gb_per_s", self.memory_rate.is_some()),
            ("l2_mib", self.l2.is_some()),
            ("nvlink", self.nvlink.is_some()),
            ("pcie", self.pcie.is_some()),
            ("peer_to_peer", self.peer_to_peer.is_some()),
        ]
    }
}

/// Figures that are given, in the units of the catalogue.
struct Figures {
    clock_mhz: Option<f64>,
    tdp_w: Option<f64>,
    memory_gib: Option<f64>,
    bandwidth_gb_per_s: Option<f64>,
    l2_mib: Option<f64>,
    fp32: Option<f64>,
    fp64: Option<f64>,
    fp16: Option<f64>,
    bf16: Option<f64>,
    fp8: Option<f64>,
    tf32: Option<f64>,
}

impl Figures {
    /// Peak rates. SMs of a generation do as much in a clock, so that rates of which nothing is
    /// given are `faster` as SMs and clock are.
    fn peaks(&self, like: Option<&Gpu>, (kin, faster): (&Gpu, f64)) -> PeakRates {
        let Self { fp16, bf16, fp8, tf32, .. } = *self;
        let known = |rate: fn(&PeakRates) -> Option<f64>| rate(&like?.peak_tflops);
        let ratio = |given: Option<f64>, rate| Some(given? / known(rate)?);
        let times = ratio(fp16, |peak| peak.fp16)
            .or_else(|| ratio(bf16, |peak| peak.bf16))
            .or_else(|| ratio(fp8, |peak| peak.fp8))
            .or_else(|| ratio(tf32, |peak| peak.tf32))
            .unwrap_or(faster);
        let usual = &kin.peak_tflops;
        let fp32 = self.fp32.unwrap_or(usual.fp32 * faster);
        let follows = |rate| known(rate).map(|rate| rate * times);
        PeakRates {
            fp64: self.fp64.unwrap_or(usual.fp64 * (fp32 / usual.fp32)),
            fp32,
            tf32: tf32.or(follows(|peak| peak.tf32)),
            fp16: fp16.or(follows(|peak| peak.fp16)),
            fp16_accumulating_fp16: follows(|peak| peak.fp16_accumulating_fp16),
            bf16: bf16.or(follows(|peak| peak.bf16)),
            fp8: fp8.or(follows(|peak| peak.fp8)),
            int8: follows(|peak| peak.int8),
        }
    }
}
