//! What a plan must satisfy before anything is built. All that is wrong is reported at once.

use sim_core::time::Time;

use crate::diagnostic::Diagnostic;
use crate::host_update::HostedStates;
use crate::model::profiled::StageProfile;
use crate::model::transformer::{DataParallel, Sharding, Step};
use crate::order::{MemoryAllowance, PipelineSchedule};
use crate::passes::{Around, ModelKind};
use crate::plan::{PipelinePlan, Pipelining, estimate};

/// Most operators of a plan, over all stages, chunks and steps; a program of that size takes about a gigabyte.
pub const VISITS_MAX: u64 = 1 << 24;
/// Most chunks over all stages: each has at least one of 4,096 layers.
pub const CHUNKS_MAX: u64 = 4_096;
/// Most groups of parameters that hosts update one after the other, over all stages: each is some operators of a step.
pub const HOST_GROUPS_MAX: u64 = 1 << 16;
/// Most bytes a stage can be asked to hold over a step: sums of two such sizes stay exact.
pub const BYTES_MAX: u64 = 1 << 62;

/// Checks the values of a plan.
///
/// # Errors
/// Everything that is out of range.
pub fn validate(plan: &PipelinePlan) -> Result<(), Vec<Diagnostic>> {
    let mut found = Vec::new();
    let mut wrong = |field, problem: String| found.push(Diagnostic::sentence(field, problem));
    extent(plan, &mut wrong);
    stages(plan, &mut wrong);
    check_parts(plan, &mut found);
    schedule(plan, &mut found);
    techniques(plan, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Checks that hosts which update group by group have no more groups than are built: they are counted before. `updated` are the
/// parameters that a rank of each stage updates.
///
/// # Errors
/// That they are too many.
pub(crate) fn host_groups(pipelining: &Pipelining, updated: &[u64]) -> Result<(), Vec<Diagnostic>> {
    let mut facts = pipelining.techniques.all().map(|technique| technique.facts(updated.len() as u32));
    let Some((HostedStates { group, .. }, path)) = facts.find_map(|facts| facts.hosted) else {
        return Ok(());
    };
    let groups = |group: u64| updated.iter().map(|count| count.div_ceil(group.max(1))).sum::<u64>();
    if groups(group) <= HOST_GROUPS_MAX {
        return Ok(());
    }
    let all: u64 = updated.iter().sum();
    let enough = (1..u64::BITS).map(|bit| 1 << bit).find(|&group| groups(group) <= HOST_GROUPS_MAX);
    let message = format!(
        "`{path}`: groups of {group} out of {all} parameters are {} updates a step, more than {HOST_GROUPS_MAX}",
        groups(group)
    );
    let remedy = format!("write `group: {}` or more", enough.unwrap_or(all));
    Err(vec![Diagnostic::new(path, message, remedy).with("model", "")])
}

/// Numbers of stages, micro-batches, steps, and their product.
fn extent(plan: &PipelinePlan, wrong: &mut impl FnMut(&'static str, String)) {
    for (field, count) in [
        ("stages", plan.model.stages.len()),
        ("micro_batches", plan.pipelining.micro_batches as usize),
        ("steps", plan.pipelining.steps as usize),
    ] {
        if count == 0 {
            wrong(field, "must be at least 1".to_owned());
        }
    }
    let chunks =
        u64::from(plan.pipelining.schedule.chain(1).chunks).saturating_mul(plan.model.stages.len() as u64);
    if chunks > CHUNKS_MAX {
        wrong(
            "stages",
            format!("{chunks} chunks over all stages are more than {CHUNKS_MAX}, a layer in each"),
        );
    }
    let visits = estimate(plan).visits;
    if visits > VISITS_MAX {
        wrong(
            "micro_batches",
            format!(
                "{visits} operators over all stages, chunks and steps are more than {VISITS_MAX}: use fewer \
                 micro-batches, stages or steps"
            ),
        );
    }
}

/// Times and sizes of the stages.
fn stages(plan: &PipelinePlan, wrong: &mut impl FnMut(&'static str, String)) {
    let steps = u128::from(plan.pipelining.micro_batches) * u128::from(plan.pipelining.steps);
    let mut longest: u128 = 0;
    for (n, stage) in plan.model.stages.iter().enumerate() {
        let held = u128::from(stage.activation) * u128::from(plan.pipelining.micro_batches);
        if held + u128::from(stage.weights) > u128::from(BYTES_MAX) {
            wrong("activation", format!("stage {n} would hold more than {BYTES_MAX} B over a step"));
        }
        let recompute = stage.recompute.unwrap_or(stage.forward);
        let times = [stage.forward, recompute, stage.backward_input, stage.backward_weight];
        let messages =
            2 * u128::from(stage.transfer.0) * u128::from(plan.pipelining.schedule.chain(1).chunks);
        longest += (times.iter().map(|time| u128::from(time.0)).sum::<u128>() + messages) * steps;
    }
    // No order takes longer than everything one after the other.
    if longest > u128::from(Time::LAST.0) {
        wrong(
            "forward",
            "all operators one after the other take more than 106 days: use shorter times".to_owned(),
        );
    }
}

/// Reports parts of the activations of a stage that are more than all of them.
pub fn check_parts(plan: &PipelinePlan, found: &mut Vec<Diagnostic>) {
    const KEPT: &str = "model.profiled_pipeline.activation_kept_for_weight";
    check_part(plan, found, |_, stage| Some((KEPT, stage.kept_for_weight())));
    for technique in plan.pipelining.techniques.all() {
        check_part(plan, found, |n, _| technique.keeps(n));
    }
}

/// Reports the first stage a part of whose activations, at a setting, is more than all of them.
fn check_part(
    plan: &PipelinePlan,
    found: &mut Vec<Diagnostic>,
    part: impl Fn(u32, &StageProfile) -> Option<(&'static str, u64)>,
) {
    const WHOLE: &str = "model.profiled_pipeline.activation";
    let beyond = |(n, stage): (u32, &StageProfile)| {
        part(n, stage).filter(|(_, bytes)| *bytes > stage.activation).map(|(path, _)| (n, path))
    };
    if let Some((n, path)) = (0..).zip(&plan.model.stages).find_map(beyond) {
        let message = format!("`{path}` is more than the whole of `{WHOLE}` on stage {n}");
        let remedy = "it is a part of it; give at most as much";
        found.push(Diagnostic::new(path, message, remedy).with(WHOLE, ""));
    }
}

/// What the schedule asks of the extent and the memory.
fn schedule(plan: &PipelinePlan, found: &mut Vec<Diagnostic>) {
    let (stages, micro_batches) = (plan.model.stages.len() as u32, plan.pipelining.micro_batches);
    plan.pipelining.send.check(&plan.pipelining.schedule, stages, &mut |refused| found.push(refused));
    let counts = [("training.micro_batches", micro_batches), ("model.profiled_pipeline.stages", stages)];
    found.extend(plan.pipelining.schedule.check(counts));
    if let PipelineSchedule::ZbAuto(auto) = plan.pipelining.schedule {
        let most = plan.model.stages.iter().map(|stage| stage.activation).max().unwrap_or(0);
        if matches!(auto.memory_limit, MemoryAllowance::Bytes(bytes) if bytes.bytes() < most) {
            let problem = format!("must leave room for one micro-batch on every stage, {most} B");
            found.push(Diagnostic::sentence("schedule.zb-auto.memory_limit", problem));
        }
    }
}

/// What techniques ask of the stages.
fn techniques(plan: &PipelinePlan, found: &mut Vec<Diagnostic>) {
    let PipelinePlan { model, pipelining } = plan;
    let stages = model.stages.len() as u32;
    let around = Around {
        model: ModelKind::Profile,
        schedule: pipelining.schedule,
        stages,
        data: &DataParallel::new(1, Sharding::None),
        step: Step::Whole,
    };
    pipelining.techniques.check(&around, &mut |diagnostic| found.push(diagnostic));
    for technique in pipelining.techniques.all() {
        technique.check_profiled(pipelining, stages, found);
    }
}
