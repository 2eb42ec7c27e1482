//! What `validate` says of a tiny set, on the terminal, on the page and in files.

use indexmap::IndexMap;
use reports::summary::{CommonError, Uncertainty};
use reports::terminal::Style;
use reports::validation::{
    self, Intervals, LeftOut, MeasuredPlan, Pairs, Part, Regret, Row, SetResult, Tolerance, Unit, Validation,
};

#[test]
fn the_terminal_names_the_worst_row_and_what_was_left_out() {
    let mut text = Vec::new();
    validation::terminal::write(&mut text, &tiny(), Style::default()).unwrap();
    insta::assert_snapshot!("terminal_of_a_tiny_set", String::from_utf8(text).unwrap());
}

#[test]
fn the_csv_has_every_row() {
    let mut text = Vec::new();
    validation::csv::write(&mut text, &tiny()).unwrap();
    insta::assert_snapshot!("csv_of_a_tiny_set", String::from_utf8(text).unwrap());
}

#[test]
fn the_page_has_a_plot_and_the_words_of_the_set() {
    let mut page = Vec::new();
    validation::html(&mut page, &tiny()).unwrap();
    let page = String::from_utf8(page).unwrap();
    for expected in [
        "<svg",
        "Two clusters &amp; a &lt;script&gt;",
        "Nothing was fitted.",
        "within",
        "beyond",
        "no room",
        "Best known: 8 %",
        "tiny.csv, MIT",
        "25.0 % on average, 25.0 % at worst in 1 group of 4.0 plans",
        "data 2, tensor 4: 1.25 s, ours 1.10 s",
        "&lt;7b&gt;",
        "smaller (at most 2)",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!page.contains("<script>") && !page.contains("NaN"), "cells are text, numbers are numbers");
}

#[test]
fn a_set_passes_with_all_its_parts_and_never_without_rows() {
    let part = |limit, rows| {
        Part::new(String::new(), Tolerance { mape: Some(limit), ..Tolerance::default() }, rows, vec![])
    };
    assert!(part(0.1, rows()[..1].to_vec()).passed);
    assert!(!part(0.04, rows()).passed);
    assert!(!part(1.0, Vec::new()).passed);
    assert!(!tiny().passed());
    let ranked = Tolerance { kendall_tau: Some(0.9), ..Tolerance::default() };
    assert!(Part::new(String::new(), ranked, rows(), Vec::new()).passed);
    let biased = Tolerance { bias: Some(0.01), ..Tolerance::default() };
    assert!(!Part::new(String::new(), biased, rows(), Vec::new()).passed, "too fast is as bad as too slow");
}

/// Sets of few rows are told in the singular, and without figures where there is none.
#[test]
fn a_set_of_one_row_or_none_is_told_so() {
    let told = |rows: Vec<Row>| {
        let close = Tolerance { mape: Some(0.2), ..Tolerance::default() };
        let parts = vec![Part::new(String::new(), close, rows, Vec::new())];
        let set = SetResult { name: "few".to_owned(), parts, ..SetResult::default() };
        let few = Validation::new("0.0.0".to_owned(), "foretrain validate few".to_owned(), vec![set]);
        let mut text = Vec::new();
        validation::brief::write(&mut text, &few, Style::default()).unwrap();
        String::from_utf8(text).unwrap()
    };
    let one = told(rows()[..1].to_vec());
    assert!(one.starts_with("One measurement: it is within what is to be reached."), "{one}");
    let none = told(Vec::new());
    assert!(none.starts_with("No measurement could be predicted."), "{none}");
    assert!(!none.contains("NaN") && !none.contains("0 of 0"), "{none}");
}

/// Two rows, 5 % slow and 25 % fast.
fn rows() -> Vec<Row> {
    let row = |line: u32, gpus: u32, measured: f64, predicted: f64, waiting: f64| Row {
        place: format!("tiny.csv:{line}"),
        inputs: IndexMap::from([("gpus".to_owned(), gpus.to_string())]),
        unit: Unit::Seconds,
        measured,
        predicted,
        shares: IndexMap::from([
            ("compute".to_owned(), 1.0 - waiting),
            ("communication: all-reduce".to_owned(), waiting),
        ]),
        interval: Some([0.9 * predicted, 1.1 * predicted]),
        uncertainty: Some(Uncertainty {
            errors: IndexMap::from([("all".to_owned(), CommonError { weight: 1.0, deviation: 0.06 })]),
            ..Uncertainty::default()
        }),
        explanation: (gpus == 16).then(|| "its switch was shared".to_owned()),
        evidence: None,
    };
    vec![row(3, 8, 1.0, 1.05, 0.1), row(4, 16, 4.0, 3.0, 0.4)]
}

