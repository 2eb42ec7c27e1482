//! Every shipped scenario gives its committed result, to six significant digits.
//!
//! `FORETRAIN_UPDATE=1 cargo test --release -p scenarios --test library` renews the results; a commit that does so says
//! why and by how much they changed. `FORETRAIN_ONLY=NAME` runs no other scenario, and renews no other.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use reports::summary::Summary;
use scenarios::run::{Options, Progress, execute};
use serde_json::{Value, json};

struct Unwatched;

impl Progress for Unwatched {
    fn begin(&self, _runs: u64) {}
    fn done(&self) {}
}

fn summary_of(name: &str) -> Summary {
    summary_with(name, &[])
}

fn summary_with(name: &str, settings: &[&str]) -> Summary {
    let files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let experiment =
        scenarios::load(&files, &format!("library:{name}"), &settings).unwrap_or_else(|failure| {
            panic!("{}", failure.render(false));
        });
    let options = Options { seed: 1, jobs: Some(2), variants: Vec::new(), reproduce: String::new() };
    execute(&experiment, &options, &Unwatched).unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

/// Every scenario of the library, run.
static LIBRARY: LazyLock<Vec<(&str, Summary)>> = LazyLock::new(|| {
    let only = std::env::var("FORETRAIN_ONLY").ok();
    let names = scenarios::library::names().filter(|name| only.as_deref().is_none_or(|only| only == *name));
    names.map(|name| (name, summary_of(name))).collect()
});

/// Links of a run that are compared.
const LINKS: usize = 4;
/// Of so many runs and more the main figures are compared, each run on a line.
const MANY_RUNS: usize = 100;
/// The main figures of a run.
const FIGURES: [&str; 9] = [
    "variant",
    "point",
    "fits",
    "step_time_s",
    "tie_with_fastest",
    "samples_per_s",
    "time_breakdown_s",
    "peak_memory_bytes",
    "swap",
];

/// What must not change unnoticed, as text.
fn result_of(summary: &Summary) -> String {
    let mut result = whole_result_of(summary);
    if summary.variants.len() < MANY_RUNS {
        return serde_json::to_string_pretty(&result).expect("JSON can be printed") + "\n";
    }
    let mut lines = String::from("{");
    for key in ["finding", "conditions", "cases"] {
        lines += &result.get(key).map_or(String::new(), |value| format!("\"{key}\": {value}, "));
    }
    lines += "\"runs\": [";
    for (number, run) in result["runs"].as_array_mut().into_iter().flatten().enumerate() {
        let run = run.as_object_mut().expect("a run is an object");
        run.retain(|key, _| FIGURES.contains(&key.as_str()));
        lines += if number == 0 { "\n" } else { ",\n" };
        lines += &serde_json::to_string(run).expect("JSON can be printed");
    }
    lines + "\n]}\n"
}

/// Everything but how each rank spent its time, and power.
fn whole_result_of(summary: &Summary) -> Value {
    let mut runs = reports::json::value(&summary.variants).expect("a summary is JSON");
    for run in runs.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        run.shift_remove("ranks");
        run.shift_remove("activities");
        // Follows from what is compared.
        run.shift_remove("power");
        // The first stage has most micro-batches under way, and needs most.
        run.get_mut("allocator")
            .and_then(Value::as_array_mut)
            .into_iter()
            .for_each(|stages| stages.truncate(1));
        // Links of a symmetrical machine are alike: the busiest say it all.
        run.get_mut("links")
            .and_then(Value::as_array_mut)
            .into_iter()
            .for_each(|links| links.truncate(LINKS));
    }
    round(&mut runs);
    let mut result = match summary.cases.as_slice() {
        [] => json!({ "finding": summary.finding, "conditions": summary.conditions, "runs": runs }),
        cases => json!({
            "finding": summary.finding, "conditions": summary.conditions, "cases": cases, "runs": runs,
        }),
    };
    if let Some(proof) = &summary.search {
        let mut proof = reports::json::value(proof).expect("a proof is JSON");
        round(&mut proof);
        result["search"] = proof;
    }
    result
}

/// Rounds every number to six significant digits.
fn round(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(round),
        Value::Object(map) => map.values_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map_or_else(String::new, |x| format!("{x:.5e}"));
            *value = rounded.parse::<f64>().map_or(Value::Null, |x| json!(x));
        }
        _ => {}
    }
}

