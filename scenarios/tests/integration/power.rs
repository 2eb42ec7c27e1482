//! Power that boards draw, and energy of a step.

use reports::summary::{PowerUse, RunSummary};
use scenarios::catalogue;

use crate::support::run_of;

const STEP: &str = "
model: { transformer: { layers: 4, hidden: 2048, heads: 16, vocabulary: 50304, max_positions: 2048 } }
training: { global_batch: 16, micro_batch: 2, sequence: 2048, precision: bf16-mixed }
";

/// A run on some GPUs of a node, all of them replicas.
fn on(node: &str, gpus: u32) -> (RunSummary, PowerUse) {
    let text = format!(
        "name: test\nmachine: {{ cluster: {{ node: {node}, count: 1 }} }}\n\
         parallelism: {{ data: {gpus}, idle: allow }}\n{STEP}"
    );
    let run = run_of(&text, &[]);
    let power = run.power.clone().expect("its kernels are known");
    (run, power)
}

#[test]
fn energy_is_the_power_of_all_boards_over_the_step() {
    for gpus in [1, 4, 8] {
        let (run, power) = on("dgx-h100", gpus);
        let step_s = run.step_time_s.expect("it fits");
        let all = power.board_power_w * f64::from(gpus) * step_s;
        assert!((power.step_energy_j / all - 1.0).abs() < 1e-12, "{power:?}");
        let token = power.step_energy_j / (16.0 * 2048.0);
        assert!((power.token_energy_j.expect("tokens are counted") / token - 1.0).abs() < 1e-12);
        let [least, most] = power.step_energy_interval_j;
        assert!(least < power.step_energy_j && power.step_energy_j < most);
    }
}

/// Kernels draw more than nothing does, and no board more than its limit. Ranks that wait for each
/// other draw less than one alone.
#[test]
fn a_board_draws_between_nothing_to_do_and_its_limit() {
    let board = catalogue::devices().gpus["h100-sxm5-80gb"].power.clone().expect("it was measured");
    let [alone, eight] = [1, 8].map(|gpus| on("dgx-h100", gpus).1.board_power_w);
    assert!(board.idle_w < eight && eight < alone && alone <= board.limit_w, "{eight} {alone}");
}

/// An A100 takes its shares from the H100 that was measured, so that more measurements lie in doubt.
#[test]
fn a_board_that_nobody_measured_is_less_certain() {
    let width = |power: &PowerUse| power.board_power_interval_w[1] / power.board_power_interval_w[0];
    let (_, measured) = on("dgx-h100", 1);
    let (_, assumed) = on("dgx-a100-80g", 1);
    assert_eq!((&*measured.origin, &*assumed.origin), ("measured elsewhere", "estimate"));
    assert!(width(&assumed).ln() > 2.0 * width(&measured).ln(), "{assumed:?}");
    assert!(assumed.board_power_w <= 400.0);
}
