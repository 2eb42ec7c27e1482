//! Parts that the catalogue lacks, described in place of a name: a part of the catalogue that they
//! are like, and their own figures.
//!
//! A machine is built on a copy of the catalogue that has them as entries. Figures that are not
//! given are those of the part that it is like; rates that are not given follow from those that
//! are, at the efficiency of that part.

mod drive;
mod gpu;
mod link;

pub use drive::{DriveSettings, Throttle};
pub use gpu::{GpuSettings, NvLinkSettings, TensorRates, VectorRates};
pub use link::{ClassKind, LinkSettings, PortSettings};

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess};
use serde::{Deserialize, Serialize};

use crate::catalogue::nearest::list;
use crate::catalogue::{Catalogue, LinkKind, look_up};
use crate::settings::written::{self, Scalar, Written};
use crate::settings::{Dimension, Quantity};

use super::set::PartChanges;
use super::settings::{Cluster, MoreNodes, Parts, Settings, SingleNode};
use super::{MachineError, PartSettings};

/// A part by its name in the catalogue, or by a map that describes one which the catalogue lacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Choice<D> {
    /// Its name in the catalogue.
    Named(String),
    /// Its description.
    Described(Box<D>),
}

/// Settings that describe a part.
pub trait Description: Clone + PartialEq + for<'de> Deserialize<'de> + JsonSchema {
    /// An entry of the catalogue.
    type Entry: Clone + PartialEq;
    /// The part in a sentence.
    const NOUN: &'static str;
    /// The part in a sentence about entries of the catalogue.
    const ENTRY: &'static str;

    /// Name of the part, where it has one.
    fn name(&self) -> Option<&str>;

    /// Names the part.
    fn rename(&mut self, name: String);

    /// Name of the part of the catalogue that it is like.
    fn like(&self) -> Option<&str>;

    /// Entries of such parts.
    fn entries(catalogue: &Catalogue) -> &IndexMap<String, Self::Entry>;

    /// Entries of such parts, to be added to.
    fn entries_mut(catalogue: &mut Catalogue) -> &mut IndexMap<String, Self::Entry>;

    /// Settings that a part must have which is like no other, and which of them are given.
    fn needed(&self) -> Vec<(&'static str, bool)>;

    /// The entry of this part, whose links are in the catalogue already: figures that are not given
    /// are those of `like`. Faults go to `reading`.
    fn read(
        &self,
        catalogue: &Catalogue,
        reading: &mut Reading<'_>,
        like: Option<&Self::Entry>,
    ) -> Option<Self::Entry>;

    /// This part with every figure of its entry written out.
    fn complete(&self, entry: &Self::Entry) -> Self;

    /// The entry of this part, whose links are in the catalogue already.
    ///
    /// # Errors
    /// All that is wrong with its settings.
    fn entry(&self, catalogue: &Catalogue) -> Result<Self::Entry, Vec<DescriptionFault>> {
        let mut reading = Reading { part: self.name().unwrap_or_default(), faults: Vec::new() };
        let like = reading.like(Self::entries(catalogue), Self::ENTRY, self.like());
        if self.like().is_none() {
            reading.lacking(Self::NOUN, &self.needed());
        }
        match self.read(catalogue, &mut reading, like) {
            Some(entry) if reading.faults.is_empty() => Ok(entry),
            _ => Err(reading.faults),
        }
    }
}

/// A setting of a part that is wrong, by its path within the description, and the reason.
pub type DescriptionFault = (&'static str, String);

impl<D: Description> Choice<D> {
    /// Name of the part; empty where a description lacks one.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Described(part) => part.name().unwrap_or_default(),
        }
    }
}

impl<D> From<&str> for Choice<D> {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl<'de, D: Description> Deserialize<'de> for Choice<D> {
    fn deserialize<S: serde::Deserializer<'de>>(deserializer: S) -> Result<Self, S::Error> {
        written::deserialize(deserializer)
    }
}

impl<'de, D: Description> Written<'de> for Choice<D> {
    fn expected() -> String {
        format!("the name of a {0}, or a map that describes one", D::NOUN)
    }

    fn scalar<E: Error>(scalar: Scalar<'_>) -> Result<Self, E> {
        match scalar {
            Scalar::Text(name) => Ok(Self::Named(name.to_owned())),
            _ => scalar.refuse(),
        }
    }

    fn map<A: MapAccess<'de>>(entries: A) -> Result<Self, A::Error> {
        let mut part = D::deserialize(MapAccessDeserializer::new(entries))?;
        if let (None, Some(like)) = (part.name(), part.like()) {
            part.rename(format!("like-{like}"));
        }
        Ok(Self::Described(Box::new(part)))
    }
}

