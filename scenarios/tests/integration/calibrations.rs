//! Hardware files of scenarios: what they measured decides, and the results say so.

use scenarios::run::step_spreads::{STEP_SPREADS, StepSpreads};

use crate::support::{messages, read_all, run};

/// A pass over the memory of H100 at a rate (GB/s), whose start is not told.
fn hardware(rate: f64) -> String {
    let errors = "{ samples: 20, mean: 0.01, median: 0.01, p90: 0.03, p95: 0.04, worst: 0.05, bias: 0 }";
    format!(
        "form: 1\nforetrain: test\ndate: 2026-01-01\ndevice: {{ name: NVIDIA H100, driver: '580' }}\ngpu: h100-sxm5-80gb\n\
         steady: true\nlaws:\n  pass.scale:\n    constants:\n      start: {{ value: 90, unit: us, told: false }}\n      \
         rate: {{ value: {rate}, unit: GB/s, error: 0.02, told: true }}\n    method: m\n    fitted: {errors}\n    \
         held_out: {errors}\n    scatter: 0.01\n    unstable: 0\n    refused: 0\n"
    )
}

/// A forward pass of one elementwise layer: reads 2^31 bytes and writes as many.
const SCENARIO: &str = "
name: test
machine: { node: dgx-h100 }
model: { layers: { input: { channels: 64, height: 1024, width: 1024 }, list: [gelu] } }
training: { global_batch: 16, micro_batch: 16, step: forward }
parallelism: { data: 1, idle: allow }
software: { launch: free }
run: { steps: { warm_up: 0, measured: 1 } }
";

#[test]
fn twice_the_time_at_the_memory_is_twice_the_time_of_kernels_that_wait_for_it() {
    let variants = "variants:
  plain: {}
  measured: { calibration: [measured.yaml] }
  twice: { calibration: [twice.yaml] }
";
    let text = SCENARIO.to_owned() + variants;
    let [measured, twice] = [1_000.0, 500.0].map(hardware);
    let files = [("sub/test.yaml", &*text), ("sub/measured.yaml", &measured), ("sub/twice.yaml", &twice)];
    let summary = run(&read_all(&files, &[]).unwrap_or_else(|failure| panic!("{failure}")));
    let step = |at: usize| summary.variants[at].step_time_s.expect("it fits");
    // A gap of 1 us and a start of 0.8 us, which the file does not tell, before 2^32 bytes at 1 TB/s.
    assert!((step(1) - (1.8e-6 + 4.294_967_296e-3)).abs() < 1e-12, "{}", step(1));
    assert!((step(2) - (1.8e-6 + 2.0 * 4.294_967_296e-3)).abs() < 1e-12, "{}", step(2));
    assert!(step(0) < 0.5 * step(1), "{}", step(0));
    // 1.645 standard errors of 2 % and 3 % on what was held out, and of their mean what 20 rows leave open.
    let [low, high] = summary.variants[1].step_time_interval_s.expect("kernels were timed");
    let of_kernels = (1.645_f64 * 0.02).hypot(0.03) * 1.05_f64.sqrt();
    // And what steps are off by beyond their kernels, which no calibration measures.
    let steps = StepSpreads::read(STEP_SPREADS, "").expect("a table");
    let of_steps = steps.of(StepSpreads::PLANS).hypot(steps.of(&StepSpreads::of_generation("hopper")));
    let half = of_kernels.hypot(1.645 * of_steps);
    assert!(((high / low).ln() / 2.0 - half).abs() < 1e-9, "{low} to {high}");
    assert_eq!(summary.variants[1].provenance["measured here"], 1.0);
    assert!(!summary.variants[0].provenance.contains_key("measured here"));
    let [file, _] = &summary.calibrations[..] else { panic!("{:?}", summary.calibrations) };
    assert_eq!((&*file.file, &*file.device), ("measured.yaml", "NVIDIA H100"));
    assert_eq!(file.variants, ["measured"]);
    assert_eq!((&*file.replaced.join(" "), &*file.untold.join(" ")), ("pass.scale.rate", "pass.scale.start"));
    let constants = summary.constants.iter().filter(|constant| constant.origin == "measured here");
    let names: Vec<&str> = constants.map(|constant| &*constant.name).collect();
    assert_eq!(names, ["elementwise kernels, share of the memory bandwidth"], "the rest is the catalogue's");
}

#[test]
fn what_is_wrong_with_a_hardware_file_is_told_where_it_is_named() {
    let told = |list: &str, machine: &str| {
        let text = SCENARIO.replace("dgx-h100", machine) + &format!("calibration: {list}\n");
        let files = [
            ("test.yaml", &*text),
            ("a.yaml", &*hardware(1e3)),
            ("b.yaml", &*hardware(2e3)),
            ("c.yaml", "form: 7"),
        ];
        let failure = read_all(&files, &[]).expect_err("it is wrong");
        let problem = failure.problems.first().expect("at least one");
        let line = problem.notes[0].mark.line;
        format!(
            "{}:{}: {}; {}",
            line,
            problem.notes[0].mark.column,
            messages(&failure)[0],
            problem.help.as_deref().unwrap_or("")
        )
    };
    assert_eq!(
        told("[a.yaml, b.yaml]", "dgx-h100"),
        "9:23: `b.yaml` sets pass.scale.rate and so does `a.yaml`; leave one of them out"
    );
    assert_eq!(
        told("[a.yaml]", "dgx-a100-80g"),
        "9:15: `a.yaml` is of another GPU than the machine's; calibrate the machine's GPU, or leave the file out"
    );
    assert_eq!(
        told("[c.yaml]", "dgx-h100"),
        "9:15: `c.yaml` has form 7, this version of foretrain reads form 1; calibrate again"
    );
    assert_eq!(told("[d.yaml]", "dgx-h100"), "9:15: cannot read `d.yaml`; no such file");
    assert!(
        told("[test.yaml]", "dgx-h100")
            .starts_with("9:15: `test.yaml` is no hardware file of `foretrain calibrate`; ")
    );
}

#[test]
fn hardware_files_can_be_swept_and_set_on_the_command_line() {
    let swept = SCENARIO.to_owned() + "sweep:\n  calibration: [[a.yaml], [b.yaml]]\n";
    let [slow, fast] = [500.0, 1_000.0].map(hardware);
    let steps = |text: &str, set: &[&str]| -> Vec<f64> {
        let files = [("test.yaml", text), ("a.yaml", &*slow), ("b.yaml", &*fast)];
        let summary = run(&read_all(&files, set).unwrap_or_else(|failure| panic!("{failure}")));
        summary.variants.iter().filter_map(|run| run.step_time_s).collect()
    };
    let both = steps(&swept, &[]);
    assert!((both[0] / both[1] - 2.0).abs() < 1e-3, "{both:?}");
    assert_eq!(steps(SCENARIO, &["calibration=[b.yaml]"]), [both[1]]);
}
