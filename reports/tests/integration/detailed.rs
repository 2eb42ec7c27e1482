//! Timelines that open: joined until they fit, and read by a script.

use reports::html;
use reports::summary::{
    DetailedLane, DetailedSpan, DetailedTimeline, PathLeg, Piece, RunSummary, Timeline, TimelineRow,
};

use crate::fixture::{bare, summary};

/// Visits of 10 us each, of two kinds, with pieces, and a path that goes to and fro between two
/// lanes.
fn timeline(visits: u64) -> DetailedTimeline {
    let mut detail = DetailedTimeline { end: visits * 10_000_000, ..DetailedTimeline::default() };
    let [compute, forward, backward, gemm] =
        ["compute: forward", "forward", "backward", "gemm <1>"].map(|text| detail.text(text));
    let span = |number: u64| DetailedSpan {
        start: number * 10_000_000,
        end: number * 10_000_000 + 9_000_000,
        state: compute,
        name: if number.is_multiple_of(3) { backward } else { forward },
        pattern: Some(u32::from(number.is_multiple_of(3))),
        count: 1,
    };
    for name in ["stage 0", "stage 1"] {
        let spans = (0..visits).map(span).collect();
        detail.lanes.push(DetailedLane { name: name.to_owned(), is_main: true, spans });
    }
    let piece = |offset| Piece { offset, length: 1_000_000, state: compute, name: gemm };
    detail.patterns = vec![(0..9).map(|at| piece(at * 1_000_000)).collect(), vec![piece(0)]];
    let leg = |number: u64| PathLeg {
        lane: (number % 2) as u32,
        from: number * 10_000_000,
        to: number * 10_000_000 + 10_000_000,
    };
    detail.path = (0..visits).map(leg).collect();
    detail
}

#[test]
fn joining_keeps_every_span_and_all_that_can_be_seen() {
    let mut detail = timeline(100_000);
    let shortest = detail.join_until(1_000);
    assert!(shortest > 0 && detail.count() <= 1_000 && detail.count() > 200, "{}", detail.count());
    for lane in &detail.lanes {
        assert_eq!(lane.spans.iter().map(|span| span.count).sum::<u32>(), 100_000);
        assert_eq!((lane.spans[0].start, lane.spans[lane.spans.len() - 1].end), (0, 999_999_000_000));
        assert!(lane.spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
    let mut few = timeline(100);
    assert_eq!((few.join_until(1_000), few), (0, timeline(100)));
}

#[test]
fn a_path_is_thinned_where_nobody_sees_it() {
    let mut detail = timeline(100_000);
    detail.join_path(500);
    assert!((1..=500).contains(&detail.path.len()), "{}", detail.path.len());
    assert!(detail.path.windows(2).all(|pair| pair[0].to <= pair[1].from));
    let mut few = timeline(100);
    few.join_path(500);
    assert_eq!(few.path.len(), 100);
}

#[test]
fn pieces_used_most_are_kept() {
    let mut detail = timeline(99);
    detail.keep_pieces(9);
    assert_eq!(detail.patterns.len(), 1);
    assert_eq!(detail.patterns[0].len(), 9, "two in three visits have them");
    let opened = detail.lanes[0].spans.iter().filter(|span| span.pattern == Some(0)).count();
    assert_eq!(opened, 66);
}

fn page(run: RunSummary) -> String {
    let mut out = Vec::new();
    html::write(&mut out, &summary("detailed", &[], vec![run])).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_page_holds_a_run_of_any_length_in_few_megabytes() {
    let rows = vec![TimelineRow { name: "stage 0".to_owned(), spans: Vec::new() }];
    let timeline_of = |detail: DetailedTimeline| RunSummary {
        timeline: Some(Timeline { end_s: 1.0, rows: rows.clone() }),
        detail: Some(detail),
        ..bare("plain", 1.0)
    };
    let long = page(timeline_of(timeline(1_000_000)));
    assert!(long.len() < 4_000_000, "{} bytes", long.len());
    let short = page(timeline_of(timeline(10)));
    let data = short.split("<script class=\"spans\" type=\"application/json\">").nth(1).expect("data");
    let data = data.split("</script>").next().expect("its end");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let run = &data["runs"][0];
    assert_eq!(run["texts"][3], "gemm <1>");
    assert_eq!(run["end"], 100_000_000);
    // Gap, length, state, name, pattern plus one, count; in base 36.
    let spans = run["lanes"][1]["spans"].as_str().expect("text");
    assert!(spans.starts_with("0 5cwg0 0 2 2 1 lfls 5cwg0 0 1 1 1 "), "{spans}");
    assert_eq!(run["patterns"][1], "0 lfls 0 3");
    assert!(
        run["path"].as_str().is_some_and(|path| path.starts_with("0 0 5yc1s 1 5yc1s ")),
        "{}",
        run["path"]
    );
}
