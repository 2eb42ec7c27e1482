//! The timeline that can be zoomed: data of runs for a script that draws them on a canvas, with as
//! many spans as a page may hold.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value, json};

use crate::plots::palette::{css, of_state};
use crate::summary::{DetailedTimeline, RunSummary};

/// Spans, pieces and legs of critical paths of a page, all runs together.
const SPANS_MAX: usize = 100_000;
const PIECES_MAX: usize = 60_000;
const LEGS_MAX: usize = 20_000;
/// Steps of the clock from the begin of a step to its end.
const TICKS: u64 = 1 << 32;

/// d3-zoom with its licences, then what draws.
const SCRIPTS: [&str; 2] = [include_str!("d3.min.js"), include_str!("timeline.js")];
/// The style sheet of the timeline.
const STYLE: &str = include_str!("timeline.css");

/// The timeline of some runs, of which the one numbered `first` is shown first; without scripts
/// nothing.
pub(super) fn zoomable(runs: &[(String, &RunSummary)], first: usize) -> Markup {
    let [spans, pieces, legs] = [SPANS_MAX, PIECES_MAX, LEGS_MAX].map(|most| most / runs.len().max(1));
    let mut colours = Map::new();
    let written = runs.iter().filter_map(|(name, run)| {
        let mut detail = match (&run.detail, &run.timeline) {
            (Some(detail), _) => detail.clone(),
            (None, Some(timeline)) => DetailedTimeline::from(timeline),
            (None, None) => return None,
        };
        let joined = detail.join_until(spans);
        detail.keep_pieces(pieces);
        detail.join_path(legs);
        Some(described(name, &detail, joined, &mut colours))
    });
    let written: Vec<Value> = written.collect();
    let data = json!({ "first": first, "runs": written, "colours": colours });
    // Whatever a name has in it ends no script.
    let data = data.to_string().replace('<', "\\u003c");
    html! {
        div.zoomable hidden {
            style { (PreEscaped(STYLE)) }
            script.spans type="application/json" { (PreEscaped(data)) }
            @for script in SCRIPTS { script { (PreEscaped(script)) } }
        }
    }
}

/// A run for the script. Spans are flat lists of numbers: of each the distance from the one before,
/// its length, state, name, pattern plus one, and for how many it stands.
fn described(name: &str, detail: &DetailedTimeline, joined: u64, colours: &mut Map<String, Value>) -> Value {
    let tick = detail.end.div_ceil(TICKS).max(1);
    let at = |time: u64| time / tick;
    let lanes = detail.lanes.iter().map(|lane| {
        let mut until = 0;
        let mut numbers = Vec::with_capacity(lane.spans.len() * 6);
        for span in &lane.spans {
            let (start, end) = (at(span.start), at(span.end));
            let pattern = span.pattern.map_or(0, |pattern| u64::from(pattern) + 1);
            let [state, name, count] = [span.state, span.name, span.count].map(u64::from);
            numbers.extend([start - until, end - start, state, name, pattern, count]);
            until = end;
            let state = text(detail, span.state);
            if !colours.contains_key(state) {
                colours.insert(state.to_owned(), css(of_state(state)).into());
            }
        }
        json!({ "name": lane.name, "main": lane.is_main, "spans": packed(&numbers) })
    });
    let lanes: Vec<Value> = lanes.collect();
    let patterns = detail.patterns.iter().map(|pieces| {
        let mut until = 0;
        let mut numbers = Vec::with_capacity(pieces.len() * 4);
        for piece in pieces {
            let (start, end) = (at(piece.offset), at(piece.offset + piece.length));
            numbers.extend([start - until, end - start, piece.state.into(), piece.name.into()]);
            until = end;
            let state = text(detail, piece.state);
            if !colours.contains_key(state) {
                colours.insert(state.to_owned(), css(of_state(state)).into());
            }
        }
        packed(&numbers)
    });
    let patterns: Vec<String> = patterns.collect();
    let legs = detail.path.iter().flat_map(|leg| [leg.lane.into(), at(leg.from), at(leg.to)]);
    json!({
        "name": name,
        "tick": tick as f64 * 1e-12,
        "end": at(detail.end),
        "joined": joined as f64 * 1e-12,
        "texts": used_texts(detail),
        "lanes": lanes,
        "patterns": patterns,
        "path": packed(&legs.collect::<Vec<u64>>()),
    })
}

/// Texts by number; those of spans that were joined are empty.
fn used_texts(detail: &DetailedTimeline) -> Vec<&str> {
    let mut texts = vec![""; detail.texts.len()];
    let spans = detail.lanes.iter().flat_map(|lane| &lane.spans).map(|span| [span.state, span.name]);
    let pieces = detail.patterns.iter().flatten().map(|piece| [piece.state, piece.name]);
    spans.chain(pieces).flatten().for_each(|number| texts[number as usize] = text(detail, number));
    texts
}

/// Numbers as one text, which a script reads faster than a list.
fn packed(numbers: &[u64]) -> String {
    let mut text = String::new();
    for (index, number) in numbers.iter().enumerate() {
        let separator = if index == 0 { "" } else { " " };
        // Base 36 is the shortest that JavaScript reads.
        write!(text, "{separator}{}", Base36(*number)).expect("a text takes everything");
    }
    text
}

struct Base36(u64);

impl std::fmt::Display for Base36 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut digits = [0u8; 13];
        let (mut at, mut rest) = (digits.len(), self.0);
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        digits[at..].iter().try_for_each(|&digit| formatter.write_char(digit.into()))
    }
}

fn text(detail: &DetailedTimeline, text: u32) -> &str {
    detail.texts.get_index(text as usize).map_or("", String::as_str)
}
