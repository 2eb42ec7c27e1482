//! Activations that leave by module, and how many are on their way out.

use reports::summary::RunSummary;

use crate::support::run_of;

const MODULES: [&str; 5] = ["attention-norm", "core-attention", "attention-projections", "mlp-norm", "mlp"];

/// A small GPT on one GPU; all activations of its layers are large enough to leave.
const LAYERS: &str = "name: modules
machine: { node: dgx-a100-40g }
model: { transformer: { layers: 6, hidden: 1024, heads: 16, vocabulary: 51200, max_positions: 1024 } }
training: { micro_batch: 8, accumulate: 2, sequence: 1024, precision: bf16-mixed }
parallelism: { data: 1, idle: allow }
software: { attention: flash }
";

fn offloading(settings: &str) -> RunSummary {
    let offload =
        format!("techniques.activation_offload={{ smallest: 1 MiB, forwarding: false, {settings} }}");
    run_of(LAYERS, &[&offload])
}

fn out(run: &RunSummary) -> u64 {
    let ways = run.communication.iter().filter(|way| way.kind == "offload to host memory");
    ways.map(|way| way.bytes).sum()
}

fn time(run: &RunSummary) -> f64 {
    run.step_time().unwrap_or_else(|| panic!("{:?}", run.failure))
}

/// Each tensor leaves for one module: together they send what layers send as a whole.
#[test]
fn modules_share_what_layers_send() {
    let each: Vec<u64> =
        MODULES.iter().map(|module| out(&offloading(&format!("modules: [{module}]")))).collect();
    let all = out(&offloading(&format!("modules: [{}]", MODULES.join(", "))));
    assert!(each.iter().all(|&bytes| bytes > 0), "{each:?}");
    assert_eq!(each.iter().sum::<u64>(), all);
    // Dropout of the embedding and of the residual stream is in no module.
    let everything = out(&offloading(""));
    assert!(all <= everything && everything < all + all / 8, "{all} of {everything}");
}

/// A limit that is never reached says nothing; a tighter one never makes the step shorter nor the
/// peak higher.
#[test]
fn fewer_copies_in_flight_hold_less_and_take_no_less_time() {
    let limited = |most: &str| offloading(&format!("store: last-use, in_flight: {most}"));
    let runs = ["0", "1", "2", "8", "1000"].map(limited);
    let peak = |run: &RunSummary| run.peak_activation_bytes.unwrap_or_default();
    for two in runs.windows(2) {
        assert!(time(&two[0]) >= time(&two[1]) * 0.999, "{} s, {} s", time(&two[0]), time(&two[1]));
        assert!(peak(&two[0]) <= peak(&two[1]), "{} B, {} B", peak(&two[0]), peak(&two[1]));
    }
    assert!(time(&runs[0]) > 1.05 * time(&runs[4]));
    assert_eq!(runs[4], offloading("store: last-use"));
}
