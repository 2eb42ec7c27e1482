//! Cases and choices of a sweep, and what an interrupted one says.

use std::sync::atomic::{AtomicU64, Ordering};

use reports::summary::Interrupted;
use scenarios::run::{Progress, execute};

use crate::support::{experiment, options, run};

const SWEEP: &str = "training: { micro_batches: 8 }
variants: { 1f1b: {}, gpipe: { parallelism: { schedule: gpipe } } }
sweep:
  model.profiled_pipeline.stages: [4]
  training.micro_batches: [8, 16]
  \"[parallelism.send, training.flush]\": [[latency, true], [eager, true]]
";

#[test]
fn cases_follow_from_the_path_unless_the_file_says_otherwise() {
    let cases = |more: &str| experiment(&format!("{SWEEP}{more}")).cases().to_vec();
    assert_eq!(cases(""), ["model.profiled_pipeline.stages", "training.micro_batches"]);
    assert_eq!(
        cases("cases: [training.flush]\n"),
        ["parallelism.send", "training.flush"],
        "paths of one axis go together"
    );
    assert!(cases("cases: []\n").is_empty());
}

#[test]
fn results_carry_their_cases() {
    let summary = run(&experiment(SWEEP));
    assert_eq!(summary.cases, ["model.profiled_pipeline.stages", "training.micro_batches"]);
    assert_eq!(summary.interrupted, None);
    assert!(summary.finding.contains("cases"), "{}", summary.finding);
}

/// Stops when so many runs have ended.
struct Impatient {
    after: u64,
    ended: AtomicU64,
}

impl Progress for Impatient {
    fn begin(&self, _: u64) {}

    fn done(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self) -> bool {
        self.ended.load(Ordering::Relaxed) >= self.after
    }
}

#[test]
fn an_interrupted_sweep_says_how_many_of_its_runs_ended() {
    let impatient = Impatient { after: 3, ended: AtomicU64::new(0) };
    let summary = execute(&experiment(SWEEP), &options(), &impatient).expect("three runs end");
    assert_eq!(summary.variants.len(), 3);
    assert_eq!(summary.interrupted, Some(Interrupted { ended: 3, planned: 8 }));
    assert_eq!(summary.finding, "3 of 8 runs ended before the interrupt.");
    let (mut json, mut terminal, mut page) = (Vec::new(), Vec::new(), Vec::new());
    reports::json::write(&mut json, &summary).expect("a vector takes every byte");
    reports::terminal::write(&mut terminal, &summary, reports::terminal::Style::default()).expect("as above");
    reports::html::write(&mut page, &summary).expect("as above");
    for written in [terminal, page] {
        let text = String::from_utf8(written).expect("text").replace('\u{a0}', " ");
        assert!(text.contains("3 of 8 runs ended before the interrupt"), "{text}");
    }
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["interrupted"], serde_json::json!({ "ended": 3, "planned": 8 }));
}
