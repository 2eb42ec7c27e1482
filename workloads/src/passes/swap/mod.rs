//! Tensor swapping: as much of what the forward pass saves leaves the GPU as must, for memory that the step fits in.
//!
//! An engine decides which tensors of a stage are away: *online* as systems with large-model
//! support do, which learn from failed allocations (`online`); offline by idleness and local search
//! (`greedy`); or offline by a mixed-integer program (`mixed_integer`). Copies of the model that
//! share a link to their host may be coordinated (Lin et al., Tensor Movement Orchestration in
//! Multi-GPU Training Systems, HPCA 2023): each moves other tensors, or every second one is behind
//! the others, so that some copy out while others copy back.

mod again;
mod estimate;
mod greedy;
mod mixed_integer;
mod online;
pub mod phases;
mod plan;
mod solver;
mod timeline;

use hw_models::settings::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::{CostBook, HostLinks};
use crate::diagnostic::Diagnostic;
use crate::error::{PlanError, Shortfall};
use crate::exchange::Exchange;
use crate::graph::OpGraph;
use crate::model::transformer::Sharding;
use crate::names::kind;
use crate::order::Visit;
use crate::schedule::StageMemory;
use crate::transfer::{Asked, Medium, Stay, Store, Transfer};

use super::{Added, Around, Context, Facts, Kind, Pass, Plan, Saving, Size, Step, Technique, Techniques};

use again::{Choice, realise};
pub use mixed_integer::SLOTS;
use online::NoRoom;
use phases::Phases;
use plan::SwapPlan;
use timeline::{Candidate, Timeline};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "swap";

const PATH: &str = "techniques.swap";

/// Swap only the activations that the GPU's memory has no room for: to host memory, tensor by
/// tensor, and back before the backward pass needs them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Swap {
    /// Planner of the tensors that leave.
    pub engine: Engine,
    /// Coordination of copies of the model that share a link to their host.
    pub coordination: Coordination,
    /// Tensors prefetched ahead of the backward pass, where there is room for them.
    pub prefetch: Count<0, 65_536>,
    /// Rematerialize a tensor, by the operator that filled it and from what is there, where that is
    /// expected to take less time than its copies (Capuchin, ASPLOS 2020).
    pub recompute: bool,
    /// Start of copies out. Memory is given back after the last use in the forward pass in any case.
    pub store: Store,
    /// True if buffers in host memory are page-locked. Otherwise one host thread copies each tensor
    /// once more in each direction, and it crosses host memory three times.
    pub pinned: bool,
}

impl Default for Swap {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            coordination: Coordination::default(),
            prefetch: Count::literal(2),
            recompute: false,
            store: Store::LastUse,
            pinned: true,
        }
    }
}

/// Planner of the tensors that leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SwapEngine")]
pub enum Engine {
    /// Allocations that fail in the first step: the fewest tensors not in use that make room, which
    /// leave after their last use from then on (large-model support of PyTorch).
    #[default]
    Online,
    /// The longest idle tensors, then a local search for a shorter step.
    Greedy,
    /// A mixed-integer program over tensors and time; the best of its plan and the others'.
    MixedInteger,
}

/// Coordination of copies of the model that share a link to their host (Lin et al., HPCA 2023).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SwapCoordination")]
pub enum Coordination {
    /// None: all move the same tensors at the same time.
    #[default]
    Oblivious,
    /// Each moves different tensors, dealt out one by one, as far as there are any.
    Disjoint,
    /// Every second copy is a pass behind the others, so that some move tensors out while others
    /// move them back; all meet between passes ("synchronizes thread executions", the abstract).
    Synchronised,
    /// Every second copy begins a step when the others have ended their first forward pass; then
    /// each goes on for itself until gradients are summed. Ours: the sources name no such variant.
    Shifted,
    /// The fastest of these; each is simulated.
    Automatic,
}

