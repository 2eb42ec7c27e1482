//! Products of groups that differ in their operands, by cuBLAS in one call (`cublasGemmGroupedBatchedEx`, from CUDA 12.5 on).
//!
//! It is asked for the transposed products, as [`products`](super::products) are. It copies its arrays of sizes by itself, which a
//! graph may not hold: executions are queued one by one, and are long enough that the host's pace does not count.
#![expect(unsafe_code, reason = "cuBLAS takes places in memory and cannot check what is there")]

use std::ffi::c_void;

use cudarc::cublas::result::{self, CublasError};
use cudarc::cublas::sys::{
    self, cublasComputeType_t as Compute, cublasOperation_t as Operation, cublasStatus_t as Status,
    cudaDataType_t as Type,
};
use cudarc::driver::result::memcpy_htod_sync;
use cudarc::driver::sys::CUstream;

use super::errors::{exhausted, failed};
use super::libraries::NEWER_CUBLAS;
use super::memory::{Buffer, Rotation};
use super::products::sides;
use super::timer::{BEYOND, Enqueue, Timer};
use super::{Gpu, Timed};
use crate::measure::DeviceError;
use hw_models::kernels::{Dtype, Gemm, GroupedGemm, Layout};

/// The function that older versions do not have.
pub(super) const FUNCTION: &str = "cublasGemmGroupedBatchedEx";

/// Groups, and their operands.
pub(super) struct Groups {
    handle: Handle,
    shape: Gemm,
    kind: Type,
    /// Operands, as the library has them, and the output.
    matrices: Rotation,
    /// Of every set the places of the first operands of its groups, then of the second ones, then of the outputs.
    places: Buffer,
}

struct Handle(sys::cublasHandle_t);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was made by `Groups::of`, and is given back once.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

impl Groups {
    /// With operands that are random and beyond the cache.
    pub(super) fn of(gpu: &Gpu, GroupedGemm { groups: shape }: GroupedGemm) -> Result<Self, DeviceError> {
        if !is_there() {
            return Err(DeviceError::missing(format!("cuBLAS with `{FUNCTION}`"), NEWER_CUBLAS));
        }
        let kind = match shape.dtype {
            Dtype::Bf16 => Type::CUDA_R_16BF,
            Dtype::Fp16 => Type::CUDA_R_16F,
            _ => {
                let why = "it groups products of 16 bits only".to_owned();
                return Err(DeviceError::unable("cuBLAS", why));
            }
        };
        let sizes = sizes(&shape).map(|bytes| bytes * shape.batch);
        let matrices = Rotation::of(&sizes, BEYOND * gpu.facts.cache)?;
        let stream = gpu.timer.stream.cu_stream();
        matrices.region().clear(stream)?;
        gpu.kernels.fill(stream, shape.dtype, matrices.region(), matrices.first(2))?;
        let places: Vec<u64> = (0..matrices.sets()).flat_map(|set| places(&shape, &matrices, set)).collect();
        let buffer = Buffer::of(8 * places.len() as u64)?;
        // SAFETY: the buffer is that long.
        unsafe { memcpy_htod_sync(buffer.at(0), &places) }.map_err(|error| failed("copying", error))?;
        let handle = Handle(result::create_handle().map_err(|error| refused("opening cuBLAS", error))?);
        Ok(Self { handle, shape, kind, matrices, places: buffer })
    }
}

impl Timed for Groups {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        timer.in_stream(self, executions)
    }
}

impl Enqueue for Groups {
    fn enqueue(&self, stream: CUstream, at: u64) -> Result<(), DeviceError> {
        let Gemm { batch, m, n, k, layout, .. } = self.shape;
        let groups = batch as usize;
        let [a, b] = sides(m, n, k, layout);
        let transposed = |is| if is { Operation::CUBLAS_OP_T } else { Operation::CUBLAS_OP_N };
        let first = vec![transposed(layout == Layout::Forward); groups];
        let second = vec![transposed(layout == Layout::WeightGradient); groups];
        let each = |size: u64| vec![size as i32; groups];
        let (rows, columns, depth) = (each(n), each(m), each(k));
        let (along_a, along_b, along_d) = (each(a[0]), each(b[0]), each(n));
        let (alphas, betas, ones) = (vec![1.0_f32; groups], vec![0.0_f32; groups], vec![1; groups]);
        let set = at % self.matrices.sets();
        let place = |operand: u64| self.places.at(8 * batch * (3 * set + operand));
        // SAFETY: the handle lives as long as this does; arrays have as many entries as there are groups and are read before the
        // call returns; places are those of matrices of these sizes, which outlive what runs on the stream.
        let enqueued = unsafe {
            result::set_stream(self.handle.0, stream.cast()).and_then(|()| {
                sys::cublasGemmGroupedBatchedEx(
                    self.handle.0,
                    first.as_ptr(),
                    second.as_ptr(),
                    rows.as_ptr(),
                    columns.as_ptr(),
                    depth.as_ptr(),
                    alphas.as_ptr().cast(),
                    place(0) as *const *const c_void,
                    self.kind,
                    along_a.as_ptr(),
                    place(1) as *const *const c_void,
                    self.kind,
                    along_b.as_ptr(),
                    betas.as_ptr().cast(),
                    place(2) as *const *mut c_void,
                    self.kind,
                    along_d.as_ptr(),
                    groups as i32,
                    ones.as_ptr(),
                    Compute::CUBLAS_COMPUTE_32F,
                )
                .result()
            })
        };
        enqueued.map_err(|error| refused("multiplying groups", error))
    }
}

/// Whether cuBLAS is there and has the function.
pub(super) fn is_there() -> bool {
    type Any = unsafe extern "C" fn();
    // SAFETY: only looks for the library, and for the function in it, which is not called.
    unsafe { sys::is_culib_present() && sys::culib().get::<Any>(FUNCTION.as_bytes()).is_ok() }
}

/// Bytes of the library's first operand of a group, of its second one, and of its output, which all are of one type.
const fn sizes(shape: &Gemm) -> [u64; 3] {
    let Gemm { m, n, k, dtype, .. } = *shape;
    [n * k * dtype.bytes(), m * k * dtype.bytes(), m * n * dtype.bytes()]
}

/// Where the matrices of the groups of a set begin.
fn places(shape: &Gemm, matrices: &Rotation, set: u64) -> Vec<u64> {
    let of = |(operand, bytes): (usize, u64)| {
        let begins = matrices.array(operand, set);
        (0..shape.batch).map(move |group| begins + group * bytes)
    };
    sizes(shape).into_iter().enumerate().flat_map(of).collect()
}

fn refused(doing: &str, CublasError(status): CublasError) -> DeviceError {
    match status {
        Status::CUBLAS_STATUS_NOT_SUPPORTED => {
            DeviceError::unable("cuBLAS", "it has no kernel for these groups on this GPU")
        }
        Status::CUBLAS_STATUS_ALLOC_FAILED => exhausted(),
        _ => DeviceError::failed(doing, format!("{status:?}")),
    }
}
