//! Hardware files: from `calibrate` into a scenario, and beside each other.

use super::support::{Sandbox, assert_session};

/// The constants of a host: what its memory gives, and the latency of its drive, which may be told or not.
fn host(device: &str, driver: &str, all: f64, latency: f64, told: bool) -> String {
    let errors = "{ samples: 20, mean: 0.01, median: 0.01, p90: 0.02, p95: 0.03, worst: 0.05, bias: 0 }";
    let rest = format!(
        "    method: m\n    fitted: {errors}\n    held_out: {errors}\n    scatter: 0.01\n    unstable: 0\n    refused: 0\n"
    );
    format!(
        "form: 1\nforetrain: test\ndate: 2026-01-01\ndevice: {{ name: {device}, driver: {driver} }}\nsteady: true\nlaws:\n  \
         memory.copy:\n    constants:\n      core: {{ value: 10, unit: GB/s, error: 0.01, told: true }}\n      \
         all: {{ value: {all}, unit: GB/s, error: 0.01, told: true }}\n{rest}  disk.random-read:\n    constants:\n      \
         latency: {{ value: {latency}, unit: us, error: 0.03, told: {told} }}\n{rest}"
    )
}

#[test]
fn two_hardware_files_are_compared_constant_by_constant() {
    let sandbox = Sandbox::new("calibrate-diff");
    sandbox.write("a.yaml", host("EPYC 7742", "Linux 6.1", 300.0, 80.0, true));
    // 1.645 times the root of twice 1 % squared are 2.3 %.
    sandbox.write("b.yaml", host("EPYC 7742", "Linux 6.1", 306.0, 88.0, true));
    sandbox.write("c.yaml", host("EPYC 9654", "Linux 6.8", 350.0, 60.0, false));
    sandbox.write("old.yaml", "form: 0\n");
    sandbox.write("text.yaml", "hello\n");
    sandbox.write("broken.yaml", "form: 1\ndate: 2026-01-01\n");
    assert_session!(
        "calibrate-diff",
        sandbox.session(&[
            "calibrate diff a.yaml b.yaml",
            "calibrate diff a.yaml c.yaml",
            "calibrate diff a.yaml c.yaml --format json",
            "calibrate diff a.yaml nowhere.yaml",
            "calibrate diff old.yaml text.yaml",
            "calibrate diff broken.yaml .",
            "calibrate diff a.yaml",
        ])
    );
}

#[test]
fn what_tables_tell_of_a_gpu_is_laid_over_a_scenario() {
    let sandbox = Sandbox::new("calibrate-overlay");
    // Passes that reach 30 % of the 320 GB/s of T4, half of what the catalogue says.
    let rows = (60..90)
        .map(|rows| format!("t4,relu,{rows},8192,{:.6}\n", (rows * 8192 * 8) as f64 / (0.3 * 320e9) * 1e3));
    sandbox.write(
        "mine.csv",
        format!("# source: made up\ngpu,op,rows,cols,latency_ms\n{}", rows.collect::<String>()),
    );
    assert_eq!(sandbox.run("calibrate --from mine.csv --out . --quiet").exit, 0);
    assert_eq!(sandbox.names("calibration"), ["t4.html", "t4.yaml"]);
    sandbox.write(
        "step.yaml",
        "name: step
machine: { node: { name: epyc-pcie-8x, gpu: t4 } }
model: { layers: { input: { channels: 64, height: 256, width: 256 }, list: [gelu] } }
training: { global_batch: 16, micro_batch: 16, step: forward, precision: fp32 }
parallelism: { data: 1, idle: allow }
software: { launch: free }
variants: { catalogue: {}, mine: { calibration: [calibration/t4.yaml] } }
",
    );
    let results = sandbox.run("run step.yaml --quiet --format json").json();
    // 2^29 bytes at 96 GB/s, after a gap and a start of microseconds.
    let step = results["variants"][1]["step_time_s"].as_f64().expect("it fits");
    assert!((step / (f64::from(1 << 29) / 96e9) - 1.0).abs() < 0.02, "{step}");
    assert!(step > 1.5 * results["variants"][0]["step_time_s"].as_f64().expect("it fits"));
    assert_eq!(results["calibrations"][0]["replaced"][0], "elementwise kernels of t4");
    let told = sandbox.run("run step.yaml --quiet");
    assert!(told.out.contains("calibrated: calibration/t4.yaml (t4, "), "{}", told.out);
    assert!(sandbox.read("out/step/report.html").contains("calibration/t4.yaml: made up; fitted n "));
}
