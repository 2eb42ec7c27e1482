//! Kernels that were timed on a device as tables: a row for each.

use workloads::passes::fusion::{MEASURED, MeasuredKernel};

use super::tables::{TableRow, Tables};

/// The files of measured kernels that scenarios name.
pub(super) type MeasuredKernels = Tables<MeasuredKernel>;

impl TableRow for MeasuredKernel {
    const FILE: &'static str = MEASURED;
    const COLUMNS: &'static [&'static str] = &Self::COLUMNS;
    const REQUIRED: usize = 3;
    const BESIDE: &'static [&'static str] =
        &["members", "groups", "bytes", "flops", "bound_us", "estimate_us"];
    const BEGIN: &'static str = "begin with `kernel,gpu,measured_us`";
    const SHORTEN: &'static str = "leave out kernels that nobody has timed";
    const ADD: &'static str = "write times into its column `measured_us`";

    fn of(_: u64, cells: &[&str]) -> Result<Option<Self>, [String; 2]> {
        Self::of(std::array::from_fn(|place| cells[place]))
    }
}