#[test]
fn every_library_scenario_gives_its_committed_result() {
    let update = std::env::var_os("FORETRAIN_UPDATE").is_some();
    for (name, summary) in &*LIBRARY {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("library/{name}.expected.json"));
        let found = result_of(summary);
        if update {
            fs::write(&path, &found).expect("the library can be written");
        }
        let expected = fs::read_to_string(&path).expect("a committed result");
        let differs = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        assert!(
            expected == found,
            "{name} differs from {} at line {}; see the head of this file",
            path.display(),
            differs.map_or(0, |line| line + 1)
        );
    }
}

#[test]
fn shares_of_the_library_converge() {
    for (name, summary) in &*LIBRARY {
        let unsettled: Vec<_> = summary.variants.iter().filter(|run| run.unsettled.is_some()).collect();
        let names = unsettled.iter().map(|run| (&run.variant, &run.point, run.unsettled));
        assert!(unsettled.is_empty(), "{name}: {:?}", names.collect::<Vec<_>>());
    }
}

#[test]
fn every_promise_of_the_library_is_kept() {
    for (name, summary) in &*LIBRARY {
        for check in &summary.expectations {
            assert!(check.passed, "{name}: {}: {}", check.text, check.measured);
        }
    }
}

/// The published bubble rates that follow from the profile come out to every printed digit (arXiv 2401.10241, Table 5).
/// Interleaved is no exact oracle: their cost counts communication in another way.
#[test]
fn published_bubbles_come_out_to_every_digit() {
    let summary = summary_of("pipeline-schedules");
    let (mut exact, mut off) = (0, 0);
    for citation in &summary.published {
        let Some(pair) = &citation.pair else { continue };
        if !citation.text.starts_with("bubble fraction") {
            continue;
        }
        let difference = (pair.ours - pair.published).abs();
        if citation.text.contains("interleaved") {
            assert!(difference < 0.0036, "{}: {} against {}", citation.text, pair.ours, pair.published);
            off += 1;
        } else {
            assert_eq!(format!("{:.4}", pair.ours), format!("{:.4}", pair.published), "{}", citation.text);
            exact += 1;
        }
    }
    assert_eq!((exact, off), (30, 6));
}

/// Without flush, steps run into each other: a warm-up step is a step like the others and makes none longer.
#[test]
fn without_flush_a_warm_up_makes_no_step_longer() {
    let step_time = |steps: [&str; 2]| {
        let summary = summary_with("bpipe-profiled", &["training.flush=false", steps[0], steps[1]]);
        let recompute = summary.variants.iter().find(|run| run.variant == "recompute").expect("a variant");
        recompute.step_time_s.expect("it fits")
    };
    let warmed_up = step_time(["run.steps.warm_up=1", "run.steps.measured=2"]);
    assert_eq!(warmed_up, step_time(["run.steps.warm_up=0", "run.steps.measured=3"]));
}

/// On the map of techniques, moving activations wins at a rate only if it wins at all faster ones.
#[test]
fn slower_links_never_make_moving_activations_win() {
    const MOVES: [&str; 5] = ["offload", "shifted", "oblivious", "disjoint", "drives"];
    let (_, summary) = LIBRARY.iter().find(|(name, _)| *name == "technique-map").expect("it is shipped");
    let map = summary.winners.as_ref().expect("two cases of numbers");
    for (limit, row) in map.rows.values.iter().zip(&map.cells) {
        let moves: Vec<bool> = row.iter().map(|cell| MOVES.contains(&cell.fastest[0].as_str())).collect();
        assert!(moves.is_sorted(), "{limit}: {moves:?} over {:?}", map.columns.values);
    }
    let first: Vec<_> = map.cells.iter().map(|row| row[0].fastest[0].as_str()).collect();
    assert_eq!(first, ["nothing", "half", "quarter", "full"], "the slowest link");
    let last: Vec<_> = map.cells.iter().filter_map(|row| Some(row.last()?.fastest[0].as_str())).collect();
    // Of 40 GiB both hide all that they move.
    assert_eq!(last, ["nothing", "offload", "oblivious", "disjoint"], "the fastest link");
}
