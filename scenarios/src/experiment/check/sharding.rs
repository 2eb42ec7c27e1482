//! Whether a transformer can be split as asked, and which splits can.

use workloads::diagnostic::Diagnostic;
use workloads::model::transformer::ShardedTransformer;
use workloads::plan::check_experts;

use super::Check;
use crate::plans::transformer::execution;
use crate::schema::{Count, Scenario, Shape};

/// Names of wrong values in the workloads, the setting that says each, and others that have a part
/// in it. Dimensions without others are not listed.
const SETTINGS: [(&str, &str, &[&str]); 24] = [
    ("kv_heads", "model.transformer.kv_heads", &["model.transformer.heads"]),
    ("head_dim", "model.transformer.head_dim", &["model.transformer.heads"]),
    ("classes", "model.transformer.classes", &["model.transformer.encoder"]),
    (
        "tensor",
        "parallelism.tensor",
        &[
            "model.transformer.heads",
            "model.transformer.kv_heads",
            "model.transformer.ffn",
            "training.sequence",
        ],
    ),
    ("sequence_parallel", "parallelism.sequence_parallel", &["parallelism.tensor"]),
    (
        "context",
        "parallelism.context",
        &[
            "parallelism.context_exchange",
            "parallelism.tensor",
            "training.sequence",
            "model.transformer.kv_heads",
            "software.attention",
        ],
    ),
    ("expert", "parallelism.expert", &["model.transformer.experts.count"]),
    ("experts.top_k", "model.transformer.experts.top_k", &["model.transformer.experts.count"]),
    (
        "experts.busiest",
        "model.transformer.experts.load.busiest",
        &["model.transformer.experts.count", "model.transformer.experts.top_k"],
    ),
    ("experts.drawn", "model.transformer.experts.load.drawn.concentration", &[]),
    ("experts.dense_layers", "model.transformer.experts.dense_layers", &["model.transformer.layers"]),
    ("experts.every", "model.transformer.experts.every", &["model.transformer.layers"]),
    ("global_every", "model.transformer.global_every", &["model.transformer.window"]),
    ("window_form", "model.transformer.window_form", &["model.transformer.window"]),
    ("pipeline", "parallelism.pipeline", &["model.transformer.layers", "parallelism.schedule"]),
    (
        "stage_layers",
        "parallelism.stage_layers",
        &["model.transformer.layers", "parallelism.pipeline", "parallelism.schedule"],
    ),
    ("micro_batch", "training.micro_batch", &["training.sequence"]),
    ("sequence", "training.sequence", &["model.transformer.max_positions", "model.transformer.window"]),
    ("in_pieces", "parallelism.asynchronous_tensor", &["parallelism.sequence_parallel"]),
    ("fp8", "training.fp8", &["training.precision", "training.fp8.scaling"]),
    ("adapters", "training.adapters", &[]),
    ("adapters.rank", "training.adapters.rank", &["model.transformer.hidden"]),
    ("adapters.layers", "training.adapters.layers", &["software.layers"]),
    ("attention", "software.attention", &["training.precision"]),
];

/// Tensor ranks, as the model calls them.
const TENSOR: &str = "tensor";

impl Check<'_> {
    /// Whether everything divides, with the values that would do where it does not.
    pub(super) fn sharding(&mut self, scenario: &Scenario) {
        let Some(settings) = scenario.model.transformer() else { return };
        let (model, execution) = (settings.dimensions(), execution(scenario));
        for mut invalid in ShardedTransformer::new(&model, &execution).err().into_iter().flatten() {
            if let (TENSOR, Some(gpus)) = (invalid.path, self.gpus) {
                let ranks = execution.split.fewer_tensor_ranks(&model, execution.sequence, gpus);
                invalid.remedy = format!("{ranks} would do");
            }
            self.invalid(&invalid);
        }
        let ranks = |count: Option<Count<1, 131_072>>| count.map_or(1, Count::get) as u32;
        let (data, context) = (ranks(scenario.parallelism.data), ranks(scenario.parallelism.context));
        let found = check_experts(execution.split.expert, data, context);
        found.into_iter().for_each(|diagnostic| self.diagnostic(diagnostic));
        let split = &execution.split;
        self.recomputing_layers(scenario, split.layers_max(&model), split.chunks);
        self.recomputing_modules(scenario, &model);
    }

    fn invalid(&mut self, invalid: &Diagnostic) {
        let known = SETTINGS.iter().find(|(field, ..)| *field == invalid.path);
        let dimension = format!("model.transformer.{}", invalid.path);
        let (path, parts) = match known {
            Some((_, path, parts)) => (*path, *parts),
            None if Shape::scenario().at(&self.keys(&dimension)).is_some() => (&*dimension, &[][..]),
            None => ("model.transformer", &[][..]),
        };
        let parts: Vec<&str> = parts.iter().copied().chain(["model.transformer.preset"]).collect();
        self.report_with(path, &parts, format!("`{path}`: {}", invalid.message), &invalid.remedy);
    }
}
