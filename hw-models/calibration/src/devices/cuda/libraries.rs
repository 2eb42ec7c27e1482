//! The libraries that measuring a GPU needs, none of which is linked: each is looked for before anything of it is called,
//! as a call into one that is missing would panic.
//!
//! Names are traps. A package without headers installs `libnccl.so.2` and `libcufile.so.0` only, and wheels of PyPI put
//! libraries into folders where no loader looks.
#![expect(unsafe_code, reason = "libraries are asked for their versions")]

use cudarc::cublas::sys::libraryPropertyType as Property;
use cudarc::{cublas, cublaslt, driver, nvrtc};
use libloading::Library;
use nvml_wrapper::Nvml;

use super::collectives::Calls;
use super::grouped;
use crate::measure::{Capability, DeviceError, Found};

/// The oldest driver, as the CUDA that it is for: from it on times of events are told by the function that CUDA 13 calls.
const OLDEST: Version = [12, 8];

const DRIVER: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
const NVML: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
const NVRTC: &str = if cfg!(windows) { "nvrtc64_130_0.dll" } else { "libnvrtc.so.13 or .12" };
const CUBLASLT: &str = if cfg!(windows) { "cublasLt64_13.dll" } else { "libcublasLt.so.13 or .12" };
const CUBLAS: &str = if cfg!(windows) { "cublas64_13.dll" } else { "libcublas.so.13 or .12" };
/// What a cuBLAS that is too old is mended by.
pub(super) const NEWER_CUBLAS: &str = "install cuBLAS of CUDA 12.5 or newer";
pub(super) const NCCL: Unbound = Unbound {
    name: "NCCL",
    names: &["libnccl.so.2", "libnccl.so"],
    remedy: "install it (package `libnccl2`), or `pip install nvidia-nccl-cu13` (of CUDA 12: `-cu12`) and put its folder \
             `nvidia/nccl/lib` on `LD_LIBRARY_PATH`",
};
pub(super) const CUFILE: Unbound = Unbound {
    name: "cuFile",
    names: &["libcufile.so.0", "libcufile.so"],
    remedy: "install GPUDirect Storage (package `nvidia-gds`)",
};

/// A library that `cudarc` does not look for by the names that its packages install.
pub(super) struct Unbound {
    name: &'static str,
    names: &'static [&'static str],
    /// How to get it.
    remedy: &'static str,
}

/// A version, as major and minor number.
type Version = [u32; 2];

/// What is there of each.
pub(super) fn found() -> Vec<Capability> {
    let one = |name, purpose, found, required| Capability { name, purpose, found, required };
    let (driver, takes) = driver();
    vec![
        one("driver", "all probes", driver, true),
        one("nvrtc", "kernels of probes, which it compiles", nvrtc(takes), true),
        one("cublaslt", "matrix products", cublaslt(takes), true),
        one("cublas", "products of groups in one call", cublas(takes), false),
        one("nvml", "clocks, temperature and power, and whether the GPU is held back", nvml(), false),
        one("nccl", "collectives of several GPUs", nccl(), false),
        one("cufile", "blocks from drives to the GPU", CUFILE.found(), false),
    ]
}

/// The driver, and the CUDA that it is for.
fn driver() -> (Found, Option<Version>) {
    // SAFETY: only looks for the library.
    if !unsafe { driver::sys::is_culib_present() } {
        let remedy = "install the driver of NVIDIA (570 or newer); in a container run it with `--gpus all`";
        return (not_loaded(DRIVER, remedy), None);
    }
    let mut version = 0;
    // SAFETY: the library is there, and the function writes to the integer alone; it needs no GPU.
    let told = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) }.result();
    match told {
        Ok(()) => {
            // `12080` is CUDA 12.8.
            let version = version.unsigned_abs();
            let version = [version / 1_000, version % 1_000 / 10];
            (new_enough(version), Some(version))
        }
        Err(error) => (
            Found::missing(
                format!("it does not tell its version: {error}"),
                "install the driver of NVIDIA anew (570 or newer)",
            ),
            None,
        ),
    }
}

fn new_enough(driver: Version) -> Found {
    if driver >= OLDEST {
        return Found::Present(format!("for CUDA {}", dotted(driver)));
    }
    Found::missing(
        format!("the driver is too old: it is for CUDA {}", dotted(driver)),
        format!("install a driver for CUDA {} or newer (570 or newer)", dotted(OLDEST)),
    )
}

/// A library that is there, unless it is of a later generation than the driver, which takes what libraries of its own or an earlier
/// one give it (NVIDIA, "CUDA Compatibility", 2025: minor version compatibility); `mend`: how to get another one.
fn taken(library: Version, words: String, driver: Option<Version>, mend: &str) -> Found {
    match driver {
        Some(driver) if library[0] > driver[0] => Found::missing(
            format!("it is of CUDA {words}, and the driver for CUDA {} takes none of that", dotted(driver)),
            format!("update the driver, or {mend}"),
        ),
        _ => Found::Present(words),
    }
}

