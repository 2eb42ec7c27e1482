//! Presets of techniques, and updates that hosts and GPUs share.

use reports::summary::RunSummary;
use scenarios::catalogue;

use crate::support::run_of;

/// A small GPT on a GPU with drives beside it.
const TRANSFORMER: &str = "name: presets
machine: { cluster: { node: epyc-pcie-8x, count: 1, gpu: a100-pcie-40gb, set: { ssd: { model: samsung-pm9a3-u2-3840gb, count: 2 } } } }
model: { transformer: { layers: 4, hidden: 1024, heads: 16, vocabulary: 51200, max_positions: 1024 } }
training: { micro_batch: 4, accumulate: 1, sequence: 1024, precision: bf16-mixed }
parallelism: { data: 1, idle: allow }
storage: { nvme: { drives: 2 } }
";

const LAYERS: &str = "name: presets
machine: { cluster: { node: epyc-pcie-8x, count: 1, gpu: a100-pcie-40gb } }
model: { layers: { preset: vgg-16 } }
training: { micro_batch: 16, accumulate: 1, precision: fp32, optimizer: sgd-momentum }
parallelism: { data: 1, idle: allow }
software: { image_layers: cudnn }
";

fn step(text: &str, settings: &[&str]) -> RunSummary {
    run_of(text, settings)
}

fn time(settings: &[&str]) -> f64 {
    let run = step(TRANSFORMER, settings);
    run.step_time().unwrap_or_else(|| panic!("{settings:?}: {:?}", run.failure))
}

#[test]
fn a_preset_gives_what_its_settings_give() {
    for (name, preset) in catalogue::technique_presets() {
        let text = if name.starts_with("vdnn") { LAYERS } else { TRANSFORMER };
        let named = step(text, &[&format!("techniques.presets=[{name}]")]);
        let written = step(text, &[&format!("techniques={}", preset.settings)]);
        assert!(named.fits, "{name}: {:?}", named.failure);
        assert_eq!(named, written, "{name}");
    }
}

#[test]
fn what_is_written_beside_a_preset_wins() {
    let preset = "techniques.presets=[ssdtrain]";
    let beside = step(TRANSFORMER, &[preset, "techniques.activation_offload.to=host"]);
    let written = "techniques.activation_offload={ to: host, keep: adaptive }";
    assert_eq!(beside, step(TRANSFORMER, &[written]));
}

/// With all on the host the ratio says nothing; with none the GPU updates as without the technique.
/// In between both work at a time (Twin-Flow).
#[test]
fn hosts_and_gpus_share_an_update() {
    for technique in ["zero_offload", "zero_infinity"] {
        let with = |ratio: &str| {
            let states = if technique == "zero_infinity" { "parameters: gpu, states: host, " } else { "" };
            format!("techniques.{technique}={{ {states}{ratio} }}")
        };
        let share = |percent: u32| step(TRANSFORMER, &[&with(&format!("ratio: {percent} %"))]);
        assert_eq!(share(100), step(TRANSFORMER, &[&with("")]), "{technique}");
        let shares = [0, 25, 50, 75, 100].map(share);
        let peak = |run: &RunSummary| run.worst_device().expect("a GPU").peak_bytes;
        assert!(shares.windows(2).all(|two| peak(&two[1]) <= peak(&two[0])), "{technique}");
        let time = |run: &RunSummary| run.step_time().expect("it fits");
        let fastest = shares[1..4].iter().map(time).fold(f64::INFINITY, f64::min);
        assert!(fastest < time(&shares[4]), "{technique}: {:?}", shares.each_ref().map(time));
    }
    let plain = time(&[]);
    let none = time(&["techniques.zero_offload={ ratio: 0 % }"]);
    assert!((none / plain - 1.0).abs() < 0.03, "{none} s against {plain} s");
}
