//! Checks that span several settings, and settings that follow from others.

use std::collections::BTreeMap;

use super::paths;
use crate::schema::{
    Bytes, Count, Duration, Model, PerStage, ProfiledPipeline, Scenario, Schedule, StageSet,
};
use crate::text::decode::Path;
use crate::text::node::{Layer, Node};
use crate::text::problem::Problem;

/// A problem, and whether a swept setting has a part in it: then it is a point's, not the file's.
pub(super) struct Finding {
    pub(super) problem: Problem,
    pub(super) swept: bool,
}

/// Settings that follow from others: path to the reason.
pub(super) type Derived = BTreeMap<&'static str, String>;

const PIPELINE: &str = "model.profiled_pipeline";
const STAGES: &str = "model.profiled_pipeline.stages";

/// Checks `scenario`, typed from `tree`, and adds what follows from what is written. What was found at `examples` is
/// not the user's and takes part in no check.
pub(super) fn check(scenario: &mut Scenario, tree: &Node, examples: &[Path]) -> (Derived, Vec<Finding>) {
    let mut check = Check { tree, examples, findings: Vec::new() };
    let Model::ProfiledPipeline(pipeline) = &scenario.model;
    check.lists(scenario, pipeline);
    check.stage_values(scenario, pipeline);
    let mut derived = Derived::new();
    check.batches(scenario, &mut derived);
    check.pipeline(scenario, &mut derived);
    check.schedule(scenario);
    check.techniques(scenario);
    check.noise(scenario);
    (derived, check.findings)
}

struct Check<'a> {
    tree: &'a Node,
    examples: &'a [Path],
    findings: Vec<Finding>,
}

