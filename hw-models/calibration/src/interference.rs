//! What work costs other work of a GPU that goes on at once: what the engine says, beside what was measured.
//!
//! Both are streams of a simulation, as the operators of a training step are: a kernel demands memory at most as fast as the SMs
//! that it holds let it, a copy demands its way of the link and comes first at the memory, blocks that hold SMs leave fewer. The
//! other work begins first and goes on until the timed work has ended, as it is [measured](super::measure::Beside).

use serde::Serialize;
use sim_core::fixed::Rate;
use sim_core::id::{CapTableId, CauseId, StreamId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Op, Program, StartState, Units};
use sim_core::time::Time;
use sim_core::{Options, simulate};

use super::Errors;
use super::measure::{Beside, Record, Task, Work};
use super::overlay::Overlay;
use hw_models::catalogue::CopyRates;
use hw_models::kernels::{GpuFacts, KernelModel, Stream, StreamClass};
use hw_models::machine::{copy_ways, end_with, held, repeated};

/// A GPU as scenarios have it.
#[derive(Clone, Debug)]
pub struct SharedGpu {
    kernels: KernelModel,
    /// Between a kernel and the one before.
    gap: Time,
    /// What copies get of its link (bytes/s).
    link: CopyRates,
}

/// Work beside other work, measured and predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slowdown {
    /// What was timed.
    pub timed: String,
    /// What went on meanwhile.
    pub meanwhile: String,
    /// So many times as long as alone did it take.
    pub measured: f64,
    /// The same by the engine.
    pub predicted: f64,
}

/// Executions of the timed work.
const EXECUTIONS: u32 = 20;
/// Executions of the other work at most, and how long blocks hold their SMs at most: all ends with the timed work.
const MOST: u32 = 1_000_000;
const LONGEST: Time = Time::from_ms(1_000_000);

/// Slots of streams.
const HBM: u16 = 0;
const SMS: u16 = 1;
const TO_DEVICE: u16 = 2;
const TO_HOST: u16 = 3;

impl SharedGpu {
    /// The GPU of a name; none if there are no kernels for it.
    pub fn of(overlay: &Overlay, gpu: &str) -> Option<Self> {
        let facts = overlay.devices.gpus.get(gpu)?;
        let class = overlay.devices.links.get(&facts.pcie.class)?;
        let link = class.copied(facts.pcie.lanes);
        let parameters = overlay.kernels.parameters(gpu, &facts.architecture).ok()?;
        let kernels = KernelModel::new(GpuFacts::of(facts, 1.0), parameters);
        Some(Self { kernels, gap: overlay.host.gap_in_stream.time(), link })
    }

    /// So many times as long as alone does the timed work take; none where there is no model of either.
    pub fn slowdown(&self, task: &Beside) -> Option<f64> {
        let alone = self.seconds(task.timed, Work::Nothing)?;
        Some(self.seconds(task.timed, task.meanwhile)? / alone)
    }

    /// Time of executions of the timed work.
    fn seconds(&self, timed: Work, meanwhile: Work) -> Option<f64> {
        let mut sharing = Sharing::of(self);
        // Who comes first holds what it needs first.
        let other = match meanwhile {
            Work::Nothing => None,
            Work::Hold(blocks) => Some(sharing.hold(blocks)),
            other => Some(sharing.execute(other, MOST)?),
        };
        let timed = sharing.execute(timed, EXECUTIONS)?;
        end_with(&mut sharing.program, timed, other.as_slice());
        let run = simulate(&sharing.platform, &sharing.program, &StartState::default(), &Options::default());
        Some(run.ok()?.streams.last()?.finished?.as_secs())
    }
}

/// What was measured of work beside other work, and what the engine says: of what was also measured alone.
pub fn slowdowns(gpu: &SharedGpu, records: &[Record]) -> Vec<Slowdown> {
    let predicted = |(task, measured): (Beside, f64)| {
        Some(Slowdown {
            timed: task.timed.to_string(),
            meanwhile: task.meanwhile.to_string(),
            measured,
            predicted: gpu.slowdown(&task)?,
        })
    };
    measured(records).filter_map(predicted).collect()
}

