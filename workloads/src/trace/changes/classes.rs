//! Classes of kernels, by their names in PyTorch, cuBLAS, cuDNN, CUTLASS and Triton.

use hw_models::kernels::Dtype;

/// Bound of a kernel's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelClass {
    /// A matrix product or convolution: the rate of its type.
    Product(Dtype),
    /// Attention: the rate of its type.
    Attention(Dtype),
    /// One output element from the input elements at its place: memory.
    Elementwise,
    /// Any other: memory, as normalisation, reductions, sorts and look-ups are.
    Other,
}

const ELEMENTWISE: [&str; 2] = ["elementwise", "triton_poi"];

const ATTENTION: [&str; 4] = ["flash", "fmha", "attention", "_fused_attn"];

const PRODUCT: [&str; 12] = [
    "gemm",
    "gemv",
    "scudnn",
    "hcudnn",
    "convolve",
    "cudnn_convolution",
    "wgrad_alg",
    "dgrad_engine",
    "dgrad2d",
    "winograd",
    "xmma",
    "implicitgemm",
];

/// Parts of names of kernels that multiply on tensor cores, and the type of the operands; the first
/// one that a name has holds.
const TYPES: [(&str, Dtype); 15] = [
    ("e4m3", Dtype::Fp8),
    ("e5m2", Dtype::Fp8),
    ("qmma", Dtype::Fp8),
    ("bf16", Dtype::Bf16),
    ("bfloat16", Dtype::Bf16),
    ("f16", Dtype::Fp16),
    ("fp16", Dtype::Fp16),
    ("half", Dtype::Fp16),
    ("hmma", Dtype::Fp16),
    ("h884", Dtype::Fp16),
    ("s884", Dtype::Fp16),
    // Without a type beside it: 16 bits where the instruction is 16 deep, else the 19 of TF32.
    ("h16816", Dtype::Fp16),
    ("s16816", Dtype::Fp16),
    ("tf32", Dtype::Tf32),
    ("s1688", Dtype::Tf32),
];

impl KernelClass {
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let dtype = TYPES.iter().find(|(part, _)| name.contains(part)).map(|&(_, dtype)| dtype);
        if has(&ELEMENTWISE) {
            Self::Elementwise
        } else if has(&ATTENTION) {
            // Flash attention has no kernels in fp32: a name without a type is of one in 16 bits.
            Self::Attention(dtype.unwrap_or(Dtype::Fp16))
        } else if has(&PRODUCT) {
            Self::Product(dtype.unwrap_or(Dtype::Fp32))
        } else {
            Self::Other
        }
    }
}