fn tiny() -> Validation {
    let close = Tolerance { mape: Some(0.2), bias: Some(0.15), ..Tolerance::default() };
    let far = Tolerance { median: Some(0.04), p95: Some(0.2), ..Tolerance::default() };
    let too_large = LeftOut {
        place: "tiny.csv:5".to_owned(),
        inputs: IndexMap::from([("gpus".to_owned(), "32".to_owned())]),
        reason: "no room for 3.00 GB".to_owned(),
    };
    let first_reading = Some(0.3);
    let parts = vec![
        Part {
            first_reading,
            ..Part::new("a100".to_owned(), close, rows(), vec![too_large.clone(), too_large])
        },
        Part::new("h100".to_owned(), far, rows(), Vec::new()),
    ];
    let all = || parts.iter().flat_map(|part| &part.rows);
    let set = SetResult {
        name: "tiny".to_owned(),
        title: "Two clusters & a <script>".to_owned(),
        sources: vec!["tiny.csv, MIT".to_owned()],
        protocol: "Nothing was fitted.".to_owned(),
        best_known: Some("8 %".to_owned()),
        intervals: Intervals::of(all()),
        pairs: Pairs::of(all(), &["gpus".to_owned()]),
        regret: Some(Regret::new(plans())),
        parts,
    };
    let smaller = SetResult {
        name: "smaller".to_owned(),
        regret: Some(Regret::new(plans().into_iter().take(2))),
        ..SetResult::default()
    };
    Validation::new("0.0.0".to_owned(), "foretrain validate tiny".to_owned(), vec![set, smaller])
}

/// Four plans of one model: the second is predicted fastest, the first was measured fastest.
fn plans() -> Vec<MeasuredPlan> {
    let cells = |cells: &[(&str, &str)]| {
        cells.iter().map(|(column, cell)| ((*column).to_owned(), (*cell).to_owned())).collect()
    };
    let plan = |data: &str, tensor: &str, measured: f64, predicted: f64| MeasuredPlan {
        place: format!("tiny.csv:{data}"),
        work: cells(&[("model", "<7b>"), ("gpus", "8")]),
        choices: cells(&[("data", data), ("tensor", tensor), ("pipeline", "1")]),
        measured,
        predicted: Some(predicted),
        ranks_and_micro_batch: Some([data.parse().unwrap(), 0]),
    };
    let times = [(1.0, 1.2), (1.25, 1.1), (1.5, 1.6), (2.0, 1.7)];
    let ranks = [("4", "2"), ("2", "4"), ("8", "1"), ("1", "8")];
    ranks.iter().zip(times).map(|((data, tensor), (ours, theirs))| plan(data, tensor, ours, theirs)).collect()
}

/// Verdicts on memory are counted, and each wrong one is told with what it rests on.
#[test]
fn wrong_verdicts_are_told_with_what_they_rest_on() {
    let row = |line: u32, measured: f64, predicted: f64, evidence: &str| Row {
        place: format!("runs.csv:{line}"),
        unit: Unit::Verdict,
        measured,
        predicted,
        evidence: Some(evidence.to_owned()),
        ..Row::default()
    };
    let rows = vec![
        row(2, 1.0, 1.0, "needs 39.0 GB of 42.9 GB"),
        row(3, 1.0, 0.0, "64.0 MB short"),
        row(4, 1.0, 1.0, "needs 42.0 GB of 42.9 GB"),
        row(5, 1.0, 1.0, "needs 41.0 GB of 42.9 GB"),
    ];
    let limit = |mape| Tolerance { mape: Some(mape), ..Tolerance::default() };
    assert!(!Part::new("ran".to_owned(), limit(0.2), rows.clone(), Vec::new()).passed);
    let part = Part::new("ran".to_owned(), limit(0.25), rows, Vec::new());
    assert!(part.passed && part.statistics.mape == 0.25 && part.statistics.bias == -0.25);
    let set = SetResult { name: "fits".to_owned(), parts: vec![part], ..SetResult::default() };
    let found = Validation { sets: vec![set], ..tiny() };
    let mut text = Vec::new();
    validation::terminal::write(&mut text, &found, Style::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("fits, ran: 4 runs, 3 said to fit, 1 said not to"), "{text}");
    assert!(text.contains("measured fits, ours does not fit: 64.0 MB short"), "{text}");
    assert!(text.contains("runs.csv:3") && !text.contains("runs.csv:2"), "{text}");
    let mut page = Vec::new();
    validation::html(&mut page, &found).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("64.0 MB short") && !page.contains("42.0 GB of"), "the wrong ones alone");
    assert!(!page.contains("<svg"), "a verdict is no point of a plot");
}
