//! Kernels of our own, compiled by NVRTC for the GPU that is there: machine code, not PTX, which a driver older than NVRTC
//! refuses.
#![expect(unsafe_code, reason = "the driver cannot check the arguments of kernels")]

use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUfunction_attribute, CUstream};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, result};
use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::sys as nvrtc_sys;
use cudarc::nvrtc::{Ptx, result::NvrtcError};

use super::errors::failed;
use super::memory::Buffer;
use crate::measure::{Access, DeviceError, MemoryPass, Pattern};
use hw_models::kernels::Dtype;

/// The kernels.
const SOURCE: &str = include_str!("kernels.cu");
/// Threads of a block.
const THREADS: u32 = 256;
/// Vectors of 16 bytes that a thread of a pass takes.
const DEPTH: u64 = 4;
/// Most arguments of a kernel.
const ARGUMENTS: usize = 16;

/// Kernels on a GPU.
pub(super) struct Kernels {
    module: Arc<CudaModule>,
}

/// One of them.
pub(super) struct Kernel {
    function: CudaFunction,
    name: String,
}

impl Kernels {
    /// Compiles and loads them.
    pub(super) fn load(context: &Arc<CudaContext>, capability: u32) -> Result<Self, DeviceError> {
        let code = compile(capability)?;
        let module = context.load_module(Ptx::from_binary(code));
        Ok(Self { module: module.map_err(|error| failed("loading kernels", error))? })
    }

    fn get(&self, name: &str) -> Result<Kernel, DeviceError> {
        let function = self.module.load_function(name);
        let function = function.map_err(|error| failed(&format!("loading the kernel `{name}`"), error))?;
        Ok(Kernel { function, name: name.to_owned() })
    }

    /// A kernel of so many arguments that does nothing.
    pub(super) fn empty(&self, arguments: u32) -> Result<Empty, DeviceError> {
        Ok(Empty { kernel: self.get(&format!("empty_{arguments}"))?, arguments: arguments as usize })
    }

    /// A kernel that turns; with shared memory (bytes) each of its blocks holds an SM.
    pub(super) fn spin(&self, shared: u32) -> Result<Turning, DeviceError> {
        let kernel = self.get("spin")?;
        if shared > 0 {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let function = kernel.function.cu_function();
            // SAFETY: the function is loaded, and lives as long as its module.
            let set = unsafe { result::function::set_function_attribute(function, attribute, shared as i32) };
            set.map_err(|error| failed("asking for shared memory", error))?;
        }
        Ok(Turning { kernel, shared })
    }

    /// Fills a part of a buffer with random numbers.
    pub(super) fn fill(
        &self,
        stream: CUstream,
        dtype: Dtype,
        buffer: &Buffer,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let name = match dtype {
            Dtype::Fp32 | Dtype::Tf32 => "fill_fp32",
            Dtype::Bf16 => "fill_bf16",
            Dtype::Fp16 => "fill_fp16",
            Dtype::Fp8 => "fill_fp8",
        };
        let words = bytes.min(buffer.bytes()) / 4;
        let blocks = words.div_ceil(u64::from(THREADS)).clamp(1, 4_096) as u32;
        // SAFETY: the buffer holds that many words.
        unsafe { self.get(name)?.launch(stream, [blocks, THREADS, 0], &[buffer.at(0), words]) }
    }

    /// The kernel of a pass over memory.
    pub(super) fn pass(&self, task: &MemoryPass) -> Result<Streaming, DeviceError> {
        let pattern = match task.pattern {
            Pattern::Copy => "copy",
            Pattern::Scale => "scale",
            Pattern::Add => "add",
            Pattern::Triad => "triad",
            Pattern::Write | Pattern::Read => {
                return Err(unable("it has no kernel that only reads or writes"));
            }
        };
        let element = match task.dtype {
            Dtype::Fp32 => "fp32",
            Dtype::Bf16 => "bf16",
            _ => return Err(unable("it passes over bf16 and fp32 only")),
        };
        Ok(Streaming { kernel: self.get(&format!("{pattern}_{element}"))?, vectors: task.bytes / 16 })
    }

    /// The kernel that reads or writes rows of a table.
    pub(super) fn rows(&self, access: Access) -> Result<Kernel, DeviceError> {
        self.get(match access {
            Access::Read => "read_rows",
            Access::Write => "write_rows",
        })
    }
}

impl Kernel {
    /// Launches it in a grid of `[blocks, threads, bytes of shared memory]`. An argument of four bytes is the lower half of one
    /// of eight: GPUs of NVIDIA, and the hosts that they are in, store it first.
    ///
    /// # Safety
    /// The kernel takes these arguments, and memory that they point to is large enough and not given back before it has ended.
    pub(super) unsafe fn launch(
        &self,
        stream: CUstream,
        [blocks, threads, shared]: [u32; 3],
        arguments: &[u64],
    ) -> Result<(), DeviceError> {
        let mut pointers = [std::ptr::null_mut::<c_void>(); ARGUMENTS];
        for (pointer, argument) in pointers.iter_mut().zip(arguments) {
            *pointer = std::ptr::from_ref(argument).cast_mut().cast();
        }
        let (grid, block) = ((blocks, 1, 1), (threads, 1, 1));
        // SAFETY: the function is loaded; the driver copies arguments before it returns; the rest is the caller's promise.
        let launched = unsafe {
            result::launch_kernel(self.function.cu_function(), grid, block, shared, stream, &mut pointers)
        };
        launched.map_err(|error| failed(&format!("launching the kernel `{}`", self.name), error))
    }
}