impl<D: Description> JsonSchema for Choice<D> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}OrName", D::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<D>();
        schemars::json_schema!({
            "description": format!("A {} of the catalogue by its name, or a map that describes one.", D::NOUN),
            "anyOf": [map, { "type": "string" }],
        })
    }
}

/// The catalogue with the parts that a cluster describes.
///
/// # Errors
/// All that is wrong with them.
pub(super) fn of_cluster<'a>(
    catalogue: &'a Catalogue,
    spec: &Cluster,
) -> Result<Cow<'a, Catalogue>, Vec<MachineError>> {
    let mut added = Added::to(catalogue);
    for (part, PartSettings { model, class, .. }) in &spec.set {
        if let Some(class @ Choice::Described(_)) = class {
            added.class(&format!("set.{part}.class"), class, LinkKind::Pcie);
        }
        match model {
            Some(model) if part == "ssd" => added.drive("set.ssd.model", model),
            Some(Choice::Described(_)) => {
                let text =
                    format!("`model` of `{part}` is a map: only drives are described so, write a name");
                added.errors.push(MachineError::of_setting(format!("set.{part}.model"), text));
            }
            _ => {}
        }
    }
    if let Some(gpu) = &spec.gpu {
        added.gpu("gpu", gpu);
    }
    added.done()
}

/// The catalogue with the parts that are described where parts are spelled out.
///
/// # Errors
/// All that is wrong with them.
pub(super) fn of_parts<'a>(
    catalogue: &'a Catalogue,
    spec: &Parts,
) -> Result<Cow<'a, Catalogue>, Vec<MachineError>> {
    let mut added = Added::to(catalogue);
    for (at, link) in spec.links.iter().enumerate() {
        if let Some(class) = &link.class {
            added.part(&format!("links.{at}.class"), class);
        }
    }
    for (name, gpu) in &spec.gpus {
        added.gpu(&format!("gpus.{name}"), gpu);
    }
    for (name, drive) in &spec.ssds {
        added.drive(&format!("ssds.{name}"), drive);
    }
    added.done()
}

impl Settings {
    /// This machine, where descriptions that are right have every figure written out, but for
    /// links of parts that are spelled out: each of those is a line of a list.
    #[must_use]
    pub fn complete(&self, catalogue: &Catalogue) -> Self {
        let mut settings = self.clone();
        match &mut settings {
            Self::Cluster(Cluster { gpu, set, more, .. }) => {
                complete_node(catalogue, gpu, set);
                for MoreNodes { gpu, set, .. } in more {
                    complete_node(catalogue, gpu, set);
                }
            }
            Self::Node(SingleNode { gpu, set, .. }) => complete_node(catalogue, gpu, set),
            Self::Parts(parts) => {
                parts.gpus.values_mut().for_each(|gpu| complete(catalogue, gpu));
                parts.ssds.values_mut().for_each(|drive| complete(catalogue, drive));
            }
        }
        settings
    }
}

fn complete_node(catalogue: &Catalogue, gpu: &mut Option<Choice<GpuSettings>>, set: &mut PartChanges) {
    gpu.iter_mut().for_each(|gpu| complete(catalogue, gpu));
    for PartSettings { model, class, .. } in set.values_mut() {
        model.iter_mut().for_each(|drive| complete(catalogue, drive));
        class.iter_mut().for_each(|class| complete(catalogue, class));
    }
}

fn complete<D: Description>(catalogue: &Catalogue, part: &mut Choice<D>) {
    if let Choice::Described(part) = part
        && let Ok(entry) = part.entry(catalogue)
    {
        **part = part.complete(&entry);
    }
}

/// A figure of the catalogue with its unit; `None` if it has more digits than settings have.
fn quantity<D: Dimension>(figure: f64, unit: &str) -> Option<Quantity<D>> {
    Quantity::parse(&format!("{figure} {unit}")).ok()
}

/// The catalogue with parts that are added to it.
struct Added<'a> {
    catalogue: Cow<'a, Catalogue>,
    known: &'a Catalogue,
    errors: Vec<MachineError>,
}

impl<'a> Added<'a> {
    fn to(known: &'a Catalogue) -> Self {
        Self { catalogue: Cow::Borrowed(known), known, errors: Vec::new() }
    }

