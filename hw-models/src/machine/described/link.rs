//! Classes of links that the catalogue lacks.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, LinkClass, LinkKind, LinkUnit, Pcie};
use crate::provenance::Sources;
use crate::reads::LinkReads;
use crate::settings::{Count, Duration, Rate};

use super::super::set::gb_per_s;
use super::{Choice, Description, Reading, quantity};

/// A class of links that the catalogue lacks. Rates are of one direction: of 16 lanes of PCIe, of
/// one NVLink, or of all links between two sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DescribedLink")]
pub struct LinkSettings {
    /// Similar class of the catalogue, which supplies the figures that are not given.
    #[schemars(extend("examples" = ["pcie4"]))]
    pub like: Option<String>,
    /// Name in results; `like-NAME` when absent.
    #[schemars(extend("examples" = ["pcie4-riser"]))]
    pub name: Option<String>,
    /// Kind of link, that of `like` when absent.
    pub kind: Option<ClassKind>,
    /// Rate of its wires after line coding; when absent, in the ratio to `rate` that `like` has.
    pub nominal: Option<Rate>,
    /// Rate of large transfers; with the efficiency of `like` when absent. Copies by devices keep
    /// their ratio to it.
    pub rate: Option<Rate>,
    /// Time to cross one link.
    pub latency: Option<Duration>,
    /// Reads of host memory by threads of a GPU; when absent, those of `like`, scaled by the rate.
    pub reads: Option<ReadSettings>,
}

/// Reads of host memory by threads of a GPU over 16 lanes: two ceilings, requests in flight over a
/// round trip, and payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadSettings {
    /// Requests in flight.
    #[schemars(extend("examples" = [768]))]
    pub in_flight: Option<Count<1, 65_536>>,
    /// Round trip of a request without payload.
    pub round_trip: Option<Duration>,
    /// Payload.
    pub payload: Option<Rate>,
}

/// Kinds of links inside a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClassKind {
    /// Between GPUs, or a GPU and its switch.
    NvLink,
    /// Between a device, a switch and a root port.
    Pcie,
    /// Between CPU sockets.
    SocketLink,
}

/// The PCIe port of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PortSettings {
    /// Class of the port in the catalogue, or a map that describes one.
    #[schemars(extend("examples" = ["pcie4"]))]
    pub class: Option<Choice<LinkSettings>>,
    /// Number of lanes.
    #[schemars(extend("examples" = [16]))]
    pub lanes: Option<Count<1, 16>>,
}

impl Description for LinkSettings {
    type Entry = LinkClass;
    const NOUN: &'static str = "link";
    const ENTRY: &'static str = "link class";

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn rename(&mut self, name: String) {
        self.name = Some(name);
    }

    fn like(&self) -> Option<&str> {
        self.like.as_deref()
    }

    fn entries(catalogue: &Catalogue) -> &IndexMap<String, LinkClass> {
        &catalogue.links
    }

    fn entries_mut(catalogue: &mut Catalogue) -> &mut IndexMap<String, LinkClass> {
        &mut catalogue.links
    }

