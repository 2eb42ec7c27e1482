//! The files programs read.

use reports::{Summary, csv, json};

use crate::fixture;

fn json_text(summary: &Summary) -> String {
    let mut out = Vec::new();
    json::write(&mut out, summary).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

fn csv_text(summary: &Summary) -> String {
    let mut out = Vec::new();
    csv::write(&mut out, summary).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

#[test]
fn json_of_a_comparison() {
    let mut summary = fixture::comparison();
    summary.variants.truncate(2);
    insta::assert_snapshot!(json_text(&summary));
}

#[test]
fn csv_of_a_sweep() {
    let mut summary = fixture::sweep();
    summary.variants.truncate(9);
    insta::assert_snapshot!(csv_text(&summary));
}

#[test]
fn json_reads_back_to_the_same_summary() {
    let mut summary = fixture::sweep();
    for run in &mut summary.variants {
        run.timeline = None;
        run.memory_curves.clear();
    }
    let back: Summary = serde_json::from_str(&json_text(&summary)).expect("what was written can be read");
    assert!(back == summary);
}

#[test]
fn what_has_no_meaning_is_absent_never_null() {
    let mut summary = fixture::comparison();
    summary.variants[0].mfu = Some(f64::NAN);
    summary.variants[0].samples_per_s = Some(f64::INFINITY);
    summary.variants[0].provenance.insert("nothing".to_owned(), f64::NAN);
    let text = json_text(&summary);
    assert!(!text.contains("null") && !text.contains("mfu") && !text.contains("\"nothing\""));
    assert!(!csv_text(&summary).contains("NaN"));
}

#[test]
fn rows_with_different_fields_share_one_order_of_columns() {
    let summary = fixture::summary("x", &[], vec![fixture::too_big("a", 5), fixture::bare("b", 1.0)]);
    let text = csv_text(&summary);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("variant,fits,step_time_s,failure.kind,failure.message,failure.store,failure.short_bytes")
    );
    assert_eq!(lines.next(), Some("a,false,,out-of-memory,stage 0 ran out of memory,stage 0,5"));
    assert_eq!(lines.next(), Some("b,true,1.0,,,,"));
}
