//! The critical path of a step as a list of operations.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::catalogue::LinkKind;
use reports::explanation::{OtherLanes, Visit};
use sim_core::fixed::Rate;
use sim_core::id::{FluidId, RouteId, StreamId};
use sim_core::outcome::{PathStep, Run};
use sim_core::program::{Activity, Op, Slot};
use sim_core::record::{Recorder, Selection, Span};
use sim_core::time::Time;
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::one::Simulation;
use super::words::Words;
use crate::plans;

/// Simulated activities of the longest run whose operations are named.
const NAMED_MAX: u64 = 5_000_000;
/// Resource of work of GPUs.
const GPU: &str = "GPU";
/// Resource of what is issued.
const HOST: &str = "host";

/// A critical path, and the kinds of links that anything of the run crossed.
pub(super) struct Path {
    pub(super) visits: Vec<Visit>,
    pub(super) links: BTreeSet<LinkKind>,
    pub(super) others: OtherLanes,
}

/// Name of a kind of links for people.
pub(super) fn link_name(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::NvLink => "NVLink",
        LinkKind::Pcie => "PCIe",
        LinkKind::SocketLink => "links of sockets",
        LinkKind::Memory => "host memory",
        LinkKind::Network => "network",
        LinkKind::SsdLink => "drives",
    }
}

/// The critical path of the rank whose measured steps take longest, as [`super::measure`] has its
/// sums and a run before has found it.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn path(simulation: &Simulation<'_>, longest: Option<StreamId>) -> Result<Path, String> {
    let lowered = &simulation.built.lowered;
    let Some(longest) = longest else {
        return Ok(Path { visits: Vec::new(), links: BTreeSet::new(), others: OtherLanes::default() });
    };
    let run = simulation.quiet(Some(longest))?;
    let folded = simulation.folded();
    let streams: BTreeSet<StreamId> =
        run.path.iter().map(|step| folded.streams[step.stream.index()]).collect();
    let mut recorder = Recorder::new(Selection::spans_of(streams));
    if run.activities <= NAMED_MAX {
        simulation.observed(&mut recorder)?;
    }
    let kinds = link_kinds(simulation);
    let mut spans: BTreeMap<StreamId, Vec<Span>> = BTreeMap::new();
    for span in recorder.spans {
        spans.entry(span.place.stream).or_default().push(span);
    }
    let words = Words::new(lowered, plans::micro_batches_per_flush(simulation.scenario));
    let mut visits = Visits { simulation, words: &words, folded: links(simulation, &kinds), all: Vec::new() };
    let origin = run.path.first().map_or(Time::ZERO, |step| step.begin);
    for step in &run.path {
        let of_stream = spans.get(&folded.streams[step.stream.index()]);
        visits.add(step, of_stream.map_or(&[], Vec::as_slice), origin);
    }
    let used = run.fluids.iter().zip(&kinds).filter(|(fluid, _)| fluid.served > 0);
    let links = used.filter_map(|(_, kind)| *kind).collect();
    Ok(Path { links, visits: visits.all, others: other_lanes(simulation, &run) })
}

/// Work of lanes beside the compute lane, mean over ranks and steps.
fn other_lanes(simulation: &Simulation<'_>, run: &Run) -> OtherLanes {
    let lowered = &simulation.built.lowered;
    let sum = |cause: &str, counts: fn(LaneKind) -> bool| {
        let position = lowered.program.causes.iter().position(|known| known == cause);
        let streams = lowered.streams.iter().zip(&run.streams).filter(|(role, _)| counts(role.kind));
        let spent = streams.filter_map(|(_, stream)| Some(stream.spent[position?].as_secs()));
        let steps = f64::from(plans::steps(simulation.scenario)) * lowered.ranks.len() as f64;
        spent.sum::<f64>() / steps
    };
    let collectives =
        |kind| matches!(kind, LaneKind::Compute | LaneKind::Collective | LaneKind::Gather | LaneKind::Reduce);
    OtherLanes {
        collectives_s: sum(cause::COMMUNICATION, collectives),
        host_s: sum(cause::LAUNCH, |kind| kind == LaneKind::Host),
    }
}

/// Kinds of the links that fluids of the original platform are.
fn link_kinds(simulation: &Simulation<'_>) -> Vec<Option<LinkKind>> {
    let mut kinds = vec![None; simulation.built.lowered.platform.fluids.len()];
    if let Ok(machine) = plans::machine::of(simulation.scenario)
        && simulation.scenario.model.profile().is_none()
    {
        for (link, fluid) in machine.links().zip(&machine.resources().links) {
            kinds[fluid.index()] = Some(machine.link(link).kind);
        }
    }
    kinds
}

