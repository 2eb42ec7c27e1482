//! Functions of elements, and where an operator finds these: at the place of its result, or in
//! a window around that.

use std::fmt;

use hw_models::kernels::Arithmetic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A function of an element and of those at its place in other tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Math {
    /// Adds a parameter of its channel.
    Bias,
    /// Adds another tensor.
    Add,
    /// Multiplies with another tensor, or with a gate of its sample and channel.
    Multiply,
    /// Multiplies with a constant.
    Scale,
    /// Replaces what a mask hides.
    Mask,
    /// Scales and shifts by parameters of its channel: a normalisation by known statistics.
    Normalise,
    /// Drops it or not, by a mask that is left.
    Dropout,
    /// max(x, 0).
    Relu,
    /// x Phi(x).
    Gelu,
    /// x sigmoid(x).
    Silu,
    /// x relu6(x + 3) / 6.
    Hardswish,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Largest or mean of a window: it reads places beside its own, which others would have to make
    /// again.
    Window,
}

/// How a compiler makes exponentials and divisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// As CUDA does by default: `expf` within 2 ulp, divisions after IEEE, whose slow path is a
    /// call.
    Accurate,
    /// By instructions of the special units alone (`--use_fast_math`, Triton, cuDNN).
    Approximate,
}

/// Conversion to single precision and back, which hides behind what does not wait for it.
const CONVERT: Arithmetic = Arithmetic { ordinary: 2, special: 0, chain: 12 };
/// `expf`: range reduction, `ex2`, scaling. Chains are instructions one after the other at 4
/// clocks, and 18 of a special one (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
/// Microbenchmarking", 2018, table 4.1).
const EXPONENTIAL: Arithmetic = Arithmetic { ordinary: 7, special: 1, chain: 46 };
/// A division after IEEE: reciprocal (18), six multiply-adds of Newton's (24), a check and a branch
/// (20).
const DIVISION: Arithmetic = Arithmetic { ordinary: 8, special: 1, chain: 62 };
/// Both by instructions of the special units and a multiplication.
const APPROXIMATE: Arithmetic = Arithmetic { ordinary: 1, special: 1, chain: 0 };

/// A softmax over a row that is at hand: its maximum, differences, exponentials, their sum, and a
/// product with its reciprocal.
pub const SOFTMAX: Arithmetic = Arithmetic { ordinary: 5, special: 1, chain: 0 };

impl Math {
    /// The word for it in settings: a kind of member of a fused kernel. `None`: it cannot follow in
    /// one.
    pub const fn member(self) -> Option<Member> {
        Some(match self {
            Self::Bias => Member::Bias,
            Self::Add => Member::Add,
            Self::Multiply => Member::Multiply,
            Self::Scale | Self::Mask => Member::Scale,
            Self::Normalise => Member::Norm,
            Self::Dropout => Member::Dropout,
            Self::Relu | Self::Gelu | Self::Silu | Self::Hardswish | Self::Sigmoid | Self::Tanh => {
                Member::Activation
            }
            Self::Window => return None,
        })
    }

    /// Instructions for an element.
    pub fn arithmetic(self, precision: Precision) -> Arithmetic {
        let whole = self.instructions(precision);
        // Where nothing is a call, elements of a thread overlap.
        Arithmetic { chain: if precision == Precision::Accurate { whole.chain } else { 0 }, ..whole }
    }

    fn instructions(self, precision: Precision) -> Arithmetic {
        let of = |ordinary| Arithmetic { ordinary, special: 0, chain: 0 };
        let (exponential, division) = match precision {
            Precision::Accurate => (EXPONENTIAL, DIVISION),
            Precision::Approximate => (APPROXIMATE, APPROXIMATE),
        };
        match self {
            Self::Bias | Self::Scale | Self::Relu => of(1),
            Self::Add | Self::Multiply | Self::Normalise | Self::Mask => of(2),
            // A random number for four elements takes ten rounds (Philox 4x32-10), a comparison, a
            // byte.
            Self::Dropout => of(12),
            Self::Hardswish => of(4),
            // Both forms of erf, of which a warp takes both: polynomials of degree 9 and an
            // exponential.
            Self::Gelu => CONVERT + exponential + of(22),
            // By the hyperbolic tangent of the half: `CUTLASS_USE_TANH_FOR_SIGMOID`, which compilers set
            // with fast mathematics (`build.py` of apache/tvm), or one that generates code could.
            Self::Silu if precision == Precision::Approximate => CONVERT + APPROXIMATE + of(3),
            Self::Silu => CONVERT + exponential + division + of(2),
            Self::Sigmoid if precision == Precision::Approximate => CONVERT + APPROXIMATE + of(2),
            Self::Sigmoid => CONVERT + exponential + division + of(1),
            Self::Tanh if precision == Precision::Approximate => CONVERT + APPROXIMATE,
            Self::Tanh => CONVERT + exponential + division + of(4),
            Self::Window => of(9),
        }
    }
}

/// Kinds of members of a fused kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Member {
    /// Additions of parameters of channels.
    Bias,
    /// ReLU, GeLU, SiLU and their like.
    Activation,
    /// Additions of another tensor: the shortcut of a residual block.
    Add,
    /// Products with another tensor or a gate.
    Multiply,
    /// Products with a constant, and masks.
    Scale,
    /// Normalisations by known statistics.
    Norm,
    /// Dropout.
    Dropout,
    /// Another product or convolution, which finds in shared memory what the first one made, with a
    /// softmax of whole rows between two products.
    Anchor,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Member {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Bias,
        Self::Activation,
        Self::Add,
        Self::Multiply,
        Self::Scale,
        Self::Norm,
        Self::Dropout,
        Self::Anchor,
    ];
}
