//! CLBlast's `Xgemm` (github.com/CNugteren/CLBlast, `src/kernels/level3/xgemm_part1.opencl` and the
//! following): a tile MWG x NWG of MDIMC x NDIMC threads, steps of KWG of which a thread loads KWI
//! before it multiplies, vectors of VWM and VWN, and each operand copied to shared memory by MDIMA
//! or NDIMB threads along the tile where SA or SB say so. It adds to its output.

use hw_models::kernels::Dtype;
use hw_models::kernels::tile::{Lanes, Members, Tile, TiledKernel, Units};

use super::{TileSample, product};
use crate::split;
use crate::table::{Row, Table, TableError};

/// Extent of the square matrices that the space was measured on.
const SQUARE: u64 = 4_096;

/// Kernels of CLBlast's space.
///
/// # Errors
/// Cells that are no numbers.
pub fn clblast(table: &Table) -> Result<Vec<TileSample>, TableError> {
    table.rows().map(|row| clblast_row(table, &row)).collect()
}

fn clblast_row(table: &Table, row: &Row<'_>) -> Result<TileSample, TableError> {
    let count = |column: &str| row.count(column).map(|count| count as u32);
    let copied = |column: &str, threads: &str| -> Result<Option<u32>, TableError> {
        let threads = count(threads)?;
        Ok((row.whole(column)? == 1).then_some(threads))
    };
    let lanes = Lanes {
        across: count("MDIMC")?,
        unroll: count("KWI")?,
        vectors: [count("VWM")?, count("VWN")?],
        copies: [copied("SA", "MDIMA")?, copied("SB", "NDIMB")?],
    };
    let tile = Tile {
        m: count("MWG")?,
        n: count("NWG")?,
        k: count("KWG")?,
        warps: count("MDIMC")? * count("NDIMC")? / 32,
        splits: 1,
        units: Units::Lanes(lanes),
    };
    let read = Members { ordinary: 1.0, read: Dtype::Fp32.bytes() as f64, ..Members::default() };
    let inputs = table.columns().iter().filter(|name| *name != "time_ms");
    let inputs: Vec<_> = inputs.map(|name| (name.clone(), row.text(name).to_owned())).collect();
    Ok(TileSample {
        kernel: TiledKernel {
            anchor: product([SQUARE; 3], Dtype::Fp32),
            tile,
            before: Members::default(),
            after: read,
        },
        compiled: None,
        seconds: row.positive("time_ms", 1e-9)? * 1e-3,
        hash: split::hash(&inputs.iter().map(|(_, value)| value).collect::<Vec<_>>()),
        line: row.line(),
        inputs,
    })
}
