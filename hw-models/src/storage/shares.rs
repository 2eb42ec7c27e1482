//! Transfers to and from arrays as demands: on the links of every member, on the time of the drives, on their operations.
//!
//! A drive's chips read or write: both together take of its *time* what each would take alone,
//!
//! ```text
//! read / rate of reads + write / rate of writes <= 2 x share
//! ```
//!
//! where `share` is what each direction keeps of its own rate while the other is busy: a half where that is not known. Each direction is a
//! port, so that they get the same time however many requests each has. While a cache takes what is written, writes take time at its
//! rate.
//!
//! A drive that throttles has a *heat*, in seconds of its reads, too: a token bucket that work at
//! full rate empties, and that fills again by as much as the hot drive does. Once it is empty, both
//! directions together keep the throttled share.

use std::collections::BTreeMap;

use sim_core::fixed::Rate;
use sim_core::id::{CauseId, FluidId};
use sim_core::platform::{Bucket, Demand, Platform};

use crate::catalogue::Ssd;
use crate::machine::{Machine, MachineResources, NoRoute, PartId, Transfers, join, part_of};

use super::{Array, Requests};

/// Directions of a transfer, as the drive sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the drive.
    Read,
    /// To the drive.
    Write,
}

/// What the transfers to and from the drives of a machine share.
#[derive(Clone, Debug)]
pub struct Storage<'a> {
    machine: &'a Machine,
    cause: CauseId,
    links: Transfers<'a>,
    /// The time of each drive, by direction.
    times: BTreeMap<PartId, [Demand; 2]>,
    /// The heat of each drive that throttles.
    heats: BTreeMap<PartId, FluidId>,
    operations: BTreeMap<(PartId, Way), FluidId>,
}

/// The bytes of one of the operations that catalogues count.
const OPERATION: f64 = 4096.0;

impl<'a> Storage<'a> {
    /// Nothing is shared yet. Time lost where transfers meet counts under `cause`.
    pub const fn new(machine: &'a Machine, cause: CauseId) -> Self {
        let links = Transfers::new(machine, cause);
        Self {
            machine,
            cause,
            links,
            times: BTreeMap::new(),
            heats: BTreeMap::new(),
            operations: BTreeMap::new(),
        }
    }

