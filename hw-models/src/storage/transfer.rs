//! Transfers between arrays and memories or GPUs: what the engine says they take, alone and at once.

use sim_core::id::StreamId;
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Program, StartState};
use sim_core::time::Time;
use sim_core::{Options, simulate};

use crate::copies::{Copy, CopyCatalogue, Direction, HostMemory};
use crate::machine::{Machine, MachineResources, NoRoute, PartId, ResourceKind};

use super::{Array, PathParameters, Stage, Staging, Storage, Way, pipeline};

/// Bytes that go one way.
#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    /// Where they are kept.
    pub array: &'a Array,
    /// From there or to it.
    pub way: Way,
    /// The other end: a GPU or a host memory.
    pub end: PartId,
    /// How many.
    pub bytes: u64,
    /// By which path.
    pub path: &'a PathParameters,
}

/// What transfers take (s) that begin together.
///
/// # Errors
/// If nothing joins two ends.
pub fn seconds_at_once(
    machine: &Machine,
    copies: &CopyCatalogue,
    transfers: &[Transfer<'_>],
) -> Result<Vec<f64>, NoRoute> {
    let mut program = Program::default();
    let cause = program.cause("storage");
    let (mut platform, resources) = machine.platform(|_: ResourceKind| cause);
    let mut under_way = UnderWay { machine, copies, resources, storage: Storage::new(machine, cause) };
    let streams = transfers
        .iter()
        .map(|transfer| {
            let (stages, items, buffers) = under_way.stages(&mut platform, transfer)?;
            Ok(pipeline(&mut platform, &mut program, stages, (items, buffers), cause))
        })
        .collect::<Result<Vec<_>, NoRoute>>()?;
    let run = simulate(&platform, &program, &StartState::default(), &Options::default());
    let run = run.expect("transfers are a program");
    let finished = |stream: StreamId| run.streams[stream.index()].finished.expect("transfers end").as_secs();
    Ok(streams.into_iter().map(finished).collect())
}

struct UnderWay<'a> {
    machine: &'a Machine,
    copies: &'a CopyCatalogue,
    resources: MachineResources,
    storage: Storage<'a>,
}

impl UnderWay<'_> {
    /// The hops of a transfer, in turn, over so many items through so many buffers.
    fn stages(
        &mut self,
        platform: &mut Platform,
        transfer: &Transfer<'_>,
    ) -> Result<(Vec<Stage>, u32, u32), NoRoute> {
        let Transfer { way, end, bytes, path, .. } = *transfer;
        let gpu = (0..self.machine.gpus()).find(|&gpu| self.machine.gpu(gpu) == end);
        let staged = match path.staging {
            Staging::None => None,
            Staging::Whole | Staging::Pipelined => gpu.zip(self.machine.memory_of(end)),
        };
        let Some((gpu, memory)) = staged else {
            let mut hop = self.of_drives(platform, transfer, end, bytes)?;
            hop.demands.extend(gpu.map(|gpu| self.memory_of_gpu(gpu)));
            return Ok((vec![hop], 1, 1));
        };
        let requests = path.requests();
        let buffer = requests.block * u64::from(requests.depth);
        let (items, buffers) = match path.staging {
            Staging::Pipelined => (u32::try_from(bytes.div_ceil(buffer)).unwrap_or(u32::MAX), 2),
            Staging::None | Staging::Whole => (1, 1),
        };
        let each = bytes / u64::from(items);
        let drives = self.of_drives(platform, transfer, memory, each)?;
        let copy = self.of_gpu(platform, transfer, (gpu, memory), each)?;
        let hops = match way {
            Way::Read => vec![drives, copy],
            Way::Write => vec![copy, drives],
        };
        Ok((hops, items, buffers))
    }

    /// Between the array and a memory.
    fn of_drives(
        &mut self,
        platform: &mut Platform,
        transfer: &Transfer<'_>,
        end: PartId,
        bytes: u64,
    ) -> Result<Stage, NoRoute> {
        let Transfer { array, way, path, .. } = *transfer;
        let (demands, at_most) = self.storage.demands(
            platform,
            &self.resources,
            (array, end),
            (way, bytes),
            path.requests(),
            path.passes,
        )?;
        let name = format!("{} {way:?}", array.name).to_lowercase();
        let at_most = at_most.min(path.of_thread(way));
        Ok(Stage { name, latency: Time::ZERO, bytes, at_most, demands })
    }

    /// Between a memory and the GPU.
    fn of_gpu(
        &mut self,
        platform: &mut Platform,
        transfer: &Transfer<'_>,
        (gpu, memory): (u32, PartId),
        bytes: u64,
    ) -> Result<Stage, NoRoute> {
        let Transfer { way, end, path, .. } = *transfer;
        let (ends, direction) = match way {
            Way::Read => ([memory, end], Direction::ToDevice),
            Way::Write => ([end, memory], Direction::FromDevice),
        };
        let class = self.machine.gpu_model(end).map(|model| model.pcie.of_copies());
        let starts = class.and_then(|class| self.copies.get(class));
        let memory = if path.pinned { HostMemory::Pinned } else { HostMemory::Pageable };
        let cost = starts.map(|starts| starts.cost(Copy { direction, memory, synchronised: true }));
        let route = self.machine.route(ends[0], ends[1])?;
        let passes = cost.map_or(1.0, |cost| cost.passes);
        let mut demands = self.storage.links().demands(platform, &self.resources, &route, passes);
        demands.push(self.memory_of_gpu(gpu));
        let latency = cost.map_or(Time::ZERO, |cost| cost.latency);
        let at_most = cost.and_then(|cost| cost.at_most).unwrap_or(f64::INFINITY);
        Ok(Stage { name: "copy".to_owned(), latency, bytes, at_most, demands })
    }

    fn memory_of_gpu(&self, gpu: u32) -> Demand {
        self.resources.gpus[gpu as usize].copied()
    }
}
