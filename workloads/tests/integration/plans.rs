//! Plans in one line, and the profiled runs of Qi et al. 2024.

use hw_models::settings::{Bytes, Count, PerStage, StageSet};
use sim_core::time::Time;
use workloads::chain::Chain;
use workloads::model::profiled::{ProfiledPipeline, StageProfile};
use workloads::order::{
    ChunkTiming, Interleaved, MemoryAllowance, Order, PipelineSchedule, Shape, Timing, ZbAuto, generate,
};
use workloads::passes::recompute::Recompute;
use workloads::plan::{PipelinePlan, Pipelining};

/// The interleaved schedule.
pub(crate) fn interleaved(chunks: u32) -> PipelineSchedule {
    PipelineSchedule::Interleaved(Interleaved { chunks: Count::literal(chunks.into()) })
}

/// The automatic schedule in the memory of `micro_batches` micro-batches.
pub(crate) fn automatic(micro_batches: u32) -> PipelineSchedule {
    let memory_limit = MemoryAllowance::MicroBatches(Count::literal(micro_batches.into()));
    PipelineSchedule::ZbAuto(ZbAuto { memory_limit })
}

/// Every schedule, for a pipeline of `stages` stages.
pub(crate) fn schedules(stages: u32) -> [PipelineSchedule; 9] {
    [
        PipelineSchedule::Gpipe,
        PipelineSchedule::OneFOneB,
        interleaved(2),
        interleaved(3),
        PipelineSchedule::ZbH1,
        PipelineSchedule::ZbH2,
        PipelineSchedule::ZbV,
        automatic(stages),
        automatic(2 * stages),
    ]
}

/// A stage of the given times in microseconds, with activations of 34 units, of which the weight gradient keeps 32.
pub(crate) fn stage(forward: u64, input: u64, weight: u64, transfer: u64) -> StageProfile {
    StageProfile {
        forward: Time::from_us(forward),
        backward_input: Time::from_us(input),
        backward_weight: Time::from_us(weight),
        transfer: Time::from_us(transfer),
        recompute: None,
        activation: 34_000,
        activation_kept_for_weight: Some(32_000),
        weights: 0,
    }
}

/// Recomputation from a checkpoint of `bytes` on every stage.
pub(crate) fn keeping(bytes: u64) -> Recompute {
    Recompute { keeps: Some(PerStage::All(Bytes::new_bytes(bytes))), ..Recompute::default() }
}

/// The stages of a list.
pub(crate) fn on(stages: &[u64]) -> Option<StageSet> {
    Some(StageSet::Listed(stages.iter().map(|&stage| Count::literal(stage)).collect()))
}

/// `count` equal stages, otherwise plain.
pub(crate) fn uniform(
    stage: StageProfile,
    count: u32,
    micro_batches: u32,
    schedule: PipelineSchedule,
) -> PipelinePlan {
    PipelinePlan {
        model: ProfiledPipeline { stages: vec![stage; count as usize], capacity: None },
        pipelining: Pipelining::plain(schedule, micro_batches),
    }
}

/// The timing of a plain plan, put together from the profile alone.
pub(crate) fn timing(plan: &PipelinePlan) -> Timing {
    let chain = chain(plan);
    let v = u64::from(chain.chunks);
    let share = |total: u64, chunk: u64| total * (chunk + 1) / v - total * chunk / v;
    let chunk = |position: u32| {
        let stage = plan.model.stages[chain.stage(position) as usize];
        let chunk = u64::from(chain.chunk(position));
        let time = |time: Time| Time(share(time.0, chunk));
        let message = |hop: workloads::chain::Hop| plan.model.stages[workloads::cost::boundary(hop)].transfer;
        ChunkTiming {
            forward: time(stage.forward),
            backward_input: time(stage.backward_input),
            backward_weight: time(stage.backward_weight),
            message: chain.hop(position).map(message).unwrap_or_default(),
            activation: share(stage.activation, chunk),
            kept_for_weight: share(stage.kept_for_weight(), chunk),
        }
    };
    let limit = match plan.pipelining.schedule {
        PipelineSchedule::ZbAuto(ZbAuto { memory_limit: MemoryAllowance::MicroBatches(n) }) => n.get() as u32,
        _ => chain.stages,
    };
    Timing {
        chunks: (0..chain.positions()).map(chunk).collect(),
        limit: plan.model.stages.iter().map(|stage| stage.activation * u64::from(limit)).collect(),
    }
}

