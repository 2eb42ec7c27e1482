//! Hardware files laid over the catalogue: what was measured replaces what the catalogue says, the rest stays.
//!
//! A scenario has one machine, so that what was measured of a host holds for all nodes of the overlay, and what was
//! measured of a drive for all drives.

mod gpus;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error as Unknown};

use super::hardware::{Constant, Found, Hardware};
use super::laws::gpus::{PEER, PEER_AGAINST, RATE, SEND_RECEIVE, START};
use super::laws::laws;
use super::measure::Fabric;
use super::{Errors, FoundKernels};
use hw_models::catalogue::{Catalogue, CopyRates, LinkClass, OneWay, Ssd, UnknownEntry, look_up};
use hw_models::collectives::CollectiveCatalogue;
use hw_models::copies::{CopyCatalogue, CopyParameters};
use hw_models::host::{Cost, HostCosts, OpClass};
use hw_models::kernels::{
    Corrections, DeviceKernels, KernelCatalogue, KernelClass, Spreads, StreamClass, StreamParameters,
};
use hw_models::provenance::{Confidence, Origin, Provenance};

pub use gpus::COLLECTIVES;
use gpus::is_collective;

/// Constants that scenarios rest on.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// Devices and links.
    pub devices: Catalogue,
    /// Kernels.
    pub kernels: KernelCatalogue,
    /// Collectives and messages.
    pub collectives: CollectiveCatalogue,
    /// What issuing work costs.
    pub host: HostCosts,
    /// Starts of copies.
    pub copies: CopyCatalogue,
    /// How far kernels are off.
    pub spreads: Spreads,
    /// The files, in the order they were laid.
    pub files: Vec<Laid>,
    /// What was replaced: which file has it, and what nine of ten measurements are within, relative.
    pub replaced: BTreeMap<String, Replaced>,
}

/// A hardware file that was laid over the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laid {
    /// Its path.
    pub file: String,
    /// What was measured.
    pub device: String,
    /// The GPU, by its name in the catalogue.
    pub gpu: Option<String>,
    /// When.
    pub date: String,
    /// Whether no change of the device was noticed meanwhile.
    pub steady: bool,
    /// What scenarios would take if its records told it: the catalogue's holds.
    pub untold: Vec<String>,
    /// What no scenario rests on.
    pub unused: Vec<String>,
}

/// A constant, or a class of kernels, that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Replaced {
    /// Number of the file in [`Overlay::files`].
    pub file: usize,
    /// What nine of ten measurements are within, relative to the prediction.
    pub within: f64,
}

/// A fault that keeps a hardware file from being laid over the catalogue: a sentence that follows
/// its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OverlayError(String);

impl From<UnknownEntry> for OverlayError {
    fn from(error: UnknownEntry) -> Self {
        Self(error.to_string())
    }
}

/// Half the width of an interval of nine in ten, in standard errors.
pub const NINE_OF_TEN: f64 = 1.645;

impl Overlay {
    /// Constants over which nothing is laid yet.
    pub fn new(
        devices: Catalogue,
        kernels: KernelCatalogue,
        collectives: CollectiveCatalogue,
        host: HostCosts,
        copies: CopyCatalogue,
        spreads: Spreads,
    ) -> Self {
        let (files, replaced) = (Vec::new(), BTreeMap::new());
        Self { devices, kernels, collectives, host, copies, spreads, files, replaced }
    }

