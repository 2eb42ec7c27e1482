//! Power that boards draw, and energy of a step.

use reports::summary::{HostUse, PowerUse, RunSummary};
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

/// Hosts of a run whose machine or features are said so.
fn hosts(machine: &str, rest: &str) -> Option<HostUse> {
    run_of(&format!("name: test\nmachine: {machine}\n{rest}"), &[]).power?.hosts
}

/// Two sockets of 10 cores and 100 W, 64 GiB: a rank issues its work with one core of twenty.
#[test]
fn a_host_draws_by_its_busy_cores_and_its_memory() {
    let processor = "socket: { cores: 10, power: 100 W }, memory: { memory: 32 GiB }";
    let machine =
        format!("{{ cluster: {{ node: supermicro-4029gp-trt, count: 1, set: {{ {processor} }} }} }}");
    let step = STEP.replace("bf16", "fp16");
    for (ranks, of_tdp) in [(1, 0.22), (2, 0.32), (4, 0.32 + 0.43 / 4.0)] {
        let rest = format!("parallelism: {{ data: {ranks}, idle: allow }}{step}");
        let found = hosts(&machine, &rest).expect("its processors are known");
        let watts = 200.0 * of_tdp + 64.0 * 0.305;
        assert!((found.host_power_w / watts - 1.0).abs() < 1e-9, "{found:?} {watts}");
        assert_eq!(found.busy_cores, f64::from(ranks));
    }
}

#[test]
fn a_host_of_unknown_processors_has_no_power() {
    let machine = "{ cluster: { node: epyc-pcie-8x, count: 1 } }";
    let rest = format!("parallelism: {{ data: 1, idle: allow }}{}", STEP.replace("bf16", "fp16"));
    assert_eq!(hosts(machine, &rest), None);
}

/// Threads that copy rows are busy for their part of a step, and one of them issues the rest.
/// Another process spins beside it. What the GPU reads in place leaves one core busy.
#[test]
fn threads_that_gather_rows_keep_cores_busy() {
    let of = |features: &str| {
        let rest = format!(
            "model: {{ graph: {{ data: {{ preset: reddit }}, network: {{ sage: {{ layers: 2, hidden: 16 }} }}, \
             sampling: {{ batch: 1000, fan_out: [25, 10], workers: 0 }} }} }}\n\
             training: {{ precision: fp32 }}\nparallelism: {{ data: 1, idle: allow }}\nfeatures: {{ width: 602, {features} }}\n"
        );
        hosts("{ cluster: { node: dgx-a100-40g, count: 1 } }", &rest)
            .expect("its processors are known")
            .busy_cores
    };
    assert_eq!(of("access: zero-copy"), 1.0);
    assert_eq!(of("access: host-gather, threads: 1"), 1.0);
    assert_eq!(of("access: zero-copy, process: { mps: 10 % }"), 2.0);
    let eight = of("access: host-gather, threads: 8");
    assert!(1.0 < eight && eight < 8.0, "{eight}");
    assert!(eight < of("access: host-gather, threads: 8, prefetch: 2"));
}
