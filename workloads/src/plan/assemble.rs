//! The way that every plan takes: passes over its graph, verified, and down to a program.

use crate::chain::Chain;
use crate::check;
use crate::cost::CostBook;
use crate::graph::OpGraph;
use crate::lower::{self, Cohorts};
use crate::memo::Memo;
use crate::order::{self, PipelineSchedule, Shape};
use crate::passes::host_buffers::HostBuffers;
use crate::passes::{Cohort, Context, Copies, Kind, LayerOps, Pass, Pipelining, Plan, RankProfile, Step};
use crate::schedule::{Multiprocessors, Schedule};
use crate::transfer::{Dispositions, Medium, Transfer, Trips};

use super::grounds::Grounds;
use super::profile;
use super::timing::timing;
use super::{Brief, Built, PlanError};

/// A plan of a graph to which nothing has been done; what it runs on is filled in when it is priced.
pub(super) fn plan(chain: Chain, graph: OpGraph, layers: Vec<LayerOps>) -> Plan {
    let (exchanges, updates, feed, memory) = Default::default();
    let (steps, cohort_of, decided) = Default::default();
    let buffers = HostBuffers::ENOUGH;
    Plan {
        chain,
        graph,
        layers,
        exchanges,
        updates,
        feed,
        training: Multiprocessors::Free,
        memory,
        buffers,
        away: Medium::PAGE_LOCKED,
        steps,
        cohort_of,
        decided,
    }
}

/// Applies the rewriters, before operators are priced.
pub(super) fn rewrite(
    plan: &mut Plan,
    passes: &[Box<dyn Pass>],
    schedule: &PipelineSchedule,
    copies: Copies,
) -> Result<(), PlanError> {
    let context = Context { schedule, estimates: None, copies, profile: None };
    let mut rewriters = passes.iter().filter(|pass| pass.kind() == Kind::Rewriter);
    rewriters.try_for_each(|pass| applied(pass.as_ref(), plan, &context))
}

/// Applies the other passes to a plan with its costs, on copies of the model that run on `grounds`.
pub(super) fn assemble(
    (plan, costs): (Plan, &CostBook),
    passes: &[Box<dyn Pass>],
    pipelining: &Pipelining,
    copies: Copies,
    grounds: &impl Grounds,
) -> Result<Built, PlanError> {
    let context = Context { schedule: &pipelining.schedule, estimates: Some(costs), copies, profile: None };
    // Simulate, decide, simulate: what is to be learned is learned in a step of its own.
    let profile = match passes.iter().any(|pass| pass.needs_profile()) {
        true => Some(profiled(plan.clone(), passes, pipelining, &context, grounds)?),
        false => None,
    };
    let context = Context { profile: profile.as_deref(), ..context };
    let plan = passed(plan, passes, pipelining, &context, grounds.memo())?;
    lowered(plan, costs, pipelining.steps, copies, grounds)
}

/// What each rank measures in a step that is decided without a profile.
fn profiled(
    plan: Plan,
    passes: &[Box<dyn Pass>],
    pipelining: &Pipelining,
    context: &Context<'_>,
    grounds: &impl Grounds,
) -> Result<Vec<Option<RankProfile>>, PlanError> {
    let plan = passed(plan, passes, pipelining, context, grounds.memo())?;
    let nothing = vec![None; (plan.chain.stages * context.copies.replicas) as usize];
    if !plan.steps[0].cohorts[0].table.leave_gpus() {
        return Ok(nothing);
    }
    let steps = profile::steps(pipelining.micro_batches);
    let lowered = self::lowered(plan, context.estimates(), steps, context.copies, grounds)?.lowered;
    Ok(profile::measure(&lowered).unwrap_or(nothing))
}

/// A plan after all passes behind the rewriters.
fn passed(
    mut plan: Plan,
    passes: &[Box<dyn Pass>],
    pipelining: &Pipelining,
    context: &Context<'_>,
    memo: Option<&Memo>,
) -> Result<Plan, PlanError> {
    put_in_order(&mut plan, pipelining.micro_batches, context);
    let of_kind = |kind| passes.iter().filter(move |pass| pass.kind() == kind).map(AsRef::as_ref);
    of_kind(Kind::Decider).try_for_each(|pass| applied(pass, &mut plan, context))?;
    let realise = |plan: &mut Plan| realise(plan, of_kind(Kind::Realiser), context);
    match memo {
        Some(memo) => {
            let issued = context.estimates().issue.is_some();
            memo.schedules.realised(plan, (pipelining, issued), realise)
        }
        None => {
            realise(&mut plan)?;
            Ok(plan)
        }
    }
}