    /// Lays the hardware file that was read from the path `file` over what there is.
    ///
    /// # Errors
    /// All that is wrong with it; what it says has then been taken over in part.
    pub fn lay(&mut self, file: &str, hardware: &Hardware) -> Result<(), Vec<OverlayError>> {
        if let Some(gpu) = &hardware.gpu {
            look_up(&self.devices.gpus, "GPU", gpu).map_err(|error| vec![error.into()])?;
        }
        let mut laid = Laid {
            file: file.to_owned(),
            device: hardware.device.name.clone(),
            gpu: hardware.gpu.clone(),
            date: hardware.date.clone(),
            steady: hardware.steady,
            untold: Vec::new(),
            unused: Vec::new(),
        };
        let (mut errors, mut twice) = (Vec::new(), Vec::new());
        let elementwise = KernelClass::Stream(StreamClass::Elementwise).to_string();
        let has_elementwise =
            hardware.kernels.as_ref().is_some_and(|kernels| kernels.classes.contains_key(&elementwise));
        let tables = gpus::tables(hardware);
        for (law, found) in in_order(&hardware.laws, laws().map(|law| law.name)) {
            let constants = laws().find(|known| known.name == law).map_or(&[][..], |law| law.constants);
            for (name, constant) in in_order(&found.constants, constants.iter().map(|constant| constant.name))
            {
                let what = format!("{law}.{name}");
                let within = within(constant, &found.held_out);
                let value = Value {
                    of: constant.value,
                    gpu: laid.gpu.as_deref(),
                    fabric: hardware.device.fabric,
                    from: provenance(&laid, law, found),
                    errors: Errors { p90: within, ..found.held_out },
                };
                // Kernels of a framework tell more of their class than a pass of our own.
                let of_kernels = law == ELEMENTWISE_PASS && has_elementwise;
                match value.place(law, name).filter(|_| !of_kernels) {
                    // Scenarios go by the times themselves.
                    None if tables.is_some() && is_collective(law) => {}
                    None => laid.unused.push(what),
                    Some(_) if !constant.told => laid.untold.push(what),
                    Some(place) => {
                        place(self);
                        self.keep(&what, within, &mut twice);
                    }
                }
            }
        }
        match (&hardware.kernels, &hardware.gpu) {
            (Some(kernels), Some(gpu)) => {
                let fault = self.lay_kernels(file, gpu, kernels, &mut twice).err();
                errors.extend(fault.map(|fault| OverlayError(format!("{fault}: calibrate again"))));
            }
            (Some(_), None) => errors.push(OverlayError(
                "has kernels and does not say of which GPU: write `gpu: NAME` with a name of `foretrain list gpus`"
                    .to_owned(),
            )),
            (None, _) => {}
        }
        if let (Some(power), Some(gpu)) =
            (&hardware.power, laid.gpu.as_ref().and_then(|gpu| self.devices.gpus.get_mut(gpu)))
        {
            gpu.power = Some(power.clone());
        }
        if let Some((gpu, fabric, found)) = tables {
            self.lay_collectives(&laid, gpu, fabric, found);
            self.keep(COLLECTIVES, found.held_out.p90, &mut twice);
        }
        for (number, other) in self.files.iter().enumerate() {
            let what: Vec<String> =
                twice.iter().filter(|(_, before)| *before == number).map(|(what, _)| what.clone()).collect();
            if !what.is_empty() {
                let (what, other) = (what.join(", "), &other.file);
                errors
                    .push(OverlayError(format!("sets {what} and so does `{other}`: leave one of them out")));
            }
        }
        self.files.push(laid);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Kernels of a GPU, class by class.
    fn lay_kernels(
        &mut self,
        file: &str,
        gpu: &str,
        kernels: &FoundKernels,
        twice: &mut Vec<(String, usize)>,
    ) -> Result<(), String> {
        let corrections = kernels.corrections(gpu)?;
        self.kernels
            .devices
            .entry(gpu.to_owned())
            .or_default()
            .replace(named(file, kernels.constants.clone()));
        for (&class, corrections) in &corrections {
            self.kernels.corrections.entry(gpu.to_owned()).or_default().insert(class, corrections.clone());
            if let Some(found) = kernels.classes.get(&class.to_string()) {
                self.spreads.replace(gpu, class, &found.held_out);
            }
            let facts = &self.devices.gpus[gpu];
            let within = self.spreads.of(&self.devices, (gpu, facts), class).within();
            self.keep(&format!("{class} kernels of {gpu}"), within, twice);
        }
        Ok(())
    }

    /// What an operator costs the host (us), if that is from a hardware file.
    fn measured(&self, class: OpClass) -> Option<f64> {
        let cost = self.host.dispatch.get(&class)?;
        (cost.provenance.origin == Origin::MeasuredHere).then_some(cost.us)
    }

    /// Remembers what the file that is being laid replaces, and what another one did before.
    fn keep(&mut self, what: &str, within: f64, twice: &mut Vec<(String, usize)>) {
        let file = self.files.len();
        let before = self.replaced.insert(what.to_owned(), Replaced { file, within });
        twice
            .extend(before.filter(|before| before.file != file).map(|before| (what.to_owned(), before.file)));
    }
}

/// A constant that was measured.
struct Value<'a> {
    of: f64,
    /// The GPU that was measured.
    gpu: Option<&'a str>,
    /// What connects it with others.
    fabric: Option<Fabric>,
    from: Provenance,
    /// Those of its law, and its own.
    errors: Errors,
}

