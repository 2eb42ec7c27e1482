//! Power of a board, from what it drew while work went on and on.
//!
//! Each constant is what one load drew beyond those before it: nothing, blocks that hold all SMs,
//! passes over memory, and products of random numbers at the limit of the board.

use hw_models::kernels::KernelModel;
use hw_models::power::BoardPower;
use hw_models::provenance::{Confidence, Origin, Provenance};

use super::measure::{Heading, Record, Work};
use super::recorded_kernels::held;

/// Power of products at the clocks of training steps over that at the limit of the board.
///
/// Products that go on and on are held to the limit by a lower clock (1,340 of 1,980 MHz on the H100
/// that was measured) and voltage, and energy goes with its square. Steps below the limit run at full
/// clock. Found as the factor with the least squares of errors on the board power of 14 training
/// steps of that H100 (sets `steps` and `fusion` of `validate`); set `plans` judges it.
const FULL_CLOCK: f64 = 1.567;

/// The fact of a device that tells its limit (W).
const LIMIT: &str = "power_limit_w";

/// Constants of the board of a GPU, whose peak rates `model` knows.
///
/// `None`: a load was not measured, or the driver tells no power.
pub(super) fn fitted(heading: &Heading, records: &[Record], model: &KernelModel) -> Option<BoardPower> {
    let drawn = |record: &Record| record.after.power_w;
    let limit_w = heading.device.facts.get(LIMIT)?.parse().ok()?;
    let (_, idle) = held(records, |work| (work == Work::Nothing).then_some(()))?;
    let (_, holding) = held(records, |work| matches!(work, Work::Hold(_)).then_some(()))?;
    let (pass, passing) = held(records, |work| matches!(work, Work::Pass(_)).then_some(work))?;
    let (product, multiplying) = held(records, |work| work.square().copied())?;
    let (idle_w, holding_w) = (drawn(idle)?, drawn(holding)?);
    let memory = |bytes: u64, record: &Record| bytes as f64 / record.seconds() / model.facts.hbm_bytes_per_s;
    let memory_w = (drawn(passing)? - holding_w) / memory(pass.bytes(), passing);
    let at_peak = product.flops() / multiplying.seconds() / model.peak(product.dtype).ok()?;
    let of_memory = memory_w * memory(product.bytes(), multiplying);
    let at_limit = (drawn(multiplying)? - holding_w - of_memory) / at_peak;
    Some(BoardPower {
        idle_w: watts(idle_w),
        busy_w: watts(holding_w - idle_w),
        memory_w: watts(memory_w),
        products_w: watts(FULL_CLOCK * at_limit),
        limit_w,
        provenance: Provenance {
            origin: Origin::MeasuredHere,
            source: format!("loads held on {}, {}", heading.device.name, heading.date),
            confidence: Confidence::Medium,
        },
    })
}

/// Rounded to a tenth of a watt: drivers tell no more.
fn watts(power: f64) -> f64 {
    (power * 10.0).round() / 10.0
}
