//! A search: the front, other kinds of plans, slower parts, and what became of all plans.

use std::io::{self, Write};

use super::{Style, section};
use crate::quantity;
use crate::searched::{beside, broken, extreme, front, outcomes};
use crate::summary::Summary;

/// Rules that are told where no plan fits.
const RULES_MAX: usize = 8;

/// The tables; nothing where all points were run.
pub(super) fn search(out: &mut impl Write, style: Style, summary: &Summary) -> io::Result<()> {
    let Some(proof) = &summary.search else { return Ok(()) };
    if let Some(asked) = &proof.extreme {
        let titles = extreme::titles(asked);
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        section(out, style, "values that were tried", &titles, extreme::rows(asked))?;
        let titles = extreme::titles_without(asked);
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        section(out, style, "without each technique", &titles, extreme::without(asked))?;
    }
    if let Some(titles) = front::titles(proof) {
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let rows = front::rows(proof, &summary.variants);
        section(out, style, "plans that no other beats in all objectives", &titles, rows)?;
    }
    if let Some(best) = summary.variants.first() {
        let titles = beside::titles(proof);
        let rows = beside::alternatives(proof, best);
        section(out, style, "other kinds of plans", &titles.each_ref().map(String::as_str), rows)?;
    }
    section(out, style, "on slower parts", &beside::CHANGES, beside::changes(proof))?;
    let row = |(what, plans): (String, u64)| {
        vec![what, plans.to_string(), quantity::percent(plans as f64 / proof.plans as f64)]
    };
    let rows = outcomes(proof).into_iter().map(row).collect();
    section(out, style, "what became of the plans", &["outcome", ">plans", ">share"], rows)?;
    if proof.fit == 0 {
        let row = |(rule, plans): (&str, u64)| vec![rule.to_owned(), plans.to_string()];
        let rows = broken(proof).take(RULES_MAX).map(row).collect();
        section(out, style, "which rules plans break most", &["rule", ">plans"], rows)?;
    }
    Ok(())
}