/// Puts a constant in the place of what the catalogue says.
type Place<'a> = Box<dyn FnOnce(&mut Overlay) + 'a>;

impl<'a> Value<'a> {
    /// Where a constant of a law belongs; none if no scenario rests on it.
    fn place(self, law: &str, constant: &str) -> Option<Place<'a>> {
        Some(match (law, constant) {
            ("memory.copy", "all") => Box::new(move |all| self.host_memory(all)),
            ("disk.read", "rate") => self.drives("read_gb_per_s", |ssd| &mut ssd.read_gb_per_s),
            ("disk.write", "rate") => self.drives("write_gb_per_s", |ssd| {
                // The cache of the catalogue's drive is not that of the one that was measured.
                (ssd.burst_write_gb_per_s, ssd.write_cache_gb) = (None, None);
                &mut ssd.write_gb_per_s
            }),
            ("disk.random-read", "operations") => self.drives("read_kiops", |ssd| &mut ssd.read_kiops),
            ("disk.random-write", "operations") => self.drives("write_kiops", |ssd| &mut ssd.write_kiops),
            ("disk.random-read", "latency") => self.drives("read_latency_us", |ssd| &mut ssd.read_latency_us),
            ("disk.random-write", "latency") => {
                self.drives("write_latency_us", |ssd| &mut ssd.write_latency_us)
            }
            ("launch", "call") => self.cost(|host| &mut host.launch),
            ("gap.stream", "gap") => self.cost(|host| &mut host.gap_in_stream),
            ("gap.graph", "gap") => self.cost(|host| &mut host.gap_in_graph),
            ("graph.launch", "base") => self.cost(|host| &mut host.graph_launch),
            ("graph.launch", "node") => self.cost(|host| &mut host.graph_node),
            ("launch.waited", "call") => Box::new(move |all| {
                let us = (self.of - all.host.launch.us).max(0.0);
                all.host.synchronise = Cost { us, provenance: self.from };
            }),
            ("copy.to-device", "rate") => self.link(|copies| &mut copies.to_device)?,
            ("copy.to-device", "issued") => self.copy_start(|copies| &mut copies.to_device.issue_us)?,
            ("copy.to-host", "issued") => self.copy_start(|copies| &mut copies.from_device.issue_us)?,
            ("copy.to-host", "rate") => self.link(|copies| &mut copies.from_device)?,
            ("copy.against.to-device", "one") => self.against(|copies| &mut copies.to_device)?,
            ("copy.against.to-host", "one") => self.against(|copies| &mut copies.from_device)?,
            (PEER, RATE) => self.peer(|way, rate| *way = OneWay { alone: rate, against: rate })?,
            (PEER_AGAINST, RATE) => self.peer(|way, rate| way.against = rate)?,
            (SEND_RECEIVE, RATE) => self.messages()?,
            (SEND_RECEIVE, START) => self.message()?,
            (ELEMENTWISE_PASS, "rate" | "start") => self.stream(constant == "rate")?,
            _ => self.of_framework(law, constant)?,
        })
    }

    /// What streaming reaches of the whole host; what its memory could is not asked for.
    fn host_memory(self, all: &mut Overlay) {
        for node in all.devices.nodes.values_mut() {
            node.host_memory.gb_per_s = self.of / f64::from(node.sockets.max(1));
            node.host_memory.streaming_fraction = 1.0;
            node.sources.constants.insert("host_memory".to_owned(), self.from.clone());
        }
    }

    fn drives(self, name: &'static str, constant: fn(&mut Ssd) -> &mut Option<f64>) -> Place<'a> {
        Box::new(move |all| {
            for ssd in all.devices.ssds.values_mut() {
                *constant(ssd) = Some(self.of);
                ssd.sources.constants.insert(name.to_owned(), self.from.clone());
            }
        })
    }

    fn cost(self, constant: fn(&mut HostCosts) -> &mut Cost) -> Place<'a> {
        Box::new(move |all| *constant(&mut all.host) = Cost { us: self.of, provenance: self.from })
    }

    /// Where what an operator costs the host belongs, of a host that has a GPU: without one the operator does its work meanwhile.
    ///
    /// Training records operators forward, and then runs as many backward: the cost of a class is the mean of both. An
    /// operator of a training step is a kernel, which is launched; the gradient of a linear layer is two, of its input and of its
    /// weight.
    fn of_framework(self, law: &str, constant: &str) -> Option<Place<'a>> {
        self.gpu?;
        let (kind, class) = law.split_once('.')?;
        let class = OpClass::deserialize(BorrowedStrDeserializer::<Unknown>::new(class)).ok()?;
        Some(match (kind, class, constant) {
            ("operator", OpClass::Metadata, "recorded") => self.dispatch(class, |_, us| us),
            ("operator", OpClass::Communication | OpClass::Copy | OpClass::Optimizer, "call")
            | ("operator", _, "recorded") => self.dispatch(class, |all, us| us - all.host.launch.us),
            ("operator", OpClass::Optimizer, "tensor") => {
                self.dispatch(class, move |all, us| all.measured(class).unwrap_or_default() + TENSORS * us)
            }
            ("backward", _, "operator") => self.dispatch(class, move |all, us| {
                let products = if class == OpClass::MatrixProduct { 2.0 } else { 1.0 };
                let backward = us / products - all.host.launch.us;
                all.measured(class).map_or(backward, |forward| f64::midpoint(forward, backward))
            }),
            _ => return None,
        })
    }

    /// The cost (us) that is measured, as what `without` leaves of it.
    fn dispatch(self, class: OpClass, without: impl FnOnce(&Overlay, f64) -> f64 + 'a) -> Place<'a> {
        Box::new(move |all| {
            let us = without(all, self.of).max(0.0);
            all.host.dispatch.insert(class, Cost { us, provenance: self.from });
        })
    }

    /// Copies in one direction over the class of the link between a GPU and its host, while the other is idle. For what else crosses
    /// it the class has one rate: that of the slower direction.
    fn link(self, way: fn(&mut CopyRates) -> &mut OneWay) -> Option<Place<'a>> {
        self.of_link(move |class, rate, from| {
            let mut copies = class.copied(class.unit.lanes()).times(1e-9);
            let one = way(&mut copies);
            // What a busy direction leaves of another is a law of its own, which comes after this one.
            *one = OneWay { alone: rate, against: rate * one.against / one.alone };
            class.copies = Some(copies);
            let other = class.sources.of(LINK_RATE);
            let slower = other.origin == Origin::MeasuredHere && class.effective_gb_per_s < rate;
            if !slower {
                class.effective_gb_per_s = rate;
                class.sources.constants.insert(LINK_RATE.to_owned(), from.clone());
            }
            class.sources.constants.insert(COPY_RATES.to_owned(), from);
        })
    }

    /// The same while the other direction is busy.
    fn against(self, way: fn(&mut CopyRates) -> &mut OneWay) -> Option<Place<'a>> {
        self.of_link(move |class, rate, _| {
            let mut copies = class.copied(class.unit.lanes()).times(1e-9);
            way(&mut copies).against = rate;
            class.copies = Some(copies);
        })
    }

    /// What is measured of the link of a GPU (GB/s), as a rate of its class.
    fn of_link(self, place: impl FnOnce(&mut LinkClass, f64, Provenance) + 'a) -> Option<Place<'a>> {
        let gpu = self.gpu?;
        Some(Box::new(move |all| {
            let Some(gpu) = all.devices.gpus.get(gpu) else { return };
            let Some(class) = all.devices.links.get_mut(&gpu.pcie.class) else { return };
            let rate = self.of / class.unit.units(gpu.pcie.lanes);
            place(class, rate, self.from);
        }))
    }

    /// What passes before the bytes of a copy over the link of a GPU (us).
    fn copy_start(self, start: fn(&mut CopyParameters) -> &mut f64) -> Option<Place<'a>> {
        let gpu = self.gpu?;
        Some(Box::new(move |all| {
            let Some(gpu) = all.devices.gpus.get(gpu) else { return };
            let Some(copies) = all.copies.get_mut(&gpu.pcie.class) else { return };
            *start(copies) = self.of;
            copies.provenance = self.from;
        }))
    }

    /// Elementwise kernels of a GPU: passes that read an array and write another.
    fn stream(self, rate: bool) -> Option<Place<'a>> {
        const CLASS: StreamClass = StreamClass::Elementwise;
        let gpu = self.gpu?;
        Some(Box::new(move |all| {
            let Some(facts) = all.devices.gpus.get(gpu) else { return };
            let Ok(parameters) = all.kernels.parameters(gpu, &facts.architecture) else { return };
            let Ok(known) = parameters.stream(CLASS) else { return };
            let mut found = StreamParameters { provenance: self.from, ..known.clone() };
            if rate {
                found.achieved = self.of / facts.bandwidth_gb_per_s;
                all.spreads.replace(gpu, KernelClass::Stream(CLASS), &self.errors);
            } else {
                found.start_us = self.of;
            }
            all.kernels.devices.entry(gpu.to_owned()).or_default().stream.insert(CLASS, found);
            // What others measured near some shapes is no correction of this.
            let corrections = all.kernels.corrections.entry(gpu.to_owned()).or_default();
            corrections.insert(KernelClass::Stream(CLASS), Corrections::default());
        }))
    }
}