/// Turns order and decisions into schedules, which are verified.
fn realise<'p>(
    plan: &mut Plan,
    mut passes: impl Iterator<Item = &'p dyn Pass>,
    context: &Context<'_>,
) -> Result<(), PlanError> {
    passes.try_for_each(|pass| {
        applied(pass, plan, context)?;
        // In a build with checks every schedule is verified in full after every pass.
        let checked = plan.steps.iter().filter(|_| cfg!(debug_assertions));
        checked.into_iter().try_for_each(|step| verify(pass.name(), &plan.graph, step))
    })?;
    // Otherwise once, in the step with fewest repeats: those are as right as the first.
    if let Some(step) = plan.steps.last().filter(|_| !cfg!(debug_assertions)) {
        verify("passes", &plan.graph, step)?;
    }
    Ok(())
}

/// Applies a pass, after which the graph is verified unless it cannot have changed.
fn applied(pass: &dyn Pass, plan: &mut Plan, context: &Context<'_>) -> Result<(), PlanError> {
    pass.apply(plan, context)?;
    match pass.kind() {
        Kind::Rewriter | Kind::Decider => check::graph(pass.name(), &plan.graph).map_err(PlanError::Broken),
        Kind::Realiser => Ok(()),
    }
}

fn verify(pass: &'static str, graph: &OpGraph, step: &Step) -> Result<(), PlanError> {
    let cohorts = &mut step.cohorts.iter();
    cohorts.try_for_each(|cohort| check::schedule(pass, &cohort.schedule, graph)).map_err(PlanError::Broken)
}

/// Generates the order of the step, and of the same step with fewer repeats.
fn put_in_order(plan: &mut Plan, micro_batches: u32, context: &Context<'_>) {
    let Plan { chain, graph, steps, .. } = plan;
    let shape = Shape { chain: *chain, micro_batches };
    let timing = || timing(context.schedule, *chain, graph, context.estimates());
    let order = order::generate(context.schedule, shape, timing);
    let shortened = order.shortened();
    let step = |order| Step { order, cohorts: vec![Cohort::default()] };
    steps.extend([Some(order), shortened].into_iter().flatten().map(step));
}

/// The program of a plan, repeated for so many steps.
fn lowered(
    plan: Plan,
    costs: &CostBook,
    repeats: u32,
    copies: Copies,
    grounds: &impl Grounds,
) -> Result<Built, PlanError> {
    let Plan { chain, graph, layers, mut memory, steps, cohort_of, decided, .. } = plan;
    let mut steps = steps.into_iter();
    let Some(Step { order, cohorts }) = steps.next() else { unreachable!("a plan in order has a step") };
    let (tables, schedules): (Vec<Dispositions>, Vec<Schedule>) =
        cohorts.into_iter().map(|cohort| (cohort.table, cohort.schedule)).unzip();
    for (stage, memory) in memory.iter_mut().enumerate() {
        memory.waits = schedules.iter().any(|schedule| schedule.stages[stage].waits);
    }
    let short = schedules.iter().map(|schedule| check::memory::shortfalls(schedule, &graph));
    let shortfalls = short.into_iter().find(|short| !short.is_empty()).unwrap_or_default();
    // What waits for room that never comes would hang.
    if shortfalls.iter().any(|short| memory[short.stage as usize].waits) {
        return Err(PlanError::DoesNotFit(shortfalls));
    }
    let of_replica = |replica: u32| cohort_of.get(replica as usize).copied().unwrap_or(0);
    let cohorts = Cohorts::new(&schedules, of_replica, copies.replicas);
    // Of some cohorts nothing may leave.
    let table = tables.iter().find(|table| table.leave_gpus()).unwrap_or(&tables[0]);
    let mut site = grounds.site(table)?;
    let full = check::memory::full_hosts(&memory, &site);
    if !full.is_empty() {
        return Err(PlanError::HostDoesNotFit(full));
    }
    let arrays = std::mem::take(&mut site.arrays);
    let mut lowered = lower::lower(&cohorts, &graph, costs, site, repeats);
    grounds.slow_clocks(&mut lowered);
    let brief = steps.next().map(|Step { order, cohorts }| {
        let table = cohorts.into_iter().next().unwrap_or_default().table;
        Brief { order, moves: moves(&table, &graph) }
    });
    Ok(Built {
        lowered,
        chunks: chain.chunks,
        evictions: evictions(chain.stages, table),
        moves: moves(table, &graph),
        table: table.clone(),
        order,
        brief,
        memory,
        shortfalls,
        decided,
        arrays,
        graph,
        layers,
        accounts: None,
    })
}

/// Transfers between GPUs, each with the bytes of its storages.
fn moves(table: &Dispositions, graph: &OpGraph) -> Vec<(Transfer, u64)> {
    let bytes = |moved: &Transfer| moved.storages.iter().map(|&storage| graph.stored(storage).bytes).sum();
    table.between_gpus().map(|moved| (moved.clone(), bytes(moved))).collect()
}

fn evictions(stages: u32, table: &Dispositions) -> Vec<u32> {
    let mut evictions = vec![0; stages as usize];
    for moved in table.between_gpus() {
        if let Trips::Listed(listed) = &moved.trips {
            evictions[moved.from.owner as usize] += listed.trips.len() as u32;
        }
    }
    evictions
}
