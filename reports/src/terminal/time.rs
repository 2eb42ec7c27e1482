//! States of a step, with bars.

use super::{Style, clean, shorten};
use crate::quantity;
use crate::ranking::Comparison;
use crate::state;
use crate::summary::RunSummary;

/// Shares of the step below this are not worth a line; they are in the files.
const SHARE_MIN: f64 = 0.0005;
/// Characters of the longest bar.
const BAR: f64 = 24.0;

/// A heading, and a line for each state of the compute lane: of more than `most` the largest. Empty
/// where the run has no step.
pub(super) fn lines(run: &RunSummary, comparison: &Comparison<'_>, most: usize, style: Style) -> Vec<String> {
    let step: f64 = run.time_breakdown_s.values().sum();
    if step.is_nan() || step <= 0.0 {
        return Vec::new();
    }
    let named = comparison.naming.run(run);
    let heading = match run.program {
        Some(_) => format!("where an iteration of {named} goes on the GPU, mean over the later half"),
        None => format!("where the step of {named} goes"),
    };
    let mut shown: Vec<f64> = run.time_breakdown_s.values().copied().collect();
    shown.sort_by(|a, b| b.total_cmp(a));
    let least = shown.get(most).copied().unwrap_or(0.0).max(step * SHARE_MIN);
    let parts = || state::in_order(&run.time_breakdown_s).filter(|(_, time)| *time >= least).take(most);
    let width = parts().map(|(state, _)| shorten(state).chars().count()).max().unwrap_or_default();
    let bars = BAR.min(style.width.saturating_sub(width + 24) as f64);
    let heading = style.bold(&clean(&heading));
    let line = |(state, time): (&str, f64)| {
        let share = time / step;
        let (state, time) = (shorten(state), quantity::seconds(time));
        let share_text = quantity::percent(share);
        let line = format!("  {state:width$}  {time:>8}  {share_text:>7}  {}", bar(share, bars));
        line.trim_end().to_owned()
    };
    [heading].into_iter().chain(parts().map(line)).collect()
}

/// A bar of at most `longest` characters, to an eighth of a character.
fn bar(share: f64, longest: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * longest * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}
