//! Tables of kernels as their publishers wrote them, read as shapes and times.
//!
//! A table is known by its columns. The inputs of a row are the columns that say what was run and where; the others are
//! results, or labels of the publisher. Rows are left out where the model has nothing to say: heads of two widths, the
//! floor of a timer.

use super::kernels::{KernelShape, Sample};
use super::measure::{Kernel, Operation};
use super::split;
use super::table::{Row, Table, TableError};
use hw_models::kernels::{
    Attention, Convolution, ConvolutionAlgorithm, ConvolutionPass, Dtype, Gemm, GroupedGemm, KernelClass,
    Layout, Pass, Stream, StreamClass,
};

/// Samples of one class of kernels of one device.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The device, by its name in the catalogue.
    pub device: String,
    /// The class.
    pub class: KernelClass,
    /// The `# source:` lines of the tables.
    pub sources: Vec<String>,
    /// In the order of the tables.
    pub samples: Vec<Sample>,
}

/// Reads tables; rows of one device and class are joined.
///
/// # Errors
/// All that is wrong with any of the tables.
pub fn measured(tables: &[Table]) -> Result<Vec<Measured>, Vec<TableError>> {
    let mut sets: Vec<Measured> = Vec::new();
    let mut wrong = Vec::new();
    for table in tables {
        let Some(format) = FORMATS.iter().find(|format| format.fits(table)) else {
            wrong.push(unknown(table));
            continue;
        };
        for row in table.rows() {
            let device = device(row.text("gpu"));
            match (format.read)(&row) {
                Ok(kernels) => {
                    for (shape, result) in kernels {
                        match seconds(&row, result).and_then(|seconds| Ok((seconds, nth(&row)?))) {
                            Ok((seconds, nth)) => {
                                let hash = format.hash(&row, result);
                                let sample = Sample::new(shape, seconds, hash, row.line());
                                add(&mut sets, table, &device, Sample { nth, ..sample });
                            }
                            Err(error) => wrong.push(error),
                        }
                    }
                }
                Err(error) => wrong.push(error),
            }
        }
    }
    if wrong.is_empty() { Ok(sets) } else { Err(wrong) }
}

fn add(sets: &mut Vec<Measured>, table: &Table, device: &str, sample: Sample) {
    let class = sample.shape.class();
    let at = sets.iter().position(|set| set.device == device && set.class == class).unwrap_or_else(|| {
        sets.push(Measured { device: device.to_owned(), class, sources: Vec::new(), samples: Vec::new() });
        sets.len() - 1
    });
    let set = &mut sets[at];
    if !set.sources.contains(&table.source) {
        set.sources.push(table.source.clone());
    }
    set.samples.push(sample);
}

/// Names of devices in the catalogue, by those that the tables use; others are taken as they are.
fn device(name: &str) -> String {
    let known = match name {
        "A100-PG509-200" => "a100-sxm4-40gb",
        "A100_PCIe_80GB" | "NVIDIA_A100_80GB_PCIe" => "a100-pcie-80gb",
        "NVIDIA_A100-PCIE-40GB" => "a100-pcie-40gb",
        "A100-SXM4-80GB" => "a100-sxm4-80gb",
        "B200_SXM" => "b200-sxm-180gb",
        "H100-HBM2e-500W" => "h100-sxm5-96gb-500w",
        "H100_80GB_HBM3_sm_90" | "NVIDIA_H100_80GB_HBM3" => "h100-sxm5-80gb",
        "NVIDIA_L4" => "l4",
        "P100" | "Tesla_P100-PCIE-16GB" => "p100-pcie-16gb",
        "T4" | "Tesla_T4" => "t4",
        "V100" => "v100-sxm2-16gb",
        "Tesla_V100-PCIE-32GB" => "v100-pcie-32gb",
        other => other,
    };
    known.to_owned()
}

/// A known table.
struct Format {
    /// Columns that say what was run.
    inputs: &'static [&'static str],
    /// Columns of results.
    results: &'static [&'static str],
    /// The kernels of a row, with the columns of their times.
    read: fn(&Row<'_>) -> Result<Kernels, TableError>,
}

