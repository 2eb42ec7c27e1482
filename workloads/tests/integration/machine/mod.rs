//! Transformers on machines.

mod alike;
mod balance;
mod bounds;
mod by_module;
mod drives;
mod elasticity;
mod exchanged;
mod folded;
mod groups;
mod kinds;
pub(crate) mod launches;
mod layers;
mod memo;
mod memory;
mod modules;
mod offload;
mod page_locked;
mod paged_states;
mod rejected;
mod run_ahead;
mod schedules;
mod sensitivity;
mod shared;
mod size;
mod steps;
mod swap;
mod tensors;
mod uneven;
mod zero_infinity;
mod zero_offload;

use hw_models::catalogue::Catalogue;
use hw_models::collectives::{COLLECTIVES, CollectiveCatalogue};
use hw_models::copies::{COPIES, CopyCatalogue};
use hw_models::framework::{FRAMEWORKS, Framework};
use hw_models::host::{HOST, HostCosts};
use hw_models::kernels::{KERNELS, KernelCatalogue, Libraries};
use hw_models::machine::{Cluster, Degrade, Machine};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use sim_core::fixed::RATE_BITS;
use sim_core::fold::fold;
use sim_core::id::{BlockId, StreamId};
use sim_core::outcome::{End, Run};
use sim_core::program::{Activity, Body, CostTable, Op, Program};
use sim_core::time::Time;
use sim_core::{Options, simulate};
use workloads::hardware::Hardware;
use workloads::lower::Lowered;
use workloads::model::transformer::{
    AttentionKernel, Dtype, Execution, Overlap, Sharding, Split, Transformer,
};
use workloads::names::{cause, kind};
use workloads::order::PipelineSchedule;
use workloads::passes::realise::messages::SendMode;
use workloads::passes::recompute::{Mode, Recompute};
use workloads::placement::Placement;
use workloads::plan::{Built, Deployment, Launch, PlanError, TransformerPlan, build_on};
use workloads::schedule::LaneKind;

const GIB: f64 = (1_u64 << 30) as f64;

/// A cluster, and what is known of its hardware.
#[derive(Clone)]
pub(crate) struct World {
    catalogue: Catalogue,
    kernels: KernelCatalogue,
    collectives: CollectiveCatalogue,
    host: HostCosts,
    frameworks: IndexMap<String, Framework>,
    copies: CopyCatalogue,
    cluster: Cluster,
}

impl World {
    /// Nodes of eight A100 of 80 GB with NVLink and a network interface each.
    fn dgx_a100(count: u32) -> Self {
        Self::of(Cluster::new("dgx-a100-80g", count))
    }

    /// A node of the catalogue.
    fn of_node(name: &str) -> Self {
        Self::of(Cluster::new(name, 1))
    }

    fn of(cluster: Cluster) -> Self {
        fn parse<T: DeserializeOwned>(text: &str) -> T {
            serde_yaml::from_str(text).expect("the embedded catalogue")
        }
        let catalogue =
            Catalogue::embedded(serde_yaml::Deserializer::from_str).expect("the embedded catalogue");
        Self {
            catalogue,
            kernels: parse(KERNELS),
            collectives: parse(COLLECTIVES),
            host: parse(HOST),
            frameworks: parse(FRAMEWORKS),
            copies: parse(COPIES),
            cluster,
        }
    }

    /// With GPUs whose memory nothing fills.
    fn roomy(mut self) -> Self {
        self.catalogue.gpus.values_mut().for_each(|gpu| gpu.memory_gib = 16_384.0);
        self
    }

    /// With GPUs whose caches keep nothing from one kernel to the next.
    fn forgetful(mut self) -> Self {
        for generation in self.kernels.generations.values_mut() {
            (generation.cache.kept, generation.cache.lost) = (-2.0, -1.0);
        }
        self
    }

    /// The world with a line of `degrade`.
    fn slowed(mut self, line: &str) -> Self {
        let line: Degrade = serde_yaml::from_str(line).expect("a line of `degrade`");
        self.cluster.degrade.push(line);
        self
    }

    fn machine(&self) -> Machine {
        Machine::build(&self.catalogue, &self.cluster).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    fn build(&self, plan: &TransformerPlan) -> Result<Built, PlanError> {
        build_on(plan, &self.hardware(&self.machine()))
    }

    fn hardware<'a>(&'a self, machine: &'a Machine) -> Hardware<'a> {
        let Self { catalogue, kernels, collectives, host, frameworks, copies, .. } = self;
        let (libraries, framework) = (Libraries::default(), &frameworks["pytorch-2"]);
        let (measured, memo) = (&[][..], None);
        Hardware {
            machine,
            catalogue,
            kernels,
            collectives,
            host,
            framework,
            copies,
            libraries,
            differ: Some(&kernels.variation),
            measured,
            memo,
        }
    }

    /// A run of a plan, however it ends.
    fn run(&self, plan: &TransformerPlan) -> Ran {
        Ran::of(self.build(plan).unwrap_or_else(|error| panic!("{error}")).lowered)
    }

    /// A run that must reach its end.
    fn completed(&self, plan: &TransformerPlan) -> Ran {
        let ran = self.run(plan);
        assert_eq!(ran.run.end, End::Completed, "{plan:?}");
        ran
    }
}

/// A program and a run of it.
struct Ran {
    lowered: Lowered,
    run: Run,
}

impl Ran {
    /// Folded, which changes nothing ([`folded`](self::folded)) but the time the tests take.
    fn of(lowered: Lowered) -> Self {
        let folded = fold(&lowered.platform, &lowered.program, &lowered.start);
        let run = simulate(&folded.platform, &folded.program, &folded.start, &Options::default())
            .unwrap_or_else(|errors| panic!("{errors:?}"));
        Self { run: folded.expand(&run), lowered }
    }

