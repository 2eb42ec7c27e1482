//! Tiers of memory, and what moves between them.

/// A tier of memory, as a stage sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tier {
    /// The stage whose ranks own it, or have it beside them.
    pub owner: u32,
    /// What it consists of.
    pub medium: Medium,
}

/// A kind of memory, by its name. The site says which store of a rank it is and which ways lead there, the cost book what copies
/// cost: another medium is another entry in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Medium(pub &'static str);

impl Medium {
    /// Memory of GPUs.
    pub const HBM: Self = Self("GPU memory");
    /// Memory of hosts for what they exchange with their GPUs; the site says whether it is page-locked.
    pub const HOST: Self = Self("host memory");
    /// Page-locked memory of hosts.
    pub const PAGE_LOCKED: Self = Self("page-locked host memory");
    /// Memory of hosts that is not page-locked.
    pub const PAGEABLE: Self = Self("pageable host memory");
    /// An array of drives.
    pub const DRIVES: Self = Self("drives");
}

impl Tier {
    /// Memory of the GPUs of a stage.
    pub const fn hbm(owner: u32) -> Self {
        Self { owner, medium: Medium::HBM }
    }

    /// Whether it is memory of GPUs.
    pub fn is_hbm(self) -> bool {
        self.medium == Medium::HBM
    }
}

/// Bytes that go from one tier of memory to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TierCopy {
    /// What they are.
    pub role: Role,
    /// Where they are.
    pub from: Medium,
    /// Where they go.
    pub to: Medium,
    /// How many they are.
    pub bytes: u64,
}

/// Roles of tensors that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Saved by a forward pass.
    Activation,
    /// Gradients, or sums of them.
    Gradient,
    /// Parameters as operators read them.
    Parameter,
    /// States of the optimizer.
    State,
    /// Features of a batch.
    Input,
}
