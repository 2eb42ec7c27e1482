//! A GPU that was opened: what it is, and the stream that everything that is timed runs on.
#![expect(unsafe_code, reason = "the driver is asked for facts and told to do nothing behind our back")]

use std::ffi::{CStr, c_char};
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{CudaContext, DriverError, result};
use hw_models::catalogue::in_catalogue;
use indexmap::IndexMap;

use super::collectives::Calls;
use super::errors;
use super::kernels::Kernels;
use super::peers::Peers;
use super::products::Library;
use super::telemetry::Telemetry;
use super::timer::Timer;
use crate::hardware::CATALOGUE;
use crate::measure::{Conditions, CudaFacts, DeviceError, Fabric, Found, Identity, Others};

/// A GPU.
pub(super) struct Gpu {
    pub(super) timer: Timer,
    pub(super) kernels: Kernels,
    pub(super) library: Rc<Library>,
    pub(super) facts: CudaFacts,
    /// Shared memory that a block may have (bytes).
    pub(super) shared: u32,
    pub(super) peers: Peers,
    pub(super) fabric: Option<Fabric>,
    pub(super) context: Arc<CudaContext>,
    name: String,
    telemetry: Option<Telemetry>,
    /// Processes that computed on it when it was opened.
    others: Vec<u32>,
}

impl Gpu {
    /// The GPU of a number; or why it cannot be opened, and what to do about it.
    pub(super) fn open(number: u32) -> Result<Self, (String, String)> {
        let unopened = |error| errors::unopened(number, error);
        let telemetry = Telemetry::of(bus_id(number).map_err(unopened)?);
        let others = telemetry.as_ref().map(Telemetry::others).unwrap_or_default();
        let context = CudaContext::new(number as usize).map_err(unopened)?;
        // SAFETY: what runs on several streams is told to wait for each other where it must, and buffers are given back only
        // when nothing runs any more.
        unsafe { context.disable_event_tracking() };
        let peers = Peers::of(&context).map_err(unopened)?;
        let fabric = fabric(&peers, telemetry.as_ref()).map_err(unopened)?;
        let (facts, shared) = facts(&context, &peers, telemetry.as_ref()).map_err(unopened)?;
        let kernels = Kernels::load(&context, facts.capability).map_err(errors::told)?;
        Ok(Self {
            timer: Timer::of(&context, &kernels, facts.cache).map_err(errors::told)?,
            kernels,
            library: Rc::new(Library::open().map_err(errors::told)?),
            facts,
            shared,
            peers,
            fabric,
            name: context.name().map_err(unopened)?,
            context,
            telemetry,
            others,
        })
    }

    /// Another stream, with events of its own.
    pub(super) fn timer(&self) -> Result<Timer, DeviceError> {
        Timer::of(&self.context, &self.kernels, self.facts.cache)
    }

    /// Whether it is nobody else's.
    pub(super) fn alone(&self) -> Found {
        match &self.others[..] {
            [] => Found::Present("no other process computes on it".to_owned()),
            others => Found::missing(
                format!(
                    "others compute on it: process {}",
                    others.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
                ),
                "end them (`nvidia-smi` lists them) and measure anew, or the times are of both",
            ),
        }
    }

    /// In a few words.
    pub(super) fn words(&self) -> String {
        format!("{}, {} SMs, {} GiB free", self.name, self.facts.sms, self.facts.memory >> 30)
    }

    /// What a calibration of it holds for; `libraries`: their versions.
    pub(super) fn identity(&self, libraries: IndexMap<String, String>) -> Identity {
        let facts = &self.facts;
        let mut told = libraries;
        let mut tell = |name: &str, value: String| told.insert(name.to_owned(), value);
        tell("sms", facts.sms.to_string());
        tell("capability", format!("{}.{}", facts.capability / 10, facts.capability % 10));
        tell("memory_mib", (self.context.total_mem().unwrap_or(0) >> 20).to_string());
        tell("cache_mib", (facts.cache >> 20).to_string());
        if let Some((generation, lanes)) = facts.link {
            tell("pcie", format!("generation {generation}, {lanes} lanes"));
        }
        if let Some(limit) = self.telemetry.as_ref().and_then(Telemetry::power_limit_w) {
            tell("power_limit_w", format!("{limit:.0}"));
        }
        if let Some(entry) = in_catalogue(&self.name) {
            tell(CATALOGUE, entry.to_owned());
        }
        let driver = self.telemetry.as_ref().and_then(Telemetry::driver).unwrap_or_default();
        Identity { name: self.name.clone(), driver, facts: told, fabric: self.fabric }
    }

    pub(super) fn conditions(&self) -> Conditions {
        self.telemetry.as_ref().map(Telemetry::conditions).unwrap_or_default()
    }
}

/// What a suite depends on, and the shared memory that a block may have.
fn facts(
    context: &CudaContext,
    peers: &Peers,
    telemetry: Option<&Telemetry>,
) -> Result<(CudaFacts, u32), DriverError> {
    let of = |attribute| context.attribute(attribute).map(|value| value.max(0).unsigned_abs());
    let (major, minor) = context.compute_capability()?;
    let others = Others {
        gpus: peers.numbers.len() as u32,
        peer: peers.peer.is_some(),
        collectives: Calls::load().is_ok(),
    };
    let facts = CudaFacts {
        sms: of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        cache: u64::from(of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        memory: context.mem_get_info()?.0 as u64,
        capability: major.unsigned_abs() * 10 + minor.unsigned_abs(),
        link: telemetry.and_then(Telemetry::link),
        others: (others.gpus > 1).then_some(others),
    };
    Ok((facts, of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?))
}

/// What connects the GPU with the one that it copies to, or else with any other one.
fn fabric(peers: &Peers, telemetry: Option<&Telemetry>) -> Result<Option<Fabric>, DriverError> {
    let (Some(other), Some(telemetry)) = (peers.peer.or(peers.numbers.get(1).copied()), telemetry) else {
        return Ok(None);
    };
    Ok(telemetry.fabric(&bus_id(other)?))
}

/// Address on the bus of the GPU of a number, `0000:1b:00.0`; nothing computes on it for that.
fn bus_id(number: u32) -> Result<String, DriverError> {
    result::init()?;
    let device = result::device::get(number as i32)?;
    let mut text: [c_char; 32] = [0; 32];
    // SAFETY: the driver writes at most as many characters as it is told, the last of them zero.
    let told = unsafe {
        sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as i32, device).result()?;
        CStr::from_ptr(text.as_ptr())
    };
    Ok(told.to_string_lossy().into_owned())
}
