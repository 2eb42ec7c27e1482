//! Policies: which groups may be kernels, and by what they are chosen.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::math::{Member, Precision};

use super::groups::Permitted;

/// Which groups are kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "FusionPolicy")]
pub enum Policy {
    /// Each operator is a kernel, as frameworks run them eagerly.
    None,
    /// Passes over memory that follow each other are one (`software.compile`).
    Passes,
    /// Passes, and members behind products and convolutions, wherever they fit: TVM with CUTLASS,
    /// cuDNN's runtime fusion.
    Epilogues,
    /// Passes over memory that share tensors, in whatever order; products and convolutions stay the
    /// library's (TorchInductor without autotuning of products).
    Inductor,
    /// Passes, with what cuBLASLt and cuDNN have behind products and convolutions (XLA).
    Xla,
    /// Every group that is legal, where it is the fastest (DeepCuts).
    #[default]
    Searched,
}

/// Rules of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) permitted: Permitted,
    /// Normalisations by known statistics are folded into convolutions.
    pub(super) fold: bool,
    pub(super) precision: Precision,
    pub(super) aim: Aim,
}

/// By what groups are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// None are.
    Nothing,
    /// Passes that follow each other.
    Runs,
    /// The fewest kernels, then the fewest bytes.
    Fewest,
    /// The least time.
    Fastest,
}

impl Policy {
    pub(super) fn rules(self) -> Rules {
        use Member::{Activation, Add, Bias};
        let of = |passes, of_products: &[Member], of_convolutions: &[Member]| Permitted {
            passes,
            before: self == Self::Searched,
            of_products: of_products.to_vec(),
            of_convolutions: of_convolutions.to_vec(),
        };
        let rules = |permitted, fold, fast, aim| Rules { permitted, fold, precision: precision(fast), aim };
        match self {
            Self::None => rules(of(false, &[], &[]), false, false, Aim::Nothing),
            Self::Passes => rules(of(true, &[], &[]), false, true, Aim::Runs),
            Self::Epilogues => {
                let members = [Bias, Activation, Add];
                rules(of(true, &members, &members), true, false, Aim::Fewest)
            }
            Self::Inductor => rules(of(true, &[], &[]), true, true, Aim::Fewest),
            // Epilogues of cuBLASLt and `cudnnConvolutionBiasActivationForward`.
            Self::Xla => {
                rules(of(true, &[Bias, Activation], &[Bias, Add, Activation]), true, true, Aim::Fewest)
            }
            Self::Searched => rules(of(true, &Member::ALL, &Member::ALL), true, true, Aim::Fastest),
        }
    }

    /// True if settings may say which members are behind products and convolutions.
    pub(super) const fn takes_members(self) -> bool {
        matches!(self, Self::Epilogues | Self::Searched)
    }
}

impl Rules {
    /// These rules with other members behind products and convolutions, if they are given.
    pub(super) fn with_members(mut self, members: Option<&[Member]>) -> Self {
        if let Some(members) = members {
            self.permitted.of_products = members.to_vec();
            self.permitted.of_convolutions = members.to_vec();
        }
        self
    }
}

pub(super) const fn precision(fast: bool) -> Precision {
    if fast { Precision::Approximate } else { Precision::Accurate }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