fn nvrtc(driver: Option<Version>) -> Found {
    let mend = on_path("nvidia-cuda-nvrtc-cu12", "cuda_nvrtc");
    // SAFETY: only looks for the library.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return not_loaded(NVRTC, &mend);
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there, and the function writes to the two integers alone.
    let told = unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result();
    let version = [major, minor].map(i32::unsigned_abs);
    told.map_or_else(
        |_| not_loaded(NVRTC, "install it anew"),
        |()| taken(version, dotted(version), driver, &mend),
    )
}

fn cublaslt(driver: Option<Version>) -> Found {
    let mend = on_path("nvidia-cublas-cu12", "cublas");
    // SAFETY: only looks for the library.
    if !unsafe { cublaslt::sys::is_culib_present() } {
        return not_loaded(CUBLASLT, &mend);
    }
    // SAFETY: the library is there, and the function takes nothing.
    let version = unsafe { cublaslt::sys::cublasLtGetVersion() } as u32;
    // `120804` is 12.8.4.
    let [major, minor, patch] = [version / 10_000, version / 100 % 100, version % 100];
    taken([major, minor], format!("{major}.{minor}.{patch}"), driver, &mend)
}

fn cublas(driver: Option<Version>) -> Found {
    let mend = on_path("nvidia-cublas-cu12", "cublas");
    // SAFETY: only looks for the library.
    if !unsafe { cublas::sys::is_culib_present() } {
        return not_loaded(CUBLAS, &mend);
    }
    let property = |which| {
        let mut number = 0;
        // SAFETY: the library is there, and the function writes to the integer alone.
        let _ = unsafe { cublas::sys::cublasGetProperty(which, &raw mut number) };
        number.unsigned_abs()
    };
    let version = [Property::MAJOR_VERSION, Property::MINOR_VERSION].map(property);
    if !grouped::is_there() {
        let why = format!("{} has no `{}`", dotted(version), grouped::FUNCTION);
        return Found::missing(why, NEWER_CUBLAS);
    }
    taken(version, dotted(version), driver, &mend)
}

fn nccl() -> Found {
    let there = Calls::load().map(|calls| Found::Present(calls.version()));
    there.unwrap_or_else(|_| not_loaded(NCCL.names[0], NCCL.remedy))
}

fn nvml() -> Found {
    match Nvml::init() {
        Ok(nvml) => Found::Present(format!("of driver {}", nvml.sys_driver_version().unwrap_or_default())),
        Err(nvml_wrapper::error::NvmlError::LibloadingError(_)) => {
            not_loaded(NVML, "it comes with the driver")
        }
        Err(error) => Found::missing(
            error.to_string(),
            "its version must be the driver's: end the processes that keep an old one, or reboot",
        ),
    }
}

impl Unbound {
    /// The library, by the first of its names that can be loaded.
    fn load(&self) -> Option<(&'static str, Library)> {
        // SAFETY: what these libraries do when they are loaded is to register themselves.
        self.names.iter().find_map(|name| Some((*name, unsafe { Library::new(*name) }.ok()?)))
    }

    /// The library.
    pub(super) fn library(&self) -> Result<Library, DeviceError> {
        self.load().map(|(_, library)| library).ok_or_else(|| self.missing())
    }

    /// A function of the library.
    ///
    /// # Safety
    /// It must be of that type.
    pub(super) unsafe fn function<T: Copy>(&self, library: &Library, name: &[u8]) -> Result<T, DeviceError> {
        // SAFETY: as the caller says.
        unsafe { library.get::<T>(name) }.map(|call| *call).map_err(|_| self.missing())
    }

    /// It is not there, or lacks a function.
    fn missing(&self) -> DeviceError {
        let what = format!("{} ({})", self.name, self.names[0]);
        DeviceError::missing(what, self.remedy)
    }

    fn found(&self) -> Found {
        let there = self.load().map(|(name, _)| Found::Present(name.to_owned()));
        there.unwrap_or_else(|| not_loaded(self.names[0], self.remedy))
    }
}

fn not_loaded(name: &str, remedy: &str) -> Found {
    Found::missing(format!("{name} cannot be loaded"), remedy)
}

fn on_path(wheel: &str, folder: &str) -> String {
    format!(
        "install the CUDA toolkit (12 or 13), or `pip install {wheel}` and put its folder `nvidia/{folder}/lib` on \
         `LD_LIBRARY_PATH`"
    )
}

fn dotted([major, minor]: Version) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: &Found) -> String {
        match found {
            Found::Present(which) => which.clone(),
            Found::Missing { why, remedy } => format!("{why}: {remedy}"),
        }
    }

    #[test]
    fn what_is_too_old_for_the_rest_is_told_with_what_meets() {
        assert_eq!(words(&new_enough([12, 8])), "for CUDA 12.8");
        assert_eq!(
            words(&new_enough([12, 4])),
            "the driver is too old: it is for CUDA 12.4: install a driver for CUDA 12.8 or newer (570 or newer)"
        );
        let library =
            |version, driver| words(&taken(version, dotted(version), driver, "install an older one"));
        assert_eq!(library([12, 9], Some([12, 8])), "12.9");
        assert_eq!(library([12, 6], Some([13, 0])), "12.6");
        assert_eq!(library([13, 0], None), "13.0", "a driver that is missing is told as such");
        assert_eq!(
            library([13, 0], Some([12, 8])),
            "it is of CUDA 13.0, and the driver for CUDA 12.8 takes none of that: update the driver, or install an older one"
        );
    }
}
