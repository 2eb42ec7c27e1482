//! A GPU that was opened: what it is, and the stream that everything that is timed runs on.
#![expect(unsafe_code, reason = "the driver is asked for facts and told to do nothing behind our back")]

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{CudaContext, DriverError};
use indexmap::IndexMap;

use super::names;
use super::telemetry::Telemetry;
use crate::calibration::measure::{Conditions, CudaFacts, Identity};

/// A GPU.
pub(super) struct Gpu {
    pub(super) context: Arc<CudaContext>,
    pub(super) facts: CudaFacts,
    name: String,
    telemetry: Option<Telemetry>,
}

impl Gpu {
    pub(super) fn open(number: u32) -> Result<Self, DriverError> {
        let context = CudaContext::new(number as usize)?;
        // SAFETY: what runs on several streams is told to wait for each other where it must, and buffers are given back only
        // when nothing runs any more.
        unsafe { context.disable_event_tracking() };
        let telemetry = Telemetry::of(bus_id(&context)?);
        let of = |attribute| context.attribute(attribute).map(|value| value.max(0).unsigned_abs());
        let (major, minor) = context.compute_capability()?;
        let facts = CudaFacts {
            sms: of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            cache: u64::from(of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            memory: context.total_mem()? as u64,
            capability: major.unsigned_abs() * 10 + minor.unsigned_abs(),
            link: telemetry.as_ref().and_then(Telemetry::link),
        };
        Ok(Self { name: context.name()?, context, facts, telemetry })
    }

    /// In a few words.
    pub(super) fn words(&self) -> String {
        format!("{}, {} SMs, {} GiB", self.name, self.facts.sms, self.facts.memory >> 30)
    }

    /// What a calibration of it holds for; `libraries`: their versions.
    pub(super) fn identity(&self, libraries: IndexMap<String, String>) -> Identity {
        let facts = &self.facts;
        let mut told = libraries;
        let mut tell = |name: &str, value: String| told.insert(name.to_owned(), value);
        tell("sms", facts.sms.to_string());
        tell("capability", format!("{}.{}", facts.capability / 10, facts.capability % 10));
        tell("memory_mib", (facts.memory >> 20).to_string());
        tell("cache_mib", (facts.cache >> 20).to_string());
        if let Some((generation, lanes)) = facts.link {
            tell("pcie", format!("generation {generation}, {lanes} lanes"));
        }
        if let Some(limit) = self.telemetry.as_ref().and_then(Telemetry::power_limit_w) {
            tell("power_limit_w", format!("{limit:.0}"));
        }
        if let Some(entry) = names::in_catalogue(&self.name) {
            tell("catalogue", entry.to_owned());
        }
        let driver = self.telemetry.as_ref().and_then(Telemetry::driver).unwrap_or_default();
        Identity { name: self.name.clone(), driver, facts: told }
    }

    pub(super) fn conditions(&self) -> Conditions {
        self.telemetry.as_ref().map(Telemetry::conditions).unwrap_or_default()
    }
}

/// Its address on the bus, `0000:1b:00.0`.
fn bus_id(context: &CudaContext) -> Result<String, DriverError> {
    let mut text: [c_char; 32] = [0; 32];
    // SAFETY: the driver writes at most as many characters as it is told, the last of them zero.
    let told = unsafe {
        sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as i32, context.cu_device()).result()?;
        CStr::from_ptr(text.as_ptr())
    };
    Ok(told.to_string_lossy().into_owned())
}
