//! Rotary positions as complex numbers in fp32, as the authors of Llama and torchtitan write them: a cast, a product with
//! the rotations, a cast back. No compiler fuses complex numbers into other kernels, so that these are three in either case.

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use crate::graph::operator::{Dtype, StreamClass};

names! { $
    /// Names of the operators and tensors of a rotation.
    Rotation by rotation_names;
    cast: "cast " _ "",
    single: "" _ " in fp32",
    rotate: "rotate " _ "",
    rotated_single: "" _ ", rotated in fp32",
    cast_back: "cast rotated " _ "",
    rotated: "" _ ", rotated",
}

impl Rotation {
    /// Rotates tensor `from` of so many `bytes`; returns the name of the result. Its gradient is rotated back in the same
    /// way, and nothing is kept for that.
    pub(super) fn apply(&self, draft: &mut Draft, on: &ShardedTransformer, from: Name, bytes: u64) -> Name {
        let single = bytes / on.execution().dtype.bytes() * Dtype::Fp32.bytes();
        let class = StreamClass::Elementwise;
        draft.stream(self.cast, class, (bytes, single), &[from], &[(self.single, single)]);
        draft.stream(self.rotate, class, (single, single), &[self.single], &[(self.rotated_single, single)]);
        draft.stream(
            self.cast_back,
            class,
            (single, bytes),
            &[self.rotated_single],
            &[(self.rotated, bytes)],
        );
        self.rotated
    }
}