    fn done(self) -> Result<Cow<'a, Catalogue>, Vec<MachineError>> {
        if self.errors.is_empty() { Ok(self.catalogue) } else { Err(self.errors) }
    }

    fn gpu(&mut self, place: &str, gpu: &Choice<GpuSettings>) {
        if let Choice::Described(described) = gpu {
            if let Some(class) = described.nvlink.as_ref().and_then(|own| own.class.as_ref()) {
                self.class(&format!("{place}.nvlink.class"), class, LinkKind::NvLink);
            }
            self.port(place, described.pcie.as_ref());
            self.part(place, gpu);
        }
    }

    fn drive(&mut self, place: &str, drive: &Choice<DriveSettings>) {
        if let Choice::Described(described) = drive {
            self.port(place, described.pcie.as_ref());
            self.part(place, drive);
        }
    }

    fn port(&mut self, place: &str, port: Option<&PortSettings>) {
        if let Some(class) = port.and_then(|port| port.class.as_ref()) {
            self.class(&format!("{place}.pcie.class"), class, LinkKind::Pcie);
        }
    }

    /// A class of links of a kind.
    fn class(&mut self, place: &str, class: &Choice<LinkSettings>, kind: LinkKind) {
        self.part(place, class);
        match look_up(&self.catalogue.links, "link class", class.name()) {
            Ok(found) if found.kind == kind => {}
            Ok(_) => {
                let known = self.known.links.iter().filter(|(_, class)| class.kind == kind);
                let known = list(known.map(|(name, _)| name.as_str()));
                let text = format!("`{}` is a link of another kind: take one like {known}", class.name());
                self.errors.push(MachineError::of_setting(place, text));
            }
            Err(unknown) if matches!(class, Choice::Named(_)) => {
                self.errors.push(MachineError::of_setting(place, unknown.to_string()));
            }
            // A description that is wrong has been reported.
            Err(_) => {}
        }
    }

    /// A part, unless it is the catalogue's.
    fn part<D: Description>(&mut self, place: &str, part: &Choice<D>) {
        let Choice::Described(part) = part else { return };
        let mut wrong = |setting: &str, text: String| {
            let place = if setting.is_empty() { place.to_owned() } else { format!("{place}.{setting}") };
            self.errors.push(MachineError::of_setting(place, text));
        };
        let entry = match part.entry(&self.catalogue) {
            Ok(entry) => entry,
            Err(faults) => {
                faults.into_iter().for_each(|(setting, text)| wrong(setting, text));
                return;
            }
        };
        let (name, noun) = (part.name().unwrap_or_default(), D::NOUN);
        let catalogue = self.catalogue.to_mut();
        match D::entries(catalogue).get(name) {
            None => {
                D::entries_mut(catalogue).insert(name.to_owned(), entry);
            }
            Some(known) if *known == entry => {}
            Some(_) => {
                let text = format!("another {noun} is called `{name}`: give this one a `name` of its own");
                wrong("name", text);
            }
        }
    }
}

/// Settings of a part that are checked, and their faults.
pub struct Reading<'s> {
    /// Name of the part, for messages.
    part: &'s str,
    faults: Vec<DescriptionFault>,
}

/// Figures go no further, in the units of the catalogue.
const MOST: f64 = 1e6;

impl Reading<'_> {
    /// A positive figure in the unit of the catalogue, if it is given.
    fn positive(&mut self, setting: &'static str, value: Option<f64>) -> Option<f64> {
        let value = value?;
        if value <= 0.0 || value > MOST {
            let (part, wrong) = (self.part, if value > 0.0 { "too large" } else { "zero" });
            let text =
                format!("`{setting}` of `{part}` is {wrong}: write what a data sheet says, or leave it out");
            self.faults.push((setting, text));
        }
        Some(value)
    }

    /// Notes what must be given of a part that is like no other.
    fn lacking(&mut self, noun: &str, given: &[(&'static str, bool)]) {
        let lacks: Vec<&str> =
            given.iter().filter(|(_, given)| !given).map(|&(setting, _)| setting).collect();
        if !lacks.is_empty() {
            let text = format!(
                "the {noun} lacks {}: add them, or a `like` with the name of one to take them from",
                list(lacks)
            );
            self.faults.push(("", text));
        }
    }

    /// The entry that it is like.
    fn like<'c, T>(
        &mut self,
        entries: &'c IndexMap<String, T>,
        noun: &'static str,
        like: Option<&str>,
    ) -> Option<&'c T> {
        match look_up(entries, noun, like?) {
            Ok(entry) => Some(entry),
            Err(unknown) => {
                self.faults.push(("like", unknown.to_string()));
                None
            }
        }
    }
}
