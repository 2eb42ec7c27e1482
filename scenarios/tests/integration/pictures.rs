//! Pictures and remedies are of the runs themselves, however these share work.

use reports::summary::RunSummary;
use scenarios::run::{Options, Unwatched, execute};

use crate::support::{options, read, run};

/// Four stages of eight data ranks: all data ranks of a stage fold into one.
const PIPELINE: &str = "
name: test
machine: { cluster: { node: dgx-a100-80g, count: 4 } }
model: { transformer: { layers: 8, hidden: 2048, heads: 16, vocabulary: 1000, max_positions: 1024 } }
training: { global_batch: 64, micro_batch: 2, sequence: 1024, precision: bf16-mixed }
parallelism: { pipeline: 4, schedule: 1f1b }
";

fn runs(text: &str, settings: &[&str]) -> Vec<RunSummary> {
    run(&read(text, settings).unwrap_or_else(|failure| panic!("{failure}"))).variants
}

#[test]
fn pictures_of_a_folded_program_are_those_of_the_whole_one() {
    let [folded, whole] =
        ["auto", "never"].map(|fold| runs(PIPELINE, &[&format!("run.fold={fold}")]).remove(0));
    let timeline = folded.timeline.expect("few activities");
    assert_eq!(timeline.rows.len(), 4);
    assert!(timeline.rows.iter().all(|row| row.spans.len() > 8), "eight micro-batches in each row");
    assert_eq!(Some(timeline), whole.timeline);
    assert_eq!(folded.memory_curves, whole.memory_curves);
    assert!(folded.memory_curves[0].points.len() > 8);
}

/// The path through threads and streams leads from the begin of the step to its end, over lanes that
/// are drawn.
#[test]
fn recordings_and_programs_are_drawn_with_their_critical_path() {
    for name in ["graphs-vs-eager", "replay-resnet50-v100"] {
        for run in runs(&format!("extends: library:{name}\nname: test\n"), &[]) {
            let Some(detail) = run.detail else { continue };
            let legs = &detail.path;
            assert_eq!((legs[0].from, legs[legs.len() - 1].to), (0, detail.end), "{name}");
            assert!(legs.windows(2).all(|pair| pair[0].to == pair[1].from), "{name}: {legs:?}");
            assert!(legs.iter().all(|leg| (leg.lane as usize) < detail.lanes.len()), "{name}");
            let lanes: Vec<_> = detail.lanes.iter().map(|lane| lane.name.as_str()).collect();
            let rows = run.timeline.expect("it is drawn, too").rows;
            assert_eq!(lanes, rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>());
        }
    }
}

/// A run is a function of its scenario: alone, among the variants, and as a remedy for another it gives the same.
#[test]
fn a_run_is_the_same_alone_and_among_others() {
    const SWEEP: &str = "
variants:
  plain: {}
  selective: { techniques: { recompute: { mode: selective } } }
  full: { techniques: { recompute: { mode: full } } }
sweep: { training.micro_batch: [4, 8] }
memory: { limit: 5.6 GB }
";
    let text = format!("{PIPELINE}{SWEEP}").replace("micro_batch: 2, ", "");
    let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    let together = run(&experiment).variants;
    let [fits, fails] = [true, false].map(|fits| together.iter().filter(|run| run.fits == fits).count());
    assert!(fits > 0 && fails > 0, "{fits} fit, {fails} do not");
    let told = together.iter().filter_map(|run| run.failure.as_ref());
    assert!(told.flat_map(|failure| &failure.remedies).any(|remedy| remedy.step_time_s.is_some()));
    for variant in ["plain", "selective", "full"] {
        let options = Options { variants: vec![variant.to_owned()], ..options() };
        let alone = execute(&experiment, &options, &Unwatched).expect("it runs").variants;
        let among: Vec<_> = together.iter().filter(|run| run.variant == variant).cloned().collect();
        let json = |runs: &Vec<RunSummary>| serde_json::to_string(runs).expect("JSON");
        assert_eq!(json(&alone), json(&among), "{variant}");
    }
}
