//! Modules of layers, as far as recomputation, offload and errors of times tell them apart.

/// A module that an operator is part of, in the forward or in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// Norm before attention.
    AttentionNorm,
    /// Attention with its projections.
    Attention,
    /// Layers from latent vectors to the heads, and the rotation of heads.
    LatentUp,
    /// Attention between projections: large to save and cheap to execute again.
    CoreAttention,
    /// Norm before the MLP.
    MlpNorm,
    /// A dense MLP.
    Mlp,
    /// Between the linear layers of a dense MLP.
    Activation,
    /// A mixture of experts with its router and its shared expert.
    Moe,
    /// The MLP beside the experts.
    SharedExperts,
    /// Between the grouped products of experts.
    ExpertActivation,
    /// The second grouped product of experts.
    ExpertDown,
    /// A recurrent layer.
    Recurrent,
}

impl Module {
    /// The module that it is a part of. `None`: the layer.
    const fn outer(self) -> Option<Self> {
        match self {
            Self::LatentUp | Self::CoreAttention => Some(Self::Attention),
            Self::Activation => Some(Self::Mlp),
            Self::SharedExperts | Self::ExpertActivation | Self::ExpertDown => Some(Self::Moe),
            Self::AttentionNorm
            | Self::Attention
            | Self::MlpNorm
            | Self::Mlp
            | Self::Moe
            | Self::Recurrent => None,
        }
    }

    /// True if it is `other` or a part of it.
    pub fn is_in(self, other: Self) -> bool {
        self == other || self.outer() == Some(other)
    }
}
