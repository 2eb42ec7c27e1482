//! Virtualised memory of convolutional networks (Rhu et al., vDNN, MICRO 2016, arXiv 1602.08124).
//!
//! Inputs of layers leave for host memory. The copy out of an input overlaps the last layer of the
//! forward pass that reads it, and is waited for before the next layer begins. In the backward
//! pass each layer prefetches for the next one before it that needs something, which is waited for
//! when the layer ends. Layers behind the last convolution, from the first matrix product on, keep
//! what they have; so does the first layer, whose input no layer makes.
//!
//! Convolutions take one of the algorithms of the library: the one without workspace, the fastest,
//! or the fastest whose workspace finds room beside what is there.

mod algorithms;
mod layers;
mod needs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::error::PlanError;
use crate::graph::{OpGraph, OpId, Phase};
use crate::names::kind;
use crate::transfer::{Asked, Medium, Stay, Transfer};

use super::{Added, Around, Context, Facts, Kind, ModelKind, Pass, Plan, Size, Technique, Techniques};

use algorithms::Variants;
use layers::{Layers, Offloaded};
use needs::Needs;
pub use needs::Virtualised;

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "vdnn";

const PATH: &str = "techniques.vdnn";

/// Offload inputs of the layers of a convolutional network to host memory, layer by layer, and
/// prefetch them one layer ahead (Rhu et al., MICRO 2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Vdnn {
    /// Layers whose inputs leave.
    pub offload: Offload,
    /// Algorithms of convolutions. When absent the fastest ones; `dynamic` chooses them.
    pub algorithms: Option<Algorithms>,
    /// Library of the convolutions, which has the algorithms.
    pub library: Library,
    /// True if buffers in host memory are page-locked. Otherwise one host thread copies each tensor
    /// once more in each direction, and it crosses host memory three times.
    pub pinned: bool,
}

impl Default for Vdnn {
    fn default() -> Self {
        let (offload, algorithms, library) = Default::default();
        Self { offload, algorithms, library, pinned: true }
    }
}

/// Layers whose inputs leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "VdnnOffload")]
pub enum Offload {
    /// All layers up to the last convolution, and those behind it before the first matrix product.
    All,
    /// Convolutions.
    Conv,
    /// No layer: the memory manager chooses algorithms alone.
    None,
    /// The fastest of the static policies that fits, each of them simulated, with the fastest
    /// algorithms, with those that find room, or with those without workspace.
    #[default]
    Dynamic,
}

/// Algorithms of convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "VdnnAlgorithms")]
pub enum Algorithms {
    /// Implicit products, which need no workspace.
    MemoryOptimal,
    /// The fastest, whatever its workspace.
    Fastest,
    /// For each convolution the fastest whose workspace finds room beside what is there then.
    Fitting,
}

/// Library of convolutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "VdnnLibrary")]
pub enum Library {
    /// Implicit products and Fourier transforms of tiles: what vDNN was measured with.
    #[serde(rename = "cudnn-4")]
    Cudnn4,
    /// Winograd's algorithm, too.
    #[default]
    #[serde(rename = "cudnn-5")]
    Cudnn5,
}

impl Technique for Vdnn {
    fn facts(&self, _stages: u32) -> Facts<'_> {
        let moves = self.offload != Offload::None;
        Facts {
            path: PATH,
            activations: moves.then_some("moves inputs of layers"),
            activations_pinned: moves.then_some(self.pinned),
            chooses_kernels: true,
            ..Facts::default()
        }
    }

    /// Static policies, from the one that moves least to the one that needs least memory.
    fn alternatives(&self, all: &Techniques) -> Vec<(String, Techniques)> {
        if self.offload != Offload::Dynamic {
            return Vec::new();
        }
        let ways = [
            (Offload::None, Algorithms::Fastest, "nothing offloaded, `fastest`"),
            (Offload::Conv, Algorithms::Fastest, "`conv`, `fastest`"),
            (Offload::All, Algorithms::Fastest, "`all`, `fastest`"),
            (Offload::Conv, Algorithms::Fitting, "`conv`, `fitting`"),
            (Offload::All, Algorithms::Fitting, "`all`, `fitting`"),
            (Offload::All, Algorithms::MemoryOptimal, "`all`, `memory-optimal`"),
        ];
        let way = |(offload, algorithms, name): (Offload, Algorithms, &str)| {
            let vdnn = Some(Self { offload, algorithms: Some(algorithms), ..*self });
            (name.to_owned(), Techniques { vdnn, ..all.clone() })
        };
        ways.map(way).into()
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if around.model != ModelKind::Layers {
            let remedy = "only lists of layers have convolutions; use `swap`, or remove it";
            return wrong(around.foreign(PATH, remedy));
        }
        if self.offload == Offload::Dynamic && self.algorithms.is_some() {
            let message = "`dynamic` chooses the algorithms by itself";
            let remedy = "remove `algorithms`, or use `offload: all` or `conv`";
            let refused = Diagnostic::new("techniques.vdnn.algorithms", message, remedy);
            wrong(refused.with("techniques.vdnn.offload", "is `dynamic`, also when it is absent"));
        }
    }
}

