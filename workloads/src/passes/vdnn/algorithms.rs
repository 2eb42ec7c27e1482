//! Algorithms of convolutions: what each may take is priced with the rest of the graph, and one is
//! chosen for every convolution.

use crate::cost::CostBook;
use crate::error::PlanError;
use crate::graph::operator::{Convolution, ConvolutionAlgorithm, Operator, Work};
use crate::graph::{Op, OpGraph, OpId, OperatorId, Purpose, Storage};
use crate::passes::{Context, Kind, Pass, Plan};

use super::Library;

/// Adds works for the algorithms of a library, so that they are priced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variants(pub(super) Library);

impl Pass for Variants {
    fn name(&self) -> &'static str {
        "convolution_algorithms"
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        let works = plan.graph.operators().iter();
        let mut added: Vec<Operator> = Vec::new();
        for variant in works.flat_map(|work| variants(work, self.0)) {
            if !added.contains(&variant) {
                added.push(variant);
            }
        }
        for work in added {
            plan.graph.work(work);
        }
        Ok(())
    }
}

/// Chooses for each convolution among `ops` the fastest algorithm with a workspace of at most its
/// `limit`.
pub(super) fn choose(
    graph: &mut OpGraph,
    ops: &[OpId],
    (costs, library): (&CostBook, Library),
    limit: impl Fn(OpId) -> u64,
) {
    for &id in ops {
        let op = graph.get(id);
        let fitting =
            variants(graph.work_of(op), library).into_iter().filter(|work| work.workspace <= limit(id));
        let known = fitting.filter_map(|work| {
            let at = graph.operators().iter().position(|known| *known == work)?;
            let operator = OperatorId(at as u32);
            Some((costs.alone(&Op { operator, ..op.clone() }), work.workspace, operator))
        });
        let Some((_, bytes, operator)) = known.min_by_key(|&(time, bytes, _)| (time, bytes)) else {
            continue;
        };
        let (stage, chunk) = (op.stage, op.chunk);
        graph.get_mut(id).operator = operator;
        if bytes > 0 {
            let workspace = graph.storage(Storage { stage, chunk, purpose: Purpose::Workspace, bytes });
            graph.get_mut(id).writes.push(workspace);
        }
    }
}

/// A convolution by each algorithm of a library that applies, with its workspace; empty for all
/// else.
fn variants(work: &Operator, library: Library) -> Vec<Operator> {
    let Work::Convolution(shape @ Convolution { algorithm: None, .. }) = work.work else { return Vec::new() };
    let variant = |&algorithm: &ConvolutionAlgorithm| {
        let workspace = shape.workspace(algorithm)?;
        let chosen = Work::Convolution(Convolution { algorithm: Some(algorithm), ..shape });
        Some(Operator { work: chosen, workspace, ..work.clone() })
    };
    library.algorithms().iter().filter_map(variant).collect()
}

impl Library {
    const fn algorithms(self) -> &'static [ConvolutionAlgorithm] {
        use ConvolutionAlgorithm::{Fourier, FusedWinograd, Implicit, Winograd};
        match self {
            Self::Cudnn4 => &[Implicit, Fourier],
            Self::Cudnn5 => &[Implicit, Fourier, FusedWinograd, Winograd],
        }
    }
}