impl Technique for Swap {
    fn savings(_layers: u32) -> Vec<Saving> {
        const EFFECT: &str = "as few saved tensors as possible wait in host memory";
        vec![Saving::new(NAME, "{}", EFFECT)]
    }

    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            activations: Some("moves as much as must be"),
            activations_pinned: Some(self.pinned),
            weighs_host_links: true,
            recomputes: self.recompute,
            ..Facts::default()
        }
    }

    /// Nothing moved, each coordination, and with recomputation also what swapping alone does.
    ///
    /// Planners count what may be alive at a time; a step in which less is may need no swapping.
    fn alternatives(&self, all: &Techniques) -> Vec<(String, Techniques)> {
        const ALL: [Coordination; 4] = [
            Coordination::Disjoint,
            Coordination::Shifted,
            Coordination::Synchronised,
            // Where nothing fits, the last is told about: pipelines refuse the two before it.
            Coordination::Oblivious,
        ];
        let given = [self.coordination];
        let coordinations = if self.coordination == Coordination::Automatic { &ALL[..] } else { &given };
        let recomputing = if self.recompute { &[true, false][..] } else { &[false] };
        let ways = coordinations.iter().flat_map(|way| recomputing.iter().map(move |again| (*way, *again)));
        let alternative = |(coordination, recompute): (Coordination, bool)| {
            let alone = if recompute == self.recompute { "" } else { ", nothing produced again" };
            let swap = Some(Self { coordination, recompute, ..*self });
            (format!("`{}`{alone}", coordination.word()), Techniques { swap, ..all.clone() })
        };
        let nothing = ("nothing moved".to_owned(), Techniques { swap: None, ..all.clone() });
        [nothing].into_iter().chain(ways.map(alternative)).collect()
    }

    /// Reports copies that cannot be a pass behind others.
    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if let Some(refused) = around.without_tensors(PATH) {
            return wrong(refused);
        }
        if !matches!(self.coordination, Coordination::Synchronised | Coordination::Shifted) {
            return;
        }
        let refused = |message: &str, remedy: &str| {
            Diagnostic::new("techniques.swap.coordination", message, remedy)
                .noting("lets copies of the model be a pass behind others")
        };
        if around.stages > 1 {
            let message = "copies of a pipeline are in forward and backward passes at the same time already";
            let note = "lets stages be passes behind others";
            wrong(
                refused(message, "use `oblivious` or `disjoint`, or 1 stage")
                    .with("parallelism.pipeline", note),
            );
        }
        // What they exchange in a pass waits for all of them: it would never come.
        let sharding = "parallelism.sharding";
        let exchanged = match (around.data.sharding, around.data.overlap.gather) {
            (Sharding::Parameters, _) => Some([
                sharding,
                "gather parameters",
                "share no parameters",
                "gathers parameters of all copies in every pass",
            ]),
            (Sharding::Gradients, _) => Some([
                sharding,
                "sum gradients",
                "share no gradients",
                "sums gradients of all copies in every pass",
            ]),
            (Sharding::Optimizer, Some(_)) => Some([
                "parallelism.overlap_parameter_gather",
                "gather parameters beside their first pass",
                "gather before it: remove `overlap_parameter_gather`",
                "gathers parameters of all copies beside the first forward pass",
            ]),
            (Sharding::None | Sharding::Optimizer, _) => None,
        };
        if let Some([path, exchange, remedy, note]) = exchanged {
            let message = format!("copies that {exchange} together cannot be a pass behind each other");
            let remedy = format!("use `oblivious` or `disjoint`, or {remedy}");
            wrong(refused(&message, &remedy).with(path, note));
        }
    }
}

impl Swap {
    /// Meetings of copies that are a pass behind others.
    pub(crate) fn phases(self) -> Phases {
        Phases(self.coordination)
    }
}

impl Coordination {
    /// Groups of copies that do different things, of so many that share a link.
    pub const fn cohorts(self, copies: u32) -> u32 {
        match self {
            Self::Disjoint => copies,
            Self::Synchronised | Self::Shifted if copies > 1 => 2,
            _ => 1,
        }
    }

    /// Rates with which copies out and back are planned.
    fn rates(self, HostLinks { rate, at_once, .. }: HostLinks) -> [f64; 2] {
        match self {
            // Half of them go the other way.
            Self::Synchronised | Self::Shifted => [0, 1].map(|way| (2.0 * at_once[way]).min(rate[way])),
            _ => at_once,
        }
    }

    /// Its word in a scenario.
    const fn word(self) -> &'static str {
        match self {
            Self::Oblivious => "oblivious",
            Self::Disjoint => "disjoint",
            Self::Synchronised => "synchronised",
            Self::Shifted => "shifted",
            Self::Automatic => "automatic",
        }
    }
}

/// What was decided for a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Swapped {
    /// The stage.
    pub stage: u32,
    /// The cohort.
    pub cohort: u32,
    /// Tensors that could leave, and those that do.
    pub tensors: [u32; 2],
    /// Tensors that are produced again instead, and their bytes.
    pub again: (u32, u64),
    /// Bytes that leave and come back in what was planned: a micro-batch where they follow each other, else a step.
    pub bytes: u64,
    /// Bytes of its storages at the peak when nothing is away.
    pub peak: u64,
    /// Bytes there is room for beside what is held throughout.
    pub room: u64,
    /// What the operators that were planned for take by themselves (s).
    pub seconds: f64,
    /// Their expected time on links that copies of the model share (s).
    pub expected: f64,
    /// What they take at least, whatever leaves (s): their own time and what the relaxed program adds to it, or what must leave in
    /// one direction.
    pub bound: f64,
    /// Where a solver was asked: whether the optimum of its program of [`SLOTS`] was proven, rather than that it stopped early.
    pub proven: Option<bool>,
}

