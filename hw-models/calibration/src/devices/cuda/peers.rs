//! The other GPUs of the machine, and copies to one of them (NVIDIA, "CUDA Driver API", 13.0: peer context memory access).
#![expect(unsafe_code, reason = "the driver cannot check what memory it is told to copy")]

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use super::errors::failed;
use super::memory::Buffer;
use super::timer::Timer;
use super::{Gpu, Timed};
use crate::measure::{DeviceError, Fabric, Found, PeerCopy, Ways};
use hw_models::collectives::InsideLink;
use hw_models::kernels::Dtype;

/// The GPUs of a machine as one of them, which is measured, finds them.
pub(super) struct Peers {
    /// Numbers of all, that of the measured one first.
    pub(super) numbers: Vec<u32>,
    /// The first of the others that it reaches and that reaches it.
    pub(super) peer: Option<u32>,
    /// Those that something was done on.
    opened: BTreeMap<u32, Arc<CudaContext>>,
}

impl Peers {
    /// Those of the GPU of a context. No other one is opened for that.
    pub(super) fn of(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let own = context.ordinal() as u32;
        let others: Vec<u32> =
            (0..result::device::get_count()?.unsigned_abs()).filter(|&number| number != own).collect();
        let mut peer = None;
        for &other in &others {
            if peer.is_none() && reaches(own, other)? && reaches(other, own)? {
                peer = Some(other);
            }
        }
        let numbers = [&[own], &others[..]].concat();
        Ok(Self { numbers, peer, opened: BTreeMap::from([(own, context.clone())]) })
    }

    /// What there is for copies between GPUs, over what connects them.
    pub(super) fn found(&self, fabric: Option<Fabric>) -> Found {
        let (own, others) = (self.numbers[0], self.numbers.len() - 1);
        let over = match fabric {
            Some(Fabric { inside: InsideLink::NvSwitch, nvlinks }) => {
                format!("over {nvlinks} NVLinks to switches")
            }
            Some(Fabric { inside: InsideLink::CubeMesh | InsideLink::Relayed, nvlinks }) => {
                format!("over {nvlinks} NVLinks")
            }
            Some(Fabric { inside: InsideLink::Pcie, .. }) => "over PCI Express".to_owned(),
            None => "over what NVML does not tell".to_owned(),
        };
        match self.peer {
            Some(peer) => Found::Present(format!("{others} more, copies go to cuda:{peer} {over}")),
            None if others == 0 => Found::missing(
                "the driver shows one GPU",
                "copies between GPUs and collectives need a second one: if the machine has it, look at \
                 `CUDA_VISIBLE_DEVICES`, and in a container at `--gpus all`",
            ),
            None => Found::missing(
                format!("cuda:{own} reaches the memory of none of the {others} others"),
                "`nvidia-smi topo -p2p r` tells why: drivers of GeForce refuse it, and so does a machine that \
                 isolates its PCI Express devices (ACS, IOMMU)",
            ),
        }
    }

    /// The GPU of a number, for calls of the driver.
    pub(super) fn context(&mut self, number: u32) -> Result<Arc<CudaContext>, DeviceError> {
        if let Some(context) = self.opened.get(&number) {
            return Ok(context.clone());
        }
        let opened = CudaContext::new(number as usize);
        let context = opened.map_err(|error| failed(&format!("opening cuda:{number}"), error))?;
        self.opened.insert(number, context.clone());
        Ok(context)
    }
}

/// Whether one GPU can read and write the memory of another one.
fn reaches(from: u32, to: u32) -> Result<bool, DriverError> {
    let [from, to] = [result::device::get(from as i32)?, result::device::get(to as i32)?];
    let mut can = 0;
    // SAFETY: the driver writes to the integer alone.
    unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, from, to) }.result()?;
    Ok(can != 0)
}

/// Memory of any GPU of the machine.
pub(super) struct Placed {
    pub(super) memory: Buffer,
    context: Arc<CudaContext>,
}

impl Placed {
    /// Calls of the driver are for that GPU afterwards.
    pub(super) fn on(context: &Arc<CudaContext>, bytes: u64) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(|error| failed("turning to another GPU", error))?;
        Ok(Self { memory: Buffer::of(bytes)?, context: context.clone() })
    }

    /// Copies all of it to memory that is as long.
    pub(super) fn copy_to(&self, other: &Self, stream: &CudaStream) -> Result<(), DeviceError> {
        let [from, to] = [self, other].map(|end| (end.memory.at(0), end.context.cu_ctx()));
        let bytes = self.memory.bytes().min(other.memory.bytes()) as usize;
        // SAFETY: both are that long, and live longer than what runs on the stream.
        let copied = unsafe { sys::cuMemcpyPeerAsync(to.0, to.1, from.0, from.1, bytes, stream.cu_stream()) };
        copied.result().map_err(|error| failed("copying to another GPU", error))
    }
}

impl Drop for Placed {
    /// The memory goes next, back to the GPU that it is of.
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
    }
}

/// Copies that are timed, and those that meet them.
pub(super) struct PeerCopies {
    there: Lane,
    back: Option<Lane>,
}

/// Copies from one GPU to another, by the one that has the data.
struct Lane {
    from: Placed,
    to: Placed,
    stream: Arc<CudaStream>,
}

impl PeerCopies {
    pub(super) fn of(gpu: &mut Gpu, task: &PeerCopy) -> Result<Self, DeviceError> {
        let own = gpu.context.clone();
        let unreached = || DeviceError::unable("this GPU", "it reaches the memory of no other");
        let other = gpu.peers.context(gpu.peers.peer.ok_or_else(unreached)?)?;
        reach(&own, &other)?;
        reach(&other, &own)?;
        let lane = |from, to, stream| {
            let [from, to] = [Placed::on(from, task.bytes)?, Placed::on(to, task.bytes)?];
            Ok::<_, DeviceError>(Lane { from, to, stream })
        };
        let back = match task.ways {
            Ways::One => None,
            Ways::Both => {
                let stream = other.new_stream().map_err(|error| failed("making a stream", error))?;
                Some(lane(&other, &own, stream)?)
            }
        };
        let there = lane(&own, &other, gpu.timer.stream.clone())?;
        gpu.timer.bind()?;
        gpu.kernels.fill(there.stream.cu_stream(), Dtype::Bf16, &there.from.memory, task.bytes)?;
        Ok(Self { there, back })
    }
}

impl Timed for PeerCopies {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        if let Some(back) = &self.back {
            // Twice as many, so that the way is never free.
            (0..2 * executions + 1).try_for_each(|_| back.copy())?;
        }
        let seconds = timer.span(|_| (0..executions).try_for_each(|_| self.there.copy()))?;
        if let Some(back) = &self.back {
            back.stream.synchronize().map_err(|error| failed("waiting for another GPU", error))?;
            timer.bind()?;
        }
        Ok(seconds)
    }
}

impl Lane {
    fn copy(&self) -> Result<(), DeviceError> {
        self.from.copy_to(&self.to, &self.stream)
    }
}

/// Lets a GPU reach the memory of another one; without that the driver copies through the host.
fn reach(from: &Arc<CudaContext>, to: &Arc<CudaContext>) -> Result<(), DeviceError> {
    let reached = from.bind_to_thread().and_then(|()| {
        // SAFETY: the driver is told of two contexts that are there.
        unsafe { sys::cuCtxEnablePeerAccess(to.cu_ctx(), 0) }.result()
    });
    match reached {
        Err(DriverError(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)) => Ok(()),
        reached => reached.map_err(|error| failed("reaching the memory of another GPU", error)),
    }
}