/// Work beside other work, and so many times as long as alone it took: of what was also measured alone.
pub(super) fn measured(records: &[Record]) -> impl Iterator<Item = (Beside, f64)> {
    let sound = || {
        records.iter().filter(|record| record.is_sound()).filter_map(|record| match record.of {
            Task::Beside(task) => Some((task, record.seconds())),
            _ => None,
        })
    };
    let alone =
        move |work| sound().find(|(task, _)| *task == Beside { timed: work, meanwhile: Work::Nothing });
    let met = sound().filter(|(task, _)| task.meanwhile != Work::Nothing);
    met.filter_map(move |(task, seconds)| Some((task, seconds / alone(task.timed)?.1)))
}

impl Slowdown {
    /// Predicted less measured, as a share of the time alone: 0.05 are five points.
    pub fn off(&self) -> f64 {
        self.predicted - self.measured
    }

    /// How far the predictions are off, as shares of times alone.
    pub fn errors(all: &[Self]) -> Errors {
        Errors::of(&all.iter().map(Self::off).collect::<Vec<_>>())
    }
}

/// A simulation that streams are added to.
struct Sharing<'a> {
    gpu: &'a SharedGpu,
    platform: Platform,
    program: Program,
    slots: Vec<u32>,
    cause: CauseId,
}

impl<'a> Sharing<'a> {
    fn of(gpu: &'a SharedGpu) -> Self {
        let (mut platform, mut program) = (Platform::default(), Program::default());
        let cause = program.cause("work");
        let hbm = platform.fluid("hbm", gpu.kernels.facts.hbm_bytes_per_s, cause);
        let kernels = platform.route([Demand::on(hbm)]);
        let [to_device, to_host] = copy_ways(&mut platform, hbm, gpu.link, cause);
        let sms = platform.pool("sms", gpu.kernels.facts.sms);
        let slots = vec![kernels.0, sms.0, to_device.0, to_host.0];
        Self { gpu, platform, program, slots, cause }
    }

    /// A stream that executes the work so many times.
    fn execute(&mut self, work: Work, executions: u32) -> Option<StreamId> {
        let cause = self.cause;
        let cost = match work {
            Work::ToDevice(bytes) => {
                return Some(self.stream(Activity::moving(bytes, TO_DEVICE, cause), executions));
            }
            Work::ToHost(bytes) => {
                return Some(self.stream(Activity::moving(bytes, TO_HOST, cause), executions));
            }
            Work::Product(product) => self.gpu.kernels.gemm(&product).ok()?,
            Work::Pass(bytes) => self.gpu.kernels.stream(&pass(bytes)).ok()?,
            Work::Hold(_) | Work::Nothing => return None,
        };
        let hbm = Rate::per_second(self.gpu.kernels.facts.hbm_bytes_per_s);
        let table: CapTableId = self.program.cap_table(cost.speeds(cost.bytes, hbm).rows);
        let units = Some(Units { pool: SMS, want: cost.sms_wanted, priority: 1, table });
        let latency = self.gpu.gap.saturating_add(cost.fixed);
        Some(self.stream(Activity { latency, units, ..Activity::moving(cost.bytes, HBM, cause) }, executions))
    }

    fn stream(&mut self, activity: Activity, times: u32) -> StreamId {
        let run = Op::Run { activity: Affine::constant(0) };
        repeated(&mut self.program, self.slots.iter().copied(), [run], activity, times)
    }

    /// A stream that holds SMs.
    fn hold(&mut self, blocks: u32) -> StreamId {
        let (ops, longest) = (held(SMS, blocks, self.cause), Activity::lasting(LONGEST, self.cause));
        repeated(&mut self.program, self.slots.iter().copied(), ops, longest, 1)
    }
}

/// A copy within the memory of a GPU, of an array of so many bytes.
const fn pass(bytes: u64) -> Stream {
    Stream::pass(StreamClass::Elementwise, (bytes, bytes))
}
