//! Adds parts and wires to a node, from entries of the catalogue. All mistakes are kept, so that they are reported at once.

use sim_core::time::Time;

use crate::catalogue::{
    Catalogue, CopyRates, Gpu, HostMemory, LinkClass, LinkKind, Processor, Ssd, UnknownEntry, look_up,
};
use crate::provenance::{Provenance, Sources};

use super::error::MachineError;
use super::graph::{LocalPart, NodeGraph, Wire};
use super::part::{Constant, PartKind};

/// More parts or links than anyone spells out, and than any node has; larger machines are clusters.
pub(super) const PARTS_MAX: usize = 4096;

/// A node under construction.
pub(super) struct Wiring<'a> {
    pub catalogue: &'a Catalogue,
    pub errors: Vec<MachineError>,
    graph: NodeGraph,
}

/// A link class by its name, and how many lanes of it.
#[derive(Clone, Copy)]
pub(super) struct Lanes<'a> {
    pub name: &'a str,
    pub class: &'a LinkClass,
    pub lanes: u32,
}

impl Lanes<'_> {
    /// What two ports have in common: the older generation, the fewer lanes.
    pub(super) fn common(self, other: Self) -> Self {
        let slower =
            if self.class.effective_gb_per_s < other.class.effective_gb_per_s { self } else { other };
        Self { lanes: self.lanes.min(other.lanes), ..slower }
    }

    /// Nominal and effective rate per direction (byte/s).
    fn rates(self) -> [f64; 2] {
        [self.class.nominal(self.lanes), self.class.effective(self.lanes)]
    }

    /// What copies get of them (byte/s).
    fn copies(self) -> Option<CopyRates> {
        self.class.copies.map(|_| self.class.copied(self.lanes))
    }
}

impl<'a> Wiring<'a> {
    pub(super) fn new(catalogue: &'a Catalogue) -> Self {
        Self { catalogue, errors: Vec::new(), graph: NodeGraph::default() }
    }

    /// The node, if nothing is wrong with it.
    pub(super) fn finish(mut self) -> Result<NodeGraph, Vec<MachineError>> {
        if self.errors.is_empty() {
            self.graph.assign_neighbours();
            Ok(self.graph)
        } else {
            Err(self.errors)
        }
    }

    pub(super) fn name(&self, part: u32) -> &str {
        &self.graph.parts[part as usize].name
    }

    pub(super) fn kind(&self, part: u32) -> PartKind {
        self.graph.parts[part as usize].kind
    }

