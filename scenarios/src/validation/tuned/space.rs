//! The space over which a plan was tuned, and one plan of it.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::validation::settings::{number, of_column};

/// Values of the columns over which plans of a model were tuned.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Axes {
    layers: u64,
    /// True if the embedding and the loss count as a layer each, so that the ends have one less.
    #[serde(default)]
    ends_count: bool,
    tensor: Vec<u64>,
    context: Vec<u64>,
    micro_batch: Vec<u64>,
    /// Chunks of a stage, by the number of stages.
    chunks: IndexMap<u64, Vec<u64>>,
}

const TENSOR: [&str; 3] =
    ["parallelism.tensor", "parallelism.sequence_parallel", "parallelism.asynchronous_tensor"];
const PIPELINE: [&str; 3] = ["parallelism.pipeline", "parallelism.schedule", "parallelism.stage_layers"];
const CONTEXT: &str = "parallelism.context";
const MICRO_BATCH: &str = "training.micro_batch";

impl Axes {
    /// The setting `search`.
    pub(super) fn search(&self, keep: usize) -> Json {
        let tensor: Vec<Json> = self.tensor.iter().map(|ranks| json!(tensor(*ranks))).collect();
        let pipelines = self
            .chunks
            .iter()
            .flat_map(|(stages, chunks)| chunks.iter().map(|chunks| json!(self.pipeline(*stages, *chunks))));
        json!({
            "over": {
                joined(TENSOR): tensor,
                joined(PIPELINE): pipelines.collect::<Vec<_>>(),
                CONTEXT: self.context,
                MICRO_BATCH: self.micro_batch,
                "techniques.recompute": ["none", { "mode": "selective" }, { "mode": "full" }],
            },
            "keep": keep,
            "gap": "0 %",
            "alternatives": false,
        })
    }

    /// Settings `path=value` of the plan of a row.
    ///
    /// # Errors
    /// The column that is no number.
    pub(super) fn plan(&self, cells: &IndexMap<String, String>) -> Result<Vec<String>, String> {
        let of = |column: &str| number(cells, column).map(|count| count as u64);
        let chunks = if of_column(cells, "chunks")?.is_empty() { 1 } else { of("chunks")? };
        let tensor = TENSOR.into_iter().zip(tensor(of("tensor")?));
        let pipeline = PIPELINE.into_iter().zip(self.pipeline(of("pipeline")?, chunks));
        let others = [(CONTEXT, json!(of("context")?)), (MICRO_BATCH, json!(of("micro_batch")?))];
        let settings = tensor.chain(pipeline).chain(others);
        Ok(settings.map(|(path, value)| format!("{path}={value}")).collect())
    }

    /// Stages, their schedule, and layers of all chunks where these differ.
    fn pipeline(&self, stages: u64, chunks: u64) -> [Json; 3] {
        let schedule = match chunks {
            1 => json!("1f1b"),
            chunks => json!({ "interleaved": { "chunks": chunks } }),
        };
        let parts = stages * chunks;
        let each = (self.layers + 2) / parts;
        let layers = (0..parts).map(|part| each - u64::from(part == 0) - u64::from(part + 1 == parts));
        let layers: Vec<u64> = layers.collect();
        [json!(stages), schedule, if self.ends_count { json!(layers) } else { json!("none") }]
    }
}

/// Tensor ranks: where there are several they split norms, and exchange in pieces.
fn tensor(ranks: u64) -> [Json; 3] {
    [json!(ranks), json!(ranks > 1), json!(ranks > 1)]
}

/// The key of several paths of one axis.
fn joined(paths: [&str; 3]) -> String {
    format!("[{}]", paths.join(", "))
}
