//! Decisions of a plan as rows of a plan file: a file to begin with.

use std::collections::BTreeMap;

use crate::graph::{OpGraph, StorageId};
use crate::liveness::{Gap, gaps};
use crate::passes::LayerOps;
use crate::passes::names::Names;
use crate::transfer::{Asked, Dispositions, Medium, Stay, Transfer};

use super::{Back, Out, Row, RowTier, chunks};

/// A tensor that waits for the backward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its row; of no line.
    pub row: Row,
    /// Its size.
    pub bytes: u64,
    /// Its stage.
    pub stage: u32,
}

impl Listed {
    /// Names of columns behind those of a row, which only people read.
    pub const COLUMNS: [&str; 2] = ["bytes", "stage"];
}

/// All tensors that wait for the backward pass, chunk by chunk in the order in which that needs
/// them, and where `table` has them meanwhile.
pub fn listed(graph: &OpGraph, layers: &[LayerOps], table: &Dispositions) -> Vec<Listed> {
    let names = Names::of(graph, layers);
    let away: BTreeMap<StorageId, (&Transfer, &Stay)> =
        table.offloads().map(|(storage, transfer, stay)| (storage, (transfer, stay))).collect();
    let of_chunk = |(stage, chunk)| {
        let (names, away) = (&names, &away);
        gaps(graph, stage, chunk).into_iter().map(move |gap| {
            let row = row(&gap, names, away.get(&gap.storage).copied());
            Listed { row, bytes: gap.bytes, stage }
        })
    };
    chunks(graph).flat_map(of_chunk).collect()
}

fn row(gap: &Gap, names: &Names, away: Option<(&Transfer, &Stay)>) -> Row {
    let tensors = names.tensor(gap.storage).to_owned();
    let (tier, out, wait, back) = match away {
        None => (RowTier::Gpu, Out::Produced, None, Back::ByModule),
        Some((transfer, stay)) => (
            if transfer.to.medium == Medium::DRIVES { RowTier::Drives } else { RowTier::Host },
            match stay.copied_after {
                op if op == gap.filled_by => Out::Produced,
                op if op == gap.last_used_by => Out::LastUse,
                op => Out::After(names.op(op).to_owned()),
            },
            stay.gone_after.map(|op| names.op(op).to_owned()),
            match stay.asked {
                Asked::Before(op) => Back::Before(names.op(op).to_owned()),
                Asked::Issued(op) => Back::Issued(names.op(op).to_owned()),
            },
        ),
    };
    Row { line: 0, tensors, tier, out, wait, back }
}
