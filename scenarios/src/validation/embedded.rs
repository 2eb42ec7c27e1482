//! The sets and tables that come with foretrain, embedded so that they are there in any directory.

use calibration::Table;

use super::on_device::{OnMachine, Recorded};
use super::set::Set;
use super::tuned::Set as TunedSet;

macro_rules! files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!($folder, $name)))),*]
    };
}

/// File and text of each set, in the order in which they are listed.
const SETS: &[(&str, &str)] = files![
    "../../validation/":
    "megatron.yaml",
    "vtrain-single-node.yaml",
    "vtrain-multi-node.yaml",
    "llm-foundry.yaml",
    "simumax.yaml",
    "simumax-memory.yaml",
    "neusight.yaml",
    "torchtitan.yaml",
    "nemo.yaml",
    "lora.yaml",
    "v100-steps.yaml",
    "compilation.yaml",
    "torchbench-ci.yaml",
    "fused-networks.yaml",
    "recurrent.yaml",
    "fits.yaml",
    "gemm.yaml",
    "other-kernels.yaml",
    "streaming.yaml",
    "attention.yaml",
    "convolution.yaml",
    "tiles.yaml",
    "collectives.yaml",
    "copies.yaml",
    "storage.yaml",
    "host-updates.yaml",
    "sampled-graphs.yaml",
    "zero-copy.yaml",
    "graph-kernels.yaml",
];

/// File and text of each set of workloads.
const WORKLOADS: &[(&str, &str)] = files![
    "../../validation/on-device/":
    "steps.yaml",
    "programs.yaml",
    "plans.yaml",
    "memory.yaml",
    "fusion.yaml",
    "interference.yaml",
    "swapping.yaml",
    "duplex.yaml",
    "disk.yaml",
    "pipelines.yaml",
    "loaders.yaml",
];

/// What devices did, and the hardware files that it was predicted with: `NAME.jsonl` and what its heading names. A set of workloads
/// with a record is a set like any other.
const RECORDS: &[(&str, &str)] = files![
    "../../validation/on-device/":
    "h100-sxm5-80gb.jsonl",
    "h100-sxm5-80gb.yaml",
    "h200-sxm5-141gb.jsonl",
    "h200-sxm5-141gb.yaml",
];

/// Measured steps.
const STEPS: &[(&str, &str)] = files![
    "../../validation/":
    "megatron.csv",
    "vtrain-single-node.csv",
    "vtrain-multi-node.csv",
    "llm-foundry.csv",
    "simumax.csv",
    "neusight.csv",
    "torchtitan.csv",
    "nemo.csv",
    "lora.csv",
    "v100-steps.csv",
    "compilation.csv",
    "torchbench-ci.csv",
    "fused-networks.csv",
    "recurrent.csv",
    "out-of-memory.csv",
    "tuned-plans.csv",
];

/// The set of tuned plans.
const TUNED: &str = include_str!("../../validation/tuned-plans.yaml");

/// Measured kernels. Constants of the catalogue are fitted to three quarters of the rows of most of
/// them (`calibration/tests/integration/fitted.rs` lists which).
const KERNELS: &[(&str, &str)] = files![
    "../../../hw-models/measurements/kernels/":
    "products_hopper.csv",
    "passes_h200.csv",
    "attention_hopper.csv",
    "attention_bf16_simumax.csv",
    "convolution_deepbench.csv",
    "convolution_neusight_fp32.csv",
    "convolution_t4_deepbench.csv",
    "cross_entropy_liger.csv",
    "embedding_fp32.csv",
    "embedding_gradient_fp32.csv",
    "gemm_bf16_a100_sxm_llmcompass.csv",
    "gemm_bf16_simumax.csv",
    "gemm_deepbench.csv",
    "gemm_h100_xla.csv",
    "gemm_neusight_fp32.csv",
    "groupgemm_bf16_simumax.csv",
    "gemm_bf16_h100_xla.csv",
    "operators_passes_fp32.csv",
    "operators_products_fp32.csv",
    "optimizer.csv",
    "products_fp32_deepbench.csv",
    "vector_fp16_a100_sxm_llmcompass.csv",
    "vector_neusight_fp32.csv",
];

/// Measured collectives.
const COLLECTIVES: &[(&str, &str)] = files![
    "../../../hw-models/measurements/collectives/":
    "a100x8_superbench.csv",
    "allreduce_vtrain.csv",
    "allreduce_vtrain_odd.csv",
    "h100x8_xla.csv",
    "nccl2_p100_dgx1_tartan.csv",
];

/// Measured copies.
const COPIES: &[(&str, &str)] = files![
    "../../../hw-models/measurements/copies/":
    "copies_at_once.csv",
    "memcpy_v100_pcie3_superbench.csv",
    "pairs_p100_dgx1_tartan.csv",
    "staged_p100_dgx1_tartan.csv",
];

/// Measured storage.
const STORAGE: &[(&str, &str)] = files![
    "../../../hw-models/measurements/storage/":
    "arrays.csv",
    "queue_depth.csv",
    "states_smart_infinity.csv",
    "updates_by_host.csv",
];

