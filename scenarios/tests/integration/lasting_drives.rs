//! Drives as long training leaves them, beside drives that are new.

use proptest::prelude::*;
use reports::summary::RunSummary;

use crate::support::run_of;

/// A GPT of few but wide layers, whose activations leave for four drives of the model that each test
/// describes.
const WIDE: &str = "name: lasting
machine: { node: { name: dgx-a100-80g, set: { ssd: { count: 4, model: samsung-980-pro-1tb } } } }
model: { transformer: { layers: 4, hidden: 8192, heads: 64, vocabulary: 51200, max_positions: 2048 } }
training: { global_batch: 4, micro_batch: 4, sequence: 2048, precision: fp16-mixed, step: gradients }
memory: { bytes_per_parameter: 16 }
parallelism: { tensor: 2, data: 1, idle: allow }
software: { attention: flash }
storage: { nvme: { drives: 4 } }
techniques: { activation_offload: { to: drives, arrays: [nvme] } }
";

/// Bytes that four drives of the model are rated for: 600 TB each.
const RATED: f64 = 4.0 * 600e12;
const SECONDS_OF_A_YEAR: f64 = 365.0 * 24.0 * 3600.0;

/// Its drives: rates in MB/s, the cache in MB.
fn drives([write, burst, cache]: [u32; 3]) -> String {
    format!(
        "machine.node.set.ssd.model={{ like: samsung-980-pro-1tb, write: {write} MB/s, \
         burst_write: {burst} MB/s, write_cache: {cache} MB }}"
    )
}

fn new(steps: [u32; 2], model: &str) -> RunSummary {
    let steps = format!("run.steps={{ warm_up: {}, measured: {} }}", steps[0], steps[1]);
    run_of(WIDE, &["run.drives=new", &steps, model])
}

fn lasting(steps: u32, settings: &[&str]) -> RunSummary {
    run_of(WIDE, &[settings, &[&format!("run.steps.measured={steps}")]].concat())
}

/// Life, and bytes written in a step.
fn wear(run: &RunSummary) -> (f64, f64) {
    (run.drive_lifetime_years.expect("it is rated"), run.drives[0].written_bytes as f64)
}

#[track_caller]
fn assert_near([a, b]: [f64; 2], within: f64) {
    assert!((a / b - 1.0).abs() <= within, "{a} and {b}");
}

#[test]
fn a_thousand_steps_of_new_drives_come_to_the_state_that_lasts() {
    for model in [[300, 3000, 500], [800, 4000, 4000]].map(drives) {
        let found = lasting(1, &[&model]);
        let state = found.drive_state.as_ref().expect("new drives are in a burst");
        assert!(state.lasting && found.steady != Some(false), "{model}: {state:?}");
        let walked = new([500, 500], &model);
        let ((years, written), (walked_years, walked_written)) = (wear(&found), wear(&walked));
        assert_near([years, walked_years], 0.01);
        assert_near([written, walked_written], 0.01);
        assert_near([found.step_time().unwrap(), walked.step_time().unwrap()], 0.01);
        // The first step tells another life.
        let first = new([0, 1], &model);
        assert_eq!(first.steady, Some(false));
        assert!(wear(&first).0 < 0.97 * years, "{model}: {} and {years}", wear(&first).0);
        let beside = state.new.as_ref().expect("it is told");
        assert_eq!(beside.drive_lifetime_years, first.drive_lifetime_years);
        assert_eq!(beside.step_time_s, first.step_time_s);
    }
}

/// A cache that stays between full and empty gives to the chips all that is written: drives take their
/// sustained rate, 800 MB/s, and last as long as what they are rated for lasts at that.
#[test]
fn caches_between_full_and_empty_are_written_at_the_sustained_rate() {
    let run = lasting(1, &[&drives([800, 4000, 4000])]);
    assert_near([wear(&run).0 * SECONDS_OF_A_YEAR, RATED / (4.0 * 800e6)], 0.01);
}

#[test]
fn a_drive_without_a_cache_is_new_for_ever() {
    let model = "machine.node.set.ssd.model=samsung-pm9a3-u2-3840gb";
    let [lasting, new] = ["lasting", "new"].map(|state| {
        let run = run_of(WIDE, &[model, &format!("run.drives={state}")]);
        assert_eq!(run.drive_state, None);
        reports::json::value(&run).expect("a summary")
    });
    assert_eq!(lasting, new);
}

/// A drive is as hot in the end as if it had been hot from the start, where its work keeps it so.
#[test]
fn a_drive_that_throttles_is_hot_in_the_end() {
    let throttled = |after: &str| {
        format!(
            "machine.node.set.ssd.model={{ like: samsung-pm9a3-u2-3840gb, \
             throttle: {{ after: {after}, rate: 10 % }} }}"
        )
    };
    let waits = "techniques.activation_offload.forwarding=false";
    let step = |after: &str, state: &str| {
        let run = run_of(WIDE, &[&throttled(after), waits, &format!("run.drives={state}")]);
        run.step_time().expect("it fits")
    };
    let (cold, hot) = (step("200 GB", "new"), step("0 B", "new"));
    assert!(hot > 1.1 * cold, "{hot} and {cold}");
    assert_near([step("200 GB", "lasting"), hot], 0.05);
    assert_eq!(step("0 B", "lasting"), hot);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    /// The life that lasts does not depend on how many steps are asked for.
    #[test]
    fn the_life_that_lasts_does_not_depend_on_steps(
        write in 200_u32..1600, faster in 100_u32..3500, cache in 10_u32..3000,
    ) {
        let model = drives([write, write + faster, cache]);
        let years = [1, 3, 8].map(|steps| wear(&lasting(steps, &[&model])).0);
        for other in &years[1..] {
            prop_assert!((other / years[0] - 1.0).abs() < 0.01, "{model}: {years:?}");
        }
    }
}