impl Pass for Swap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    fn adds(&self, size: &Size<'_>) -> Added {
        size.copies(|_| true)
    }

    fn apply(&self, plan: &mut Plan, context: &Context<'_>) -> Result<(), PlanError> {
        let again = produced_again(self, plan, context.estimates());
        let cohorts = self.coordination.cohorts(context.copies.together);
        plan.split(cohorts as usize, context.copies.in_turns(cohorts));
        let Plan { graph, steps, memory, exchanges, decided, .. } = plan;
        let mut shortfalls = Vec::new();
        for (stage, memory) in (0u32..).zip(&*memory) {
            let (links, again) = (context.estimates().links_of_host(stage), again[stage as usize]);
            let visits = &steps[0].order.stages[stage as usize];
            let costs = (&*graph, &**exchanges, context.estimates());
            let stage = Stage::new(self, stage, visits, costs, memory.room(), links, again);
            for cohort in 0..cohorts {
                match stage.decide(self, (cohort, cohorts)) {
                    Ok((transfers, swapped)) => {
                        decided.swapped.push(swapped);
                        away(graph, steps, cohort, &transfers)?;
                    }
                    Err(no_room) if cohort == 0 => shortfalls.push(stage.told(no_room, memory, graph)),
                    Err(_) => {}
                }
            }
        }
        if shortfalls.is_empty() { Ok(()) } else { Err(PlanError::DoesNotFit(shortfalls)) }
    }
}

/// By stage, number and bytes of the tensors that are produced again instead of being swapped; the graph has that executed.
fn produced_again(technique: &Swap, plan: &mut Plan, estimates: &CostBook) -> Vec<(u32, u64)> {
    let Plan { graph, steps, memory, exchanges, .. } = plan;
    let stage = |(stage, memory): (u32, &StageMemory)| {
        if !technique.recompute {
            return (0, 0);
        }
        let choice = Choice {
            stage,
            visits: &steps[0].order.stages[stage as usize],
            exchanges,
            room: memory.room(),
            links: estimates.links_of_host(stage),
            prefetch: technique.prefetch.get() as usize,
            store: technique.store,
        };
        let made = choice.made(graph, estimates);
        let bytes = made.iter().map(|again| again.bytes).sum();
        realise(&made, graph);
        (made.len() as u32, bytes)
    };
    (0u32..).zip(&*memory).map(stage).collect()
}

/// Lets storages be away in a cohort.
fn away(graph: &OpGraph, steps: &mut [Step], cohort: u32, transfers: &[Transfer]) -> Result<(), PlanError> {
    for step in steps {
        let table = &mut step.cohorts[cohort as usize].table;
        transfers.iter().try_for_each(|transfer| table.transfer(NAME, graph, transfer.clone()))?;
    }
    Ok(())
}

/// A stage to decide about, whatever its cohorts do.
#[derive(Debug)]
struct Stage {
    number: u32,
    timeline: Timeline,
    /// Bytes of its memory for what comes and goes.
    room: u64,
    /// The ways between it and its host.
    links: HostLinks,
    /// No plan takes less (s).
    bound: f64,
    /// What is produced again.
    again: (u32, u64),
}

impl Stage {
    /// The stage `number`, which executes `visits` in a step with `room` for what comes and goes.
    fn new(
        technique: &Swap,
        number: u32,
        visits: &[Visit],
        costs: (&OpGraph, &[Exchange], &CostBook),
        room: u64,
        links: HostLinks,
        again: (u32, u64),
    ) -> Self {
        let timeline = Timeline::of(visits, number, costs, technique.store);
        let must = timeline.peak().saturating_sub(room) as f64;
        // Whoever copies when, what all have to copy passes the links that they share.
        let [out, back] = links.at_once;
        let longer = mixed_integer::bound(&timeline, room, links).unwrap_or(0.0);
        let bound = (must / out.min(back)).max(timeline.seconds() + longer);
        let links = HostLinks { rate: technique.coordination.rates(links), ..links };
        Self { number, timeline, room, links, bound, again }
    }