/// Mini-batches of graphs, what caches served of them, and counts.
const SAMPLES: &[(&str, &str)] = files![
    "../../validation/":
    "sampled-graphs-hits.csv",
    "sampled-graphs-pairs.csv",
    "sampled-graphs-rows.csv",
];

/// Measured reads of host memory.
const READS: &[(&str, &str)] = files![
    "../../../hw-models/measurements/reads/":
    "lists_a100_dgl.csv",
    "selects_a100_dgl.csv",
    "selects_t4_dgl.csv",
];

/// Measured kernels of graph networks.
const GRAPHS: &[(&str, &str)] = files![
    "../../../hw-models/measurements/graphs/":
    "hgt_acm_rtx3090.csv",
];

/// Records of a GPU outside of suites.
const PROBES: &[(&str, &str)] = files![
    "../../../hw-models/measurements/probes/":
    "gathers.jsonl",
    "graph-networks.jsonl",
];

/// Spaces of kernels in tiles, packed.
const TILES: &[(&str, &[u8])] = &[
    (
        "products_clblast_rtx2080ti.csv.gz",
        include_bytes!("../../../hw-models/measurements/tiles/products_clblast_rtx2080ti.csv.gz"),
    ),
    (
        "convolution_image_a100.csv.gz",
        include_bytes!("../../../hw-models/measurements/tiles/convolution_image_a100.csv.gz"),
    ),
];

/// Records of a GPU outside of suites, products in tiles among it.
pub(super) const PROBED_TILES: &str = include_str!("../../../hw-models/measurements/probes/fusion.jsonl");

const SUFFIX: &str = ".yaml";

/// The names of the sets, in the order in which they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    let measured = workloads().filter(|name| records(name).next().is_some());
    SETS.iter().map(|(file, _)| file.trim_end_matches(SUFFIX)).chain(measured)
}

/// The names of the sets of workloads.
pub(super) fn workloads() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(file, _)| file.trim_end_matches(SUFFIX))
}

/// A set.
pub(super) fn set(name: &str) -> Option<Set> {
    read(SETS, name).or_else(|| workload(name))
}

/// Plans that others tuned.
pub(super) fn tuned_plans() -> TunedSet {
    serde_yaml::from_str(TUNED).unwrap_or_else(|error| panic!("validation/tuned-plans.yaml: {error}"))
}

/// A set of workloads.
pub(super) fn workload(name: &str) -> Option<Set> {
    read(WORKLOADS, name)
}

fn read(files: &[(&str, &str)], name: &str) -> Option<Set> {
    let (file, text) = files.iter().find(|(file, _)| file.strip_suffix(SUFFIX) == Some(name))?;
    Some(serde_yaml::from_str(text).unwrap_or_else(|error| panic!("validation/{file}: {error}")))
}

/// The records that have rows of a set of workloads, each with the machine it is of.
pub(super) fn records(name: &str) -> impl Iterator<Item = (Recorded, OnMachine)> {
    let read = |(file, text): &(&str, &str)| {
        file.strip_suffix(".jsonl")?;
        let recorded = Recorded::read(file, text).unwrap_or_else(|error| panic!("{error}"));
        let text =
            |name: &String| RECORDS.iter().find(|(file, _)| file == name).map(|(_, text)| text.as_bytes());
        let laid = |name: &String| {
            (name.clone(), text(name).unwrap_or_else(|| panic!("no file {name} is embedded")).to_vec())
        };
        let calibrations = recorded.heading.calibrations.iter().map(laid).collect();
        let machine = OnMachine { gpu: recorded.heading.gpu.clone(), calibrations };
        Some((recorded, machine))
    };
    let name = name.to_owned();
    let has = move |(recorded, _): &(Recorded, OnMachine)| recorded.of(&name).next().is_some();
    RECORDS.iter().filter_map(read).filter(has)
}

/// The names of the tables of measured kernels.
pub fn kernel_tables() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|(name, _)| *name)
}

/// The text of a table of measured kernels.
pub fn kernel_table(name: &str) -> Option<&'static str> {
    KERNELS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A table that a set names.
///
/// # Panics
/// If there is none or it is no table, which a test would find.
pub(super) fn table(name: &str) -> Table {
    let known = [KERNELS, COLLECTIVES, COPIES, STORAGE, READS, GRAPHS, SAMPLES, STEPS].into_iter().flatten();
    let text = known.copied().find(|(known, _)| *known == name).map(|(_, text)| text);
    let text = text.unwrap_or_else(|| panic!("no table {name} is embedded"));
    Table::read(name, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// Records that a set names.
///
/// # Panics
/// If there are none, which a test would find.
pub(super) fn probe(name: &str) -> &'static str {
    let text = PROBES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    text.unwrap_or_else(|| panic!("no probe {name} is embedded"))
}

/// A packed table that a set names.
///
/// # Panics
/// If there is none or it is no table, which a test would find.
pub(super) fn packed_table(name: &str) -> Table {
    let bytes = TILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
    let bytes = bytes.unwrap_or_else(|| panic!("no packed table {name} is embedded"));
    Table::packed(name, bytes).unwrap_or_else(|error| panic!("{error}"))
}
