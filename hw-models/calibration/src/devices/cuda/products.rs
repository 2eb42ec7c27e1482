//! Matrix products by cuBLASLt.
//!
//! cuBLASLt counts by columns, as BLAS does, and ours lie in rows: it is asked for the transposed product, so that its `m` is our
//! `n` and its first operand our second one. Layouts come out by the names they have: forward TN, gradient of the input
//! NN, gradient of the weight NT.
#![expect(unsafe_code, reason = "cuBLASLt takes places in memory and cannot check what is there")]

use std::ffi::c_void;
use std::rc::Rc;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Described,
    cublasLtMatmulPreferenceAttributes_t as Preferred, cublasLtMatrixLayoutAttribute_t as Laid,
    cudaDataType_t as Type,
};
use cudarc::driver::sys::CUstream;

use super::Gpu;
use super::errors::exhausted;
use super::memory::{Buffer, Rotation};
use super::timer::{BEYOND, Enqueue};
use crate::measure::{Data, DeviceError};
use hw_models::kernels::{Dtype, Gemm, Layout};

/// Workspace of a product (bytes): what cuBLAS takes on Hopper, and PyTorch on any GPU from there on.
const WORKSPACE: u64 = 32 << 20;

/// cuBLASLt, opened.
pub(super) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: Buffer,
}

