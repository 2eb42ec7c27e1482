//! What the driver says went wrong, in words, with what to do about it.

use cudarc::driver::sys::CUresult;
use cudarc::driver::{DriverError, result::device};

use crate::measure::DeviceError;
use hw_models::catalogue::nearest::list;

/// The error of a call; `doing`: what it was for.
pub(super) fn failed(doing: &str, error: DriverError) -> DeviceError {
    match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => exhausted(),
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => DeviceError::exhausted(
            "the GPU",
            "another process has it for itself: end it, or allow several with `nvidia-smi -c DEFAULT`",
        ),
        CUresult::CUDA_ERROR_INVALID_IMAGE
        | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => DeviceError::missing(
            "a driver that takes what NVRTC compiles",
            "update the driver, or install an NVRTC that is no newer than it",
        ),
        _ => DeviceError::failed(doing, said(error)),
    }
}

/// The GPU's memory is used up.
pub(super) fn exhausted() -> DeviceError {
    DeviceError::exhausted("the GPU's memory", "end other processes on it: `nvidia-smi` lists them")
}

/// Why the GPU of a number cannot be opened, and what to do about it.
pub(super) fn unopened(number: u32, error: DriverError) -> (String, String) {
    let because = |why: &str, remedy: &str| (why.to_owned(), remedy.to_owned());
    match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => because(
            "the driver finds no GPU",
            "look at `nvidia-smi`, at `CUDA_VISIBLE_DEVICES`, and in a container at `--gpus all`",
        ),
        CUresult::CUDA_ERROR_INVALID_DEVICE => {
            let count = device::get_count().unwrap_or(0);
            let numbers: Vec<String> = (0..count).map(|number| format!("cuda:{number}")).collect();
            let there = list(numbers.iter().map(String::as_str));
            (format!("there is no GPU {number}: the driver finds {count}"), format!("the choice is {there}"))
        }
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => because(
            "another process has it for itself (exclusive mode)",
            "end that process (`nvidia-smi` lists it), or allow several with `nvidia-smi -c DEFAULT`",
        ),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => because(
            "it has no memory left for a process",
            "end other processes on it: `nvidia-smi` lists them",
        ),
        CUresult::CUDA_ERROR_SYSTEM_NOT_READY => because(
            "the system is not ready",
            "start NVIDIA's fabric manager (`systemctl start nvidia-fabricmanager`)",
        ),
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH | CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            because(
                "libcuda is of another version than the kernel's driver",
                "reboot after an update of the driver, and take folders with `compat` off `LD_LIBRARY_PATH`",
            )
        }
        _ => (
            said(error),
            "look at `nvidia-smi`, and at what the kernel says (`dmesg | grep NVRM`)".to_owned(),
        ),
    }
}

/// `CUDA_ERROR_INVALID_VALUE: invalid argument`.
fn said(error: DriverError) -> String {
    let words = error.error_string().map(|text| text.to_string_lossy().into_owned());
    words.map_or_else(|_| format!("{:?}", error.0), |words| format!("{:?}: {words}", error.0))
}

/// The same of what failed when the GPU was there.
pub(super) fn told(error: DeviceError) -> (String, String) {
    match error {
        DeviceError::Missing { what, remedy } => (format!("{what} is missing"), remedy),
        DeviceError::Exhausted { what, remedy } => (format!("{what} is used up"), remedy),
        other => (other.to_string(), "look at `nvidia-smi`, and update the driver".to_owned()),
    }
}

/// Nothing was made ready.
pub(super) fn unready() -> DeviceError {
    DeviceError::failed("timing a task", "none was made ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What people can mend is told in words; these need no driver.
    #[test]
    fn a_gpu_that_cannot_be_had_is_told_with_a_remedy() {
        let opening = |error| unopened(0, DriverError(error));
        let (why, remedy) = opening(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE);
        assert!(
            why.contains("exclusive mode") && remedy.contains("nvidia-smi -c DEFAULT"),
            "{why}: {remedy}"
        );
        let (why, remedy) = opening(CUresult::CUDA_ERROR_NO_DEVICE);
        assert!(why.contains("no GPU") && remedy.contains("--gpus all"), "{why}: {remedy}");
        let (why, remedy) = opening(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert!(why.contains("no memory left") && remedy.contains("end other processes"), "{why}: {remedy}");
        let (why, remedy) = opening(CUresult::CUDA_ERROR_SYSTEM_NOT_READY);
        assert!(why.contains("not ready") && remedy.contains("fabric manager"), "{why}: {remedy}");
        let (why, remedy) = opening(CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
        assert!(why.contains("another version") && remedy.contains("reboot"), "{why}: {remedy}");
    }

    #[test]
    fn what_fails_while_it_is_measured_is_told_with_a_remedy() {
        let failing = |error| failed("loading kernels", DriverError(error)).to_string();
        let exhausted = failing(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(
            exhausted,
            "the GPU's memory is used up: end other processes on it: `nvidia-smi` lists them"
        );
        assert!(
            failing(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE).contains("another process has it for itself")
        );
        let older = failing(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        assert!(older.starts_with("a driver that takes what NVRTC compiles is missing: update"), "{older}");
        let (why, remedy) = told(failed("loading kernels", DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)));
        assert_eq!((&*why, remedy.starts_with("end other")), ("the GPU's memory is used up", true));
    }
}
