//! Optimizer states on drives (ZeRO-Infinity, SC 2021): what the backward phase writes, and the update of one group of parameters after
//! the other.
//!
//! ```text
//! backward   4 B a parameter: fp32 gradient                               GPU -> host buffer -> drives
//! read       16 B a parameter: fp32 parameter, two moments, gradient      drives -> host memory
//! update     16 B read, 12 B and the fp16 parameter written               host memory, by the CPU
//! write      12 B a parameter: fp32 parameter, two moments                host memory -> drives
//! ```
//!
//! So 28 bytes of a parameter cross the path to the drives in an update. With one buffer a group is read only when the one before has been
//! written: reading, updating and writing never overlap, as in DeepSpeed unless `pipeline_read` and `pipeline_write` are set. With
//! more, they go on at once, and share drives and links.

use sim_core::id::{CauseId, StreamId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Program, StartState};
use sim_core::time::Time;
use sim_core::{Options, simulate};

use crate::machine::{Machine, MachineResources, NoRoute, PartId, ResourceKind};

use super::{Array, Requests, Stage, Storage, Way, pipeline};

/// Bytes of a parameter that the backward phase writes: its gradient in fp32.
const GRADIENT: u64 = 4;
/// That are read: parameter, two moments and gradient in fp32.
const READ: u64 = 16;
/// That are written: parameter and two moments.
const WRITTEN: u64 = 12;
/// That pass host memory while the CPU updates: all that is read and written, and the parameter in fp16.
const UPDATED: u64 = 30;

/// Optimizer states that are kept on an array.
#[derive(Clone, Copy, Debug)]
pub struct OffloadedStates<'a> {
    /// Where they are kept.
    pub array: &'a Array,
    /// The host memory in which they are updated.
    pub memory: PartId,
    /// Of so many parameters.
    pub parameters: u64,
    /// Parameters of one group.
    pub group: u64,
    /// Groups that are under way at a time.
    pub buffers: u32,
    /// How reads and writes are issued.
    pub requests: Requests,
    /// What the host does with a group between reading and writing it, in bytes that pass its memory (byte/s): Adam, the cast,
    /// copies between buffers, what it waits for; none: host memory alone limits.
    pub update_bytes_per_s: Option<f64>,
    /// What it does with gradients before they are written (byte/s).
    pub gradient_bytes_per_s: Option<f64>,
}

/// What streams are added to.
type Added<'p> = (&'p mut Platform, &'p mut Program);
/// The machine that they are on, and what is shared on it.
type On<'s, 'm> = (&'m Machine, &'s MachineResources, &'s mut Storage<'m>);

impl OffloadedStates<'_> {
    /// What an update takes alone on a machine (s).
    ///
    /// # Errors
    /// If nothing joins a drive and the memory.
    pub fn update_s(&self, machine: &Machine) -> Result<f64, NoRoute> {
        alone(machine, |into, on, cause| self.add_update(into, on, cause))
    }

    /// What a backward phase takes whose compute alone takes so long: the larger of that and writing gradients (s).
    ///
    /// # Errors
    /// If nothing joins a drive and the memory.
    pub fn backward_s(&self, machine: &Machine, compute_s: f64) -> Result<f64, NoRoute> {
        let writing = alone(machine, |into, on, cause| self.add_gradients(into, on, cause))?;
        Ok(writing.max(compute_s))
    }

    /// Adds the streams of an update to a program, beside others that share the machine; the last one to end is given.
    ///
    /// # Errors
    /// If nothing joins a drive and the memory.
    pub fn add_update(
        &self,
        (platform, program): Added<'_>,
        on: On<'_, '_>,
        cause: CauseId,
    ) -> Result<StreamId, NoRoute> {
        let (machine, resources, storage) = on;
        let (groups, each) = self.groups();
        let read = self.drives(platform, (machine, resources, storage), (Way::Read, READ * each))?;
        let write = self.drives(platform, (machine, resources, storage), (Way::Write, WRITTEN * each))?;
        let host = self.host(machine, resources, ("update", UPDATED * each), (1.0, self.update_bytes_per_s));
        Ok(pipeline(platform, program, vec![read, host, write], (groups, self.buffers.max(1)), cause))
    }

    /// Adds the streams that write gradients; the last one to end is given. Copies into one buffer go on while another is written.
    ///
    /// # Errors
    /// If nothing joins a drive and the memory.
    pub fn add_gradients(
        &self,
        (platform, program): Added<'_>,
        on: On<'_, '_>,
        cause: CauseId,
    ) -> Result<StreamId, NoRoute> {
        let (machine, resources, storage) = on;
        let (groups, each) = self.groups();
        let write = self.drives(platform, (machine, resources, storage), (Way::Write, GRADIENT * each))?;
        // Read and written once more in host memory.
        let host =
            self.host(machine, resources, ("gradients", GRADIENT * each), (2.0, self.gradient_bytes_per_s));
        Ok(pipeline(platform, program, vec![host, write], (groups, self.buffers.max(2)), cause))
    }

    /// How many groups there are, and the parameters of each.
    fn groups(&self) -> (u32, u64) {
        let groups = self.parameters.div_ceil(self.group.max(1)).max(1);
        (u32::try_from(groups).unwrap_or(u32::MAX), self.parameters.div_ceil(groups))
    }

    fn drives(
        &self,
        platform: &mut Platform,
        (_, resources, storage): On<'_, '_>,
        (way, bytes): (Way, u64),
    ) -> Result<Stage, NoRoute> {
        let ends = (self.array, self.memory);
        let (demands, at_most) =
            storage.demands(platform, resources, ends, (way, bytes), self.requests, 1.0)?;
        Ok(Stage { name: format!("{way:?}").to_lowercase(), latency: Time::ZERO, bytes, at_most, demands })
    }

    /// What the CPU does, on the memory of its socket.
    fn host(
        &self,
        machine: &Machine,
        resources: &MachineResources,
        (name, bytes): (&str, u64),
        (passes, at_most): (f64, Option<f64>),
    ) -> Stage {
        let memory = machine.links_from(self.memory).next().map(|link| resources.links[link.index()]);
        Stage {
            name: name.to_owned(),
            latency: Time::ZERO,
            bytes,
            at_most: at_most.unwrap_or(f64::INFINITY),
            demands: memory.map(|memory| Demand::on(memory).coefficient(passes)).into_iter().collect(),
        }
    }
}

/// When a stream ends that is alone with those it needs on a machine (s).
fn alone(
    machine: &Machine,
    add: impl FnOnce(Added<'_>, On<'_, '_>, CauseId) -> Result<StreamId, NoRoute>,
) -> Result<f64, NoRoute> {
    let mut program = Program::default();
    let cause = program.cause("storage");
    let (mut platform, resources) = machine.platform(|_: ResourceKind| cause);
    let mut storage = Storage::new(machine, cause);
    let last = add((&mut platform, &mut program), (machine, &resources, &mut storage), cause)?;
    let run = simulate(&platform, &program, &StartState::default(), &Options::default());
    let run = run.expect("states that are offloaded are a program");
    Ok(run.streams[last.index()].finished.expect("it ends").as_secs())
}
