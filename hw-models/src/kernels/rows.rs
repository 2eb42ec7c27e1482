//! Speed over SMs: the rows that the engine reads as a cap table.

use super::{KernelClass, KernelCost, KernelModel, picoseconds};

/// Speed of a kernel with at least so many SMs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedRow {
    /// SMs held, at least.
    pub sms: u32,
    /// Its speed (bytes of HBM traffic/s), contention apart.
    pub bytes_per_s: f64,
    /// Waves the whole kernel takes; SMs change hands between waves.
    pub waves: u32,
}

/// The compute side of a kernel: thread blocks over SMs.
pub(super) struct Blocks<F> {
    /// Thread blocks.
    pub(super) count: u64,
    /// Of which an SM runs so many at once.
    pub(super) resident: u64,
    /// HBM traffic (bytes), positive.
    pub(super) bytes: u64,
    /// Achieved fraction of HBM bandwidth.
    pub(super) achieved: f64,
    /// Share of the shorter of compute and memory that the longer does not hide.
    pub(super) serial: f64,
    /// Compute time with a number of SMs (s).
    pub(super) seconds: F,
}

impl<F: Fn(u32) -> f64> Blocks<F> {
    /// The fastest of several on all the SMs that they want, the first of equals.
    pub(super) fn fastest(model: &KernelModel, all: impl Iterator<Item = Self>) -> Option<Self> {
        let timed =
            all.map(|blocks| (blocks.bytes as f64 / blocks.speed(model, blocks.sms_wanted(model)), blocks));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, fastest)| fastest)
    }

    /// Cost of a kernel of these blocks, with the time that it takes to start (us).
    pub(super) fn cost(
        &self,
        model: &KernelModel,
        start_us: f64,
        flops: f64,
        class: KernelClass,
    ) -> KernelCost {
        let (fixed, sms_wanted, rows) =
            (picoseconds(start_us * 1e-6), self.sms_wanted(model), self.rows(model));
        KernelCost { fixed, bytes: self.bytes, flops, sms_wanted, rows, class }
    }

    /// The most SMs these blocks can use.
    fn sms_wanted(&self, model: &KernelModel) -> u32 {
        u32::try_from(self.count).unwrap_or(u32::MAX).clamp(1, model.facts.sms.max(1))
    }

    /// Speed with `sms` SMs: the slower of compute and memory, less what they do not do at once.
    fn speed(&self, model: &KernelModel, sms: u32) -> f64 {
        let bytes = self.bytes as f64;
        let (compute, memory) = ((self.seconds)(sms), bytes / model.bandwidth(self.achieved, sms));
        bytes / (compute.max(memory) + self.serial * compute.min(memory))
    }

    /// At most twelve rows. The levels are what is left of the SMs beside the numbers of channels that collectives hold
    /// (2 to 48), and a few fractions; each is lowered to the fewest SMs that are as fast in as many waves.
    fn rows(&self, model: &KernelModel) -> Vec<SpeedRow> {
        let all = self.sms_wanted(model);
        let beside_channels = [0, 2, 4, 8, 16, 24, 32, 48].map(|held| model.facts.sms.saturating_sub(held));
        let fractions = [all / 2, all / 4, all / 8, 1];
        let mut rows: Vec<SpeedRow> = beside_channels
            .into_iter()
            .chain(fractions)
            .map(|level| self.lowered(model, level.clamp(1, all)))
            .collect();
        rows.sort_unstable_by_key(|row| row.sms);
        rows.dedup_by_key(|row| row.sms);
        rows
    }

    fn lowered(&self, model: &KernelModel, sms: u32) -> SpeedRow {
        let row = |sms| SpeedRow { sms, bytes_per_s: self.speed(model, sms), waves: self.waves(sms) };
        let level = row(sms);
        // Not more than `sms`, as that many take no more waves.
        let fewest = self.count.div_ceil(u64::from(level.waves) * self.resident);
        let low = row(u32::try_from(fewest).unwrap_or(sms).clamp(1, sms));
        if low.bytes_per_s >= level.bytes_per_s && low.waves == level.waves { low } else { level }
    }

    fn waves(&self, sms: u32) -> u32 {
        u32::try_from(self.count.div_ceil(u64::from(sms) * self.resident)).unwrap_or(u32::MAX).max(1)
    }
}
