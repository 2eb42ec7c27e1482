//! Power of a board, from what it drew while work went on and on.
//!
//! Each constant is what one load drew beyond those before it: nothing, blocks that hold all SMs,
//! passes over memory, and products of random numbers at the limit of the board.

use hw_models::kernels::KernelModel;
use hw_models::power::BoardPower;
use hw_models::provenance::{Confidence, Origin, Provenance};

use super::measure::{Data, Heading, Phase, Record, Sustained, Task, Work};

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
    let held = |is: fn(Work) -> bool| {
        records.iter().filter(|record| record.is_sound()).find_map(|record| match record.of {
            Task::Sustained(Sustained { work, data: Data::Random, phase: Phase::Held }) if is(work) => {
                Some((work, record.seconds(), record.after.power_w?))
            }
            _ => None,
        })
    };
    let limit_w = heading.device.facts.get(LIMIT)?.parse().ok()?;
    let (_, _, idle_w) = held(|work| work == Work::Nothing)?;
    let (_, _, holding) = held(|work| matches!(work, Work::Hold(_)))?;
    let (pass, pass_s, passing) = held(|work| matches!(work, Work::Pass(_)))?;
    let (product, product_s, multiplying) =
        held(|work| matches!(work, Work::Product(product) if product.m == product.n))?;
    let memory = |work: Work, seconds: f64| work.bytes() as f64 / seconds / model.facts.hbm_bytes_per_s;
    let memory_w = (passing - holding) / memory(pass, pass_s);
    let Work::Product(gemm) = product else { return None };
    let at_peak = gemm.flops() / product_s / model.peak(gemm.dtype).ok()?;
    let at_limit = (multiplying - holding - memory_w * memory(product, product_s)) / at_peak;
    Some(BoardPower {
        idle_w: watts(idle_w),
        busy_w: watts(holding - idle_w),
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
