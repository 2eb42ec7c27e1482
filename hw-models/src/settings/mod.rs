//! Quantities of settings: numbers with units and limits, values per stage, and types that are written in several ways.
//!
//! Every crate above declares its settings with them. They are read exactly, printed back as written, and describe
//! themselves in the JSON Schema.

mod amounts;
mod count;
mod decimal;
mod per_stage;
mod quantity;
mod stage_set;
pub mod written;

pub use amounts::{Amount, Calendar, Currency, Money, Number, Period};
pub use count::Count;
pub use decimal::Decimal;
pub use per_stage::PerStage;
pub use quantity::{
    Arithmetic, Bytes, Cycles, Dimension, Duration, Energy, Factor, FlopRate, Frequency, Memory, Multiple,
    Power, Quantity, Rate, Share, Time, Transfer, Unit, Whole, split,
};
pub use stage_set::StageSet;

/// The root of a draw where a file names none.
pub const fn first_seed() -> u64 {
    1
}
