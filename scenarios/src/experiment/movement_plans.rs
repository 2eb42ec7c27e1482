//! Movement plans as tables: a row for a pattern of tensors.

use workloads::passes::movement_plan::{FILE, Listed, Row};

use super::tables::{TableRow, Tables};

/// The plan files that scenarios name.
pub(super) type MovementPlans = Tables<Row>;

impl TableRow for Row {
    const FILE: &'static str = FILE;
    const COLUMNS: &'static [&'static str] = &Self::COLUMNS;
    const REQUIRED: usize = 2;
    const BESIDE: &'static [&'static str] = &Listed::COLUMNS;
    const BEGIN: &'static str = "begin with `tensor,tier,out,wait,in`";
    const SHORTEN: &'static str = "use patterns: `layers.*`";
    const ADD: &'static str = "add one, such as `layers.*,host`";

    fn of(line: u64, cells: &[&str]) -> Result<Option<Self>, [String; 2]> {
        Self::of(line, std::array::from_fn(|place| cells[place])).map(Some)
    }
}
