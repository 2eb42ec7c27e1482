//! Random scenarios, and what must hold of every result: one is as true as the other says.
//!
//! ```text
//! seed, number --generate--> a valid scenario       \
//!                                                    --examine--> outcome, and what does not hold
//! seed, number --mutate----> a library file changed /
//! ```

mod draw;
mod examine;
mod floors;
mod generate;
mod mutate;
pub mod properties;
pub mod ratios;

pub use examine::{Breach, Examined, Outcome, examine, examine_changed};
pub use generate::scenario;
pub use mutate::{Changed, changed};
