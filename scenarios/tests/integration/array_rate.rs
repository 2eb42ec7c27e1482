//! The write bandwidth that SSDTrain requires of an array, beside the smallest rate that does.

use reports::summary::RunSummary;

use crate::support::run_of;

/// Hidden size, heads and layers of the published encoders.
const SHAPES: [(u32, u32, u32); 3] = [(8192, 64, 4), (12_288, 96, 3), (16_384, 128, 2)];
/// Step time over that with all activations kept, at most.
const LONGER_MAX: f64 = 1.02;
/// Rates are bisected to this ratio of neighbours.
const CLOSE: f64 = 1.01;
/// The smallest rate over that of the formula. The formula has all bytes leave within half of the
/// step, so it suffices; bytes that are asked for before they have left need not leave at all.
const OF_FORMULA: std::ops::RangeInclusive<f64> = 0.65..=1.05;
/// The smallest rate beside the formula with the bytes that did leave: an array that is just fast
/// enough writes all the time from the first activation on, until the last half is asked for.
const OF_WRITTEN: f64 = 0.1;

/// A step with arrays that read and write at a rate in GB/s.
fn step((hidden, heads, layers): (u32, u32, u32), variant: &str, rate: f64) -> RunSummary {
    let file = scenarios::library::get("ssdtrain-a100").expect("it is shipped");
    let (machine_and_model, _) = file.split_once("\nvariants:").expect("variants");
    let text = format!("{machine_and_model}\ntechniques: {variant}\n");
    let mut settings = vec![
        format!("model.transformer.hidden={hidden}"),
        format!("model.transformer.heads={heads}"),
        format!("model.transformer.layers={layers}"),
    ];
    for array in ["three", "four"] {
        for way in ["write", "read"] {
            settings.push(format!("storage.{array}.at_most.{way}={rate} GB/s"));
        }
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    run_of(&text, &settings)
}

fn offload(prefetch: &str) -> String {
    format!("{{ activation_offload: {{ to: drives, arrays: [three, four]{prefetch} }} }}")
}

fn seconds(run: &RunSummary) -> f64 {
    run.step_time().expect("it fits")
}

/// The required write bandwidth of a GPU in GB/s: bytes that left it over half of the step.
fn required(run: &RunSummary) -> f64 {
    let written = run.drives.iter().map(|array| array.written_bytes).max().expect("arrays");
    written as f64 / (seconds(run) / 2.0) / 1e9
}

#[test]
fn the_required_write_bandwidth_is_enough_and_a_quarter_less_is_too() {
    let just_in_time = offload(", prefetch: 4");
    for shape in SHAPES {
        let kept = seconds(&step(shape, "{}", 26.0));
        let at = |rate| step(shape, &just_in_time, rate);
        // At 26 GB/s everything leaves.
        let formula = required(&at(26.0));
        let (mut too_slow, mut enough) = (2.0, 26.0);
        while enough / too_slow > CLOSE {
            let middle = f64::sqrt(enough * too_slow);
            if seconds(&at(middle)) <= kept * LONGER_MAX { enough = middle } else { too_slow = middle }
        }
        let written = required(&at(enough));
        let told =
            format!("{shape:?}: {enough:.2} GB/s, by the formula {formula:.2}, by what left {written:.2}");
        assert!(OF_FORMULA.contains(&(enough / formula)), "{told}");
        assert!((enough / written - 1.0).abs() <= OF_WRITTEN, "{told}");
        assert!(seconds(&at(formula)) <= kept * LONGER_MAX, "{told}");
    }
}

/// Hosts that ask ahead find in memory what a slow array has not taken yet.
#[test]
fn with_loads_asked_for_ahead_no_array_is_too_slow() {
    for shape in SHAPES {
        let kept = seconds(&step(shape, "{}", 26.0));
        for rate in [1.0, 4.0] {
            let slow = step(shape, &offload(""), rate);
            assert!(seconds(&slow) <= kept * LONGER_MAX, "{shape:?} at {rate} GB/s");
        }
    }
}
