//! Threads and streams of devices, and where their time goes.

use maud::Markup;

use super::figure;
use super::time::{breakdown, states};
use crate::plots::{PlotError, rows};
use crate::summary::LaneTime;

/// Lanes of the chart.
const LANES_MAX: usize = 32;

/// A bar a lane, by cause.
pub(super) fn chart(question: &str, aid: &str, lanes: &[LaneTime]) -> Result<Markup, PlotError> {
    let shown = || lanes.iter().take(LANES_MAX);
    let bars: Vec<_> = shown().map(|lane| breakdown(&lane.name, &lane.time_s, String::new)).collect();
    let legend = states(shown().map(|lane| &lane.time_s));
    Ok(figure(question, aid, &legend, &rows::draw(question, &bars)?))
}
