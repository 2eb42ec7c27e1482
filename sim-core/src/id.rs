//! Typed indices into the arenas of a platform and a program.

/// Declares `u32` newtypes that index arenas.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the arena.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// # Panics
            /// If the arena holds more than 2^32 entries; builders refuse such sizes earlier.
            fn from(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds at most 2^32 entries"))
            }
        }
    )*};
}

ids! {
    /// A shared rate: a link direction, a memory, a request budget.
    FluidId,
    /// An input port of a port-fair arbiter; demands of one port share one weight.
    PortId,
    /// A list of demands that one activity puts on fluids together.
    RouteId,
    /// Units held for a while, first come first served by priority.
    PoolId,
    /// Bytes held, with high-water marks.
    StoreId,
    /// A monotone counter.
    CounterId,
    /// A small state.
    CellId,
    /// The members of a join.
    GroupId,
    /// Blocks posted for worker streams.
    QueueId,
    /// An in-order list of operations.
    StreamId,
    /// A straight-line list of operations over slots.
    BlockId,
    /// A list of calls of blocks.
    RoleId,
    /// What the slots of a role stand for.
    BindingId,
    /// The activities and sizes a binding's operations refer to.
    CostTableId,
    /// Forward targets of a branch.
    BranchId,
    /// Rate caps over the units of a pool.
    CapTableId,
    /// A kind of bytes in a store (an interned name).
    KindId,
    /// A cause of elapsed time (an interned name).
    CauseId,
}
