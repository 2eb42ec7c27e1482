//! Campaigns of the runs of a point, and what that of the shown run rests on.

use std::io::{self, Write};

use super::{Style, clean, section};
use crate::campaign::{TITLES, cells, facts};
use crate::summary::RunSummary;

/// The table and the facts; nothing where no run has a campaign.
pub(super) fn campaigns(
    out: &mut impl Write,
    style: Style,
    runs: &[&RunSummary],
    (shown, named): (&RunSummary, &str),
) -> io::Result<()> {
    let row = |run: &&RunSummary| {
        let cells = cells(run.campaign.as_ref()?).into_iter().map(|cell| cell.text);
        Some([run.variant.clone()].into_iter().chain(cells).collect())
    };
    let rows: Vec<Vec<String>> = runs.iter().filter_map(row).collect();
    section(out, style, "the whole training run", &TITLES, rows)?;
    let Some(campaign) = &shown.campaign else { return Ok(()) };
    writeln!(out, "\n{}", style.bold(&clean(&format!("behind the training run of {named}"))))?;
    for (subject, text) in facts(campaign) {
        writeln!(out, "  {subject:10}  {}", clean(&text))?;
    }
    Ok(())
}
