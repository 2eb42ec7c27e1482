//! The words results are given in: causes of elapsed time and kinds of bytes.

/// What a stream's time counts as.
pub mod cause {
    use sim_core::id::CauseId;

    /// Forward and backward operators.
    pub const COMPUTE: &str = "compute";
    /// Forward operators executed again.
    pub const RECOMPUTE: &str = "recompute";
    /// The host has not issued what comes next.
    pub const LAUNCH: &str = "launch-bound";
    /// No room for what comes next.
    pub const MEMORY: &str = "waiting for memory";
    /// Bytes needed are being copied, or wait to be.
    pub const TRANSFER: &str = "waiting for a transfer";
    /// A message is under way.
    pub const COMMUNICATION: &str = "communication";
    /// The other side of a message is late.
    pub const SKEW: &str = "skew";
    /// The producer of a message has not finished.
    pub const BUBBLE: &str = "pipeline bubble";
    /// Done before the others.
    pub const IDLE: &str = "idle at the end";

    /// All of them, in the order of the tables; the position is the [`sim_core::id::CauseId`] in every program.
    pub const ALL: [&str; 9] =
        [COMPUTE, RECOMPUTE, LAUNCH, MEMORY, TRANSFER, COMMUNICATION, SKEW, BUBBLE, IDLE];

    /// The id of one of them.
    pub(crate) fn id(name: &str) -> CauseId {
        CauseId::from(ALL.iter().position(|&known| known == name).expect("one of all causes"))
    }
}

/// What bytes of a store are.
pub mod kind {
    /// Weights and whatever else a stage holds for the whole run.
    pub const WEIGHTS: &str = "weights";
    /// Parameters as operators read them.
    pub const PARAMETERS: &str = "parameters";
    /// Sums of gradients.
    pub const GRADIENTS: &str = "gradients";
    /// Moments of the optimizer, and its copies of parameters and gradients.
    pub const OPTIMIZER: &str = "optimizer states";
    /// What operators need while they run.
    pub const WORKSPACE: &str = "workspace";
    /// Features of nodes, caches of them, and batches of their rows.
    pub const FEATURES: &str = "features";
    /// Buffers of communicators.
    pub const COMMUNICATION: &str = "communication buffers";
    /// What the driver, the framework and others keep.
    pub const RESERVED: &str = "reserved";
    /// Held from the forward to the backward pass of a micro-batch.
    pub const ACTIVATIONS: &str = "activations";
    /// The part of the activations that the weight gradient needs after the input gradient.
    pub const FOR_WEIGHT_GRADIENTS: &str = "activations for weight gradients";
    /// Parameters of data-parallel ranks that share them, whole for as long as operators read them.
    pub const GATHERED: &str = "gathered parameters";
    /// Gradients of a micro-batch until data-parallel ranks that share them have summed them.
    pub const UNREDUCED: &str = "gradients to be reduced";
    /// Activations of another stage.
    pub const HELD_FOR_PARTNER: &str = "activations held for a partner";
    /// Activations of a GPU in host memory.
    pub const OFFLOADED: &str = "offloaded activations";
    /// Memory of a host that is page-locked for a rank.
    pub const LOCKED: &str = "page-locked buffers";
    /// Activations produced again right before the backward pass.
    pub const RECOMPUTED: &str = "recompute";
    /// One micro-batch of one chunk, in the stores that count residents.
    pub const RESIDENT: &str = "resident micro-batches";
    /// One micro-batch of another stage.
    pub const RESIDENT_FOR_PARTNER: &str = "micro-batches held for a partner";
}
