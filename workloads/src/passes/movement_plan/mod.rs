//! A plan of movement from a file: which tensors of a forward pass are in another tier until the
//! backward pass, when they leave and when they come back.
//!
//! ```csv
//! tensor,tier,out,wait,in
//! layers.*,host,,,
//! layers.*.gelu,drives,last-use,,4
//! layers.11.*,gpu,,,
//! ```
//!
//! The last row that matches a tensor counts; a tensor that none matches stays. Tensors and
//! operators are called as `names` says.

mod listing;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, Phase};
use crate::liveness::{Gap, gaps};
use crate::transfer::{Asked, Medium, Stay, Transfer};

use super::asking::Modules;
use super::names::Names;
use super::{Added, Around, Context, Facts, Kind, LayerOps, OnDrives, Pass, Plan, Size, Technique};

pub use listing::{Listed, listed};
use rows::Matching;
pub use rows::{Back, Out, Row, RowTier};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "movement_plan";

const PATH: &str = "techniques.movement_plan";
/// Setting that names the file.
pub const FILE: &str = "techniques.movement_plan.file";

const LIST: &str = "`foretrain show FILE --tensors` lists the names";

/// Move tensors as a file says: to host memory or drives in the forward pass, and back in the
/// backward pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MovementPlan {
    /// File of comma-separated values with columns `tensor` (a name, or a pattern with `*`), `tier`
    /// (`gpu`, `host`, `drives`), `out` (`produced`, `last-use`, or an operator that the copy
    /// follows), `wait` (an operator behind which the GPU waits for the copy) and `in` (a number of
    /// tensors ahead, or an operator of the backward pass at which the tensor is asked for: as the
    /// GPU comes to it, or with `host:` before its name as the host issues it). Empty cells are the
    /// defaults of `activation_offload`. `foretrain show FILE --tensors` prints such a file.
    #[schemars(extend("examples" = ["plan.csv"]))]
    pub file: String,
    /// Arrays of `storage` that tensors go to, of the GPUs of a node in turn; the only one when
    /// absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<String>,
    /// Forwarding, as of `activation_offload`: a tensor requested before its copy has ended stays
    /// resident.
    #[serde(default)]
    pub forwarding: bool,
    /// Rows of the file.
    #[serde(skip)]
    pub rows: Arc<Vec<Row>>,
}

impl Technique for MovementPlan {
    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            activations: Some("moves what its file says"),
            activations_pinned: Some(true),
            drives: Some(OnDrives {
                what: "tensors of the plan",
                from_gpus: true,
                kept: FILE,
                there: self.rows.iter().any(|row| row.tier == RowTier::Drives),
                names: &self.arrays,
                arrays: "techniques.movement_plan.arrays",
            }),
            ..Facts::default()
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if let Some(refused) = around.without_tensors(PATH) {
            wrong(refused);
        }
    }

    fn check_tensors(&self, graph: &OpGraph, layers: &[LayerOps], wrong: &mut dyn FnMut(Diagnostic)) {
        self.transfers(graph, layers).err().into_iter().flatten().for_each(wrong);
    }
}

impl Pass for MovementPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    fn adds(&self, size: &Size<'_>) -> Added {
        size.copies(|_| true)
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        let transfers = self.transfers(&plan.graph, &plan.layers).map_err(PlanError::Invalid)?;
        Ok(plan.transfer(NAME, &transfers)?)
    }
}

impl MovementPlan {
    /// Transfers of all rows.
    ///
    /// # Errors
    /// Rows that the model has no tensor or no operator for.
    fn transfers(&self, graph: &OpGraph, layers: &[LayerOps]) -> Result<Vec<Transfer>, Vec<Diagnostic>> {
        let names = Names::of(graph, layers);
        let matching = Matching::of(&self.rows);
        let (mut known, mut transfers, mut wrong) = (BTreeSet::new(), Vec::new(), BTreeMap::new());
        for (stage, chunk) in chunks(graph) {
            let gaps = gaps(graph, stage, chunk);
            known.extend(gaps.iter().map(|gap| names.tensor(gap.storage)));
            let row = |gap: &Gap| matching.row(names.tensor(gap.storage));
            let rows: Vec<_> = gaps.iter().filter_map(|gap| Some((*gap, row(gap)?))).collect();
            let chunk = Chunk::of(graph, (stage, chunk), &names, &rows);
            for (at, (gap, row)) in rows.iter().enumerate() {
                let medium = match row.tier {
                    RowTier::Gpu => continue,
                    RowTier::Host => Medium::PAGE_LOCKED,
                    RowTier::Drives => Medium::DRIVES,
                };
                match chunk.stay(at, self.forwarding) {
                    Ok(stay) => transfers.push(Transfer::out(stage, gap.storage, medium, stay)),
                    Err(fault) => drop(wrong.entry(row.line).or_insert(fault)),
                }
            }
        }
        let unmatched = matching.unmatched(&known).into_iter();
        wrong.extend(unmatched.map(|row| {
            let tensors = &row.tensors;
            (row.line, format!("no tensor that waits for the backward pass is called `{tensors}`"))
        }));
        if wrong.is_empty() {
            return Ok(transfers);
        }
        let told = |(line, fault)| Diagnostic::new(FILE, format!("{}:{line}: {fault}", self.file), LIST);
        Err(wrong.into_iter().map(told).collect())
    }
}