impl Check<'_> {
    /// Reports a problem about settings, each with what is to be seen there; the first is the place to look at.
    fn report(&mut self, about: &[(&str, String)], message: impl Into<String>, help: impl Into<String>) {
        let involved = |path: &str| {
            let keys = paths::keys(path);
            self.examples.iter().any(|example| example.iter().zip(&keys).all(|(a, b)| a == b))
        };
        if about.iter().any(|(path, _)| involved(path)) {
            return;
        }
        let nodes: Vec<(&Node, &String)> =
            about.iter().map(|(path, label)| (self.tree.nearest(&paths::keys(path)), label)).collect();
        let mut problem = Problem::new(nodes[0].0.mark, message).label(nodes[0].1).help(help);
        for (node, label) in &nodes[1..] {
            problem = problem.note(node.mark, *label);
        }
        let swept = nodes.iter().any(|(node, _)| node.layer == Layer::Sweep);
        self.findings.push(Finding { problem, swept });
    }

    /// A list must have one value for each stage.
    fn lists(&mut self, scenario: &Scenario, pipeline: &ProfiledPipeline) {
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
        for (path, length) in lengths {
            if let Some(length) = length.filter(|&length| length != stages) {
                let about = [(path, format!("{length} values")), (STAGES, format!("{stages} stages"))];
                let message = format!("`{path}` has {length} values for {stages} stages");
                self.report(&about, message, "give one value for each stage, or a single one for all");
            }
        }
    }

    /// Values that must be in proportion on each stage.
    fn stage_values(&mut self, scenario: &Scenario, pipeline: &ProfiledPipeline) {
        let forward = format!("{PIPELINE}.forward");
        if pipeline.forward.values().iter().any(|time| time.is_zero()) {
            self.report(
                &[(&forward, "zero".to_owned())],
                format!("`{forward}` must be longer than zero"),
                "give the measured time",
            );
        }
        let activation = (format!("{PIPELINE}.activation"), &pipeline.activation);
        if let Some(kept) = &pipeline.activation_kept_for_weight {
            self.part_of(&format!("{PIPELINE}.activation_kept_for_weight"), kept, &activation);
        }
        if let Some(keeps) =
            scenario.techniques.recompute.as_ref().and_then(|recompute| recompute.keeps.as_ref())
        {
            self.part_of("techniques.recompute.keeps", keeps, &activation);
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

    /// `part` must not exceed `whole` on any stage.
    fn part_of(&mut self, path: &str, part: &PerStage<Bytes>, whole: &(String, &PerStage<Bytes>)) {
        let stages = part.values().len().max(whole.1.values().len());
        let pick = |values: &PerStage<Bytes>, stage: usize| {
            values.values().get(stage.min(values.values().len() - 1)).copied()
        };
        let exceeds = |stage: &usize| match (pick(part, *stage), pick(whole.1, *stage)) {
            (Some(part), Some(whole)) => part.bytes() > whole.bytes(),
            _ => false,
        };
        if let Some(stage) = (0..stages).find(exceeds) {
            let about = [(path, String::new()), (&*whole.0, String::new())];
            let message = format!("`{path}` is more than the whole of `{}` on stage {stage}", whole.0);
            self.report(&about, message, "it is a part of it; give at most as much");
        }
    }

    /// Two of global batch, micro-batch and micro-batches give the third.
    fn batches(&mut self, scenario: &mut Scenario, derived: &mut Derived) {
        const GLOBAL: &str = "training.global_batch";
        const ONE: &str = "training.micro_batch";
        const MANY: &str = "training.micro_batches";
        let training = &mut scenario.training;
        let numbers = (
            training.global_batch.map(Count::get),
            training.micro_batch.map(Count::get),
            training.micro_batches.map(Count::get),
        );
        match numbers {
            (Some(global), Some(one), Some(many)) if global != one * many => {
                let about = [
                    (GLOBAL, format!("{global} samples")),
                    (ONE, format!("{one} samples")),
                    (MANY, format!("{many} of them")),
                ];
                let message =
                    format!("{many} micro-batches of {one} samples are {}, not {global}", one * many);
                self.report(&about, message, "leave out one of the three; it follows from the others");
            }
            (Some(global), Some(one), None) => match Count::new(global / one).filter(|_| global % one == 0) {
                Some(many) => {
                    training.micro_batches = Some(many);
                    derived.insert(MANY, format!("{global} / {one}"));
                }
                None => {
                    let about = [(GLOBAL, format!("{global} samples")), (ONE, format!("{one} samples"))];
                    let message = format!(
                        "a global batch of {global} cannot be cut into 1 to 65536 micro-batches of {one}"
                    );
                    self.report(&about, message, "make `global_batch` a multiple of `micro_batch`");
                }
            },
            (Some(global), None, Some(many)) => {
                match Count::new(global / many).filter(|_| global % many == 0) {
                    Some(one) => {
                        training.micro_batch = Some(one);
                        derived.insert(ONE, format!("{global} / {many}"));
                    }
                    None => {
                        let about =
                            [(GLOBAL, format!("{global} samples")), (MANY, format!("{many} micro-batches"))];
                        let message = format!(
                            "a global batch of {global} cannot be cut into {many} equal micro-batches"
                        );
                        self.report(&about, message, "make `global_batch` a multiple of `micro_batches`");
                    }
                }
            }
            (None, Some(one), Some(many)) => match Count::new(one * many) {
                Some(global) => {
                    training.global_batch = Some(global);
                    derived.insert(GLOBAL, format!("{one} x {many}"));
                }
                None => {
                    let about = [(ONE, format!("{one} samples")), (MANY, format!("{many} of them"))];
                    let message = format!(
                        "{many} micro-batches of {one} samples are more than a global batch of 1000000000"
                    );
                    self.report(&about, message, "make one of them smaller");
                }
            },
            (_, _, None) => {
                let help = "add `micro_batches: 24`, or `global_batch` and `micro_batch`";
                self.report(
                    &[("training", String::new())],
                    "`training` does not say how many micro-batches a step has",
                    help,
                );
            }
            _ => {}
        }
    }

    fn pipeline(&mut self, scenario: &mut Scenario, derived: &mut Derived) {
        let Model::ProfiledPipeline(profiled) = &scenario.model;
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
                derived.insert("parallelism.pipeline", "one device per stage".to_owned());
            }
        }
    }

    fn schedule(&mut self, scenario: &Scenario) {
        let (stages, many) = (scenario.stages() as u64, scenario.training.micro_batches());
        if matches!(scenario.parallelism.schedule, Schedule::Interleaved(_)) && many % stages != 0 {
            let about = [
                ("training.micro_batches", format!("{many} micro-batches")),
                (STAGES, format!("{stages} stages")),
                ("parallelism.schedule.interleaved", "goes round the stages in groups".to_owned()),
            ];
            let message =
                format!("the interleaved schedule needs a multiple of {stages} micro-batches, not {many}");
            self.report(&about, message, format!("use {} micro-batches", many.next_multiple_of(stages)));
        }
    }

    fn techniques(&mut self, scenario: &Scenario) {
        let stages = scenario.stages() as u64;
        if let Some(recompute) = &scenario.techniques.recompute
            && let StageSet::Listed(listed) = &recompute.stages
            && let Some(position) = listed.iter().position(|stage| stage.get() >= stages)
        {
            let path = format!("techniques.recompute.stages.{position}");
            let about = [(&*path, String::new()), (STAGES, format!("stages 0 to {}", stages - 1))];
            let message = format!("there is no stage {} to recompute on", listed[position].get());
            self.report(&about, message, "stages are counted from 0");
        }
        if scenario.techniques.bpipe.is_some()
            && scenario.parallelism.schedule != Schedule::OneForwardOneBackward
        {
            let about = [
                ("techniques.bpipe", String::new()),
                ("parallelism.schedule", "holds equally much on all stages, or moves its peaks".to_owned()),
            ];
            self.report(
                &about,
                "BPipe balances the 1F1B schedule and no other",
                "use `schedule: 1f1b`, or remove `bpipe`",
            );
        }
    }

    fn noise(&mut self, scenario: &Scenario) {
        let Some(noise) = &scenario.run.noise else { return };
        for (path, share) in [("run.noise.device", noise.device), ("run.noise.operation", noise.operation)] {
            if let Some(share) = share.filter(|share| share.as_f64() > 1.0) {
                let message = format!("`{path}` is more than 100 %: {share}");
                self.report(
                    &[(path, String::new())],
                    message,
                    "a standard deviation of some per cent is usual",
                );
            }
        }
        if noise.pause.as_ref().is_some_and(|pause| Duration::is_zero(pause.every)) {
            let path = "run.noise.pause.every";
            self.report(
                &[(path, String::new())],
                format!("`{path}` must be longer than zero"),
                "write for example `10 s`",
            );
        }
    }
}

fn listed<T: Copy>(values: &PerStage<T>) -> Option<usize> {
    match values {
        PerStage::All(_) => None,
        PerStage::Each(values) => Some(values.len()),
    }
}
