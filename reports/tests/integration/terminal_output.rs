//! The terminal, as a reader sees it.

use reports::Summary;
use reports::summary::{
    Citation, DevicePeak, Failure, FailureKind, KeptActivations, RunSummary, Spread, Subject,
};
use reports::terminal::{Style, brief, write};

use crate::fixture::{self, at, bare};

fn screen(summary: &Summary, colour: bool) -> String {
    let mut out = Vec::new();
    write(&mut out, summary, Style { colour, ..Style::default() }).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

/// The screen of a terminal of some width.
fn one_screen(summary: &Summary, width: usize) -> String {
    let mut out = Vec::new();
    brief::write(&mut out, summary, Style { colour: false, width }).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_answer_fits_on_a_screen() {
    insta::assert_snapshot!(one_screen(&fixture::comparison(), 100));
    insta::assert_snapshot!(one_screen(&fixture::sweep(), 80));
}

/// One line is left for the path of the report.
#[test]
fn every_answer_fits_on_every_screen() {
    for width in [60, 72, 80, 100, 160] {
        for summary in [fixture::comparison(), fixture::sweep()] {
            let text = one_screen(&summary, width);
            assert!(text.lines().count() < brief::LINES_MAX, "{width}:\n{text}");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= width, "{widest} of {width}:\n{text}");
        }
    }
}

#[test]
fn a_comparison() {
    insta::assert_snapshot!(screen(&fixture::comparison(), false));
}

#[test]
fn a_sweep() {
    insta::assert_snapshot!(screen(&fixture::sweep(), false));
}

/// A screen of `variants` times `points` runs, of which each odd variant is slower at each odd point.
fn grid(variants: usize, points: usize) -> String {
    let axes = ["model.stages", "training.micro_batches", "model.forward"];
    let run = |variant: usize, point: usize| {
        let time = if variant % 2 == 1 && point % 2 == 1 { 2.0 } else { 1.0 };
        let run = bare(&format!("variant-{variant}"), time + variant as f64 / 100.0);
        let run = at(run, axes[0], &(8 * (1 + point / 3)).to_string());
        at(at(run, axes[1], &(24 + point).to_string()), axes[2], &format!("{point} ms"))
    };
    let runs = (0..points).flat_map(|point| (0..variants).map(move |variant| run(variant, point))).collect();
    let summary =
        Summary { expectations: vec![], published: vec![], ..fixture::summary("grid", &axes, runs) };
    screen(&summary, false)
}

#[test]
fn two_variants_at_many_points_stand_side_by_side() {
    insta::assert_snapshot!(grid(2, 28));
}

#[test]
fn many_variants_at_two_points_stand_one_below_the_other() {
    insta::assert_snapshot!(grid(16, 2));
}

#[test]
fn the_grid_fits_the_screen_whatever_its_size() {
    for (variants, points) in [(2, 1000), (50, 3), (40, 40), (300, 2), (3, 8)] {
        let screen = grid(variants, points);
        let grid: Vec<_> = screen.lines().skip(3).take_while(|line| !line.starts_with("  *")).collect();
        assert!((4..=33).contains(&grid.len()), "{variants} x {points}: {} lines", grid.len());
        let widest = grid.iter().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(widest <= 100, "{variants} x {points}: {widest} columns");
        let stars = |line: &&str| line.contains('*');
        assert!(grid.iter().any(stars), "the fastest is always shown");
    }
}

/// A summary with the published bubble of two variants at so many points; the second is off everywhere.
fn cited(points: u32) -> Summary {
    let figure = |variant: &str, point: u32, ours: f64| {
        let at = [("model.stages".to_owned(), "8".to_owned())];
        let at = at.into_iter().chain([("training.micro_batches".to_owned(), (8 * point).to_string())]);
        let (metric, variant) = ("bubble fraction".to_owned(), variant.to_owned());
        let subject = Some(Subject { metric, variant, at: at.collect() });
        Citation { subject, ..fixture::citation("a bubble", 1.0 / f64::from(point), ours) }
    };
    let theirs = |point: u32| 1.0 / f64::from(point);
    let figures = (1..=points).flat_map(|point| {
        [figure("1f1b", point, theirs(point)), figure("zb-h1", point, theirs(point) / 2.0)]
    });
    let runs = vec![bare("1f1b", 1.0), bare("zb-h1", 1.1)];
    let mut summary = fixture::summary("cited", &[], runs);
    (summary.expectations, summary.published) = (Vec::new(), figures.collect());
    summary
}

#[test]
fn published_figures_of_one_metric_stand_in_a_grid() {
    let screen = screen(&cited(3), false);
    let published = screen.split_once("published beside ours\n").map(|(_, rest)| rest);
    insta::assert_snapshot!(published.expect("it is said"));
}

#[test]
fn published_figures_fit_the_screen_however_many() {
    for points in [2, 9, 10, 60] {
        let screen = screen(&cited(points), false);
        let grid = screen.lines().skip_while(|line| !line.contains("bubble fraction  "));
        let widest = grid.map(|line| line.chars().count()).max().expect("a grid");
        assert!((30..=100).contains(&widest), "{points}: {widest} columns");
    }
}

#[test]
fn runs_that_did_not_settle_and_orders_that_deadlock() {
    let mut unsteady = RunSummary { steady: Some(false), ..bare("zb-auto", 1.4) };
    unsteady.step_time_spread = Some(Spread { min_s: 1.3, mean_s: 1.4, max_s: 1.47, seeds: 5 });
    let failure = Failure {
        kind: FailureKind::Deadlock,
        message: "stage 0 and stage 1 wait for each other".to_owned(),
        time_s: Some(0.13),
        waiting: vec![
            "stage 0 waits for the message of backward 0 from stage 1".to_owned(),
            "stage 1 waits for the message of forward 3 from stage 0".to_owned(),
        ],
        ..Failure::default()
    };
    let deadlock =
        RunSummary { variant: "eager".to_owned(), failure: Some(failure), ..RunSummary::default() };
    unsteady.unsettled = Some(1);
    let summary = fixture::summary("odd-ends", &[], vec![unsteady, deadlock]);
    let summary = Summary { expectations: vec![], published: vec![], ..summary };
    insta::assert_snapshot!(screen(&summary, false));
}

#[test]
fn colour_adds_nothing_but_colour() {
    let summary = fixture::comparison();
    let coloured = screen(&summary, true);
    assert!(coloured.contains("\x1b[32m✓\x1b[0m") && coloured.contains("\x1b[31m✗\x1b[0m"));
    let mut plain = String::new();
    for piece in coloured.split('\x1b') {
        plain +=
            piece.strip_prefix('[').and_then(|rest| rest.split_once('m')).map_or(piece, |(_, text)| text);
    }
    assert_eq!(plain, screen(&summary, false));
}

/// A run whose device holds so much throughout and of activations.
fn holding(variant: &str, [held, activations]: [u64; 2]) -> RunSummary {
    let peak =
        DevicePeak { device: "stage 0".to_owned(), peak_bytes: held + activations, ..DevicePeak::default() };
    RunSummary {
        peak_memory_bytes: vec![peak],
        peak_activation_bytes: Some(activations),
        ..bare(variant, 1.0)
    }
}

#[test]
fn what_stays_is_told_of_all_variants_beside_their_peaks() {
    let kept = |of: &str, from: Option<&str>| KeptActivations {
        of: of.to_owned(),
        from: from.map(str::to_owned),
        kept_bytes: if from.is_some() { 1_500_000_000 } else { 0 },
        candidate_bytes: 12_000_000_000,
        needed_bytes_per_s: 23.2e9,
        measured_bytes_per_s: Some(if from.is_some() { 18.5e9 } else { 24.8e9 }),
    };
    let adaptive = RunSummary {
        kept: vec![kept("stage 0", Some("MLP of layer 4")), kept("stage 0, gpu1", None)],
        ..holding("adaptive", [8_000_000_000, 4_000_000_000])
    };
    let runs = vec![holding("keep", [8_000_000_000, 14_000_000_000]), adaptive];
    let summary = Summary { expectations: vec![], published: vec![], ..fixture::summary("kept", &[], runs) };
    insta::assert_snapshot!(screen(&summary, false));
    let mut page = Vec::new();
    reports::html::write(&mut page, &summary).expect("a vector takes every byte");
    let page = String::from_utf8(page).expect("text");
    assert!(page.contains("Which activations stay?") && page.contains("from MLP of layer 4 on"));
}