/// Stages and chunks with a forward pass.
fn chunks(graph: &OpGraph) -> impl Iterator<Item = (u32, u32)> {
    graph
        .visits()
        .filter(|((.., phase), _)| *phase == Phase::Forward)
        .map(|((stage, chunk, _), _)| (stage, chunk))
}

/// Tensors of a chunk that rows name, each with its row, in the order in which they are needed:
/// what stays counts where others are asked for ahead of it.
struct Chunk<'a> {
    names: &'a Names,
    rows: &'a [(Gap, &'a Row)],
    /// Operators of its passes.
    forward: &'a [OpId],
    backward: &'a [OpId],
    modules: Modules,
}

impl<'a> Chunk<'a> {
    fn of(
        graph: &'a OpGraph,
        (stage, chunk): (u32, u32),
        names: &'a Names,
        rows: &'a [(Gap, &'a Row)],
    ) -> Self {
        let [forward, backward] =
            [Phase::Forward, Phase::Backward].map(|phase| graph.visit(stage, chunk, phase));
        let modules = Modules::of(graph, (stage, chunk), rows.iter().map(|(gap, _)| gap.needed_by));
        Self { names, rows, forward, backward, modules }
    }

    /// The stay of a tensor.
    ///
    /// # Errors
    /// Its fault, if an operator is none of the pass, or too early or too late.
    fn stay(&self, at: usize, forwarded: bool) -> Result<Stay, String> {
        let (gap, row) = self.rows[at];
        let [filled, used, needed] = gap.at;
        let tensor = self.names.tensor(gap.storage);
        let copied = match &row.out {
            Out::Produced => filled,
            Out::LastUse => used,
            Out::After(name) => {
                self.place(self.forward, name).filter(|&at| at >= filled).ok_or_else(|| {
                    format!(
                        "`{tensor}` cannot leave behind `{name}`, which is no operator of its forward pass \
                         from the one on that fills it"
                    )
                })?
            }
        };
        let wait = |name: &String| {
            self.place(self.forward, name).filter(|&at| at >= copied).ok_or_else(|| {
                format!(
                    "the copy of `{tensor}` cannot be awaited behind `{name}`, which is no operator of \
                         its forward pass from the one on that the copy follows"
                )
            })
        };
        let gone_after = row.wait.as_ref().map(wait).transpose()?.map(|at| self.forward[at]);
        let before = |name: &String| {
            let place = self.place(self.backward, name).filter(|&at| at <= needed);
            place.map(|at| self.backward[at]).ok_or_else(|| {
                format!(
                    "`{tensor}` cannot be asked for at `{name}`, which is no operator of its backward \
                         pass up to the one that needs it"
                )
            })
        };
        let asked = match &row.back {
            Back::ByModule => Asked::Issued(self.modules.asks(gap.needed_by)),
            Back::Before(name) => Asked::Before(before(name)?),
            Back::Issued(name) => Asked::Issued(before(name)?),
            Back::Ahead(distance) => Asked::Before(self.rows[at.saturating_sub(*distance)].0.needed_by),
        };
        Ok(Stay {
            copied_after: self.forward[copied],
            freed_after: self.forward[copied.max(used)],
            gone_after,
            asked,
            needed_by: gap.needed_by,
            forwarded,
        })
    }

    /// Position of an operator in a pass.
    fn place(&self, pass: &[OpId], name: &str) -> Option<usize> {
        pass.iter().position(|&op| self.names.op(op) == name)
    }
}
