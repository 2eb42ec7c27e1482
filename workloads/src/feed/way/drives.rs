//! Rows on drives: read in pages by threads of the host, or by those of the GPU.

use hw_models::reads::{PageReaders, PageReads};

use crate::feed::FeedPlan;
use crate::feed::settings::Access;
use crate::graph::operator::{RowWork, Work};

use super::{Rows, Task, hosts};

/// Adds what brings rows from drives.
pub(super) fn fetch(plan: &mut FeedPlan, rows: &Rows<'_>) {
    plan.table = rows.table();
    let kept = rows.batch.on_host;
    plan.on_host += (kept.rows * rows.batch.row_bytes).div_ceil(rows.around.sharing.max(1).into());
    let found = ((rows.batch.rows as f64 * kept.hits).round() as u64).min(rows.missed);
    if rows.features.access == Access::GpuDirect {
        let read = pages(rows, rows.missed - found, PageReaders::Gpu(rows.multiprocessors().most()));
        let in_place = (found > 0).then(|| hosts::in_place(rows, found));
        plan.lanes.push(rows.gather([read].into_iter().chain(in_place)));
    } else {
        let threads = PageReaders::Host(rows.features.threads.get());
        hosts::staged(plan, rows, Some(pages(rows, rows.missed - found, threads)));
    }
}

/// Reads the pages of a number of rows.
fn pages(rows: &Rows<'_>, count: u64, by: PageReaders) -> Task {
    let page = rows.features.drives.clone().unwrap_or_default().page();
    let pages = PageReads { pages: rows.reads(count).pages(page), page, by };
    ("read pages of drives", Work::Rows(RowWork::Pages { pages, payload: count * rows.batch.row_bytes }))
}
