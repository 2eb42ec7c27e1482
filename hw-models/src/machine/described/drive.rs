//! Drives that the catalogue lacks, and drives that throttle when they are hot.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Pcie, Ssd};
use crate::provenance::Sources;
use crate::settings::{Bytes, Count, Duration, Factor, Rate, Share};

use super::super::set::gb_per_s;
use super::{Description, PortSettings, Reading, quantity};

/// A drive that the catalogue lacks. Rates are of large sequential transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "DescribedDrive")]
pub struct DriveSettings {
    /// Similar drive of the catalogue, which supplies all figures that are not given.
    #[schemars(extend("examples" = ["samsung-pm9a3-u2-3840gb"]))]
    pub like: Option<String>,
    /// Name in results; `like-NAME` when absent.
    #[schemars(extend("examples" = ["our-drive"]))]
    pub name: Option<String>,
    /// Port to the host.
    pub pcie: Option<PortSettings>,
    /// Size of the drive.
    #[schemars(extend("examples" = ["3.84 TB"]))]
    pub capacity: Option<Bytes>,
    /// Rate of reads.
    pub read: Option<Rate>,
    /// Sustained rate of writes.
    pub write: Option<Rate>,
    /// Rate of writes while the write cache lasts, where they are faster.
    pub burst_write: Option<Rate>,
    /// Bytes written at the burst rate before the sustained one holds.
    pub write_cache: Option<Bytes>,
    /// Share of its rate that each direction keeps while the other is busy.
    pub mixed: Option<Share>,
    /// Rate of one read alone once its bytes flow.
    pub one_read: Option<Rate>,
    /// Random reads of 4 KiB in a second.
    pub read_iops: Option<Count<1, 1_000_000_000>>,
    /// Random writes of 4 KiB in a second, in the steady state.
    pub write_iops: Option<Count<1, 1_000_000_000>>,
    /// Latency of one read alone.
    pub read_latency: Option<Duration>,
    /// Latency of one write alone.
    pub write_latency: Option<Duration>,
    /// Guaranteed drive writes per day.
    #[schemars(extend("examples" = [1.3]))]
    pub drive_writes_per_day: Option<Factor>,
    /// Guaranteed bytes written over its life.
    #[schemars(extend("examples" = ["7 PB"]))]
    pub endurance: Option<Bytes>,
    /// Throttling of a hot drive; when absent it never gets hot.
    pub throttle: Option<Throttle>,
}

/// Throttling of a hot drive: work at full rate heats it, work at the throttled rate keeps it hot,
/// and idle time cools it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Bytes read at full rate until a cold drive is hot, or writes that take as long; 0 B: it is
    /// hot from the start.
    #[schemars(extend("examples" = ["200 GB"]))]
    pub after: Bytes,
    /// Share of its rates that a hot drive keeps.
    #[schemars(extend("examples" = ["40 %"]))]
    pub rate: Share,
}

impl Description for DriveSettings {
    type Entry = Ssd;
    const NOUN: &'static str = "drive";
    const ENTRY: &'static str = "ssd";

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn rename(&mut self, name: String) {
        self.name = Some(name);
    }

    fn like(&self) -> Option<&str> {
        self.like.as_deref()
    }

    fn entries(catalogue: &Catalogue) -> &IndexMap<String, Ssd> {
        &catalogue.ssds
    }

    fn entries_mut(catalogue: &mut Catalogue) -> &mut IndexMap<String, Ssd> {
        &mut catalogue.ssds
    }

    fn needed(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("name", self.name.is_some()),
            ("pcie", self.pcie.as_ref().is_some_and(PortSettings::is_complete)),
            ("capacity", self.capacity.is_some()),
            ("read", self.read.is_some()),
            ("write", self.write.is_some()),
        ]
    }

    fn read(&self, catalogue: &Catalogue, reading: &mut Reading<'_>, like: Option<&Ssd>) -> Option<Ssd> {
        self.throttling(reading);
        Some(self.of_like(catalogue, reading, like))
    }

    fn complete(&self, ssd: &Ssd) -> Self {
        let rate = |given: Option<Rate>, known: Option<f64>| given.or_else(|| quantity(known?, "GB/s"));
        let size = |given: Option<Bytes>, known: Option<f64>, unit| given.or_else(|| quantity(known?, unit));
        let latency = |given: Option<Duration>, known: Option<f64>| given.or_else(|| quantity(known?, "us"));
        let iops = |known: Option<f64>| Count::new((known? * 1e3).round() as u64);
        let lanes = Count::new(ssd.lanes.into());
        Self {
            pcie: Some(PortSettings { lanes, ..PortSettings::like(self.pcie.as_ref(), &ssd.pcie) }),
            capacity: size(self.capacity, ssd.capacity_tb, "TB"),
            read: rate(self.read, ssd.read_gb_per_s),
            write: rate(self.write, ssd.write_gb_per_s),
            burst_write: rate(self.burst_write, ssd.burst_write_gb_per_s),
            write_cache: size(self.write_cache, ssd.write_cache_gb, "GB"),
            mixed: self.mixed.or_else(|| quantity(ssd.mixed_share? * 100.0, "%")),
            one_read: rate(self.one_read, ssd.one_read_gb_per_s),
            read_iops: iops(ssd.read_kiops),
            write_iops: iops(ssd.write_kiops),
            read_latency: latency(self.read_latency, ssd.read_latency_us),
            write_latency: latency(self.write_latency, ssd.write_latency_us),
            drive_writes_per_day: self
                .drive_writes_per_day
                .or_else(|| Factor::parse(&ssd.drive_writes_per_day?.to_string()).ok()),
            endurance: size(self.endurance, ssd.endurance_tb, "TB"),
            ..self.clone()
        }
    }
}