    fn needed(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("name", self.name.is_some()),
            ("kind", self.kind.is_some()),
            ("rate", self.rate.is_some()),
            ("latency", self.latency.is_some()),
        ]
    }

    fn read(&self, _: &Catalogue, reading: &mut Reading<'_>, like: Option<&LinkClass>) -> Option<LinkClass> {
        let nominal = reading.positive("nominal", self.nominal.map(gb_per_s));
        let rate = reading.positive("rate", self.rate.map(gb_per_s));
        let latency = self.latency.map(microseconds);
        let payload = self.reads.and_then(|reads| reads.payload);
        let payload = reading.positive("reads", payload.map(gb_per_s));
        if let (Some(kind), Some(like)) = (self.kind.map(ClassKind::kind), like)
            && kind != like.kind
        {
            let text = "a link is of the kind of its `like`: remove one of the two".to_owned();
            reading.faults.push(("kind", text));
        }
        let fraction = like.map_or(1.0, |like| like.effective_gb_per_s / like.nominal_gb_per_s);
        let usual = like.map(|like| (like.nominal_gb_per_s, like.effective_gb_per_s));
        let rates = match (nominal, rate) {
            (Some(nominal), None) => Some((nominal, nominal * fraction)),
            (None, Some(rate)) => Some((rate / fraction, rate)),
            (nominal, rate) => nominal.zip(rate).or(usual),
        };
        if let Some((nominal, rate)) = rates
            && rate > nominal
        {
            let text = format!("`rate` of `{}` is beyond its `nominal` one: lower it", reading.part);
            reading.faults.push(("rate", text));
        }
        let kind = self.kind.map(ClassKind::kind).or(like.map(|like| like.kind));
        let (kind, (nominal_gb_per_s, effective_gb_per_s)) = kind.zip(rates)?;
        let followed =
            like.and_then(|like| Some(like.reads?.times(effective_gb_per_s / like.effective_gb_per_s)));
        let reads = self.reads.map_or(followed, |given| {
            let known =
                followed.unwrap_or_else(|| LinkReads::estimated(nominal_gb_per_s, effective_gb_per_s));
            Some(LinkReads {
                in_flight: given.in_flight.map_or(known.in_flight, |count| count.get() as f64),
                round_trip_us: given.round_trip.map_or(known.round_trip_us, microseconds),
                payload_gb_per_s: payload.unwrap_or(known.payload_gb_per_s),
                ..known
            })
        });
        Some(LinkClass {
            kind,
            unit: if kind == LinkKind::Pcie { LinkUnit::SixteenLanes } else { LinkUnit::One },
            nominal_gb_per_s,
            effective_gb_per_s,
            latency_us: latency.or(like.map(|like| like.latency_us)).unwrap_or_default(),
            copies: like
                .and_then(|like| Some(like.copies?.times(effective_gb_per_s / like.effective_gb_per_s))),
            reads,
            like: self.like.clone(),
            sources: Sources::described(self.like().unwrap_or_default(), self.given()),
        })
    }

    fn complete(&self, class: &LinkClass) -> Self {
        Self {
            kind: ClassKind::of(class.kind),
            nominal: self.nominal.or_else(|| quantity(class.nominal_gb_per_s, "GB/s")),
            rate: self.rate.or_else(|| quantity(class.effective_gb_per_s, "GB/s")),
            latency: self.latency.or_else(|| quantity(class.latency_us, "us")),
            ..self.clone()
        }
    }
}

impl LinkSettings {
    /// Constants of the catalogue, and which of them are given.
    fn given(&self) -> [(&'static str, bool); 4] {
        [
            ("nominal_gb_per_s", self.nominal.is_some()),
            ("effective_gb_per_s", self.rate.is_some()),
            ("latency_us", self.latency.is_some()),
            ("reads", self.reads.is_some()),
        ]
    }
}

fn microseconds(duration: Duration) -> f64 {
    duration.picoseconds() as f64 / 1e6
}

impl ClassKind {
    const fn of(kind: LinkKind) -> Option<Self> {
        match kind {
            LinkKind::NvLink => Some(Self::NvLink),
            LinkKind::Pcie => Some(Self::Pcie),
            LinkKind::SocketLink => Some(Self::SocketLink),
            LinkKind::Memory | LinkKind::Network | LinkKind::SsdLink => None,
        }
    }

    const fn kind(self) -> LinkKind {
        match self {
            Self::NvLink => LinkKind::NvLink,
            Self::Pcie => LinkKind::Pcie,
            Self::SocketLink => LinkKind::SocketLink,
        }
    }
}

impl PortSettings {
    /// Both its class and its lanes are given.
    pub(super) const fn is_complete(&self) -> bool {
        self.class.is_some() && self.lanes.is_some()
    }

    /// The port as it is given, where a class that is not given is `usual`.
    pub(super) fn like(given: Option<&Self>, usual: &str) -> Self {
        let given = given.cloned().unwrap_or_default();
        Self { class: given.class.or_else(|| Some(usual.into())), ..given }
    }

    /// The port, where what is not given is `usual`.
    pub(super) fn of(&self, catalogue: &Catalogue, usual: &Pcie) -> Pcie {
        let own = self.class.as_ref().map(|class| {
            let like = catalogue.links.get(class.name()).and_then(|class| class.like.clone());
            (class.name().to_owned(), like)
        });
        let (class, like) = own.unwrap_or_else(|| (usual.class.clone(), usual.like.clone()));
        Pcie { class, lanes: self.lanes.map_or(usual.lanes, |lanes| lanes.get() as u32), like }
    }
}
