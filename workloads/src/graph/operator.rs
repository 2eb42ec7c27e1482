//! Operators of a model with their shapes: what a kernel or a collective works on, which tensors it reads and leaves.
//! Nothing here says how long anything takes.

use std::borrow::Cow;
use std::iter;

use hw_models::allocator;
pub use hw_models::kernels::{
    Attached, Attention, Convolution, ConvolutionAlgorithm, ConvolutionPass, Dtype, Fused, FusedAnchor, Gemm,
    GroupedGemm, Layout, Pass, Second, Segments, Stream, StreamClass, Traversal, Walk,
};
use hw_models::reads::INDEX_BYTES;

pub use hw_models::reads::{Order, PageReads, RowReads, Sockets};

use crate::graph::Phase;
pub use crate::graph::math::Math;
pub use crate::graph::module::Module;
pub use crate::graph::tier::{Medium, Role, TierCopy};

/// A kernel or a collective of one rank.
///
/// Which tensors live from the forward to the backward pass is nobody's to declare: a tensor lives from the operator
/// that writes it to the last one that reads it ([`Block`](super::block::Block)).
///
/// Operators and tensors are joined by ids. A source of models writes names instead, which its draft resolves.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator<Read = TensorId, Written = TensorId> {
    /// Label for people, unique within its list but for what is recomputed or done in pieces: `qkv weight gradient`.
    pub name: Label,
    /// Part of the step it belongs to; in a backward pass those on the way to the gradient of the input and those only
    /// for gradients of weights are told apart, and metrics of the loss, which are of the forward phase.
    pub phase: Phase,
    /// Its shape.
    pub work: Work,
    /// Function of each element of its first input, element by element at the same place.
    /// `None`: it moves, looks up, sums or multiplies matrices, or nobody says.
    pub math: Option<Math>,
    /// Tensors it reads. What it changes in place is read, not written; a collective that writes nothing works in place.
    pub reads: Vec<Read>,
    /// Tensors it allocates and fills; one that is saved may be filled piece by piece.
    pub writes: Vec<Written>,
    /// Bytes it needs only while it runs.
    pub workspace: u64,
    /// Innermost module of a layer that it is part of. `None`: no module that is told apart.
    pub module: Option<Module>,
    /// Why this kernel, where a predicate chose it.
    pub choice: Option<String>,
    /// Whether the host waits for its result before it issues what follows.
    pub awaited: bool,
    /// Operators of an eager framework that it stands for: those merged into it, or one for each of
    /// several small tensors; 0: it is launched in the call of the one before.
    pub members: u32,
    /// Operators before it that change shapes alone, which a host issues and a compiler leaves out.
    pub views: u32,
    /// Segments of device memory that its library takes from the driver itself, and gives back when
    /// the host has waited for it.
    pub driver: allocator::Segments,
}

/// Words for people.
pub type Label = Cow<'static, str>;

/// A tensor of the [`Block`](super::block::Block) or of the [`OperatorList`] that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// A tensor of one rank. One that is filled again is another tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Label for people; tensors may share it.
    pub name: Label,
    /// Size; 0 for what others fill, but for inputs.
    pub bytes: u64,
}

/// Operators that run one after the other and belong to no block, with their tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorList {
    /// Tensors, indexed by [`TensorId`].
    pub tensors: Vec<Tensor>,
    /// Operators, in the order of issue.
    pub operators: Vec<Operator>,
}

/// The shape of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// A matrix product.
    Gemm(Gemm),
    /// A convolution.
    Convolution(Convolution),
    /// Matrix products of several experts in one kernel.
    Grouped(GroupedGemm),
    /// Flash attention.
    Attention(Attention),
    /// A pass over memory.
    Stream(Stream),
    /// A product or a convolution with members around it, or two in sequence.
    Fused(Fused),
    /// Products of rows with one weight for each segment of them.
    Segments(Segments),
    /// A walk over edges of a graph.
    Traversal(Traversal),
    /// Communication within a group.
    Collective(Collective),
    /// A copy between tiers of memory.
    Transfer(TierCopy),
    /// Work of the host's processors.
    Host(HostWork),
    /// Rows of a graph on their way to the GPU.
    Rows(RowWork),
    /// What a chunk of a stage does in a phase, of which only a profile knows how long it takes.
    Opaque {
        /// The stage.
        stage: u32,
        /// Its chunk.
        chunk: u32,
    },
}

impl<Read, Written> Operator<Read, Written> {
    /// True if it is part of a module, or of a module within it.
    pub fn is_of(&self, module: Module) -> bool {
        self.module.is_some_and(|own| own.is_in(module))
    }