    /// What is away for a cohort, of so many.
    ///
    /// # Errors
    /// Where there is not enough room.
    fn decide(
        &self,
        technique: &Swap,
        (cohort, cohorts): (u32, u32),
    ) -> Result<(Vec<Transfer>, Swapped), NoRoom> {
        let Self { number, timeline, room, links, bound, again } = self;
        let (plan, proven) = planned(technique, self, (cohort, cohorts))?;
        let mut transfers = Vec::new();
        for (candidate, asked) in timeline.candidates.iter().zip(&plan.asked) {
            let Some(asked) = *asked else { continue };
            let stay = Stay {
                copied_after: candidate.copied_after,
                freed_after: candidate.leaves_after,
                gone_after: None,
                asked: Asked::Before(timeline.returning(candidate, asked)),
                needed_by: timeline.returning(candidate, candidate.before_needed()),
                forwarded: false,
            };
            transfers.push(Transfer::out(*number, candidate.storage, Medium::PAGE_LOCKED, stay));
        }
        let away = plan.away().into_iter().filter(|&away| away).count();
        let swapped = Swapped {
            stage: *number,
            cohort,
            tensors: [timeline.candidates.len() as u32, away as u32],
            again: *again,
            bytes: plan.moved(timeline),
            peak: timeline.peak(),
            room: *room,
            seconds: timeline.seconds(),
            expected: estimate::seconds(&plan, timeline, *room, *links),
            bound: *bound,
            proven,
        };
        Ok((transfers, swapped))
    }

    /// Which stage has no room, at what moment, by how many bytes.
    fn told(&self, no_room: NoRoom, memory: &StageMemory, graph: &OpGraph) -> Shortfall {
        let op = graph.get(self.timeline.steps[no_room.step].op);
        let used = op.reads.iter().chain(&op.writes);
        let largest = used.max_by_key(|&&storage| graph.stored(storage).bytes);
        Shortfall::of(
            (self.number, memory),
            op.phase.name(),
            memory.held().saturating_add(no_room.needed),
            largest.map_or(kind::ACTIVATIONS, |&storage| graph.kind(storage)),
        )
    }
}

/// The plan of an engine, and whether a solver proved the optimum of its program, where one was asked.
fn planned(
    technique: &Swap,
    &Stage { ref timeline, room, links, bound, .. }: &Stage,
    cohorts: (u32, u32),
) -> Result<(SwapPlan, Option<bool>), NoRoom> {
    let turns = turns(timeline, technique.coordination, cohorts);
    let group = |number: usize| turns[number];
    let prefetch = technique.prefetch.get() as usize;
    let ahead = |plan: SwapPlan| plan.asked_ahead(timeline, room, prefetch);
    let nothing = vec![false; timeline.candidates.len()];
    if SwapPlan::keeping_all(timeline).overflow(timeline, room).is_none() {
        return Ok((SwapPlan::keeping_all(timeline), None));
    }
    if technique.engine == Engine::Online {
        return Ok((ahead(online::learn(timeline, room, nothing, group)?), None));
    }
    let improved = |plan| greedy::improved(plan, timeline, (room, prefetch), links, group);
    let longest_idle = greedy::longest_idle(timeline, room, group)?;
    let last_turn =
        longest_idle.away().into_iter().zip(&turns).filter(|&(away, _)| away).map(|(_, &turn)| turn).max();
    let cost = |plan: &SwapPlan| estimate::seconds(plan, timeline, room, links);
    let cheaper = |plan: SwapPlan, other: SwapPlan| if cost(&other) < cost(&plan) { other } else { plan };
    let found = improved(longest_idle);
    if technique.engine == Engine::Greedy {
        return Ok((found, None));
    }
    let best = cheaper(found, ahead(online::learn(timeline, room, nothing, group)?));
    if cost(&best) <= bound * (1.0 + mixed_integer::GAP) {
        return Ok((best, Some(true)));
    }
    let allowed = |number: usize| Some(turns[number]) <= last_turn;
    let Some(solved) = mixed_integer::solve(timeline, room, links, allowed) else {
        return Ok((best, Some(false)));
    };
    let completed = improved(online::learn(timeline, room, solved.away, group)?);
    Ok((cheaper(best, completed), Some(solved.proven)))
}

/// Turn of each tensor in which a cohort takes it. Where all move other ones, tensors are dealt out
/// in the order in which they are needed, each to the cohort that has the fewest bytes, so that
/// every cohort moves some all the time; it begins with its own.
fn turns(timeline: &Timeline, coordination: Coordination, (cohort, cohorts): (u32, u32)) -> Vec<usize> {
    if coordination != Coordination::Disjoint {
        return vec![0; timeline.candidates.len()];
    }
    let (cohort, cohorts) = (cohort as usize, cohorts as usize);
    let mut dealt = vec![0_u64; cohorts];
    let turn = |candidate: &Candidate| {
        let to = (0..cohorts).min_by_key(|&cohort| dealt[cohort]).unwrap_or(0);
        dealt[to] += candidate.bytes;
        (to + cohorts - cohort) % cohorts
    };
    timeline.candidates.iter().map(turn).collect()
}