pub(crate) fn chain(plan: &PipelinePlan) -> Chain {
    plan.pipelining.schedule.chain(plan.model.stages.len() as u32)
}

/// The order of a plan.
pub(crate) fn order(plan: &PipelinePlan) -> Order {
    let shape = Shape { chain: chain(plan), micro_batches: plan.pipelining.micro_batches };
    generate(&plan.pipelining.schedule, shape, || timing(plan))
}

/// The bubble rate of a plan whose slowest stage takes `cost`: `1 - m (F + B + W) / cost`.
pub(crate) fn bubble(plan: &PipelinePlan, cost: Time) -> f64 {
    let stage = plan.model.stages[0];
    let work = (stage.forward + stage.backward_input + stage.backward_weight).0;
    1.0 - (work * u64::from(plan.pipelining.micro_batches)) as f64 / cost.0 as f64
}

/// A row of Qi et al. 2024, Table 9 (times in microseconds) with the bubble rates of Table 5.
pub(crate) struct Row {
    pub(crate) stages: u32,
    pub(crate) micro_batches: u32,
    pub(crate) times_us: [u64; 4],
    pub(crate) one_f_one_b: f64,
    pub(crate) h1: f64,
    pub(crate) h2: f64,
    pub(crate) auto_1p: f64,
    pub(crate) auto_2p: f64,
    /// Not in the table: what the plain interleaved order of Megatron-LM with three chunks takes, by the same recurrence.
    pub(crate) interleaved_3: f64,
    /// Not in the table: what 1F1B takes, in ms.
    pub(crate) one_f_one_b_ms: f64,
}

#[rustfmt::skip]
pub(crate) const ROWS: [Row; 6] = [
    row(8,  24,  [18_522, 18_086, 9_337, 601], [0.2431, 0.1585, 0.1083, 0.1585, 0.0433, 0.1090], 1456.7),
    row(8,  32,  [18_513, 18_086, 9_331, 626], [0.1985, 0.1242, 0.0837, 0.1242, 0.0039, 0.0847], 1833.8),
    row(8,  64,  [18_546, 18_097, 9_321, 762], [0.1240, 0.0674, 0.0444, 0.0674, 0.0026, 0.0461], 3357.9),
    row(16, 48,  [11_347, 11_248, 8_132, 377], [0.2552, 0.1397, 0.0672, 0.1397, 0.0066, 0.1136], 1980.3),
    row(16, 64,  [11_307, 11_254, 8_101, 379], [0.2082, 0.1088, 0.0516, 0.1088, 0.0054, 0.0878], 2478.4),
    row(16, 128, [11_325, 11_308, 8_109, 378], [0.1251, 0.0576, 0.0266, 0.0576, 0.0028, 0.0459], 4497.4),
];

const fn row(stages: u32, micro_batches: u32, times_us: [u64; 4], bubbles: [f64; 6], ms: f64) -> Row {
    let [one_f_one_b, h1, h2, auto_1p, auto_2p, interleaved_3] = bubbles;
    Row {
        stages,
        micro_batches,
        times_us,
        one_f_one_b,
        h1,
        h2,
        auto_1p,
        auto_2p,
        interleaved_3,
        one_f_one_b_ms: ms,
    }
}

impl Row {
    /// The plan of the row. Activations are those of the paper's section 3.2: s b (34 h + 5 a s) for the input gradient,
    /// of which 32 s b h for the weight gradient; the proportion decides how many weight gradients ZB-2p can put off.
    pub(crate) fn plan(&self, schedule: PipelineSchedule) -> PipelinePlan {
        let (a, h, s, b) = if self.stages == 8 { (24, 2304, 1024, 6) } else { (40, 5120, 1024, 1) };
        let [forward, input, weight, transfer] = self.times_us;
        let stage = StageProfile {
            activation: 3 * s * b * (34 * h + 5 * a * s),
            activation_kept_for_weight: Some(3 * s * b * 32 * h),
            ..stage(forward, input, weight, transfer)
        };
        uniform(stage, self.stages, self.micro_batches, schedule)
    }
}
