//! What outstanding requests get out of a drive: Little's law.
//!
//! `q` requests that take `W(q)` each complete at `q / W(q)`. One alone takes `L`, its start and its bytes; each of several
//! waits for the others where all of them pass: `W(q) = L + (q - 1) c`, with `c` the time in which the drive, or the host that
//! issues them, completes one. That is the lower bound of the throughput of a closed queueing network with a bottleneck
//! (Lazowska et al., *Quantitative System Performance*, 1984, chapter 5); the upper one, `min(q / L, 1 / c)`, is reached only where
//! requests never collide: the measured drive of the validation set `storage` is between the two, nearer to the lower.
//! Fewer requests than drives leave some idle, and none waits: there the upper bound holds.

use crate::catalogue::Ssd;

use super::Way;

/// Requests as a path issues them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requests {
    /// Bytes of one.
    pub block: u64,
    /// How many are outstanding at a time.
    pub depth: u32,
    /// What the host spends on one before it can issue the next (s).
    pub issue_s: f64,
}

impl Requests {
    /// The most (byte/s) that these requests get of one drive that is one of `members`, to each of which goes `chunk` bytes of
    /// every request at most. `rate` is what the drive gives to any number of them (byte/s). Unlimited where the latency of the drive is
    /// not known, as far as the host issues them fast enough.
    pub fn bytes_per_s(self, drive: &Ssd, way: Way, rate: f64, [members, chunk]: [u64; 2]) -> f64 {
        let bytes = self.block.min(chunk) as f64;
        let of_host = self.issue_s * bytes / self.block as f64 * members as f64;
        let operations = way.operations_per_s(drive).map_or(0.0, |operations| 1.0 / operations);
        let slowest = (bytes / rate).max(operations).max(of_host);
        let Some(latency_us) = way.latency_us(drive) else { return bytes / slowest };
        let alone = latency_us * 1e-6 + bytes / way.one_bytes_per_s(drive).map_or(rate, |one| one.min(rate));
        let outstanding = f64::from(self.depth) * self.block as f64 / bytes / members as f64;
        let loaded = alone.max(slowest * outstanding.min(1.0)) + (outstanding - 1.0).max(0.0) * slowest;
        outstanding * bytes / loaded
    }
}