/// Entries in the order of their `names`, behind those that have none: some constants build on others, in whichever order a
/// file has them.
fn in_order<T>(map: &IndexMap<String, T>, names: impl Iterator<Item = &'static str>) -> Vec<(&String, &T)> {
    let names: Vec<&str> = names.collect();
    let mut entries: Vec<(&String, &T)> = map.iter().collect();
    entries.sort_by_key(|(name, _)| names.iter().position(|known| known == name));
    entries
}

/// The law of passes that read an array and write another.
const ELEMENTWISE_PASS: &str = "pass.scale";
/// Tensors of an update, of which the host does something for each: those of a small model.
const TENSORS: f64 = 100.0;
/// Name of the rate of a class of links.
const LINK_RATE: &str = "effective_gb_per_s";
/// Those of copies over it.
const COPY_RATES: &str = "copies";

/// The standard error of the constant and what the law is off on what it was not fitted to, which are independent.
fn within(constant: &Constant, held_out: &Errors) -> f64 {
    (NINE_OF_TEN * constant.error.unwrap_or(0.0)).hypot(held_out.p90)
}

fn provenance(laid: &Laid, law: &str, found: &Found) -> Provenance {
    let Laid { file, device, date, .. } = laid;
    let sure = laid.steady && found.unstable == 0;
    Provenance {
        origin: Origin::MeasuredHere,
        source: format!("{file}: {law} of {device}, {date}; held out {}", found.held_out),
        confidence: if sure { Confidence::High } else { Confidence::Medium },
    }
}

/// Kernels whose sources begin with the file that they are from.
fn named(file: &str, mut kernels: DeviceKernels) -> DeviceKernels {
    let provenances = kernels
        .gemm
        .values_mut()
        .chain(kernels.batched.values_mut())
        .map(|gemm| &mut gemm.provenance)
        .chain(kernels.grouped.iter_mut().map(|grouped| &mut grouped.provenance))
        .chain(kernels.convolution.values_mut().map(|convolution| &mut convolution.provenance))
        .chain(kernels.attention.iter_mut().map(|attention| &mut attention.provenance))
        .chain(kernels.stream.values_mut().map(|stream| &mut stream.provenance));
    provenances.for_each(|provenance| provenance.source = format!("{file}: {}", provenance.source));
    kernels
}
