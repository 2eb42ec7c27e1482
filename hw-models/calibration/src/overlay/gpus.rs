//! What several GPUs of a machine were measured to do, laid over links, messages and tables of collectives.

use super::{COPY_RATES, LINK_RATE, Laid, Overlay, Place, Value};
use crate::FoundCollectives;
use crate::hardware::Hardware;
use crate::measure::Fabric;
use hw_models::catalogue::{CopyRates, LinkClass, OneWay};
use hw_models::collectives::{CollectiveKind, InsideLink, LogTable, MeasuredTable};
use hw_models::provenance::{Confidence, Origin, Provenance};

/// What tables of collectives are told as.
pub const COLLECTIVES: &str = "collectives";

/// The times of collectives of a file, where it is known of which GPU and over what they are.
pub(super) fn tables(hardware: &Hardware) -> Option<(&str, Fabric, &FoundCollectives)> {
    Some((hardware.gpu.as_deref()?, hardware.device.fabric?, hardware.collectives.as_ref()?))
}

/// Whether a law is of collectives, of which there are tables.
pub(super) fn is_collective(law: &str) -> bool {
    CollectiveKind::ALL.into_iter().any(|kind| kind.to_string() == law)
}

impl Overlay {
    /// Times of collectives in the place of those that the catalogue has of such groups.
    pub(super) fn lay_collectives(
        &mut self,
        laid: &Laid,
        gpu: &str,
        fabric: Fabric,
        found: &FoundCollectives,
    ) {
        let Some(generation) = self.devices.gpus.get(gpu).map(|gpu| gpu.architecture.clone()) else { return };
        let provenance = Provenance {
            origin: Origin::MeasuredHere,
            source: format!(
                "{}: collectives of {}, {}; held out {}",
                laid.file, laid.device, laid.date, found.held_out
            ),
            confidence: if laid.steady { Confidence::High } else { Confidence::Medium },
        };
        for table in &found.tables {
            let table = MeasuredTable {
                generation: generation.clone(),
                inside: fabric.inside,
                ranks: table.ranks,
                kind: table.kind,
                points: LogTable::from(table.points.clone()),
                provenance: provenance.clone(),
            };
            let known = self.collectives.tables.iter_mut().find(|known| known.is_of_the_same(&table));
            match known {
                Some(known) => *known = table,
                None => self.collectives.tables.push(table),
            }
        }
    }
}

impl<'a> Value<'a> {
    /// What copy engines get of an NVLink, alike in both directions. Over PCI Express copies follow from the links on their way.
    pub(super) fn peer(self, place: fn(&mut OneWay, f64)) -> Option<Place<'a>> {
        self.of_nvlink(move |class, rate, from| {
            let mut copies = class.copied(class.unit.lanes()).times(1e-9);
            let CopyRates { to_device, from_device } = &mut copies;
            [to_device, from_device].into_iter().for_each(|way| place(way, rate));
            class.copies = Some(copies);
            class.sources.constants.insert(COPY_RATES.to_owned(), from);
        })
    }

    /// What messages get of a link, by kernels as those of collectives are: of an NVLink that is its rate, of PCI Express a share of
    /// the link to the host.
    pub(super) fn messages(self) -> Option<Place<'a>> {
        let gpu = self.gpu?;
        if self.fabric?.inside != InsideLink::Pcie {
            return self.of_nvlink(|class, rate, from| {
                class.effective_gb_per_s = rate;
                class.sources.constants.insert(LINK_RATE.to_owned(), from);
            });
        }
        Some(Box::new(move |all| {
            let Some(gpu) = all.devices.gpus.get(gpu) else { return };
            let Some(class) = all.devices.links.get(&gpu.pcie.class) else { return };
            let message = &mut all.collectives.point_to_point.pcie;
            message.efficiency = self.of * 1e9 / class.effective(gpu.pcie.lanes);
            message.provenance = self.from;
        }))
    }

    /// What comes before the bytes of a message whose receiver is ready: its parts as the catalogue divides it.
    pub(super) fn message(self) -> Option<Place<'a>> {
        let fabric = self.fabric?;
        Some(Box::new(move |all| {
            let paths = &mut all.collectives.point_to_point;
            let message = match fabric.inside {
                InsideLink::Pcie => &mut paths.pcie,
                InsideLink::NvSwitch | InsideLink::CubeMesh | InsideLink::Relayed => &mut paths.nv_link,
            };
            let longer = self.of / (message.latency_us + message.rendezvous_us);
            message.latency_us *= longer;
            message.rendezvous_us *= longer;
            message.provenance = self.from;
        }))
    }

    /// What is measured between two GPUs (GB/s), as a rate of the class of their NVLinks; none without such links.
    fn of_nvlink(self, place: impl FnOnce(&mut LinkClass, f64, Provenance) + 'a) -> Option<Place<'a>> {
        let (gpu, links) = (self.gpu?, self.fabric?.nvlinks);
        (links > 0).then_some(())?;
        Some(Box::new(move |all| {
            let Some(nvlink) = all.devices.gpus.get(gpu).and_then(|gpu| gpu.nvlink.as_ref()) else { return };
            let Some(class) = all.devices.links.get_mut(&nvlink.class) else { return };
            place(class, self.of / f64::from(links), self.from);
        }))
    }
}
