//! Rotary positions of queries and keys where no kernel rotates both in place.
//!
//! | form | forward | backward |
//! |---|---|---|
//! | complex numbers in fp32 | cast, product, cast back | the same |
//! | halves | 2 products, negation, joint, sum | 2 products, negation, 2 paddings, 2 sums |
//!
//! The authors of Llama and torchtitan write complex numbers, which no compiler fuses into other
//! kernels, Hugging Face Transformers halves (`apply_rotary_pos_emb`), which are one as compiled.

use super::Positions;
use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use crate::graph::operator::{Dtype, StreamClass};

/// Kernels that rotate queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotary {
    /// One, in place.
    Kernel,
    /// Complex numbers in fp32, by three operators.
    Complex,
    /// Products with cosines and sines, by five operators.
    Halves,
}

names! { $
    /// Names of the operators and tensors of a rotation.
    Rotation by rotation_names;
    cast: "cast " _ "",
    single: "" _ " in fp32",
    rotate: "rotate " _ "",
    rotated_single: "" _ ", rotated in fp32",
    cast_back: "cast rotated " _ "",
    rotated: "" _ ", rotated",
    cosine: "" _ " times cosine",
    negate: "negate half of " _ "",
    negated: "" _ ", half negated",
    join: "join halves of " _ "",
    swapped: "" _ ", halves swapped",
    sine: "" _ " times sine",
    pad_first: "pad first half of " _ "",
    first: "" _ ", first half",
    pad_other: "pad other half of " _ "",
    other: "" _ ", other half",
    add: "add halves of " _ "",
    halves: "" _ ", halves added",
}

/// Queries and keys.
const ROTATIONS: [&Rotation; 2] = [rotation_names!("query"), rotation_names!("key")];
const BACK: [&Rotation; 2] = [rotation_names!("query gradient"), rotation_names!("key gradient")];

/// The tensors of queries and keys once rotated; none where they are rotated in place, or not at
/// all.
pub(super) fn rotated(on: &ShardedTransformer) -> Option<[Name; 2]> {
    let apart = on.execution().fusion.rotary != Rotary::Kernel;
    (apart && on.model().positions == Positions::Rotary).then(|| ROTATIONS.map(|names| names.rotated))
}

/// Rotates queries and keys, of so many `bytes`; returns the names of the results.
pub(super) fn forward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    tensors: [Name; 2],
    bytes: [u64; 2],
) -> [Name; 2] {
    match on.execution().fusion.rotary {
        Rotary::Kernel => {
            in_place(draft, "rotary positions", tensors, bytes);
            tensors
        }
        Rotary::Complex => [0, 1].map(|n| ROTATIONS[n].complex(draft, on, tensors[n], bytes[n])),
        Rotary::Halves => [0, 1].map(|n| ROTATIONS[n].halves(draft, tensors[n], bytes[n])),
    }
}

/// Rotates the gradients of queries and keys back, for which nothing is kept.
pub(super) fn backward(
    draft: &mut Draft,
    on: &ShardedTransformer,
    gradients: [Name; 2],
    bytes: [u64; 2],
) -> [Name; 2] {
    match on.execution().fusion.rotary {
        Rotary::Kernel => {
            in_place(draft, "rotary positions gradient", gradients, bytes);
            gradients
        }
        Rotary::Complex => [0, 1].map(|n| BACK[n].complex(draft, on, gradients[n], bytes[n])),
        Rotary::Halves => [0, 1].map(|n| BACK[n].halves_back(draft, gradients[n], bytes[n])),
    }
}

fn in_place(draft: &mut Draft, name: &'static str, tensors: [Name; 2], bytes: [u64; 2]) {
    let (mut tensors, bytes) = (tensors.to_vec(), bytes.iter().sum());
    tensors.dedup();
    draft.stream(name, StreamClass::Elementwise, (bytes, bytes), &tensors, &[]);
}

impl Rotation {
    fn complex(&self, draft: &mut Draft, on: &ShardedTransformer, from: Name, bytes: u64) -> Name {
        let single = bytes / on.execution().dtype.bytes() * Dtype::Fp32.bytes();
        let class = StreamClass::Elementwise;
        draft.stream(self.cast, class, (bytes, single), &[from], &[(self.single, single)]);
        draft.stream(self.rotate, class, (single, single), &[self.single], &[(self.rotated_single, single)]);
        let writes = [(self.rotated, bytes)];
        draft.stream(self.cast_back, class, (single, bytes), &[self.rotated_single], &writes);
        self.rotated
    }

    fn halves(&self, draft: &mut Draft, from: Name, bytes: u64) -> Name {
        let (class, half) = (StreamClass::Elementwise, bytes / 2);
        draft.stream(self.cosine, class, (bytes, bytes), &[from], &[(self.cosine, bytes)]);
        draft.stream(self.negate, class, (half, half), &[from], &[(self.negated, half)]);
        let (reads, writes) = ([from, self.negated], [(self.swapped, bytes)]);
        draft.stream(self.join, class, (bytes, bytes), &reads, &writes);
        draft.stream(self.sine, class, (bytes, bytes), &[self.swapped], &[(self.sine, bytes)]);
        let (reads, writes) = ([self.cosine, self.sine], [(self.rotated, bytes)]);
        draft.stream(self.rotate, class, (2 * bytes, bytes), &reads, &writes);
        self.rotated
    }

    /// Gradients of slices are zeros with a half copied into them.
    fn halves_back(&self, draft: &mut Draft, gradient: Name, bytes: u64) -> Name {
        let (class, half) = (StreamClass::Elementwise, bytes / 2);
        draft.stream(self.sine, class, (bytes, bytes), &[gradient], &[(self.sine, bytes)]);
        draft.stream(self.cosine, class, (bytes, bytes), &[gradient], &[(self.cosine, bytes)]);
        draft.stream(self.negate, class, (half, half), &[self.sine], &[(self.negated, half)]);
        let padded = (half, bytes + half);
        draft.stream(self.pad_first, class, padded, &[self.sine], &[(self.first, bytes)]);
        draft.stream(self.pad_other, class, padded, &[self.negated], &[(self.other, bytes)]);
        let (reads, writes) = ([self.first, self.other], [(self.halves, bytes)]);
        draft.stream(self.add, class, (2 * bytes, bytes), &reads, &writes);
        let (reads, writes) = ([self.halves, self.cosine], [(self.rotated, bytes)]);
        draft.stream(self.rotate, class, (2 * bytes, bytes), &reads, &writes);
        self.rotated
    }
}