    /// Whether every rank, simulated by itself, does the same.
    fn does_what_it_does_apart(&self) {
        let Self { lowered, run } = self;
        let apart =
            simulate(&lowered.platform, &lowered.program, &lowered.start, &Options::default()).unwrap();
        assert_eq!((apart.time, &apart.streams, &apart.stores), (run.time, &run.streams, &run.stores));
    }

    fn seconds(&self) -> f64 {
        self.run.time.as_secs()
    }

    fn ranks_per_stage(&self) -> u32 {
        (self.lowered.ranks.len() / self.lowered.stages.len()) as u32
    }

    /// The stream of a lane of a rank.
    fn lane(&self, stage: u32, replica: u32, kind: LaneKind) -> StreamId {
        let found = self
            .lowered
            .streams
            .iter()
            .position(|role| (role.stage, role.replica, role.kind) == (stage, replica, kind));
        StreamId::from(found.unwrap_or_else(|| panic!("stage {stage} has no lane {kind:?}")))
    }

    /// Time of a rank's operators by cause.
    fn spent(&self, stage: u32, replica: u32, name: &str) -> Time {
        self.spent_by(stage, replica, LaneKind::Compute, name)
    }

    /// Time of a lane of a rank by cause.
    fn spent_by(&self, stage: u32, replica: u32, lane: LaneKind, name: &str) -> Time {
        let cause = cause::ALL.iter().position(|&known| known == name).unwrap();
        self.run.streams[self.lane(stage, replica, lane).index()].spent[cause]
    }

    /// Bytes of kinds at the peak of a stage's first rank.
    fn at_peak(&self, stage: usize, names: &[&str]) -> u64 {
        let by_kind = &self.run.stores[self.lowered.stages[stage].memory.index()].peak.by_kind;
        let kinds = by_kind.iter().zip(&self.lowered.program.kinds);
        kinds.filter(|(_, name)| names.contains(&name.as_str())).map(|(bytes, _)| bytes).sum()
    }

    fn activations(&self, stage: usize) -> u64 {
        self.at_peak(stage, &[kind::ACTIVATIONS])
    }

    /// What the operations of a lane take when nothing contends, by call; waiting takes nothing.
    fn alone(&self, stream: StreamId) -> Vec<Time> {
        self.by_call(stream, |op, costs| match op {
            Op::Run { activity } | Op::Join { activity, .. } => {
                self.activity(&costs.activities[activity.base as usize])
            }
            _ => Time::ZERO,
        })
    }

    /// How long the message is under way that each call sends.
    fn messages(&self, stream: StreamId) -> Vec<Time> {
        self.by_call(stream, |op, costs| match op {
            Op::Add { after: Some(flight), .. } => costs.activities[flight.base as usize].latency,
            _ => Time::ZERO,
        })
    }

    fn by_call(&self, stream: StreamId, duration: impl Fn(&Op, &CostTable) -> Time) -> Vec<Time> {
        let Program { streams, roles, bindings, costs, blocks, .. } = &self.lowered.program;
        let stream = &streams[stream.index()];
        let Body::Role(role) = stream.body else { panic!("lowering makes roles") };
        let costs = &costs[bindings[stream.binding.index()].costs.expect("lowering gives costs").index()];
        let block = |id: BlockId| sum(blocks[id.index()].ops.iter().map(|op| duration(op, costs)));
        let calls = roles[role.index()].calls.iter();
        calls.flat_map(|call| vec![block(call.block); call.repeat as usize]).collect()
    }

    /// A latency, then work at the cap.
    fn activity(&self, activity: &Activity) -> Time {
        let of_units =
            activity.units.map(|units| self.lowered.program.caps[units.table.index()].cap(units.want));
        let cap = of_units.map_or(activity.cap, |cap| cap.min(activity.cap)).0;
        let moving = (u128::from(activity.work) << RATE_BITS).div_ceil(u128::from(cap));
        activity.latency + Time(moving as u64)
    }
}

fn sum(times: impl IntoIterator<Item = Time>) -> Time {
    times.into_iter().fold(Time::ZERO, |sum, time| sum + time)
}

/// A GPT of a few layers, small enough for short steps and wide enough for its kernels to fill a GPU.
fn gpt(layers: u32) -> Transformer {
    Transformer::gpt(layers, 4_096, 32, 51_200, 2_048)
}

/// A plan for tensor, pipeline and data parallel ranks: sequence parallel, no recomputation, 1F1B, all scores in memory.
fn plan(model: Transformer, [tensor, stages, data]: [u32; 3], micro_batches: u32) -> TransformerPlan {
    let sequence = model.max_positions;
    let split = Split { tensor, sequence_parallel: tensor > 1, stages, chunks: 1, ..Split::NONE };
    TransformerPlan {
        model,
        execution: Execution::new(1, sequence, split, Dtype::Fp16, AttentionKernel::Materialised),
        data,
        sharding: Sharding::None,
        sharing: None,
        overlap: Overlap::default(),
        scatter_gather: true,
        deployment: Deployment::new(micro_batches),
    }
}

fn every_layer(mode: Mode) -> Option<Recompute> {
    Some(Recompute { mode: Some(mode), ..Recompute::default() })
}

fn schedule(plan: &mut TransformerPlan, schedule: PipelineSchedule) {
    plan.deployment.pipelining.schedule = schedule;
    plan.execution.split.chunks = schedule.chain(plan.execution.split.stages).chunks;
}
