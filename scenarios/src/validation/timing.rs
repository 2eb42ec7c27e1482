//! What the way of timing adds to what is timed, such as the launch path between two events of the host.

use hw_models::errors::log_distance;

/// What is added to everything (s): of the differences in pairs of a prediction and a measurement, the one with which the
/// predictions are nearest, by the mean absolute logarithm of their ratios. It is a property of the table, not of the
/// device, and the catalogue leaves it out.
pub(super) fn timing(pairs: &[(f64, f64)]) -> f64 {
    let distance =
        |added| log_distance(pairs.iter().map(|(predicted, measured)| (predicted + added, *measured)));
    let differences = pairs.iter().map(|(predicted, measured)| measured - predicted);
    differences.chain([0.0]).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_timing_adds_is_found_beside_other_errors() {
        // 27 us on top of kernels of 1 us to 1 ms, of which one is 30 % off.
        let pairs = [1e-6, 1e-5, 1e-4, 1e-3].map(|time| (time, time + 27e-6));
        assert!((timing(&pairs) - 27e-6).abs() < 1e-12);
        let with_error = [&pairs[..], &[(5e-4, 3.5e-4)]].concat();
        assert!((timing(&with_error) - 27e-6).abs() < 1e-12);
        assert_eq!(timing(&[]), 0.0);
    }
}
