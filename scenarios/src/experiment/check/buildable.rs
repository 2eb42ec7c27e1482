//! Obstacles that only the workloads and the hardware models know: settings that go together and still cannot be built.

use hw_models::kernels::KernelError;
use workloads::diagnostic::{Diagnostic, split};
use workloads::hardware::HardwareError;
use workloads::plan::PlanError;

use super::Check;
use crate::plans;
use crate::schema::Scenario;
use crate::text::node::Layer;

const PROFILE: &str = "model.profiled_pipeline";
const MICRO_BATCHES: &str = "training.micro_batches";
const ACCUMULATE: &str = "training.accumulate";
const SCHEDULE: &str = "parallelism.schedule";

/// Names of wrong values in the workloads, the setting that says each, and others that have a part in it.
const SETTINGS: [(&str, &str, &[&str]); 15] = [
    ("stages", "model.profiled_pipeline.stages", &[SCHEDULE]),
    ("steps", "run.steps", &[]),
    ("activation", "model.profiled_pipeline.activation", &[MICRO_BATCHES]),
    ("forward", "model.profiled_pipeline.forward", &[MICRO_BATCHES]),
    ("recompute", "techniques.recompute", &[]),
    ("recompute.stages", "techniques.recompute.stages", &[PROFILE]),
    ("schedule.zb-auto.memory_limit", "parallelism.schedule.zb-auto.memory_limit", &[PROFILE]),
    ("send", "parallelism.send", &[SCHEDULE]),
    ("schedule", SCHEDULE, &[]),
    ("pipeline", "parallelism.pipeline", &[]),
    ("placement", "parallelism.placement", &["machine"]),
    ("parallelism", "parallelism", &["machine"]),
    ("launch", "software.launch", &[]),
    ("host_overhead", "software.host_overhead", &[ACCUMULATE]),
    ("drives", "storage", &["machine"]),
];

impl Check<'_> {
    /// Reports what keeps `scenario` from being built. Asked only where nothing else is wrong: most of it has been said better
    /// by then.
    pub(super) fn buildable(&mut self, scenario: &Scenario) {
        let known = &self.named.buildable;
        if !self.findings.is_empty() || known.knows(scenario) {
            return;
        }
        match plans::check(scenario) {
            Ok(()) => known.remember(scenario),
            Err(PlanError::Invalid(found)) => {
                found.into_iter().for_each(|found| self.unbuildable(scenario, found));
            }
            Err(PlanError::Hardware(HardwareError::Kernel(error))) => self.no_kernel(&error),
            Err(PlanError::Hardware(error)) => self.report_split("machine", &[], &error.to_string()),
            Err(error) => self.report_split(scenario.model.path(), &[], &error.to_string()),
        }
        // Whatever is swept may have a part in it.
        if self.tree.any(&|node| node.layer == Layer::Sweep) {
            self.findings.iter_mut().for_each(|finding| finding.swept = true);
        }
    }

    fn unbuildable(&mut self, scenario: &Scenario, found: Diagnostic) {
        let profiled = scenario.model.profile().is_some();
        let known = SETTINGS.iter().find(|(name, ..)| *name == found.path);
        let (path, parts) = match (found.path, known) {
            (_, Some(&(_, path, parts))) => (path, parts),
            ("micro_batches", None) if profiled => {
                (MICRO_BATCHES, &["model.profiled_pipeline.stages", SCHEDULE][..])
            }
            ("micro_batches", None) => (ACCUMULATE, &[SCHEDULE][..]),
            (path, None) if path.contains('.') => return self.diagnostic(found),
            _ => (scenario.model.path(), &[][..]),
        };
        let involved = found.involved.iter().map(|(path, _)| *path);
        let parts: Vec<&str> = parts.iter().copied().chain(involved).collect();
        self.report_with(path, &parts, format!("`{path}`: {}", found.message), found.remedy);
    }

    /// The catalogue knows no kernels of this precision for the GPU.
    fn no_kernel(&mut self, error: &KernelError) {
        let help = "write another `training.precision`, or take other GPUs: `foretrain list gpus` has them";
        self.report_with("training.precision", &["machine", "model"], error.to_string(), help);
    }

    /// Reports a problem that comes with its remedy.
    fn report_split(&mut self, path: &str, parts: &[&str], text: &str) {
        let (message, help) = split(text);
        self.report_with(path, parts, format!("`{path}`: {message}"), help);
    }
}
