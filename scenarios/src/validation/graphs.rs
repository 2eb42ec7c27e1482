//! Kernels of graph networks: products of segments, walks over edges, and the operators around
//! them.

use hw_models::kernels::{
    Dtype, Gemm, KernelCost, KernelError, KernelModel, Layout, Segments, Stream, StreamClass, Traversal, Walk,
};
use indexmap::IndexMap;
use reports::validation::Row;
use serde::Deserialize;

use super::probe::{Record, records};
use super::settings::number;
use super::{Judged, compared, embedded};
use crate::catalogue;

/// Kernels of a table or a probe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphTable {
    /// File.
    pub(super) data: String,
    /// Part of the set that it is.
    part: String,
    /// GPU of the catalogue.
    device: String,
    /// Kernels that are judged here, of a probe: beginnings of their names.
    #[serde(default)]
    kernels: Vec<String>,
    /// Rows of a probe that constants are fitted to.
    #[serde(default)]
    fitted: Vec<IndexMap<String, String>>,
    /// Rows of a probe in tiles that are not the fastest.
    #[serde(default)]
    left_out: Vec<IndexMap<String, String>>,
}

/// The graph of a probe.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Graph {
    nodes: u64,
    types: u64,
    edges: u64,
    max_in: u64,
    width: u64,
}

/// A kernel of a probe.
#[derive(Debug, Deserialize)]
struct Kernel {
    what: String,
    launch: Option<String>,
    precision: Option<String>,
    longest: Option<u64>,
    edges: Option<u64>,
    nodes: Option<u64>,
    width: Option<u64>,
}

/// Bytes of an entry of a list of edges.
const INDEX: u64 = 8;

/// The rows of a table, or of a probe the kernels that are named.
pub(super) fn judged(table: &GraphTable) -> Vec<Judged> {
    let model = catalogue::kernels_of(&table.device)
        .expect("a set names GPUs that the catalogue has, which a test would find");
    if table.is_table() {
        let read = |cells: &IndexMap<String, String>| {
            let read = cells.iter().filter(|(column, cell)| column.as_str() != "us" && !cell.is_empty());
            read.map(|(column, cell)| (column.clone(), cell.clone())).collect()
        };
        return compared((&embedded::table(&table.data), &table.part), read, |cells| of_row(&model, cells));
    }
    let mut graph = None;
    let of = |record: Record| {
        graph = record.of::<Graph>().or(graph);
        let kernel: Kernel = record.of()?;
        let named = table.kernels.contains(&kernel.what);
        if !named || kernel.launch.as_deref() != Some("graph") {
            return None;
        }
        let inputs = record.inputs();
        let is =
            |row: &&IndexMap<String, String>| row.iter().all(|(key, cell)| inputs.get(key) == Some(cell));
        let row = match (table.fitted.iter().any(|row| is(&row)), table.left_out.iter().any(|row| is(&row))) {
            (true, _) => Err("constants are fitted to it".to_owned()),
            (_, true) => Err("another tile is faster".to_owned()),
            _ => predicted(&model, graph?, &kernel).map(|predicted| Row {
                measured: record.median_us().as_secs(),
                predicted: predicted.alone().as_secs(),
                ..Row::default()
            }),
        };
        let place = format!("{}:{}", table.data, record.line);
        Some(Judged { part: table.part.clone(), place, inputs, row })
    };
    records(embedded::probe(&table.data)).filter_map(of).collect()
}

impl GraphTable {
    /// True of tables; a probe has other measurements too.
    pub(super) const fn is_table(&self) -> bool {
        self.kernels.is_empty()
    }
}

/// Cost of a kernel of a probe.
fn predicted(model: &KernelModel, graph: Graph, kernel: &Kernel) -> Result<KernelCost, String> {
    let cost = match kernel.what.as_str() {
        "typed product, gather inside" => model.segments(&segments(graph, kernel, Layout::Forward)),
        "weight gradient, a block a type" => model.segments(&segments(graph, kernel, Layout::WeightGradient)),
        _ => model.traversal(&model.repeated_traversal(&sum(graph, kernel))),
    };
    cost.map_err(|error| error.to_string())
}

/// A product of the rows of all edges with the weight of their type.
fn segments(graph: Graph, kernel: &Kernel, layout: Layout) -> Segments {
    let Graph { nodes, types, edges, width, .. } = graph;
    Segments {
        rows: edges,
        segments: types,
        longest: kernel.longest.unwrap_or(edges / types),
        n: width,
        k: width,
        dtype: if kernel.precision.as_deref() == Some("tf32") { Dtype::Tf32 } else { Dtype::Fp32 },
        layout,
        gathered: true,
        table: nodes,
        scattered: false,
    }
}

/// A sum of rows of edges, by blocks of destinations or by atomics.
fn sum(graph: Graph, kernel: &Kernel) -> Traversal {
    let dtype = Dtype::Fp32;
    let edges = kernel.edges.unwrap_or(graph.edges);
    let nodes = kernel.nodes.unwrap_or(graph.nodes);
    let row_bytes = kernel.width.unwrap_or(graph.width) * dtype.bytes();
    let by_atomics = kernel.what.starts_with("index_add");
    Traversal {
        dtype,
        edges,
        gathered: 0,
        table: 0,
        streamed: edges * (row_bytes + INDEX),
        cached: 0,
        written: nodes * row_bytes,
        destinations: if by_atomics { 0 } else { nodes },
        longest: kernel.longest.unwrap_or(graph.max_in),
        row_bytes,
        atomics: if by_atomics { edges * row_bytes } else { 0 },
        walk: Walk::Block,
    }
}

/// Measured and predicted time of a row of a table (s).
fn of_row(model: &KernelModel, cells: &IndexMap<String, String>) -> Result<[f64; 2], String> {
    if let Some(constant) = cells.get("fitted").filter(|constant| !constant.is_empty()) {
        return Err(format!("{constant} is fitted to it"));
    }
    let text = |column: &str| cells.get(column).map_or("", String::as_str);
    let known = |column: &str| text(column).parse::<u64>().unwrap_or_default();
    let cost = match text("kernel") {
        "gemm" => model.gemm(&Gemm {
            batch: known("batch"),
            m: known("m"),
            n: known("n"),
            k: known("k"),
            dtype: Dtype::Fp32,
            layout: if known("batch") > 1 { Layout::InputGradient } else { Layout::Forward },
            accumulate: None,
        }),
        "dot" => model.traversal(&Traversal {
            dtype: Dtype::Fp32,
            edges: known("edges"),
            gathered: known("gathered"),
            table: known("table"),
            streamed: known("streamed"),
            cached: 0,
            written: known("written"),
            destinations: 0,
            longest: 0,
            row_bytes: 0,
            atomics: 0,
            walk: Walk::Thread,
        }),
        pass => stream(model, pass, cells),
    };
    let seconds = cost.map_err(|error| error.to_string())?.alone().as_secs();
    Ok([number(cells, "us")? * 1e-6, seconds])
}

/// A pass over memory of a table.
fn stream(
    model: &KernelModel,
    pass: &str,
    cells: &IndexMap<String, String>,
) -> Result<KernelCost, KernelError> {
    let known = |column: &str| cells.get(column).and_then(|cell| cell.parse().ok());
    model.stream(&Stream {
        class: if pass == "layer-norm" { StreamClass::LayerNorm } else { StreamClass::Elementwise },
        bytes_read: known("streamed").unwrap_or_default(),
        bytes_written: known("written").unwrap_or_default(),
        bytes_cached: 0,
        rows: known("m"),
        looked_up: 0,
    })
}
