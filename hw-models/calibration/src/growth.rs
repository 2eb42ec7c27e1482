//! Launches that take longer with every shape launched before: a host keeps a plan for each, and
//! looks for it among them (`torch.backends.cudnn.benchmark`: 30 ns a shape at first, 100 ns among
//! thousands, which do not fit its caches).

use super::Sample;
use hw_models::errors::log_distance;
use hw_models::kernels::KernelModel;
use hw_models::search::minimise;

/// Unit of the times that are searched (s).
const UNIT: f64 = 50e-6;
/// Unit of shapes launched before.
const SHAPES: f64 = 1000.0;

/// Time that shapes launched before add to a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Growth {
    /// For each of them (s).
    linear: f64,
    /// For the square of their number (s).
    quadratic: f64,
}

impl Growth {
    /// The growth with which the predictions of a model are nearest, by [`log_distance`]; zero where
    /// samples do not tell their place.
    pub fn of(samples: &[Sample], model: &KernelModel) -> Self {
        if samples.iter().all(|sample| sample.nth == 0) {
            return Self::default();
        }
        let known = |sample: &Sample| Some((sample.shape.cost(model).ok()?.alone().as_secs(), *sample));
        let pairs: Vec<(f64, Sample)> = samples.iter().filter_map(known).collect();
        let distance = |at: &[f64]| {
            let growth = Self::found(at);
            let launched = |(alone, sample): &(f64, Sample)| {
                (alone + UNIT * at[0] + growth.added(sample.nth), sample.seconds)
            };
            log_distance(pairs.iter().map(launched))
        };
        let once = minimise(&[1.0, 1.0, 0.1], 0.5, &distance);
        Self::found(&minimise(&once, 0.1, &distance))
    }

    /// Time that `nth` earlier shapes add (s).
    pub fn added(self, nth: u64) -> f64 {
        (self.linear + self.quadratic * nth as f64) * nth as f64
    }

    fn found(at: &[f64]) -> Self {
        Self { linear: UNIT * at[1] / SHAPES, quadratic: UNIT * at[2] / (SHAPES * SHAPES) }
    }
}
