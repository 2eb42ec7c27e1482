//! Results nobody expects still give readable output.

use reports::summary::{
    DevicePeak, Failure, MemoryCurve, MemoryPoint, RunSummary, Timeline, TimelineRow, TimelineSpan,
};
use reports::{Summary, csv, html, json, terminal};

use crate::fixture::{at, bare, summary, too_big};

/// Everything that is written for a summary.
fn all_outputs(summary: &Summary) -> String {
    let mut out = Vec::new();
    terminal::write(&mut out, summary, terminal::Style::default()).expect("a vector takes every byte");
    csv::write(&mut out, summary).expect("a vector takes every byte");
    json::write(&mut out, summary).expect("a vector takes every byte");
    html::write(&mut out, summary).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

fn odd_runs() -> Vec<Vec<RunSummary>> {
    let nan = RunSummary {
        samples_per_s: Some(f64::NAN),
        bubble_fraction: Some(f64::NAN),
        ..bare("nan", f64::NAN)
    };
    let mut zeros = bare("zeros", 0.0);
    zeros.time_breakdown_s = [("compute".to_owned(), 0.0)].into();
    let device = DevicePeak { capacity_bytes: Some(0), peak_bytes: u64::MAX, ..DevicePeak::default() };
    let full = RunSummary { peak_memory_bytes: vec![device], ..bare("full", 1e-300) };
    let silent = RunSummary { failure: Some(Failure::default()), ..RunSummary::default() };
    let twice = vec![bare("same", 1.0), bare("same", 2.0)];
    let mixed = vec![at(bare("a", 1.0), "x.y", "1"), at(bare("a", 2.0), "z", "2"), bare("b", 3.0)];
    vec![
        vec![],
        vec![nan.clone()],
        vec![nan, zeros, full, silent, RunSummary::default()],
        vec![too_big("a", 0), too_big("b", u64::MAX)],
        twice,
        mixed,
    ]
}

#[test]
fn odd_numbers_never_reach_a_reader() {
    for runs in odd_runs() {
        let text = all_outputs(&summary("odd", &["x.y"], runs));
        for word in ["NaN", ">inf", ": null", "\"inf"] {
            let context =
                text.split_once(word).map(|(before, _)| before.chars().rev().take(80).collect::<String>());
            assert_eq!(
                context.map(|reversed| reversed.chars().rev().collect::<String>()),
                None,
                "before {word}"
            );
        }
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut out = Vec::new();
    let hostile = summary("x", &[], vec![bare("a\x1b[2Jb\nc", 1.0), too_big("d\re\t", 5)]);
    terminal::write(&mut out, &hostile, terminal::Style::default()).expect("a vector takes every byte");
    let text = String::from_utf8(out).expect("text");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn long_and_foreign_names_are_cut_at_a_character() {
    let text = all_outputs(&summary("x", &[], vec![bare(&"é".repeat(500), 1.0), bare("模型并行", 2.0)]));
    assert!(text.contains("é…") && text.contains("模型并行"));
}

#[test]
fn a_huge_sweep_gives_a_small_page() {
    let axes = ["training.micro_batches", "parallelism.pipeline"];
    for axes in [&axes[..1], &axes[..]] {
        let run = |index: u32| {
            let run = at(
                bare(if index.is_multiple_of(2) { "a" } else { "b" }, f64::from(index % 7 + 1)),
                axes[0],
                &(index / 2).to_string(),
            );
            if axes.len() > 1 { at(run, axes[1], &(index % 1000).to_string()) } else { run }
        };
        let summary = summary("huge", axes, (0..100_000).map(run).collect());
        let mut out = Vec::new();
        html::write(&mut out, &summary).expect("a vector takes every byte");
        terminal::write(&mut out, &summary, terminal::Style::default()).expect("a vector takes every byte");
        assert!(out.len() < 1_000_000, "{} bytes", out.len());
    }
}

#[test]
fn spans_outside_the_step_stay_on_the_page() {
    let span = |start_s: f64, end_s: f64| TimelineSpan { start_s, end_s, ..TimelineSpan::default() };
    let spans = vec![span(-1e300, 0.5), span(0.5, 1e300), span(f64::NAN, f64::INFINITY)];
    let timeline = Timeline { end_s: 1.0, rows: vec![TimelineRow { name: "stage 0".to_owned(), spans }] };
    let points = vec![
        MemoryPoint { at_s: f64::INFINITY, bytes: vec![] },
        MemoryPoint { at_s: 0.1, bytes: vec![1, 2, 3] },
    ];
    let curve = MemoryCurve {
        kinds: vec!["weights".to_owned(), "more".to_owned()],
        points,
        ..MemoryCurve::default()
    };
    let run = RunSummary { timeline: Some(timeline), memory_curves: vec![curve], ..bare("plain", 1.0) };
    assert!(all_outputs(&summary("outside", &[], vec![run])).contains("One step"));
}