    /// What copies that do not touch a drive share with those that do.
    pub const fn links(&mut self) -> &mut Transfers<'a> {
        &mut self.links
    }

    /// The demands of a transfer between an array and a memory or a GPU, one per fluid: each member carries its part. A byte passes a
    /// host memory `passes` times. Beside them the most that its requests get (byte/s).
    ///
    /// # Errors
    /// If nothing joins a member and the other end.
    pub fn demands(
        &mut self,
        platform: &mut Platform,
        resources: &MachineResources,
        (array, end): (&Array, PartId),
        (way, bytes): (Way, u64),
        requests: Requests,
        passes: f64,
    ) -> Result<(Vec<Demand>, f64), NoRoute> {
        let members = array.touched(bytes);
        let part = 1.0 / members.len() as f64;
        let (mut demands, mut at_most): (Vec<Demand>, f64) = (Vec::new(), f64::INFINITY);
        for &drive in members {
            let [from, to] = match way {
                Way::Read => [drive, end],
                Way::Write => [end, drive],
            };
            let route = self.machine.route(from, to)?;
            let mut of_member = self.links.demands(platform, resources, &route, passes);
            if let Some(model) = self.machine.drive_model(drive) {
                let operation = requests.block.min(array.chunk) as f64;
                of_member.push(self.time(platform, drive, model)[way as usize]);
                of_member.extend(self.heat(platform, drive, model, way));
                of_member.extend(self.operations(platform, drive, model, way, operation));
                let rate = way.bytes_per_s(model).unwrap_or_else(|| self.machine.bytes_per_s(&route));
                let rate = requests.bytes_per_s(model, way, rate, [members.len() as u64, array.chunk]);
                at_most = at_most.min(rate / part);
            }
            for demand in of_member {
                join(&mut demands, part_of(demand, part));
            }
        }
        Ok((demands, at_most))
    }

    /// Both directions of a drive, in seconds of its reads.
    fn time(&mut self, platform: &mut Platform, drive: PartId, model: &Ssd) -> [Demand; 2] {
        let (machine, cause) = (self.machine, self.cause);
        *self.times.entry(drive).or_insert_with(|| {
            let [read, write] = rates(machine, drive);
            let name = format!("{}.time", machine.part(drive).name);
            let fluid = platform.fluid(name, read * both(model), cause);
            [1.0, read / write].map(|takes| Demand::on(fluid).coefficient(takes).port(platform.port()))
        })
    }

    /// The heat of a drive that throttles. Reads at full rate alone make it hot after as many bytes
    /// as the drive says, of which it gives off the throttled share meanwhile.
    fn heat(&mut self, platform: &mut Platform, drive: PartId, model: &Ssd, way: Way) -> Option<Demand> {
        let (machine, cause) = (self.machine, self.cause);
        let (after, kept) = model.throttle_after_gb.zip(model.throttled_share.filter(|&kept| kept < 1.0))?;
        let [read, write] = rates(machine, drive);
        let fluid = *self.heats.entry(drive).or_insert_with(|| {
            let fluid = platform.fluid(format!("{}.heat", machine.part(drive).name), read * kept, cause);
            let volume = after * 1e9 * (1.0 - kept);
            let burst = Rate::per_second(read * both(model));
            let cold = (volume >= 1.0).then_some(Bucket::full(burst, volume as u64));
            platform.fluids[fluid.index()].bucket = cold;
            fluid
        });
        let takes = match way {
            Way::Read => 1.0,
            Way::Write => read / write,
        };
        Some(Demand::on(fluid).coefficient(takes))
    }

    fn operations(
        &mut self,
        platform: &mut Platform,
        drive: PartId,
        model: &Ssd,
        way: Way,
        bytes: f64,
    ) -> Option<Demand> {
        let (machine, cause) = (self.machine, self.cause);
        let per_s = way.operations_per_s(model)?;
        let fluid = *self.operations.entry((drive, way)).or_insert_with(|| {
            let name = format!("{}.{way:?} operations", machine.part(drive).name);
            platform.fluid(name.to_lowercase(), per_s * OPERATION, cause)
        });
        Some(Demand::on(fluid).coefficient(OPERATION / bytes))
    }
}

impl Way {
    /// What large transfers get of a drive (byte/s).
    fn bytes_per_s(self, drive: &Ssd) -> Option<f64> {
        let rate = match self {
            Self::Read => drive.read_gb_per_s,
            Self::Write => drive.burst_write_gb_per_s.or(drive.write_gb_per_s),
        };
        Some(rate? * 1e9)
    }

    /// What one request alone gets (byte/s), where that is less.
    pub(super) fn one_bytes_per_s(self, drive: &Ssd) -> Option<f64> {
        match self {
            Self::Read => Some(drive.one_read_gb_per_s? * 1e9),
            Self::Write => None,
        }
    }

    /// Operations of 4 KiB (1/s).
    pub(super) fn operations_per_s(self, drive: &Ssd) -> Option<f64> {
        let thousands = match self {
            Self::Read => drive.read_kiops,
            Self::Write => drive.write_kiops,
        };
        Some(thousands? * 1e3)
    }

    /// Of one request alone (us).
    pub(super) const fn latency_us(self, drive: &Ssd) -> Option<f64> {
        match self {
            Self::Read => drive.read_latency_us,
            Self::Write => drive.write_latency_us,
        }
    }
}

/// Reads of a drive and writes to it, the latter while a cache lasts (byte/s), after `degrade`.
fn rates(machine: &Machine, drive: PartId) -> [f64; 2] {
    let Some(out) = machine.links_from(drive).next() else { return [1e15; 2] };
    let [read, write] = [out, out.reverse()].map(|way| machine.capacity(way));
    [read, write.max(machine.burst_write(out.reverse()).unwrap_or_default())]
}

/// Rate of both directions of a drive together, in rates of one alone.
fn both(drive: &Ssd) -> f64 {
    2.0 * drive.mixed_share.unwrap_or(0.5).max(0.5)
}