/// A kernel that does nothing.
pub(super) struct Empty {
    kernel: Kernel,
    arguments: usize,
}

impl Empty {
    pub(super) fn launch(&self, stream: CUstream) -> Result<(), DeviceError> {
        // SAFETY: it takes that many numbers and uses none.
        unsafe { self.kernel.launch(stream, [1, 1, 0], &[0; ARGUMENTS][..self.arguments]) }
    }
}

/// A kernel that turns.
pub(super) struct Turning {
    kernel: Kernel,
    shared: u32,
}

impl Turning {
    /// So many blocks turn for so many clocks.
    pub(super) fn launch(&self, stream: CUstream, blocks: u32, clocks: u64) -> Result<(), DeviceError> {
        // A block that holds an SM has as many threads as one may have; one that only takes time has a single warp.
        let threads = if self.shared > 0 { 1_024 } else { 32 };
        // SAFETY: it takes a number and no memory.
        unsafe { self.kernel.launch(stream, [blocks, threads, self.shared], &[clocks]) }
    }
}

/// A kernel that passes over arrays.
pub(super) struct Streaming {
    kernel: Kernel,
    vectors: u64,
}

impl Streaming {
    /// One pass over arrays that begin at these places.
    ///
    /// # Safety
    /// Each array is as long as that of the task, and not given back before the pass has ended.
    pub(super) unsafe fn launch(
        &self,
        stream: CUstream,
        arrays: [CUdeviceptr; 3],
    ) -> Result<(), DeviceError> {
        let [a, b, c] = arrays;
        let blocks = self.vectors.div_ceil(u64::from(THREADS) * DEPTH).max(1) as u32;
        let scalar = u64::from(3.0_f32.to_bits());
        // SAFETY: the caller's promise.
        unsafe { self.kernel.launch(stream, [blocks, THREADS, 0], &[a, b, c, self.vectors, scalar]) }
    }
}

fn unable(why: &str) -> DeviceError {
    DeviceError::unable("this GPU", why)
}

/// Machine code of the kernels.
fn compile(capability: u32) -> Result<Vec<u8>, DeviceError> {
    let source = CString::new(SOURCE).map_err(|_| uncompiled("the source holds a zero"))?;
    let program = nvrtc::create_program(&source, None).map_err(|error| uncompiled(&said(error)))?;
    let architecture = format!("--gpu-architecture=sm_{capability}");
    // SAFETY: the program was just made, and is given back below and not before.
    let code = unsafe {
        match nvrtc::compile_program(program, &[architecture]) {
            Ok(()) => machine_code(program).map_err(|error| uncompiled(&said(error))),
            Err(NvrtcError(nvrtc_sys::nvrtcResult::NVRTC_ERROR_INVALID_OPTION)) => Err(DeviceError::missing(
                format!("an NVRTC that knows GPUs of compute capability {capability}"),
                "install the CUDA toolkit that the GPU's generation came with, or a newer one",
            )),
            Err(error) => Err(uncompiled(&format!("{}: {}", said(error), log(program)))),
        }
    };
    // SAFETY: as above.
    let _ = unsafe { nvrtc::destroy_program(program) };
    code
}

/// # Safety
/// The program was compiled.
unsafe fn machine_code(program: nvrtc_sys::nvrtcProgram) -> Result<Vec<u8>, NvrtcError> {
    let mut size = 0;
    // SAFETY: the caller's promise; NVRTC writes as many bytes as it says.
    unsafe {
        nvrtc_sys::nvrtcGetCUBINSize(program, &raw mut size).result()?;
        let mut code = vec![0_u8; size];
        nvrtc_sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result()?;
        Ok(code)
    }
}

/// # Safety
/// The program was made and is not given back.
unsafe fn log(program: nvrtc_sys::nvrtcProgram) -> String {
    // SAFETY: the caller's promise; the log ends with a zero.
    let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
    let bytes: Vec<u8> = log.into_iter().map(|letter| letter as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

fn said(error: NvrtcError) -> String {
    format!("{:?}", error.0)
}

fn uncompiled(why: &str) -> DeviceError {
    DeviceError::failed("compiling kernels", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVRTC needs no GPU: where it is installed the kernels are compiled for all generations that it knows of.
    #[test]
    fn kernels_compile_for_every_generation() {
        // SAFETY: only looks for the library.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            return;
        }
        for capability in [75, 80, 86, 89, 90, 100, 120] {
            match compile(capability) {
                Ok(code) => assert!(code.starts_with(b"\x7fELF"), "sm_{capability}: {} bytes", code.len()),
                Err(DeviceError::Missing { .. }) if capability > 90 => {}
                Err(error) => panic!("sm_{capability}: {error}"),
            }
        }
        assert!(matches!(compile(10), Err(DeviceError::Missing { .. })));
    }
}
