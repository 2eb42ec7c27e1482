//! What a pipeline with given stage times must satisfy.

use workloads::limits::check_parts;
use workloads::passes::ModelKind;

use super::Check;
use super::batches::Batches;
use crate::plans;
use crate::schema::{PerStage, ProfiledPipeline, Scenario, SendMode};

const PIPELINE: &str = "model.profiled_pipeline";
pub(super) const STAGES: &str = "model.profiled_pipeline.stages";

/// Settings that are about transformers and machines.
const FOREIGN: [(&str, &str); 31] = [
    ("machine", "its stages have a `device`: `model: { profiled_pipeline: { device: { memory: 40 GB } } }`"),
    ("calibration", "its times are given; remove it"),
    ("software", "the times of its kernels are given; remove it"),
    ("training.accumulate", "write `micro_batches`"),
    ("training.sequence", "its times are given, whatever a sample is; remove it"),
    ("training.step", "give the times of the phases that it has; remove it"),
    ("training.fp8", "its times are given, whatever the numbers are; remove it"),
    ("training.adapters", "its times are given, whatever is trained; remove it"),
    ("training.precision", "its times are given, whatever the numbers are; remove it"),
    ("parallelism.tensor", "its times are given; remove it"),
    ("parallelism.stage_layers", "its times are given; remove it"),
    ("parallelism.sequence_parallel", "its times are given; remove it"),
    ("parallelism.data", "it is simulated once; remove it"),
    ("parallelism.distributed_optimizer", "its steps end without an update; remove it"),
    ("parallelism.sharding", "it is simulated once; remove it"),
    ("parallelism.overlap_gradient_reduce", "it is simulated once; remove it"),
    ("parallelism.overlap_parameter_gather", "it is simulated once; remove it"),
    ("parallelism.idle", "every stage has its device; remove it"),
    ("parallelism.placement", "it is on no machine; remove it"),
    ("parallelism.sharding_group", "it is simulated once; remove it"),
    ("parallelism.asynchronous_tensor", "its times are given; remove it"),
    ("parallelism.overlap_tensor_reduce", "its times are given; remove it"),
    ("parallelism.scatter_gather", "the time of its messages is given; remove it"),
    ("memory.bytes_per_parameter", "give `model.profiled_pipeline.weights`"),
    ("memory.allocator", "its activations are given, whoever allocates them; remove it"),
    ("memory.gradient_placeholders", "its activations are given, whoever allocates them; remove it"),
    ("memory.pinned", "it has no host; remove it"),
    ("memory.reserved", "give `model.profiled_pipeline.device.reserved`"),
    ("memory.footprint_ratio", "give the memory of its stages: `memory: { limit: 40 GB }`"),
    ("storage", "it is on no machine; remove it"),
    (
        "campaign",
        "it is on no machine that fails or costs; write the model as a `transformer` or as `layers`",
    ),
];

impl Check<'_> {
    pub(super) fn profiled(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a profiled pipeline");
        let Some(pipeline) = scenario.model.profile() else { return };
        let complete = self.lists(scenario, pipeline);
        self.stage_values(scenario, pipeline, complete);
        self.stages(scenario);
        self.batches(&mut scenario.training, Batches::Profile);
        self.interleaving(scenario, "training.micro_batches", STAGES);
        defaults(scenario);
    }

    /// A list must have one value for each stage; whether all do.
    fn lists(&mut self, scenario: &Scenario, pipeline: &ProfiledPipeline) -> bool {
        let recompute = scenario.techniques.recompute.as_ref();
        let times = [
            ("model.profiled_pipeline.forward", Some(&pipeline.forward)),
            ("model.profiled_pipeline.backward_input", Some(&pipeline.backward_input)),
            ("model.profiled_pipeline.backward_weight", Some(&pipeline.backward_weight)),
            ("model.profiled_pipeline.transfer", Some(&pipeline.transfer)),
            ("techniques.recompute.forward", recompute.and_then(|recompute| recompute.forward.as_ref())),
        ];
        let sizes = [
            ("model.profiled_pipeline.activation", Some(&pipeline.activation)),
            (
                "model.profiled_pipeline.activation_kept_for_weight",
                pipeline.activation_kept_for_weight.as_ref(),
            ),
            ("model.profiled_pipeline.weights", pipeline.weights.as_ref()),
            ("techniques.recompute.keeps", recompute.and_then(|recompute| recompute.keeps.as_ref())),
        ];
        let lengths = times.map(|(path, values)| (path, values.and_then(listed)));
        let lengths = lengths.into_iter().chain(sizes.map(|(path, values)| (path, values.and_then(listed))));
        let stages = pipeline.stages.get() as usize;
        let mut complete = true;
        for (path, length) in lengths {
            if let Some(length) = length.filter(|&length| length != stages) {
                let about = [(path, format!("{length} values")), (STAGES, format!("{stages} stages"))];
                let message = format!("`{path}` has {length} values for {stages} stages");
                self.report(&about, message, "give one value for each stage, or a single one for all");
                complete = false;
            }
        }
        complete
    }

    /// Values that must be in proportion on each stage.
    fn stage_values(&mut self, scenario: &Scenario, pipeline: &ProfiledPipeline, complete: bool) {
        let forward = format!("{PIPELINE}.forward");
        if pipeline.forward.values().iter().any(|time| time.is_zero()) {
            self.report(
                &[(&forward, "zero".to_owned())],
                format!("`{forward}` must be longer than zero"),
                "give the measured time",
            );
        }
        if complete {
            let mut found = Vec::new();
            check_parts(&plans::profiled::plan(scenario, pipeline), &mut found);
            found.into_iter().for_each(|diagnostic| self.diagnostic(diagnostic));
        }
        if let Some(device) = &pipeline.device
            && device.reserved.is_some_and(|reserved| reserved.bytes() > device.memory.bytes())
        {
            let (memory, reserved) =
                (format!("{PIPELINE}.device.memory"), format!("{PIPELINE}.device.reserved"));
            let about = [(&*reserved, String::new()), (&*memory, String::new())];
            self.report(
                &about,
                format!("`{reserved}` is more than the device has"),
                "reserve less than `memory`",
            );
        }
    }

    /// The pipeline is as long as the profile, and what is listed by stage exists.
    fn stages(&mut self, scenario: &mut Scenario) {
        let Some(profiled) = scenario.model.profile() else { return };
        let stages = profiled.stages;
        match scenario.parallelism.pipeline {
            Some(pipeline) if pipeline != stages => {
                let (pipeline, stages) = (pipeline.get(), stages.get());
                let about = [
                    ("parallelism.pipeline", format!("{pipeline} devices")),
                    (STAGES, format!("{stages} stages")),
                ];
                let message =
                    format!("a pipeline of {pipeline} cannot hold the {stages} stages of the profile");
                self.report(&about, message, "leave `parallelism.pipeline` out; it follows from the stages");
            }
            Some(_) => {}
            None => {
                scenario.parallelism.pipeline = Some(stages);
                self.derived.insert("parallelism.pipeline".into(), "one device per stage".to_owned());
            }
        }
        self.recomputing_stages(scenario, stages.get());
    }
}

/// What holds where nothing is written.
fn defaults(scenario: &mut Scenario) {
    scenario.parallelism.send.get_or_insert(SendMode::Latency);
    scenario.techniques.fill(ModelKind::Profile);
}

fn listed<T: Copy>(values: &PerStage<T>) -> Option<usize> {
    match values {
        PerStage::All(_) => None,
        PerStage::Each(values) => Some(values.len()),
    }
}
