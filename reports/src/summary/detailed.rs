//! Timelines that open: visits of micro-batches, and within them operators, of every lane of a
//! step.

use std::mem;

use indexmap::IndexSet;

use super::Timeline;

/// Activities of every lane in one step, in picoseconds from its begin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetailedTimeline {
    /// The end of the step.
    pub end: u64,
    /// Texts that spans and pieces name.
    pub texts: IndexSet<String>,
    /// Lanes, those of a rank one after the other.
    pub lanes: Vec<DetailedLane>,
    /// Contents of spans; those that are alike share a pattern.
    pub patterns: Vec<Vec<Piece>>,
    /// The critical path, ascending.
    pub path: Vec<PathLeg>,
}

/// A stream of a rank, or a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetailedLane {
    /// Its name.
    pub name: String,
    /// True for the lane on which its rank computes.
    pub is_main: bool,
    /// In order of time, without overlap.
    pub spans: Vec<DetailedSpan>,
}

/// A stretch of time of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailedSpan {
    /// From,
    pub start: u64,
    /// to.
    pub end: u64,
    /// Its state, a text.
    pub state: u32,
    /// Its name, a text.
    pub name: u32,
    /// Its pieces, if they are kept.
    pub pattern: Option<u32>,
    /// Number of spans that it stands for.
    pub count: u32,
}

/// A part of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// From the begin of the span.
    pub offset: u64,
    /// How long it takes.
    pub length: u64,
    /// Its state, a text.
    pub state: u32,
    /// Its name, a text.
    pub name: u32,
}

/// A part of the critical path on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLeg {
    /// Index of the lane.
    pub lane: u32,
    /// From,
    pub from: u64,
    /// to.
    pub to: u64,
}

impl DetailedTimeline {
    /// The number of a text, added if new.
    pub fn text(&mut self, text: &str) -> u32 {
        let known = self.texts.get_index_of(text);
        known.unwrap_or_else(|| self.texts.insert_full(text.to_owned()).0) as u32
    }

    /// Spans of all lanes.
    pub fn count(&self) -> usize {
        self.count_of(|_| true)
    }

    /// Joins neighbours too short to be told apart, more and more, until there are at most `most`
    /// spans or one a lane; gives how long each is then at least. Lanes beside those that compute
    /// are joined first, to a quarter of them.
    pub fn join_until(&mut self, most: usize) -> u64 {
        let beside = |lane: &&DetailedLane| !lane.is_main;
        let mut shortest = 0;
        while self.count() > most && self.count_of(beside) > most / 4 && shortest < self.end {
            shortest = longer(shortest, self.end);
            self.lanes.iter_mut().filter(|lane| !lane.is_main).for_each(|lane| lane.join(shortest));
        }
        let mut least = 0;
        while self.count() > most && least < self.end {
            least = longer(least, self.end);
            self.lanes.iter_mut().for_each(|lane| lane.join(least));
        }
        shortest.max(least)
    }

    fn count_of(&self, lanes: impl Fn(&&DetailedLane) -> bool) -> usize {
        self.lanes.iter().filter(lanes).map(|lane| lane.spans.len()).sum()
    }

    /// Leaves at most `most` legs on the critical path: those that last, as long as all can be
    /// seen.
    pub fn join_path(&mut self, most: usize) {
        let mut shortest = 0;
        while self.path.len() > most && shortest < self.end {
            shortest = longer(shortest, self.end);
            let mut joined: Vec<PathLeg> = Vec::new();
            for &leg in &self.path {
                match joined.last_mut() {
                    Some(last) if last.lane == leg.lane && leg.from.saturating_sub(last.to) < shortest => {
                        last.to = leg.to;
                    }
                    // What is too short to be seen is passed over.
                    Some(_) if leg.to - leg.from < shortest => {}
                    _ => joined.push(leg),
                }
            }
            self.path = joined;
        }
    }

    /// Keeps patterns that are used most, with at most `most` pieces in all.
    pub fn keep_pieces(&mut self, most: usize) {
        let mut uses = vec![0u32; self.patterns.len()];
        for pattern in self.lanes.iter().flat_map(|lane| &lane.spans).filter_map(|span| span.pattern) {
            uses[pattern as usize] += 1;
        }
        let mut order: Vec<usize> = (0..uses.len()).filter(|&pattern| uses[pattern] > 0).collect();
        order.sort_by_key(|&pattern| std::cmp::Reverse(uses[pattern]));
        let (mut kept, mut pieces) = (vec![None; uses.len()], 0);
        let mut patterns = Vec::new();
        for pattern in order {
            pieces += self.patterns[pattern].len();
            if pieces > most {
                break;
            }
            kept[pattern] = Some(patterns.len() as u32);
            patterns.push(mem::take(&mut self.patterns[pattern]));
        }
        self.patterns = patterns;
        for span in self.lanes.iter_mut().flat_map(|lane| &mut lane.spans) {
            span.pattern = span.pattern.and_then(|pattern| kept[pattern as usize]);
        }
    }
}

impl From<&Timeline> for DetailedTimeline {
    /// A timeline that has no more than its rows.
    fn from(timeline: &Timeline) -> Self {
        let picoseconds = |seconds: f64| (seconds * 1e12).round().max(0.0) as u64;
        let mut detail = Self { end: picoseconds(timeline.end_s), ..Self::default() };
        for row in &timeline.rows {
            let mut until = 0;
            let spans = row.spans.iter().map(|span| {
                let start = picoseconds(span.start_s).max(until);
                until = picoseconds(span.end_s).max(start);
                let state = detail.text(&span.state);
                let name = if span.label.is_empty() { state } else { detail.text(&span.label) };
                DetailedSpan { start, end: until, state, name, pattern: None, count: 1 }
            });
            let spans = spans.collect();
            detail.lanes.push(DetailedLane { name: row.name.clone(), is_main: true, spans });
        }
        detail
    }
}

/// The next length below which spans are joined, in a step of a length.
const fn longer(shortest: u64, step: u64) -> u64 {
    let (next, least) = (shortest + shortest / 2, step / (1 << 20) + 1);
    if next > least { next } else { least }
}

impl DetailedLane {
    /// Joins neighbours until each joint lasts at least `shortest`; it has the state and the name
    /// that most of it has. Gaps that are as long stay.
    fn join(&mut self, shortest: u64) {
        let mut joined: Vec<DetailedSpan> = Vec::new();
        // The longest of the spans of the last joint.
        let mut longest = 0;
        for span in mem::take(&mut self.spans) {
            let length = span.end - span.start;
            match joined.last_mut() {
                Some(last) if last.end - last.start < shortest && span.start - last.end < shortest => {
                    last.end = span.end;
                    last.count += span.count;
                    last.pattern = None;
                    if length > longest {
                        (last.state, last.name, longest) = (span.state, span.name, length);
                    }
                }
                _ => {
                    joined.push(span);
                    longest = length;
                }
            }
        }
        self.spans = joined;
    }
}