impl Vdnn {
    /// Works that convolutions may have instead of theirs.
    pub(crate) fn variants(self) -> Variants {
        Variants(self.library)
    }

    fn algorithms(self) -> Algorithms {
        self.algorithms.unwrap_or(Algorithms::Fastest)
    }
}

impl Pass for Vdnn {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    fn adds(&self, size: &Size<'_>) -> Added {
        size.copies(|_| self.offload != Offload::None)
    }

    fn apply(&self, plan: &mut Plan, context: &Context<'_>) -> Result<(), PlanError> {
        let (costs, chain, algorithms) = (context.estimates(), plan.chain, self.algorithms());
        for stage in 0..chain.stages {
            let room = plan.memory[stage as usize].room();
            let Plan { graph, steps, exchanges, .. } = &mut *plan;
            let ops = executed(graph, stage);
            let library = self.library;
            match algorithms {
                Algorithms::MemoryOptimal => algorithms::choose(graph, &ops, (costs, library), |_| 0),
                Algorithms::Fastest => algorithms::choose(graph, &ops, (costs, library), |_| u64::MAX),
                Algorithms::Fitting => {}
            }
            let visits = &steps[0].order.stages[stage as usize];
            let mut needs = Needs::of(graph, stage, (visits, exchanges), room);
            let mut offloaded = Vec::new();
            for chunk in 0..chain.chunks {
                let layers = Layers::of(graph, stage, chunk);
                let mut of_chunk = layers.offloaded(graph, self.offload);
                needs.prefetch(graph, &layers, (stage, chunk), &mut of_chunk);
                offloaded.extend(of_chunk.into_iter().map(|it| (it.storage, it.bytes, it.stay(&layers))));
            }
            if algorithms == Algorithms::Fitting {
                let left: Vec<u64> = ops.iter().map(|&op| needs.left(op)).collect();
                let limit = |op: OpId| ops.iter().position(|&it| it == op).map_or(0, |at| left[at]);
                algorithms::choose(graph, &ops, (costs, library), limit);
            }
            let persistent = plan.memory[stage as usize].persistent.iter();
            let held = persistent.filter(|(of, _)| *of != kind::RESERVED).map(|&(_, bytes)| bytes).sum();
            let bytes = offloaded.iter().map(|&(_, bytes, _)| bytes).sum();
            let moved = (offloaded.len() as u32, bytes);
            let told = Virtualised::of(&plan.graph, (stage, &ops), held, moved);
            plan.decided.virtualised.push(told);
            let transfers = offloaded
                .into_iter()
                .map(|(storage, _, stay)| Transfer::out(stage, storage, Medium::PAGE_LOCKED, stay));
            plan.transfer(NAME, &transfers.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

impl Offloaded {
    /// Its stay, from the layer before its last reader to the layer that prefetches it.
    fn stay(&self, layers: &Layers) -> Stay {
        let begin = |layer: usize| layers.backward[layers.returning[layer].start];
        Stay {
            copied_after: layers.forward[layers.reading[self.reader].start - 1],
            freed_after: self.freed_after,
            gone_after: Some(layers.forward[layers.reading[self.reader].end - 1]),
            asked: Asked::Before(begin(self.asked)),
            needed_by: begin((self.asked + 1).min(self.needed)),
            forwarded: false,
        }
    }
}

/// Operators of the visits of a stage.
fn executed(graph: &OpGraph, stage: u32) -> Vec<OpId> {
    let of_stage = graph.visits().filter(|((of, _, phase), _)| *of == stage && *phase != Phase::Update);
    of_stage.flat_map(|(_, ops)| ops.iter().copied()).collect()
}
