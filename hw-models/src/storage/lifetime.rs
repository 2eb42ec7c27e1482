//! How long drives last: what may be written to them over what is.
//!
//! A rating, `TBW` or drive writes per day (`DWPD x capacity x 365 x years of warranty`), is of a workload with a write amplification of
//! its own (JESD218 and JESD219: random writes, each of which makes the drive move others) and of data that must be kept for long
//! without power. Large sequential writes of data that is read within the hour wear less: the rating times the amplification of
//! its workload over that of this one, times what cells endure more if they need not keep their charge (SSDTrain, arXiv
//! 2408.10013: amplification 2.5 against 1, and 86 times the cycles for a day in place of three years).

use crate::catalogue::Ssd;

/// Of 365 days.
pub const SECONDS_PER_YEAR: f64 = 365.0 * 86_400.0;

/// What may be written to drives over their life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endurance {
    /// Bytes that the rating allows, all drives together.
    pub rated_bytes: f64,
    /// Bytes that the drive writes for each of the rating's workload.
    pub rated_amplification: f64,
    /// Bytes that it writes for each of this workload.
    pub amplification: f64,
    /// Times the cycles if data is kept for a shorter time than the rating asks for.
    pub retention: f64,
}

impl Endurance {
    /// The rating of a drive, for a workload like that of the rating. Of drive writes per day over a warranty of five years where no total is
    /// given; none if neither is.
    pub fn rated(drive: &Ssd) -> Option<Self> {
        let per_day = || Some(drive.drive_writes_per_day? * drive.capacity_tb? * 365.0 * 5.0);
        let rated_bytes = drive.endurance_tb.or_else(per_day)? * 1e12;
        Some(Self { rated_bytes, rated_amplification: 1.0, amplification: 1.0, retention: 1.0 })
    }

    /// Bytes of this workload.
    pub fn bytes(self) -> f64 {
        self.rated_bytes * self.rated_amplification / self.amplification * self.retention
    }

    /// Years that the drives last if so many bytes are written in each step of so many seconds.
    pub fn years(self, bytes_per_step: f64, step_s: f64) -> f64 {
        self.bytes() / bytes_per_step * step_s / SECONDS_PER_YEAR
    }
}