impl DriveSettings {
    fn of_like(&self, catalogue: &Catalogue, reading: &mut Reading<'_>, like: Option<&Ssd>) -> Ssd {
        let usual = |figure: fn(&Ssd) -> Option<f64>| like.and_then(figure);
        let mut rate = |setting, rate: Option<Rate>| reading.positive(setting, rate.map(gb_per_s));
        let read = rate("read", self.read).or(usual(|ssd| ssd.read_gb_per_s));
        let write = rate("write", self.write).or(usual(|ssd| ssd.write_gb_per_s));
        let burst = rate("burst_write", self.burst_write).or(usual(|ssd| ssd.burst_write_gb_per_s));
        let one_read = rate("one_read", self.one_read).or(usual(|ssd| ssd.one_read_gb_per_s));
        let capacity = reading.positive("capacity", self.capacity.map(|size| size.bytes() as f64 / 1e12));
        let cache = reading.positive("write_cache", self.write_cache.map(|size| size.bytes() as f64 / 1e9));
        let endurance = reading.positive("endurance", self.endurance.map(|size| size.bytes() as f64 / 1e12));
        let microseconds = |latency: Option<Duration>| Some(latency?.picoseconds() as f64 / 1e6);
        let thousands = |count: Option<Count<1, 1_000_000_000>>| Some(count?.get() as f64 / 1e3);
        let throttle = self.throttle.as_ref();
        let after = throttle.map(|throttle| throttle.after.bytes() as f64 / 1e9);
        let none = || Pcie { class: String::new(), lanes: 1, like: None };
        let port =
            like.map_or_else(none, |ssd| Pcie { class: ssd.pcie.clone(), lanes: ssd.lanes, like: None });
        let port = self.pcie.as_ref().map_or(port.clone(), |own| own.of(catalogue, &port));
        Ssd {
            pcie: port.class,
            lanes: port.lanes,
            capacity_tb: capacity.or(usual(|ssd| ssd.capacity_tb)),
            read_gb_per_s: read,
            write_gb_per_s: write,
            // A sustained rate that is as fast leaves a cache nothing to speed up.
            burst_write_gb_per_s: burst.filter(|&burst| write.is_none_or(|write| burst > write)),
            write_cache_gb: cache.or(usual(|ssd| ssd.write_cache_gb)),
            mixed_share: self.mixed.map(Share::as_f64).or(usual(|ssd| ssd.mixed_share)),
            one_read_gb_per_s: one_read,
            read_kiops: thousands(self.read_iops).or(usual(|ssd| ssd.read_kiops)),
            write_kiops: thousands(self.write_iops).or(usual(|ssd| ssd.write_kiops)),
            read_latency_us: microseconds(self.read_latency).or(usual(|ssd| ssd.read_latency_us)),
            write_latency_us: microseconds(self.write_latency).or(usual(|ssd| ssd.write_latency_us)),
            throttle_after_gb: after.or(usual(|ssd| ssd.throttle_after_gb)),
            throttled_share: throttle
                .map(|throttle| throttle.rate.as_f64())
                .or(usual(|ssd| ssd.throttled_share)),
            drive_writes_per_day: self
                .drive_writes_per_day
                .map(Factor::as_f64)
                .or(usual(|ssd| ssd.drive_writes_per_day)),
            endurance_tb: endurance.or(usual(|ssd| ssd.endurance_tb)),
            sources: Sources::described(self.like().unwrap_or_default(), self.given()),
        }
    }

    fn throttling(&self, reading: &mut Reading<'_>) {
        let Some(Throttle { rate, .. }) = &self.throttle else { return };
        if rate.is_zero() || rate.as_f64() > 1.0 {
            let text = format!(
                "`throttle.rate` of `{}` is the share that a hot drive keeps: write more than 0 % and at most 100 %",
                reading.part
            );
            reading.faults.push(("throttle.rate", text));
        }
    }

    /// Constants of the catalogue, and which of them are given.
    fn given(&self) -> [(&'static str, bool); 6] {
        [
            ("capacity_tb", self.capacity.is_some()),
            ("read_gb_per_s", self.read.is_some()),
            ("write_gb_per_s", self.write.is_some()),
            ("burst_write_gb_per_s", self.burst_write.is_some()),
            ("write_cache_gb", self.write_cache.is_some()),
            ("one_read_gb_per_s", self.one_read.is_some()),
        ]
    }
}
