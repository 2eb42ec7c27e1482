//! The operators of a plan for one GPU, priced, for programs that issue them one by one.

use std::ops::Range;

use sim_core::time::Time;

use crate::cost::{CostBook, HostLinks, OpCost, duration};
use crate::graph::operator::{self, Stream, StreamClass};
use crate::graph::{OpId, Phase};
use crate::hardware::Hardware;
use crate::model::laid::Part;
use crate::model::transformer::Work;
use crate::program::base::{Base, BlockOperators, Operator, Operators, Way};
use crate::program::statement::{Fragment, Program};

use super::deployed::{Deployed, Works};
use super::launch::class;
use super::{Deployment, LayeredPlan, PlanError, TransformerPlan, layered, transformer};

/// Operators of a program over a list of layers on one GPU; `sums`: gradients are added
/// to what is there.
///
/// # Errors
/// As [`build_layered_on`](super::build_layered_on).
pub fn layered_base(
    plan: &LayeredPlan,
    program: Program<'_>,
    sums: bool,
    hardware: &Hardware<'_>,
) -> Result<Base, PlanError> {
    base(plan, (|plan| &mut plan.deployment, layered::deployed), (program, sums), hardware)
}

/// Operators of a program over a transformer on one GPU, likewise.
///
/// # Errors
/// As [`build_on`](super::build_on).
pub fn transformer_base(
    plan: &TransformerPlan,
    program: Program<'_>,
    sums: bool,
    hardware: &Hardware<'_>,
) -> Result<Base, PlanError> {
    base(plan, (|plan| &mut plan.deployment, transformer::deployed), (program, sums), hardware)
}

/// Operators of a model, and those beside it.
struct Priced {
    operators: Operators,
    beside: Vec<Operator>,
    tensors: u64,
    parameter_bytes: u64,
    /// Page-locked and pageable.
    links: [HostLinks; 2],
}

/// The deployment of a kind of plan, and its model on the stages of one.
type Kind<P> =
    (fn(&mut P) -> &mut Deployment, for<'p> fn(&'p P, &Hardware<'_>) -> Result<Deployed<'p>, PlanError>);

fn base<P: Clone>(
    plan: &P,
    (deployment, deployed): Kind<P>,
    (program, sums): (Program<'_>, bool),
    hardware: &Hardware<'_>,
) -> Result<Base, PlanError> {
    let priced = |compiled: bool, beside: &[operator::Operator]| {
        let mut plan = plan.clone();
        let pipelining = &mut deployment(&mut plan).pipelining;
        (pipelining.no_sums, pipelining.compiled) = (!sums, compiled);
        Priced::of(&deployed(&plan, hardware)?, beside, hardware)
    };
    let passes: Vec<operator::Operator> = program.fragments.values().map(pass).collect();
    let library = priced(false, &passes)?;
    let merged = priced(true, &[])?;
    let fragments = || program.fragments.values().zip(&library.beside);
    let each = |(fragment, pass): (&Fragment, &Operator)| BlockOperators {
        forward: vec![pass.clone(); fragment.operators.get() as usize],
        backward: vec![pass.clone(); fragment.backward.get() as usize],
    };
    let as_one = |(fragment, pass): (&Fragment, &Operator)| {
        let one = |members: u64| {
            (members > 0).then(|| Operator { members: members as u32, ..pass.clone() }).into_iter().collect()
        };
        BlockOperators { forward: one(fragment.operators.get()), backward: one(fragment.backward.get()) }
    };
    let (each, as_one) = (fragments().map(each).collect(), fragments().map(as_one).collect());
    let (_, gpu) = hardware.gpu()?;
    let seconds = 2.0 * library.parameter_bytes as f64 / (gpu.bandwidth_gb_per_s * 1e9);
    let way = |links: &HostLinks, way: usize| Way {
        latency: Time((links.latency[way] * 1e12) as u64),
        rate: links.rate[way],
    };
    Ok(Base {
        tensors: library.tensors,
        copy_parameters: Time((seconds * 1e12) as u64),
        to_device: [way(&library.links[0], 1), way(&library.links[1], 1)],
        from_device: way(&library.links[0], 0),
        library: Operators { fragments: each, ..library.operators },
        merged: Operators { fragments: as_one, ..merged.operators },
    })
}

/// The operator of a fragment.
fn pass(fragment: &Fragment) -> operator::Operator {
    let bytes = fragment.bytes.bytes();
    let stream = Stream::pass(StreamClass::Elementwise, (bytes, bytes));
    operator::Operator::of("fragment", Phase::Forward, Work::Stream(stream))
}

impl Priced {
    fn of(
        deployed: &Deployed<'_>,
        beside: &[operator::Operator],
        hardware: &Hardware<'_>,
    ) -> Result<Self, PlanError> {
        let Works { costs, links } = deployed.works(beside, hardware)?;
        let laid = &deployed.laid;
        let gap = hardware.host.gap_in_stream.time();
        let known = laid.graph.operators().iter().chain(beside).zip(&costs.operators[0]);
        let known: Vec<Operator> =
            known.map(|(operator, cost)| priced(operator, cost, &costs, gap)).collect();
        let operator = |id: OpId| known[laid.graph.get(id).operator.0 as usize].clone();
        let update = laid.graph.visit(0, 0, Phase::Update);
        let of = |range: &Range<u32>| range.clone().map(|id| operator(OpId(id))).collect::<Vec<_>>();
        let block = |part: &Part| BlockOperators { forward: of(&part.forward), backward: of(&part.backward) };
        let operators = Operators {
            blocks: laid.parts.iter().map(block).collect(),
            update: update.iter().copied().map(operator).collect(),
            fragments: Vec::new(),
        };
        Ok(Self {
            operators,
            beside: known[laid.graph.operators().len()..].to_vec(),
            tensors: deployed.tensors.first().copied().unwrap_or(1),
            parameter_bytes: deployed.states.iter().map(|places| places.gpu.parameters).sum(),
            links,
        })
    }
}

/// An operator without the gap that plans count as its own.
fn priced(operator: &operator::Operator, cost: &OpCost, costs: &CostBook, gap: Time) -> Operator {
    let (start, work) = match *cost {
        OpCost::Lasting(time) => (Time::ZERO, time),
        OpCost::Kernel { fixed, bytes, speed, sms } | OpCost::Read { fixed, bytes, speed, sms, .. } => {
            let speed = costs.speeds[speed as usize].cap(sms);
            (Time(fixed.0.saturating_sub(gap.0)), duration(bytes, speed))
        }
        OpCost::Transfer { bytes, latency, cap, .. } => (latency, duration(bytes, cap)),
        OpCost::Host { bytes, cap } | OpCost::Fetch { bytes, cap, .. } => (Time::ZERO, duration(bytes, cap)),
        // One GPU has no peers.
        OpCost::Collective(_) => (Time::ZERO, Time::ZERO),
    };
    Operator { class: class(operator), start, work, members: operator.members, views: operator.views }
}
