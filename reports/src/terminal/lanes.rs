//! Threads and streams of devices, and where their time goes.

use std::io::{self, Write};

use super::{Style, section};
use crate::quantity;
use crate::summary::LaneTime;

/// Causes of a lane that are told.
const CAUSES: usize = 3;

/// A row a lane, below a heading; `share` is the title of the share in which lanes work.
pub(super) fn table(
    out: &mut impl Write,
    style: Style,
    (heading, share): (&str, &str),
    lanes: &[LaneTime],
) -> io::Result<()> {
    let titles = ["lane", ">works", share, "most", "then", "then"];
    section(out, style, heading, &titles, lanes.iter().map(row).collect())
}

/// A lane, and what it spends most of its time on.
fn row(lane: &LaneTime) -> Vec<String> {
    let (all, works) = (lane.all_s(), lane.works_s());
    let told = |(cause, time): (&str, f64)| format!("{cause} {}", quantity::percent(time / all));
    let mut cells = vec![lane.name.clone(), quantity::seconds(works), quantity::percent(works / all)];
    cells.extend(lane.by_time().into_iter().map(told).take(CAUSES));
    cells.resize(3 + CAUSES, String::new());
    cells
}