    pub(super) fn gpu_model(&self, part: u32) -> Option<&'a Gpu> {
        if self.kind(part) == PartKind::Gpu { self.catalogue.gpus.get(self.model(part)?) } else { None }
    }

    pub(super) fn named(&self, name: &str) -> Option<u32> {
        self.graph.by_name.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.graph.parts.iter().map(|part| part.name.as_str())
    }

    /// The entry of a look-up that must succeed.
    pub(super) fn found<T>(&mut self, entry: Result<T, UnknownEntry>) -> Option<T> {
        entry.map_err(|error| self.errors.push(error.into())).ok()
    }

    pub(super) fn link_class(&mut self, name: &'a str, lanes: u32) -> Option<Lanes<'a>> {
        let class = self.found(look_up(&self.catalogue.links, "link class", name))?;
        Some(Lanes { name, class, lanes })
    }

    /// A part that is no device: a socket, a switch.
    pub(super) fn part(&mut self, name: String, kind: PartKind) -> u32 {
        self.add(LocalPart { name, kind, model: None, capacity: None, peer_to_peer: true })
    }

    /// The processor of a socket, as the entry `of` has it.
    pub(super) fn processor(&mut self, socket: u32, processor: Processor, of: &str, sources: &Sources) {
        self.check(of, "processor_tdp_w", processor.tdp_w);
        for (name, value) in
            [("processor_cores", processor.cores.into()), ("processor_tdp_w", processor.tdp_w)]
        {
            self.keep(of, name, value, sources.of("processor"));
        }
        self.graph.processors.insert(socket, processor);
    }

    pub(super) fn gpu(&mut self, name: String, model: &str) -> Option<u32> {
        let gpu = self.found(look_up(&self.catalogue.gpus, "gpu", model))?;
        self.check(model, "sms", f64::from(gpu.sms));
        self.check(model, "bandwidth_gb_per_s", gpu.bandwidth_gb_per_s);
        self.check(model, "streaming_fraction", gpu.streaming_fraction);
        let part = self.add(LocalPart {
            name,
            kind: PartKind::Gpu,
            model: Some(model.to_owned()),
            capacity: Some(gpu.usable_bytes()),
            peer_to_peer: gpu.peer_to_peer,
        });
        self.graph.gpus.push((part, gpu.clone()));
        self.rests_on(
            model,
            &gpu.sources,
            &[
                ("sms", f64::from(gpu.sms)),
                ("clock_mhz", gpu.clock_mhz),
                ("memory_gib", gpu.memory_gib),
                ("reserved_gib", gpu.reserved_gib),
                ("bandwidth_gb_per_s", gpu.bandwidth_gb_per_s),
                ("streaming_fraction", gpu.streaming_fraction),
            ],
        );
        Some(part)
    }

    pub(super) fn nic(&mut self, name: String, model: &str) -> Option<u32> {
        let nic = self.found(look_up(&self.catalogue.nics, "nic", model))?;
        self.check(model, "effective_gb_per_s", nic.effective_gb_per_s);
        self.check_latency(model, nic.latency_us);
        let part = self.add(LocalPart {
            name,
            kind: PartKind::Nic,
            model: Some(model.to_owned()),
            capacity: None,
            peer_to_peer: true,
        });
        self.graph.nics.push(part);
        Some(part)
    }

    pub(super) fn ssd(&mut self, name: String, model: &str) -> Option<u32> {
        let ssd = self.found(look_up(&self.catalogue.ssds, "ssd", model))?;
        let part = self.add(LocalPart {
            name,
            kind: PartKind::Ssd,
            model: Some(model.to_owned()),
            capacity: ssd.capacity_tb.map(|tb| (tb * 1e12) as u64),
            peer_to_peer: true,
        });
        self.graph.drives.push((part, ssd.clone()));
        for (constant, value) in [
            ("read_gb_per_s", ssd.read_gb_per_s),
            ("write_gb_per_s", ssd.write_gb_per_s),
            ("burst_write_gb_per_s", ssd.burst_write_gb_per_s),
            ("write_cache_gb", ssd.write_cache_gb),
        ] {
            if let Some(value) = value {
                self.check(model, constant, value);
                self.rests_on(model, &ssd.sources, &[(constant, value)]);
            }
        }
        Some(part)
    }

    /// The memory of one socket, both directions on one capacity.
    pub(super) fn memory(
        &mut self,
        name: String,
        socket: u32,
        memory: &HostMemory,
        of: &str,
        sources: &Sources,
    ) {
        let provenance = sources.of("host_memory");
        let nominal = memory.gb_per_s * 1e9;
        let effective = nominal * memory.streaming_fraction;
        let constants = [
            ("host_memory_gb_per_s", memory.gb_per_s),
            ("host_memory_streaming_fraction", memory.streaming_fraction),
        ];
        for (name, value) in constants {
            self.check(of, name, value);
            self.keep(of, name, value, provenance);
        }
        let part = self.add(LocalPart {
            name,
            kind: PartKind::Memory,
            model: None,
            capacity: Some((memory.gib.max(0.0) * (1u64 << 30) as f64) as u64),
            peer_to_peer: true,
        });
        self.wire(Wire {
            ends: [socket, part],
            kind: LinkKind::Memory,
            nominal: [nominal; 2],
            effective: [effective; 2],
            nvlinks: 0,
            // What the socket adds is part of its links; see their latencies.
            latency: Time(0),
            half_duplex: true,
            copies: None,
            reads: None,
            provenance: provenance.clone(),
        });
    }

    /// A link of a class between two parts. One end may be a drive, whose own rates then limit too.
    pub(super) fn link(&mut self, a: u32, b: u32, lanes: Lanes<'_>) {
        let Lanes { name, class, .. } = lanes;
        let [nominal, effective] = lanes.rates();
        self.check(name, "nominal_gb_per_s", nominal / 1e9);
        self.check(name, "effective_gb_per_s", effective / 1e9);
        self.check_latency(name, class.latency_us);
        for way in lanes.copies().iter().flat_map(|rates| [rates.to_device, rates.from_device]) {
            self.check(name, "copies.alone", way.alone / 1e9);
            self.check(name, "copies.against", way.against / 1e9);
        }
        if let Some(reads) = class.read(lanes.lanes) {
            self.check(name, "reads.in_flight", reads.in_flight);
            self.check(name, "reads.round_trip_us", reads.round_trip_us);
            self.check(name, "reads.payload_gb_per_s", reads.payload_gb_per_s);
        }
        self.rests_on(
            name,
            &class.sources,
            &[("effective_gb_per_s", class.effective_gb_per_s), ("latency_us", class.latency_us)],
        );
        let mut wire = Wire {
            ends: [a, b],
            kind: class.kind,
            nominal: [nominal; 2],
            effective: [effective; 2],
            nvlinks: if class.kind == LinkKind::NvLink { lanes.lanes } else { 0 },
            latency: microseconds(class.latency_us),
            half_duplex: false,
            copies: lanes.copies(),
            reads: class.read(lanes.lanes),
            provenance: class.sources.of("effective_gb_per_s").clone(),
        };
        for (direction, end) in [a, b].into_iter().enumerate() {
            if let Some(ssd) = self.drive(end) {
                // Reads leave the drive, writes enter it.
                let rates = [(direction, ssd.read_gb_per_s), (1 - direction, ssd.write_gb_per_s)];
                // What a vendor tells was measured over the drive's own link.
                let own = ssd.pcie == name && ssd.lanes <= lanes.lanes;
                let most = if own { nominal } else { effective };
                for (direction, rate) in rates {
                    wire.effective[direction] = rate.map_or(effective, |rate| most.min(rate * 1e9));
                }
                wire.kind = LinkKind::SsdLink;
                wire.copies = None;
                wire.reads = None;
                wire.provenance = ssd.sources.of("read_gb_per_s").clone();
            }
        }
        self.wire(wire);
    }

    /// The port of a device in the PCIe tree; of an interface it is of the generation of the tree.
    pub(super) fn port(&mut self, device: u32, tree: Lanes<'a>) -> Option<Lanes<'a>> {
        match self.kind(device) {
            PartKind::Gpu => {
                let pcie = &self.catalogue.gpus.get(self.model(device)?)?.pcie;
                self.link_class(&pcie.class, pcie.lanes)
            }
            PartKind::Ssd => {
                let ssd = self.drive(device)?;
                self.link_class(&ssd.pcie, ssd.lanes)
            }
            PartKind::Nic => {
                let lanes = self.catalogue.nics.get(self.model(device)?)?.lanes;
                Some(Lanes { lanes, ..tree })
            }
            _ => Some(tree),
        }
    }

    /// A link between a network interface and a network switch.
    pub(super) fn network_link(&mut self, nic: u32, switch: u32) {
        let Some(entry) = self.model(nic).and_then(|model| self.catalogue.nics.get(model)) else {
            return;
        };
        self.wire(Wire {
            ends: [nic, switch],
            kind: LinkKind::Network,
            nominal: [entry.rate_gbit_per_s * 1e9 / 8.0; 2],
            effective: [entry.effective_gb_per_s * 1e9; 2],
            nvlinks: 0,
            latency: microseconds(entry.latency_us),
            half_duplex: false,
            copies: None,
            reads: None,
            provenance: entry.sources.of("effective_gb_per_s").clone(),
        });
    }

    pub(super) fn model(&self, part: u32) -> Option<&str> {
        self.graph.parts[part as usize].model.as_deref()
    }

    fn drive(&self, part: u32) -> Option<&'a Ssd> {
        if self.kind(part) == PartKind::Ssd { self.catalogue.ssds.get(self.model(part)?) } else { None }
    }

    /// Notes an error unless a constant is positive and small enough for the engine (10^15 byte/s).
    fn check(&mut self, of: &str, name: &'static str, value: f64) {
        if !(value > 0.0 && value <= 1e6) {
            let expected = "write a positive number up to 1,000,000";
            self.errors.push(MachineError::bad_constant(of, name, value, expected));
        }
    }

    /// Notes an error unless a latency is within a second.
    fn check_latency(&mut self, of: &str, us: f64) {
        if !(0.0..=1e6).contains(&us) {
            let expected = "write a number from 0 to 1,000,000";
            self.errors.push(MachineError::bad_constant(of, "latency_us", us, expected));
        }
    }

    fn rests_on(&mut self, of: &str, sources: &Sources, constants: &[(&'static str, f64)]) {
        for &(name, value) in constants {
            self.keep(of, name, value, sources.of(name));
        }
    }

    fn keep(&mut self, of: &str, name: &'static str, value: f64, provenance: &Provenance) {
        if !self.graph.constants.iter().any(|known| known.of == of && known.name == name) {
            let provenance = provenance.clone();
            self.graph.constants.push(Constant { of: of.to_owned(), name, value, provenance });
        }
    }

    fn add(&mut self, part: LocalPart) -> u32 {
        let id = self.graph.parts.len() as u32;
        if self.graph.by_name.insert(part.name.clone(), id).is_some() {
            let name = &part.name;
            let text = format!("two parts are called `{name}`: names are unique");
            self.errors.push(MachineError::of(name, text));
        }
        self.graph.parts.push(part);
        self.graph.neighbours.push(Vec::new());
        id
    }

    fn wire(&mut self, wire: Wire) {
        let [a, b] = wire.ends;
        let hop = 2 * self.graph.wires.len() as u32;
        if self.graph.neighbours[a as usize].iter().any(|&(_, next)| next == b) {
            let [a, b] = [a, b].map(|end| self.name(end));
            let text = format!("`{a}` and `{b}` are linked twice: write one link with more lanes");
            let error = MachineError::of(a, text);
            self.errors.push(error);
            return;
        }
        self.graph.neighbours[a as usize].push((hop, b));
        self.graph.neighbours[b as usize].push((hop + 1, a));
        self.graph.wires.push(wire);
    }
}

/// A latency of the catalogue as simulated time.
pub(super) fn microseconds(us: f64) -> Time {
    Time((us.max(0.0) * 1e6).round() as u64)
}