    /// One whose tensors nobody names.
    pub fn of(name: impl Into<Label>, phase: Phase, work: Work) -> Self {
        Self {
            name: name.into(),
            phase,
            work,
            math: None,
            reads: Vec::new(),
            writes: Vec::new(),
            workspace: 0,
            module: None,
            choice: None,
            awaited: false,
            members: 1,
            views: 0,
            driver: allocator::Segments::default(),
        }
    }

    /// The operator with other tensors.
    pub(crate) fn with_tensors<R, W>(self, reads: Vec<R>, writes: Vec<W>) -> Operator<R, W> {
        Operator {
            name: self.name,
            phase: self.phase,
            work: self.work,
            math: self.math,
            reads,
            writes,
            workspace: self.workspace,
            module: self.module,
            choice: self.choice,
            awaited: self.awaited,
            members: self.members,
            views: self.views,
            driver: self.driver,
        }
    }
}

/// Work on rows of a graph, its neighbours or their features, on their way to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowWork {
    /// Threads of the host draw neighbours.
    Sample {
        /// Edges drawn.
        edges: u64,
        /// Threads.
        threads: u32,
    },
    /// Threads of the host copy rows of a table into a buffer.
    Copy {
        /// Rows.
        rows: u64,
        /// Bytes of a row.
        row_bytes: u64,
        /// Order in which they are read.
        order: Order,
        /// Threads.
        threads: u32,
        /// Sockets whose memories hold them.
        on: Sockets,
    },
    /// Threads of the GPU read rows of a table in another memory, over the link.
    Read {
        /// Where the rows are, and how they are read.
        rows: RowReads,
        /// Memories that hold them.
        from: Afar,
        /// Multiprocessors that the kernel may hold.
        multiprocessors: u32,
    },
    /// Threads of the GPU or of the host read pages of drives.
    Pages {
        /// Pages, and their readers.
        pages: PageReads,
        /// Bytes of the rows in them that are of use.
        payload: u64,
    },
    /// The host takes segments of device memory from the driver, waits for what is written there,
    /// and gives them back.
    Allocate(allocator::Segments),
    /// The GPU reads pages of managed memory, which come when they are touched.
    Fault {
        /// Where the rows are.
        rows: RowReads,
        /// Bytes of the GPU's memory that pages may take.
        room: u64,
    },
}

/// Memories from which threads of a GPU read rows over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Afar {
    /// Memories of the host.
    Host(Sockets),
    /// Memories of the other GPUs of the node, an equal part of the rows each.
    Peers {
        /// Bytes of rows that the kernel copies from its own memory meanwhile.
        own: u64,
    },
}

impl RowWork {
    /// Bytes of all rows.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Sample { edges, .. } => edges * INDEX_BYTES,
            Self::Copy { rows, row_bytes, .. } => rows * row_bytes,
            Self::Read { rows, .. } | Self::Fault { rows, .. } => rows.rows * rows.row_bytes,
            Self::Pages { payload, .. } => payload,
            Self::Allocate(_) => 0,
        }
    }
}

/// What the host beside a rank does with bytes of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostWork {
    /// What.
    pub kind: HostWorkKind,
    /// How many bytes.
    pub bytes: u64,
}

/// Kinds of [`HostWork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostWorkKind {
    /// Its processors read states and gradients, and write what an update makes of them.
    Update,
    /// Its processors copy gradients to buffers: they are read, and written once more.
    Copy,
}

/// Communication among the ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// What is exchanged.
    pub kind: CollectiveKind,
    /// Among whom.
    pub group: Group,
    /// Bytes of the whole tensor: what every rank holds after an all-gather, before a reduce-scatter, before and after an
    /// all-to-all or a message to the next one.
    pub bytes: u64,
    /// It runs beside the operators that follow, until one of them reads what it fills.
    pub overlaps_next: bool,
    /// Copy engines do it, so that it holds no SMs.
    pub copied: bool,
}

impl Collective {
    /// Collectives that it takes one after the other, where `sharing` data ranks share what copies of a model do: what some of
    /// them scatter the sum of is then summed with the others, in one stream, so that nothing waits in between.
    pub(crate) fn phases(self, sharing: u32) -> impl Iterator<Item = Self> {
        let in_part = (self.group, self.kind) == (Group::Shard, CollectiveKind::ReduceScatter);
        let among_parts = in_part.then(|| Self {
            kind: CollectiveKind::AllReduce,
            group: Group::Replica,
            bytes: self.bytes.div_ceil(sharing.into()),
            ..self
        });
        iter::once(self).chain(among_parts)
    }
}

/// Kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    /// Every rank ends with the sum.
    AllReduce,
    /// Every rank ends with all parts.
    AllGather,
    /// Every rank ends with a part of the sum.
    ReduceScatter,
    /// Every rank sends a part to every other.
    AllToAll,
    /// Every rank sends what it has to the next one, and gets that of the one before.
    SendReceive,
}

