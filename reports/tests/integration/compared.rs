//! Two runs side by side.

use indexmap::IndexMap;
use reports::compared::{self, Compared, Row, Side};
use reports::summary::RunSummary;
use reports::terminal::Style;

use crate::fixture::comparison;

/// Lines of a screen.
const LINES_MAX: usize = 25;

fn side<'a>(name: &str, run: &'a RunSummary) -> Side<'a> {
    let settings = IndexMap::from([
        ("training.micro_batches".to_owned(), "24".to_owned()),
        ("name".to_owned(), name.to_owned()),
    ]);
    Side { name: name.to_owned(), source: format!("out/{name}"), run, settings: Some(settings) }
}

fn sum(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.difference().expect("both runs have it")).sum()
}

/// Every pair, in both orders.
#[test]
fn causes_add_up_to_the_difference_of_the_steps() {
    let summary = comparison();
    let runs: Vec<&RunSummary> = summary.variants.iter().filter(|run| run.fits).collect();
    let mut pairs = 0;
    for a in &runs {
        for b in &runs {
            let there = Compared::of(&side("a", a), &side("b", b));
            let back = Compared::of(&side("b", b), &side("a", a));
            let difference = there.step.difference().expect("both fit");
            assert!((sum(&there.time) - difference).abs() < 1e-9, "{}: {difference}", there.finding);
            assert!((sum(&back.time) + difference).abs() < 1e-9, "{}", back.finding);
            assert_eq!(there.time.len(), back.time.len());
            pairs += 1;
        }
    }
    assert!(pairs > 20, "{pairs}");
}

/// Bounds of kernels stand in place of compute where both runs know them.
#[test]
fn kernels_are_told_by_what_bounds_them() {
    let whole = comparison().variants.into_iter().find(|run| run.fits).expect("one fits");
    let split = |bytes: f64| {
        let mut run = whole.clone();
        let compute = run.time_breakdown_s["compute"];
        run.step_time_s = run.step_time().map(|step| step + bytes);
        run.time_breakdown_s["compute"] += bytes;
        let parts = [("compute: bytes", bytes), ("compute: occupancy", compute)];
        run.kernel_time_s = parts.map(|(part, time)| (part.to_owned(), time)).into_iter().collect();
        run
    };
    let (little, much) = (split(0.1), split(0.3));
    let compared = Compared::of(&side("much", &much), &side("little", &little));
    assert_eq!(compared.time[0].what, "compute: bytes");
    assert!((compared.time[0].difference().unwrap_or_default() + 0.2).abs() < 1e-9, "{:?}", compared.time);
    assert!(
        (sum(&compared.time) + 0.2).abs() < 1e-9 && !compared.time.iter().any(|row| row.what == "compute")
    );
    let unknown = Compared::of(&side("much", &much), &side("whole", &whole));
    assert!(unknown.time.iter().any(|row| row.what == "compute"));
}

/// Time that no cause has is a row of its own.
#[test]
fn time_without_a_cause_is_told() {
    let whole = comparison().variants.into_iter().find(|run| run.fits).expect("one fits");
    let mut without = whole.clone();
    without.time_breakdown_s.shift_remove("compute");
    let compared = Compared::of(&side("whole", &whole), &side("without", &without));
    assert!((sum(&compared.time)).abs() < 1e-9, "the steps are equal");
    let row = compared.time.iter().find(|row| row.what == "not by cause").expect("a row");
    assert!((row.values[1].unwrap_or_default() - whole.time_breakdown_s["compute"]).abs() < 1e-9);
}

#[test]
fn the_answer_has_15_words_and_fits_on_a_screen() {
    let summary = comparison();
    for a in &summary.variants {
        for b in &summary.variants {
            let compared = Compared::of(&side(&a.variant, a), &side(&b.variant, b));
            let words = compared.finding.split_whitespace().count();
            assert!(words <= 15, "{words} words: {}", compared.finding);
            let mut out = Vec::new();
            compared::terminal(&mut out, &compared, false, Style::default()).expect("a buffer");
            let text = String::from_utf8(out).expect("UTF-8");
            assert!(text.lines().count() < LINES_MAX, "{text}");
        }
    }
}

/// Memory that ran out is compared by who held it.
#[test]
fn a_run_that_does_not_fit_is_told_beside_one_that_does() {
    let summary = comparison();
    let failed = summary.variants.iter().find(|run| !run.fits).expect("one does not fit");
    let fits = summary.variants.iter().find(|run| run.fits).expect("one fits");
    let compared = Compared::of(&side("fits", fits), &side("failed", failed));
    assert!(compared.finding.starts_with("failed does not fit"), "{}", compared.finding);
    assert!(compared.time.is_empty(), "a step is compared with none");
    assert!(!compared.memory.is_empty());
}

#[test]
fn markdown_is_safe_for_a_table() {
    let run = comparison().variants.into_iter().find(|run| run.fits).expect("one fits");
    let hostile = side("a|b <img>", &run);
    let mut out = Vec::new();
    compared::markdown(&mut out, &Compared::of(&hostile, &side("plain", &run))).expect("a buffer");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.contains("a\\|b \\<img>"), "{text}");
    let columns =
        text.lines().filter(|line| line.starts_with("| **")).map(|line| line.matches(" | ").count());
    assert!(columns.clone().count() > 0 && columns.clone().all(|count| count == 3), "{text}");
}
