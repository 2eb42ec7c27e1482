//! Sampling and features, as scenarios say them.

use hw_models::reads::{Order, Sockets};
use hw_models::settings::{Bytes, Count, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::process::Process;

/// Neighbours of seeds, drawn hop by hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Seeds of a mini-batch.
    #[schemars(extend("examples" = [1000]))]
    pub batch: Count<1, 1_000_000>,
    /// Neighbours of each node by hop, from the seeds outwards.
    #[schemars(extend("examples" = [[25, 10]]))]
    pub fan_out: Vec<Count<1, 1_000_000>>,
    /// Place where they are drawn.
    #[serde(default, rename = "where")]
    pub place: SamplingPlace,
    /// Processes that draw ahead of the step; with 0 the training process draws, in line.
    #[serde(default = "one_worker")]
    pub workers: Count<0, 1_024>,
    /// Type of the numbers of nodes that edges are drawn as.
    #[serde(default)]
    pub ids: IdType,
}

/// Type of the number of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdType {
    /// 8 bytes, as in DGL and PyTorch Geometric.
    #[default]
    Int64,
    /// 4 bytes.
    Int32,
}

impl IdType {
    /// Bytes of a number.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Int64 => 8,
            Self::Int32 => 4,
        }
    }
}

fn one_worker() -> Count<0, 1_024> {
    Count::new(1).expect("within the limits")
}

/// Place where neighbours are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SamplingPlace {
    /// By threads of the host.
    #[default]
    Host,
    /// By the GPU, from a graph in its memory.
    Gpu,
    /// By the GPU, from a graph in page-locked memory of the host.
    GpuPinned,
}

/// Features of nodes: where they are, and how a mini-batch gets its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Features {
    /// Numbers of a node; those that the graph has when absent.
    #[schemars(extend("examples" = [602]))]
    pub width: Option<Count<1, 1_048_576>>,
    /// Type of a number.
    pub dtype: FeatureType,
    /// Memory that holds them.
    pub home: Home,
    /// Way of the rows of a mini-batch to the GPU.
    pub access: Access,
    /// True if threads begin a row at its first line of 128 bytes (PyTorch-Direct's circular
    /// shift).
    pub align: bool,
    /// Order in which rows are read.
    pub order: Order,
    /// Threads of the host that copy rows.
    pub threads: Threads,
    /// Batches of rows that the host copies ahead; with 0 the training process copies, in line.
    pub prefetch: Option<Count<0, 64>>,
    /// Batches of rows in the memory of the GPU: with 2 the next comes while one is trained.
    pub buffers: Option<Count<1, 64>>,
    /// Process that reads rows in the memory of the host.
    pub process: Process,
    /// Rows that the GPU keeps.
    pub cache: Option<Cache>,
    /// Memories of a host that hold rows.
    pub socket: Sockets,
    /// Rows on drives.
    pub drives: Option<RowsOnDrives>,
}

/// Rows on drives: how they are read, and the rows that the host keeps of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RowsOnDrives {
    /// Bytes that a request reads: a multiple of 512; 4 KiB when absent.
    #[schemars(extend("examples" = ["4 KiB"]))]
    pub page: Option<Bytes>,
    /// Rows that the host keeps: in pages (the page cache of the system) where its threads read
    /// them, page-locked where those of the GPU do (the constant buffer of GIDS).
    pub cache: Option<Cache>,
    /// Arrays of `storage`: one, or one for each GPU of a node in turn. Absent: the only one.
    pub arrays: Vec<String>,
}

impl RowsOnDrives {
    /// Bytes of a page: a page of memory where nothing else is asked for.
    pub fn page(&self) -> u64 {
        self.page.map_or(4_096, Bytes::bytes)
    }
}

/// Threads of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Threads(Count<1, 1_024>);

impl Threads {
    /// How many they are.
    pub const fn get(self) -> u32 {
        self.0.get() as u32
    }
}

/// A half of the cores that a GPU of a server usually has for itself.
impl Default for Threads {
    fn default() -> Self {
        Self(Count::literal(8))
    }
}

impl Features {
    /// Batches that the host copies ahead.
    pub fn prefetched(&self) -> u32 {
        self.prefetch.map_or(0, |prefetch| prefetch.get() as u32)
    }
}

/// Type of a number of the features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureType {
    /// 4 bytes.
    #[default]
    Fp32,
    /// 2 bytes.
    Fp16,
    /// 1 byte.
    Int8,
}

impl FeatureType {
    /// Bytes of a number.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Fp16 => 2,
            Self::Int8 => 1,
        }
    }
}

/// Memory that holds features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Page-locked memory of the host.
    #[default]
    HostPinned,
    /// Other memory of the host.
    Host,
    /// Memory of each GPU.
    Gpu,
    /// Memories of the GPUs of a node: each holds an equal part of the rows and reads the others
    /// over links.
    Striped,
    /// Memories of all GPUs of all nodes, which send each other rows (WholeGraph).
    Sharded,
    /// Drives of the nodes.
    Drives,
}

/// Way of the rows of a mini-batch to the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Threads of the host copy them into a buffer, which a copy engine brings to the GPU.
    #[default]
    HostGather,
    /// Threads of the GPU read them in place over the link (PyTorch-Direct).
    ZeroCopy,
    /// Pages of managed memory come when the GPU touches them.
    Managed,
    /// Threads of the GPU read pages of drives, through queues in its memory (BaM, GIDS).
    GpuDirect,
}

/// Rows that the GPU keeps: a share of all, or as many as fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Share of all rows.
    pub share: Option<Share>,
    /// Bytes for rows.
    pub size: Option<Bytes>,
    /// Choice of rows.
    #[serde(default)]
    pub policy: CachePolicy,
    /// Hit rate, as a share of the rows of a mini-batch; follows from the graph when absent.
    pub hits: Option<Share>,
}

/// Choice of the rows that a cache keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// Any.
    Random,
    /// Rows of the nodes with most edges out.
    #[default]
    Degree,
    /// Rows that trial batches read most.
    Presample,
}