/// Capacities and kinds of the links that fluids of the folded program are.
fn links(simulation: &Simulation<'_>, kinds: &[Option<LinkKind>]) -> Vec<Option<(Rate, LinkKind)>> {
    let folded = simulation.folded();
    let mut links = vec![None; folded.platform.fluids.len()];
    let original = &simulation.built.lowered.platform.fluids;
    for ((fluid, original), kind) in folded.fluids.iter().zip(original).zip(kinds) {
        links[fluid.index()] = kind.map(|kind| (original.capacity, kind));
    }
    links
}

/// Visits of a path as they are found.
struct Visits<'a> {
    simulation: &'a Simulation<'a>,
    words: &'a Words<'a>,
    /// By fluid of the folded program, its capacity and the kind of link that it is: of the
    /// original fluids that stand behind one all are of a kind.
    folded: Vec<Option<(Rate, LinkKind)>>,
    all: Vec<Visit>,
}

impl Visits<'_> {
    /// Adds a step of the path: time of the operations that ended in it.
    fn add(&mut self, step: &PathStep, spans: &[Span], origin: Time) {
        let cause = self.simulation.built.lowered.program.causes[step.cause.index()].as_str();
        let end = step.begin + step.duration;
        let mut from = step.begin;
        let after = spans.partition_point(|span| span.end <= step.begin);
        for span in spans[after..].iter().take_while(|span| span.start < end) {
            if !self.counts(span, cause) {
                continue;
            }
            let to = span.end.min(end);
            if to > from {
                self.spend(step, Some(span), cause, [from, to], origin);
                from = to;
            }
        }
        if end > from {
            self.spend(step, None, cause, [from, end], origin);
        }
    }

    /// True if time of a span may count as a cause: waits of any, runs of their own.
    fn counts(&self, span: &Span, cause: &str) -> bool {
        let Op::Run { .. } = span.op else { return true };
        let program = &self.simulation.folded().program;
        let Some(activity) = self.activity(span) else { return true };
        let own = program.causes[activity.cause.index()].as_str() == cause;
        own || self.fluids(span).iter().any(|fluid| {
            let fluid = &self.simulation.folded().platform.fluids[fluid.index()];
            program.causes[fluid.cause.index()] == cause
        })
    }

    fn activity(&self, span: &Span) -> Option<&Activity> {
        let (Op::Run { activity } | Op::Join { activity, .. }) = span.op else { return None };
        let program = &self.simulation.folded().program;
        let binding = &program.bindings[program.streams[span.place.stream.index()].binding.index()];
        let table = &program.costs[binding.costs?.index()];
        table.activities.get(activity.at(span.place.args) as usize)
    }

    /// Fluids that a span's activity demands.
    fn fluids(&self, span: &Span) -> Vec<FluidId> {
        let folded = self.simulation.folded();
        let binding =
            &folded.program.bindings[folded.program.streams[span.place.stream.index()].binding.index()];
        let slot = |slot: Slot| binding.slots[usize::from(slot)] as usize;
        let route = match span.op {
            Op::Join { group, .. } => folded.program.groups[slot(group)].route.map(RouteId::index),
            _ => self.activity(span).and_then(|activity| activity.route).map(slot),
        };
        let demands = route.map_or(&[][..], |route| &folded.platform.routes[route].demands);
        demands.iter().map(|demand| demand.fluid).collect()
    }

    /// The resource that time of a cause goes to.
    fn resource(&self, span: Option<&Span>, cause: &str) -> Option<&'static str> {
        match cause {
            cause::COMPUTE | cause::RECOMPUTE => return Some(GPU),
            cause::LAUNCH => return Some(HOST),
            _ => {}
        }
        let known = self.fluids(span?).into_iter().filter_map(|fluid| self.folded[fluid.index()]);
        known.min_by_key(|(capacity, _)| *capacity).map(|(_, kind)| link_name(kind))
    }

    /// Adds time of an operation to the visit that it is part of.
    fn spend(
        &mut self,
        step: &PathStep,
        span: Option<&Span>,
        cause: &str,
        [from, to]: [Time; 2],
        origin: Time,
    ) {
        let lane = self.words.stream(step.stream);
        let rank = self.words.rank_of(step.stream);
        let (phase, micro_batch) = match span {
            None => (String::new(), None),
            Some(span) => self.words.visit(&span.place),
        };
        let time_s = (to - from).as_secs();
        let resource = self.resource(span, cause);
        let is_same =
            |last: &Visit| last.lane == lane && last.phase == phase && last.micro_batch == micro_batch;
        if !self.all.last().is_some_and(is_same) {
            let begin_s = (from - origin).as_secs();
            self.all.push(Visit { rank, lane, phase, micro_batch, begin_s, ..Visit::default() });
        }
        let Some(visit) = self.all.last_mut() else { return };
        visit.time_s += time_s;
        *visit.by_cause_s.entry(cause.to_owned()).or_default() += time_s;
        if let Some(resource) = resource {
            *visit.by_resource_s.entry(resource.to_owned()).or_default() += time_s;
        }
    }
}