/// Groups of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Ranks that share each layer.
    Tensor,
    /// Ranks that share each sequence (context parallelism).
    Context,
    /// Ranks that share the experts of each layer: of those that hold the same parameters otherwise, so many next to each
    /// other.
    Expert,
    /// Ranks that hold the same parameters but for experts: the data ranks of all parts of a sequence.
    Data,
    /// Ranks that hold the same experts.
    ExpertData,
    /// Of data ranks those that share (hybrid sharding): what they scatter the sum of is then summed among [`Self::Replica`].
    Shard,
    /// Data ranks that hold the same part of what others share.
    Replica,
    /// The first and the last stage, which hold the same word embedding.
    Embedding,
    /// All ranks of one copy of the model: tensor ranks of all stages.
    Model,
}

impl Group {
    /// True if all ranks of a group are of one stage.
    pub const fn is_within_stage(self) -> bool {
        !matches!(self, Self::Embedding | Self::Model)
    }
}

impl Work {
    /// Work that a fused kernel is built around, the first of two; other work as it is.
    pub const fn anchor(&self) -> Self {
        match self {
            Self::Fused(Fused { anchor: FusedAnchor::Gemm(gemm), .. }) => Self::Gemm(*gemm),
            Self::Fused(Fused { anchor: FusedAnchor::Convolution(convolution), .. }) => {
                Self::Convolution(*convolution)
            }
            other => *other,
        }
    }

    /// Multiplications and additions of matrix products, convolutions and attention; the rest is bound by bytes and counts none.
    pub fn flops(&self) -> f64 {
        match self {
            Self::Gemm(gemm) => gemm.flops(),
            Self::Convolution(convolution) => convolution.flops(),
            Self::Fused(fused) => fused.anchors().map(|anchor| anchor.flops()).sum(),
            Self::Grouped(grouped) => grouped.groups.flops(),
            Self::Attention(attention) => attention.flops(),
            Self::Segments(segments) => segments.flops(),
            Self::Stream(_)
            | Self::Traversal(_)
            | Self::Collective(_)
            | Self::Transfer(_)
            | Self::Host(_)
            | Self::Rows(_)
            | Self::Opaque { .. } => 0.0,
        }
    }

    /// Bytes it reads and writes, each once; of a collective those of the whole tensor.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Gemm(gemm) => gemm.bytes(),
            Self::Convolution(convolution) => convolution.bytes(),
            Self::Grouped(grouped) => grouped.groups.bytes(),
            Self::Attention(attention) => attention.bytes(),
            Self::Stream(stream) => stream.bytes_read.saturating_add(stream.bytes_written),
            Self::Fused(fused) => fused.bytes(),
            Self::Segments(segments) => segments.bytes(),
            Self::Traversal(traversal) => traversal.bytes(),
            Self::Collective(collective) => collective.bytes,
            Self::Transfer(transfer) => transfer.bytes,
            Self::Host(work) => work.bytes,
            Self::Rows(work) => work.bytes(),
            Self::Opaque { .. } => 0,
        }
    }

    /// Elements of the weight whose gradient it makes, if it makes one.
    pub(crate) fn weights(&self) -> Option<u64> {
        match self.anchor() {
            Self::Gemm(gemm) if gemm.layout == Layout::WeightGradient => Some(gemm.batch * gemm.m * gemm.n),
            Self::Grouped(GroupedGemm { groups }) if groups.layout == Layout::WeightGradient => {
                Some(groups.batch * groups.m * groups.n)
            }
            Self::Convolution(convolution) if convolution.pass == ConvolutionPass::WeightGradient => {
                Some(convolution.weights())
            }
            Self::Segments(segments) if segments.layout == Layout::WeightGradient => Some(segments.weights()),
            _ => None,
        }
    }

    /// Elements of the weight that it multiplies, if it multiplies one. Scores of attention are
    /// batches of products.
    pub(crate) fn multiplies(&self) -> Option<u64> {
        let of = |gemm: &Gemm| (gemm.layout != Layout::WeightGradient).then(|| gemm.batch * gemm.n * gemm.k);
        match &self.anchor() {
            Self::Gemm(gemm) if gemm.batch == 1 => of(gemm),
            Self::Grouped(GroupedGemm { groups }) => of(groups),
            Self::Convolution(convolution) if convolution.pass != ConvolutionPass::WeightGradient => {
                Some(convolution.weights())
            }
            Self::Segments(segments) if segments.layout != Layout::WeightGradient => Some(segments.weights()),
            _ => None,
        }
    }

    /// The same if it makes it in 8 bits.
    pub(crate) fn narrow_weights(&self) -> Option<u64> {
        match self.anchor() {
            Self::Gemm(gemm) if gemm.dtype == Dtype::Fp8 => self.weights(),
            _ => None,
        }
    }
}