impl Library {
    pub(super) fn open() -> Result<Self, DeviceError> {
        let workspace = Buffer::of(WORKSPACE)?;
        let handle = result::create_handle().map_err(|error| refused("opening cuBLASLt", error))?;
        Ok(Self { handle, workspace })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it was made by `open`, and is given back once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// A product, its operands, and the kernel that the library chose for it.
pub(super) struct Products {
    library: Rc<Library>,
    description: Description,
    layouts: [MatrixLayout; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    /// Operands, as the library has them, and the output.
    matrices: Rotation,
    /// What the output is multiplied by before the product is added.
    beta: f32,
}

impl Products {
    /// With operands that are random, or zero, and beyond the cache.
    pub(super) fn of(gpu: &Gpu, product: &Gemm, data: Data) -> Result<Self, DeviceError> {
        let types = Types::of(product);
        let matrices = Rotation::of(&types.bytes(product), BEYOND * gpu.facts.cache)?;
        let stream = gpu.timer.stream.cu_stream();
        matrices.region().clear(stream)?;
        if data == Data::Random {
            gpu.kernels.fill(stream, product.dtype, matrices.region(), matrices.first(2))?;
        }
        let choosing = |error| refused("choosing a kernel for the product", error);
        let description = Description::of(product, &types).map_err(choosing)?;
        let layouts = layouts(product, &types).map_err(choosing)?;
        let algorithm = chosen(&gpu.library, &description, &layouts).map_err(choosing)?;
        let beta = if product.accumulate.is_some() { 1.0 } else { 0.0 };
        Ok(Self { library: gpu.library.clone(), description, layouts, algorithm, matrices, beta })
    }
}

impl Enqueue for Products {
    fn enqueue(&self, stream: CUstream, at: u64) -> Result<(), DeviceError> {
        let place = |array| self.matrices.array(array, at) as *mut c_void;
        let [a, b, d] = [place(0), place(1), place(2)];
        let alpha = 1.0_f32;
        // SAFETY: handles live as long as this does; matrices have the sizes of their layouts, and the workspace its own;
        // scalars are read before the call returns.
        let enqueued = unsafe {
            result::matmul(
                self.library.handle,
                self.description.0,
                (&raw const alpha).cast(),
                (&raw const self.beta).cast(),
                a,
                self.layouts[0].0,
                b,
                self.layouts[1].0,
                d,
                self.layouts[2].0,
                d,
                self.layouts[2].0,
                &raw const self.algorithm,
                self.library.workspace.at(0) as *mut c_void,
                self.library.workspace.bytes() as usize,
                stream.cast(),
            )
        };
        enqueued.map_err(|error| refused("multiplying", error))
    }
}

/// Types of a product.
struct Types {
    operands: Dtype,
    output: Dtype,
    compute: Compute,
}

impl Types {
    /// Products of 8 bits leave bf16.
    fn of(product: &Gemm) -> Self {
        let output = match (product.accumulate, product.dtype) {
            (Some(sums), _) => sums,
            (None, Dtype::Fp8) => Dtype::Bf16,
            (None, dtype) => dtype,
        };
        let compute = match product.dtype {
            Dtype::Tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => Compute::CUBLAS_COMPUTE_32F,
        };
        Self { operands: product.dtype, output, compute }
    }

    /// Of the library's first operand, its second one, and the output.
    fn bytes(&self, product: &Gemm) -> [u64; 3] {
        let Gemm { batch, m, n, k, .. } = *product;
        let [operands, output] = [self.operands, self.output].map(Dtype::bytes);
        [batch * n * k * operands, batch * m * k * operands, batch * m * n * output]
    }
}

/// A type, as the library names it.
const fn named(dtype: Dtype) -> Type {
    match dtype {
        Dtype::Fp32 | Dtype::Tf32 => Type::CUDA_R_32F,
        Dtype::Fp16 => Type::CUDA_R_16F,
        Dtype::Bf16 => Type::CUDA_R_16BF,
        Dtype::Fp8 => Type::CUDA_R_8F_E4M3,
    }
}

/// What is multiplied how.
struct Description(sys::cublasLtMatmulDesc_t);

impl Description {
    fn of(product: &Gemm, types: &Types) -> Result<Self, CublasError> {
        let description = Self(result::create_matmul_desc(types.compute, Type::CUDA_R_32F)?);
        description
            .set(Described::CUBLASLT_MATMUL_DESC_TRANSA, &transposed(product.layout == Layout::Forward))?;
        let second = product.layout == Layout::WeightGradient;
        description.set(Described::CUBLASLT_MATMUL_DESC_TRANSB, &transposed(second))?;
        if product.dtype == Dtype::Fp8 {
            // As training does: sums are not moved to full precision on their way.
            description.set(Described::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1_i8)?;
        }
        Ok(description)
    }

    fn set<T>(&self, attribute: Described, value: &T) -> Result<(), CublasError> {
        // SAFETY: the description is there, and the value as long as is said.
        unsafe {
            result::set_matmul_desc_attribute(
                self.0,
                attribute,
                std::ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        }
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: it was made by `of`, and is given back once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

/// `CUBLAS_OP_T` or `CUBLAS_OP_N`.
const fn transposed(is: bool) -> i32 {
    if is { 1 } else { 0 }
}

/// How a matrix lies in memory, by columns.
struct MatrixLayout(sys::cublasLtMatrixLayout_t);

impl MatrixLayout {
    /// So many of `rows x columns`, one behind the other.
    fn of(kind: Type, rows: u64, columns: u64, batch: u64) -> Result<Self, CublasError> {
        let layout = Self(result::create_matrix_layout(kind, rows, columns, rows as i64)?);
        if batch > 1 {
            layout.set(Laid::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &(batch as i32))?;
            layout.set(Laid::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &((rows * columns) as i64))?;
        }
        Ok(layout)
    }

    fn set<T>(&self, attribute: Laid, value: &T) -> Result<(), CublasError> {
        // SAFETY: the layout is there, and the value as long as is said.
        unsafe {
            let value = std::ptr::from_ref(value).cast();
            result::set_matrix_layout_attribute(self.0, attribute, value, size_of::<T>())
        }
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: it was made by `of`, and is given back once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// Those of the first operand, the second one, and the output.
fn layouts(product: &Gemm, types: &Types) -> Result<[MatrixLayout; 3], CublasError> {
    let Gemm { batch, m, n, k, layout, .. } = *product;
    let [a, b] = sides(m, n, k, layout);
    Ok([
        MatrixLayout::of(named(types.operands), a[0], a[1], batch)?,
        MatrixLayout::of(named(types.operands), b[0], b[1], batch)?,
        MatrixLayout::of(named(types.output), n, m, batch)?,
    ])
}

/// Rows and columns of the library's operands as they lie in memory, by columns: before one is transposed.
pub(super) const fn sides(m: u64, n: u64, k: u64, layout: Layout) -> [[u64; 2]; 2] {
    match layout {
        Layout::Forward => [[k, n], [k, m]],
        Layout::InputGradient => [[n, k], [k, m]],
        Layout::WeightGradient => [[n, k], [m, k]],
    }
}

/// The kernel that the library takes for the fastest.
fn chosen(
    library: &Library,
    description: &Description,
    layouts: &[MatrixLayout; 3],
) -> Result<sys::cublasLtMatmulAlgo_t, CublasError> {
    let preference = result::create_matmul_pref()?;
    let workspace = library.workspace.bytes();
    let [a, b, d] = layouts;
    // SAFETY: all handles are there; the preference is given back below and not before.
    let found = unsafe {
        result::set_matmul_pref_attribute(
            preference,
            Preferred::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            (&raw const workspace).cast(),
            size_of::<u64>(),
        )
        .and_then(|()| {
            result::get_matmul_algo_heuristic(library.handle, description.0, a.0, b.0, d.0, d.0, preference)
        })
    };
    // SAFETY: as above.
    let _ = unsafe { result::destroy_matmul_pref(preference) };
    found.map(|found| found.algo)
}

fn refused(doing: &str, CublasError(status): CublasError) -> DeviceError {
    match status {
        sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => {
            DeviceError::unable("cuBLASLt", "it has no kernel for this product on this GPU")
        }
        sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => exhausted(),
        _ => DeviceError::failed(doing, format!("{status:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is transposed of each operand gives an `n x k` and a `k x m`, whose product is the transposed of ours.
    #[test]
    fn every_layout_gives_the_transposed_product() {
        let (m, n, k) = (2, 3, 5);
        for layout in [Layout::Forward, Layout::InputGradient, Layout::WeightGradient] {
            let [mut a, mut b] = sides(m, n, k, layout);
            if layout == Layout::Forward {
                a.reverse();
            }
            if layout == Layout::WeightGradient {
                b.reverse();
            }
            assert_eq!((a, b), ([n, k], [k, m]), "{layout:?}");
        }
    }

    #[test]
    fn products_that_accumulate_and_those_of_eight_bits_leave_wider_ones() {
        let product =
            Gemm { batch: 2, m: 3, n: 5, k: 7, dtype: Dtype::Fp8, layout: Layout::Forward, accumulate: None };
        assert_eq!(Types::of(&product).bytes(&product), [70, 42, 60]);
        let product = Gemm { dtype: Dtype::Bf16, accumulate: Some(Dtype::Fp32), ..product };
        assert_eq!(Types::of(&product).bytes(&product), [140, 84, 120]);
    }
}
