//! Power of a GPU's board.
//!
//! ```text
//! P = min(limit, idle + b busy + m memory + p products)
//! ```
//!
//! b is the share of the time in which kernels run, m the share of the nominal bandwidth of the
//! memory that they use, and p the share of the peak rate at which matrix products run. The other
//! four are constants of the board (W): what it draws with its clocks up and nothing to do, and what
//! each adds at its most. Energy of an operation, or of a byte, is nearly constant at one voltage,
//! and goes with its square. A board at its limit lowers clock and voltage: rates of kernels that
//! were measured at the limit have that in them, so that only the power is cut off here.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, Gpu};
use crate::provenance::{Confidence, Origin, Provenance};

/// Constants of a board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardPower {
    /// Drawn with clocks up and nothing to do (W).
    pub idle_w: f64,
    /// Added while kernels run on all SMs (W).
    pub busy_w: f64,
    /// Added by memory at its nominal bandwidth (W).
    pub memory_w: f64,
    /// Added by matrix products of random numbers at the peak rate of their type and full clock (W).
    pub products_w: f64,
    /// Most that the board draws (W).
    pub limit_w: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Use of a GPU over some time, each a share of its most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BoardUse {
    /// Time in which kernels run.
    pub busy: f64,
    /// Nominal bandwidth of the memory.
    pub memory: f64,
    /// Peak rate of matrix products.
    pub products: f64,
}

impl BoardPower {
    /// That of a GPU; one that nobody measured takes the shares of its limit that a measured board
    /// of the catalogue has.
    ///
    /// `None`: no board of the catalogue was measured.
    pub fn of(catalogue: &Catalogue, gpu: &Gpu) -> Option<Self> {
        if let Some(power) = &gpu.power {
            return Some(power.clone());
        }
        let (name, known) =
            catalogue.gpus.iter().find_map(|(name, gpu)| Some((name, gpu.power.as_ref()?)))?;
        Some(known.carried_to(gpu.tdp_w, name))
    }

    /// A board with another limit (W) and equal shares of it; this one is of the GPU `name`.
    pub(crate) fn carried_to(&self, limit_w: f64, name: &str) -> Self {
        let scale = limit_w / self.limit_w;
        Self {
            idle_w: self.idle_w * scale,
            busy_w: self.busy_w * scale,
            memory_w: self.memory_w * scale,
            products_w: self.products_w * scale,
            limit_w,
            provenance: Provenance {
                origin: Origin::Estimate,
                source: format!("shares of the board's limit as of {name}"),
                confidence: Confidence::Low,
            },
        }
    }

    /// Mean power over the time of a use (W).
    pub fn drawn(&self, used: BoardUse) -> f64 {
        let BoardUse { busy, memory, products } = used;
        let asked = self.idle_w + busy * self.busy_w + memory * self.memory_w + products * self.products_w;
        asked.min(self.limit_w)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> BoardPower {
        BoardPower {
            idle_w: 100.0,
            busy_w: 100.0,
            memory_w: 200.0,
            products_w: 400.0,
            limit_w: 600.0,
            provenance: Provenance::written(),
        }
    }

    #[test]
    fn parts_add_up_to_the_limit() {
        let used = |busy, memory, products| BoardUse { busy, memory, products };
        assert_eq!(board().drawn(BoardUse::default()), 100.0);
        assert_eq!(board().drawn(used(1.0, 0.5, 0.25)), 400.0);
        assert_eq!(board().drawn(used(1.0, 1.0, 1.0)), 600.0);
    }

    #[test]
    fn a_board_with_half_the_limit_draws_half() {
        let half = board().carried_to(300.0, "another");
        let used = BoardUse { busy: 0.5, memory: 0.25, products: 0.125 };
        assert_eq!(half.drawn(used) * 2.0, board().drawn(used));
    }
}
