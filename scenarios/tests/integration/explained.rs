//! An explained run: its path is the step, and faster parts are never slower.

use reports::explanation::{Explanation, Visit};
use scenarios::run::{Explaining, Unwatched, explain};
use scenarios::soak;

use crate::memory_plans::cases;
use crate::support::{experiment, read, read_all};

/// Random scenarios; `FORETRAIN_CASES` says how many.
const CASES: usize = 40;
/// How much slower a step may be with faster parts: schedules of streams that share something have
/// anomalies, as techniques that decide do.
const SLOWER_MAX: f64 = 1.02;

fn explained(text: &str, settings: &[&str]) -> Option<Explanation> {
    let experiment = read(text, settings).ok()?;
    let how = Explaining { variant: None, seed: 1, jobs: Some(1) };
    Some(explain(&experiment, &how, &Unwatched).unwrap_or_else(|refusal| panic!("{refusal}\n{text}")))
}

fn of_library(name: &str, settings: &[&str]) -> Explanation {
    let text = scenarios::library::get(name).expect("a scenario");
    explained(text, settings).expect("it is right")
}

fn time(visits: &[Visit]) -> f64 {
    visits.iter().map(|visit| visit.time_s).sum()
}

/// Checks that a path has no gap and is as long as the step, and its parts as long as it.
fn check_path(explanation: &Explanation) {
    let (Some(step), path) = (explanation.step_time_s, &explanation.path) else { return };
    if path.is_empty() {
        return;
    }
    let all = time(path);
    let steps = all / step;
    assert!((steps - steps.round()).abs() < 1e-6 && steps > 0.5, "{all} s of steps of {step} s");
    for pair in path.windows(2) {
        let end = pair[0].begin_s + pair[0].time_s;
        assert!((end - pair[1].begin_s).abs() < 1e-9 * (1.0 + all), "{pair:?}");
        let moved = pair[0].lane != pair[1].lane;
        assert_eq!(pair[1].released_by.is_some(), moved, "{pair:?}");
    }
    for visit in path {
        let causes: f64 = visit.by_cause_s.values().sum();
        assert!((causes - visit.time_s).abs() < 1e-9, "{visit:?}");
    }
    for (cause, expected) in &explanation.critical_path_s {
        let told: f64 = path.iter().filter_map(|visit| visit.by_cause_s.get(cause)).sum();
        assert!(
            (told / steps.round() - expected).abs() < 1e-9 * (1.0 + all),
            "{cause}: {told} of {expected}"
        );
    }
}

#[test]
fn the_path_of_a_pipeline_goes_through_its_stages() {
    let explanation = {
        let pipeline = experiment("training: { micro_batches: 8, micro_batch: 2 }\n");
        let how = Explaining { variant: None, seed: 1, jobs: Some(1) };
        explain(&pipeline, &how, &Unwatched).expect("it runs")
    };
    check_path(&explanation);
    let path = &explanation.path;
    let (first, last) = (path.first().expect("a path"), path.last().expect("a path"));
    assert_eq!((first.phase.as_str(), first.micro_batch), ("forward", Some(0)), "{first:?}");
    assert!(path.iter().any(|visit| visit.lane == "stage 3"), "the last stage decides");
    assert!(last.by_cause_s.contains_key("compute"), "{last:?}");
    let messages = path.iter().filter(|visit| visit.released_by.is_some()).count();
    assert!(messages > 4, "{messages} changes of lanes");
}

#[test]
fn paths_of_the_library_are_their_steps() {
    for (name, settings) in [
        ("megatron-22b", &[][..]),
        ("bpipe-profiled", &[]),
        ("zero3-sharded", &[]),
        ("ssdtrain-a100", &[]),
        ("two-kinds-of-nodes", &[]),
        ("bpipe-gpt3-96b", &["training.micro_batch=2"]),
    ] {
        let explanation = of_library(name, settings);
        check_path(&explanation);
        assert!(explanation.what_if.len() > 1, "{name}: {:?}", explanation.what_if);
        assert!(explanation.finding.split_whitespace().count() <= 15, "{}", explanation.finding);
    }
}

/// The most that a part could bring is known: with GPUs that are all there is, half.
#[test]
fn what_a_part_brings_is_what_its_time_allows() {
    let of = |explanation: &Explanation, part: &str| {
        explanation.what_if.iter().find(|it| it.part == part).cloned().expect("it is simulated")
    };
    let pipeline = of_library("bpipe-profiled", &[]);
    let step = pipeline.step_time_s.expect("it fits");
    let stages = of(&pipeline, "stages");
    assert!(stages.twice_s.is_some_and(|time| time >= step / 2.0 - 1e-9), "{stages:?} of {step}");
    // Nothing hides its communication: all that changes is on the path.
    let megatron = of_library("megatron-22b", &["parallelism.overlap_tensor_reduce=false"]);
    let step = megatron.step_time_s.expect("it fits");
    let communication = megatron.critical_path_s["communication"];
    let links = of(&megatron, "NVLink");
    let saved = step - links.twice_s.expect("it fits");
    assert!(saved > 0.2 * communication && saved <= 0.5 * communication + 1e-9, "{saved} of {communication}");
    let lost = links.half_s.expect("it fits") - step;
    assert!(lost > 0.5 * communication && lost <= communication + 1e-9, "{lost} of {communication}");
    let compute = of(&megatron, "GPU compute").twice_s.expect("it fits");
    assert!(compute < 0.8 * step, "most of it is products: {compute} of {step}");
}

#[test]
fn programs_and_recordings_are_explained_by_cause() {
    for name in ["graphs-vs-eager", "replay-resnet50-v100"] {
        let explanation = of_library(name, &[]);
        assert!(explanation.path.is_empty() && !explanation.critical_path_s.is_empty(), "{name}");
        let host = explanation.what_if.iter().find(|it| it.part == "host").expect("a host");
        assert!(host.twice_s <= explanation.step_time_s.map(|step| step * SLOWER_MAX), "{name}: {host:?}");
    }
}

/// Twice as fast is never slower, half as fast never faster, whatever is simulated.
#[test]
fn a_faster_part_is_not_slower() {
    let mut compared = 0;
    for number in 0..cases(CASES) {
        let text = soak::scenario(7, number as u64);
        // The path is of one seed, the step a mean over all.
        let Some(explanation) = explained(&text, &["run.seeds=1"]) else { continue };
        check_path(&explanation);
        let Some(step) = explanation.step_time_s else { continue };
        for it in &explanation.what_if {
            compared += 1;
            let worst = it.twice_s.map_or(0.0, |time| time / step);
            assert!(worst <= SLOWER_MAX, "{it:?} of {step}:\n{text}");
            let best = it.half_s.map_or(f64::MAX, |time| time / step);
            assert!(best >= 1.0 / SLOWER_MAX, "{it:?} of {step}:\n{text}");
        }
    }
    assert!(compared > cases(CASES), "{compared} what-ifs of {} scenarios", cases(CASES));
}

#[test]
fn what_does_not_fit_is_told_as_such() {
    let text = scenarios::library::get("megatron-22b").expect("a scenario");
    let experiment = read_all(&[("test.yaml", text)], &["memory.limit=10 GB"]).expect("it is right");
    let how = Explaining { variant: None, seed: 1, jobs: Some(1) };
    let explanation = explain(&experiment, &how, &Unwatched).expect("a result");
    assert_eq!(explanation.step_time_s, None);
    assert!(explanation.finding.contains("does not fit"), "{}", explanation.finding);
}