/// Kernels with the columns of their times.
type Kernels = Vec<(KernelShape, &'static str)>;

/// The time in a column, whose name has the unit.
fn seconds(row: &Row<'_>, column: &str) -> Result<f64, TableError> {
    let unit = if column.ends_with("_ms") { 1e-3 } else { 1e-6 };
    row.positive(column, 1e-12 / unit).map(|time| time * unit)
}

/// Shapes launched before that of a row, 0 where the table does not tell.
fn nth(row: &Row<'_>) -> Result<u64, TableError> {
    if row.text("nth").is_empty() { Ok(0) } else { row.whole("nth") }
}

impl Format {
    fn fits(&self, table: &Table) -> bool {
        self.inputs.iter().chain(self.results).all(|column| table.columns().iter().any(|name| name == column))
    }

    /// Where a row holds several kernels, the name of the result is an input.
    fn hash(&self, row: &Row<'_>, result: &'static str) -> u64 {
        let mut inputs: Vec<&str> = self.inputs.iter().map(|column| row.text(column)).collect();
        if self.results.len() > 1 {
            inputs.push(result);
        }
        split::hash(&inputs)
    }
}

const FORMATS: [Format; 16] = [
    Format {
        inputs: &["gpu", "dtype", "b", "m", "n", "k", "layout", "accumulate"],
        results: &["latency_us"],
        read: own_gemm,
    },
    Format {
        inputs: &["gpu", "operation", "rows", "width", "dtype"],
        results: &["latency_us"],
        read: own_pass,
    },
    Format {
        inputs: &["gpu", "pass", "batch", "heads", "kv_heads", "queries", "head_dim", "causal", "dtype"],
        results: &["latency_us"],
        read: own_attention,
    },
    Format {
        inputs: &["gpu", "b", "m", "k", "n", "layout", "accumulate", "out_dtype"],
        results: &["time_us_derived"],
        read: simumax_gemm,
    },
    Format {
        inputs: &[
            "gpu",
            "groups",
            "M",
            "N",
            "K",
            "stage",
            "accumulate",
            "out_dtype",
            "main_grad_dtype",
            "single_output",
        ],
        results: &["time_us_derived"],
        read: simumax_grouped,
    },
    Format {
        inputs: &[
            "gpu",
            "op",
            "batch",
            "seq_len",
            "q_heads",
            "kv_heads",
            "qk_head_dim",
            "v_head_dim",
            "qkv_contiguous",
        ],
        results: &["time_us_derived"],
        read: simumax_attention,
    },
    Format { inputs: &["gpu", "dtypes", "b", "m", "n", "k"], results: &["time_us_derived"], read: xla_gemm },
    Format {
        inputs: &["gpu", "precision", "M", "N", "K", "a_trans", "b_trans"],
        results: &["time_ms"],
        read: deepbench_gemm,
    },
    Format {
        inputs: &[
            "gpu",
            "precision",
            "in_w",
            "in_h",
            "in_channels",
            "batch",
            "out_channels",
            "filter_w",
            "filter_h",
            "pad_w",
            "pad_h",
            "stride_w",
            "stride_h",
        ],
        results: &["forward_ms", "backward_inputs_ms", "backward_params_ms"],
        read: deepbench_convolution,
    },
    Format {
        inputs: &["gpu", "op", "B", "M", "N_contraction", "K_out"],
        results: &["latency_ms"],
        read: neusight_gemm,
    },
    Format { inputs: &["gpu", "op", "rows", "cols"], results: &["latency_ms"], read: vector },
    Format {
        inputs: &["gpu", "batch", "in_channels", "out_channels", "kernel", "input_hw", "stride", "padding"],
        results: &["latency_ms"],
        read: neusight_convolution,
    },
    Format { inputs: &["gpu", "rows_read", "tokens", "width"], results: &["latency_ms"], read: embedding },
    Format {
        inputs: &["gpu", "entries", "tokens", "width"],
        results: &["gradient_derived_ms"],
        read: embedding_gradient,
    },
    Format { inputs: &["gpu", "dtype", "rows", "vocabulary"], results: &["latency_ms"], read: cross_entropy },
    Format {
        inputs: &["gpu", "operation", "elements", "bytes_read", "bytes_written"],
        results: &["latency_us"],
        read: optimizer,
    },
];

fn unknown(table: &Table) -> TableError {
    let known = FORMATS.iter().map(|format| [format.inputs, format.results].concat().join(","));
    let known = known.collect::<Vec<_>>().join("; ");
    let columns = table.columns().join(",");
    let fault = format!("no table of kernels has the columns {columns}; known are: {known}");
    TableError { file: table.name.clone(), line: table.head, at: None, fault }
}

/// Products that `foretrain calibrate` timed.
fn own_gemm(row: &Row<'_>) -> Result<Kernels, TableError> {
    let gemm = Gemm {
        batch: row.count("b")?,
        m: row.count("m")?,
        n: row.count("n")?,
        k: row.count("k")?,
        dtype: row.named("dtype")?,
        layout: layout(row),
        accumulate: (!row.text("accumulate").is_empty()).then(|| row.named("accumulate")).transpose()?,
    };
    Ok(vec![(KernelShape::Gemm(gemm), "latency_us")])
}

/// Passes over memory that it timed. An update of few chunks ends with its longest, which tells
/// nothing of long lists.
fn own_pass(row: &Row<'_>) -> Result<Kernels, TableError> {
    let kernel = Kernel {
        operation: row.named("operation")?,
        rows: row.count("rows")?,
        width: row.count("width")?,
        dtype: row.named("dtype")?,
    };
    let few = kernel.rows.saturating_mul(kernel.width) < MANY_ELEMENTS;
    if kernel.operation == Operation::Adam && few {
        return Ok(Vec::new());
    }
    Ok(vec![(KernelShape::Cold(kernel.stream()), "latency_us")])
}

/// Attention that it timed, over as many keys as queries.
fn own_attention(row: &Row<'_>) -> Result<Kernels, TableError> {
    let [tokens, width] = [row.count("queries")?, row.count("head_dim")?];
    let attention = Attention {
        pass: row.named("pass")?,
        batch: row.count("batch")?,
        heads: row.count("heads")?,
        kv_heads: row.count("kv_heads")?,
        queries: tokens,
        keys: tokens,
        head_dim: width,
        value_dim: width,
        causal: row.text("causal") == "true",
        window: None,
        dtype: row.named("dtype")?,
    };
    Ok(vec![(KernelShape::Attention(attention), "latency_us")])
}

/// Which operand is transposed, by the letters of BLAS.
fn layout(row: &Row<'_>) -> Layout {
    match row.text("layout") {
        "TN" => Layout::Forward,
        "NN" => Layout::InputGradient,
        _ => Layout::WeightGradient,
    }
}

/// Layers of language models: forward TN, input gradient NN, weight gradient NT.
fn simumax_gemm(row: &Row<'_>) -> Result<Kernels, TableError> {
    let gemm = Gemm {
        batch: row.count("b")?,
        m: row.count("m")?,
        n: row.count("n")?,
        k: row.count("k")?,
        dtype: Dtype::Bf16,
        layout: layout(row),
        accumulate: sums(row),
    };
    Ok(vec![(KernelShape::Gemm(gemm), "time_us_derived")])
}

/// The type of what a product is added to, if it is.
fn sums(row: &Row<'_>) -> Option<Dtype> {
    (row.text("accumulate") == "True").then_some(Dtype::Fp32)
}

/// Experts; `M` is the rows of each, which the weight gradient sums over.
fn simumax_grouped(row: &Row<'_>) -> Result<Kernels, TableError> {
    let [rows, n, k] = [row.count("M")?, row.count("N")?, row.count("K")?];
    let (layout, [m, n, k]) = match row.text("stage") {
        "fwd" => (Layout::Forward, [rows, n, k]),
        "bwd_grad_act" => (Layout::InputGradient, [rows, n, k]),
        _ => (Layout::WeightGradient, [n, k, rows]),
    };
    let accumulate = match row.text("main_grad_dtype") {
        "bf16" => sums(row).and(Some(Dtype::Bf16)),
        _ => sums(row),
    };
    let groups = Gemm { batch: row.count("groups")?, m, n, k, dtype: Dtype::Bf16, layout, accumulate };
    Ok(vec![(KernelShape::Grouped(GroupedGemm { groups }), "time_us_derived")])
}

/// Causal. On the B200 fewer than 16 heads end at 91 us whatever their number, the floor of the timing.
fn simumax_attention(row: &Row<'_>) -> Result<Kernels, TableError> {
    if row.text("qkv_contiguous") != "True" || seconds(row, "time_us_derived")? <= 100e-6 {
        return Ok(Vec::new());
    }
    let attention = Attention {
        pass: if row.text("op") == "sdp_fwd" { Pass::Forward } else { Pass::Backward },
        batch: row.count("batch")?,
        heads: row.count("q_heads")?,
        kv_heads: row.count("kv_heads")?,
        queries: row.count("seq_len")?,
        keys: row.count("seq_len")?,
        head_dim: row.count("qk_head_dim")?,
        value_dim: row.count("v_head_dim")?,
        causal: true,
        window: None,
        dtype: Dtype::Bf16,
    };
    Ok(vec![(KernelShape::Attention(attention), "time_us_derived")])
}

/// Powers of two; what the table calls F32 runs on tensor cores, as TF32.
fn xla_gemm(row: &Row<'_>) -> Result<Kernels, TableError> {
    let dtype = if row.text("dtypes").starts_with("BF16") { Dtype::Bf16 } else { Dtype::Tf32 };
    let [batch, m, n, k] = [row.count("b")?, row.count("m")?, row.count("n")?, row.count("k")?];
    let gemm = Gemm { batch, m, n, k, dtype, layout: Layout::Forward, accumulate: None };
    Ok(vec![(KernelShape::Gemm(gemm), "time_us_derived")])
}

/// The type a row of DeepBench runs in, where the catalogue has one.
fn deepbench_type(row: &Row<'_>) -> Option<Dtype> {
    match row.text("precision") {
        "FP16_in_tensorcore_FP32_acc" => Some(Dtype::Fp16),
        "FP32" => Some(Dtype::Fp32),
        _ => None,
    }
}

fn deepbench_gemm(row: &Row<'_>) -> Result<Kernels, TableError> {
    let Some(dtype) = deepbench_type(row) else { return Ok(Vec::new()) };
    let layout = match (row.text("a_trans"), row.text("b_trans")) {
        ("T", _) => Layout::Forward,
        (_, "N") => Layout::InputGradient,
        _ => Layout::WeightGradient,
    };
    // By columns, as BLAS stores matrices, they are transposed.
    let [n, m, k] = [row.count("M")?, row.count("N")?, row.count("K")?];
    let gemm = Gemm { batch: 1, m, n, k, dtype, layout, accumulate: None };
    Ok(vec![(KernelShape::Gemm(gemm), "time_ms")])
}

/// Algorithms by cuDNN's names, `CUDNN_CONVOLUTION_FWD_ALGO_`.
fn algorithm(name: &str) -> Option<ConvolutionAlgorithm> {
    match name {
        "IMPLICIT_GEMM" | "IMPLICIT_PRECOMP_GEMM" => Some(ConvolutionAlgorithm::Implicit),
        "WINOGRAD" => Some(ConvolutionAlgorithm::FusedWinograd),
        "WINOGRAD_NONFUSED" => Some(ConvolutionAlgorithm::Winograd),
        "FFT" | "FFT_TILING" => Some(ConvolutionAlgorithm::Fourier),
        _ => None,
    }
}

fn deepbench_convolution(row: &Row<'_>) -> Result<Kernels, TableError> {
    use ConvolutionPass::{Forward, InputGradient, WeightGradient};
    let Some(dtype) = deepbench_type(row) else { return Ok(Vec::new()) };
    let passes = [
        (Forward, "forward_ms"),
        (InputGradient, "backward_inputs_ms"),
        (WeightGradient, "backward_params_ms"),
    ];
    let kernel = |(pass, column)| {
        let convolution = Convolution {
            pass,
            batch: row.count("batch")?,
            in_channels: row.count("in_channels")?,
            out_channels: row.count("out_channels")?,
            input: [row.count("in_h")?, row.count("in_w")?],
            filter: [row.count("filter_h")?, row.count("filter_w")?],
            padding: [row.whole("pad_h")?, row.whole("pad_w")?],
            stride: [row.count("stride_h")?, row.count("stride_w")?],
            dilation: [1; 2],
            groups: 1,
            dtype,
            algorithm: if pass == Forward { algorithm(row.text("forward_algorithm")) } else { None },
        };
        Ok((KernelShape::Convolution(convolution), column))
    };
    // A first layer has no gradient of its input.
    passes.into_iter().filter(|(_, column)| !row.text(column).is_empty()).map(kernel).collect()
}

/// Linear layers (TN, all rows of the batch in one product) and batched products (NN) of fp32 on the ordinary cores.
fn neusight_gemm(row: &Row<'_>) -> Result<Kernels, TableError> {
    let [batch, m] = [row.count("B")?, row.count("M")?];
    let (layout, batch, m) = match row.text("op") {
        "linear" => (Layout::Forward, 1, batch.saturating_mul(m)),
        _ => (Layout::InputGradient, batch, m),
    };
    let (n, k) = (row.count("K_out")?, row.count("N_contraction")?);
    let gemm = Gemm { batch, m, n, k, dtype: Dtype::Fp32, layout, accumulate: None };
    Ok(vec![(KernelShape::Gemm(gemm), "latency_ms")])
}

/// Of fp32, on the A100-SXM4 of fp16. Softmax and normalisation walk over rows. Of the A100-SXM4, whose times hold some
/// 40 us of the host, only tensors far larger than the cache.
fn vector(row: &Row<'_>) -> Result<Kernels, TableError> {
    let (class, by_rows) = match row.text("op") {
        "ln" => (StreamClass::LayerNorm, true),
        "softmax" => (StreamClass::Softmax, true),
        _ => (StreamClass::Elementwise, false),
    };
    let half = row.text("gpu") == "A100-SXM4-80GB";
    let rows = row.count("rows")?;
    let tensor = rows.saturating_mul(row.count("cols")?).saturating_mul(if half { 2 } else { 4 });
    if half && tensor < 64 << 20 {
        return Ok(Vec::new());
    }
    let inputs = if row.text("op") == "add" { 2 } else { 1 };
    // A mask of bytes beside numbers of four.
    let mask = if row.text("op") == "dropout" { tensor / 4 } else { 0 };
    let pass = Stream::pass(class, (tensor.saturating_mul(inputs), tensor.saturating_add(mask)));
    let stream = Stream { rows: by_rows.then_some(rows), ..pass };
    Ok(vec![(KernelShape::Stream(stream), "latency_ms")])
}

/// Bytes of a table or a tensor in fp32.
const fn single(rows: u64, width: u64) -> u64 {
    rows.saturating_mul(width).saturating_mul(4)
}

/// Lookups in a table, of which so many rows are read once.
fn embedding(row: &Row<'_>) -> Result<Kernels, TableError> {
    let [rows_read, tokens, width] = [row.count("rows_read")?, row.count("tokens")?, row.count("width")?];
    let pass = Stream::pass(StreamClass::Embedding, (single(rows_read, width), single(tokens, width)));
    let stream = Stream { looked_up: tokens.saturating_mul(width), ..pass };
    Ok(vec![(KernelShape::Stream(stream), "latency_ms")])
}

/// The gradients of all tokens are read; the sum of each row that random ones meet is written, read, and written into the table.
fn embedding_gradient(row: &Row<'_>) -> Result<Kernels, TableError> {
    let [entries, tokens, width] = [row.count("entries")?, row.count("tokens")?, row.count("width")?];
    let met = -(tokens as f64 * (-1.0 / entries as f64).ln_1p()).exp_m1() * entries as f64;
    let sums = single(met as u64, width);
    let read = single(tokens, width).saturating_add(sums);
    let stream = Stream::pass(StreamClass::EmbeddingGradient, (read, sums.saturating_mul(2)));
    Ok(vec![(KernelShape::Stream(stream), "gradient_derived_ms")])
}

/// Reads the logits for the sum of exponentials, and again for the gradient that takes their place. Narrow rows of fp32 come out
/// of the cache then, and go by faster than HBM could send them; those of bf16 are not held by memory.
fn cross_entropy(row: &Row<'_>) -> Result<Kernels, TableError> {
    let (rows, vocabulary, in_single) =
        (row.count("rows")?, row.count("vocabulary")?, row.text("dtype") == "fp32");
    if in_single && vocabulary < 1 << 16 {
        return Ok(Vec::new());
    }
    let logits = rows.saturating_mul(vocabulary).saturating_mul(if in_single { 4 } else { 2 });
    let pass = Stream::pass(StreamClass::CrossEntropy, (logits.saturating_mul(2), logits));
    Ok(vec![(KernelShape::Stream(Stream { rows: Some(rows), ..pass }), "latency_ms")])
}

/// A launch of few chunks ends with its longest, which tells nothing of long lists.
fn optimizer(row: &Row<'_>) -> Result<Kernels, TableError> {
    let elements = row.count("elements")?;
    let [read, written] = [row.count("bytes_read")?, row.count("bytes_written")?];
    if elements < MANY_ELEMENTS {
        return Ok(Vec::new());
    }
    let traffic = [read, written].map(|bytes| bytes.saturating_mul(elements));
    let stream = Stream::pass(StreamClass::Optimizer, (traffic[0], traffic[1]));
    Ok(vec![(KernelShape::Stream(stream), "latency_us")])
}

/// Elements of a list whose chunks of 65,536 keep all SMs at work.
const MANY_ELEMENTS: u64 = 10_000_000;

/// Square, forward, of fp32.
fn neusight_convolution(row: &Row<'_>) -> Result<Kernels, TableError> {
    let convolution = Convolution {
        pass: ConvolutionPass::Forward,
        batch: row.count("batch")?,
        in_channels: row.count("in_channels")?,
        out_channels: row.count("out_channels")?,
        input: [row.count("input_hw")?; 2],
        filter: [row.count("kernel")?; 2],
        padding: [row.whole("padding")?; 2],
        stride: [row.count("stride")?; 2],
        dilation: [1; 2],
        groups: 1,
        dtype: Dtype::Fp32,
        algorithm: algorithm(row.text("algorithm")),
    };
    Ok(vec![(KernelShape::Convolution(convolution), "latency_ms")])
}
