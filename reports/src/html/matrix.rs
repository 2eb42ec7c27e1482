//! Every variant at every point in one table, shaded by how close it comes to the fastest there.

use maud::{Markup, html};

use super::Page;
use crate::finding::verdict;
use crate::matrix::{Cell, Down, Matrix};
use crate::quantity;
use crate::ranking::Speed;
use crate::table::used;
use crate::wording::unbroken;

/// Points side by side; more stand one below the other.
const SIDE_BY_SIDE_MAX: usize = 9;
const ROWS_MAX: usize = 60;
const COLUMNS_MAX: usize = 24;

pub(super) fn figure(page: &Page<'_>) -> Markup {
    let down = if page.points().len() <= SIDE_BY_SIDE_MAX { Down::Variants } else { Down::Points };
    let matrix = Matrix::of(&page.comparison, down, ROWS_MAX, COLUMNS_MAX);
    let names = matrix.rows.first().map_or(0, |row| row.names.len());
    let better = if page.speed() == Speed::Steps { "lower" } else { "higher" };
    html! {
        figure {
            figcaption {
                h3 { "How do the variants compare at every point?" }
                p.aid {
                    "The " (page.speed().title()) ", " (better) " is better: bold is the fastest of its point, the paler a cell the farther behind. Point at a cell for more."
                    @if !matrix.complete { " Some are left out; all are in results.csv." }
                }
            }
            div.wide {
                table.matrix {
                    thead {
                        @for line in &matrix.head {
                            tr { @for (column, title) in line.iter().enumerate() { th.number[column >= names] { (unbroken(title)) } } }
                        }
                    }
                    tbody {
                        @for row in &matrix.rows {
                            tr {
                                @for name in &row.names { th scope="row" { (unbroken(name)) } }
                                @for cell in &row.cells { (one(page, cell)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn one(page: &Page<'_>, cell: &Cell<'_>) -> Markup {
    // Half as fast as the fastest and slower is as pale as it gets.
    let shade = cell.share.map(|share| format!("--shade:{:.0}%", (share * 2.0 - 1.0).clamp(0.0, 1.0) * 45.0));
    html! {
        td.number.leads[cell.leads()].failed[cell.share.is_none()] style=[shade] title=[hover(page, cell)] { (unbroken(&cell.text)) }
    }
}

fn hover(page: &Page<'_>, cell: &Cell<'_>) -> Option<String> {
    let run = cell.run?;
    let Some((share, step_time)) = cell.share.zip(run.step_time()) else {
        return Some(format!("{}: {}", page.label(run), verdict(run)));
    };
    let parts = [
        Some(format!("{}: {} a step", page.label(run), quantity::seconds(step_time))),
        Some(format!("{} of the speed of the fastest", quantity::percent(share))),
        run.worst_device().map(|device| format!("{} on the fullest device", used(device))),
    ];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}
