//! Arrays: named sets of drives of a node that a transfer is striped over (RAID 0).

use thiserror::Error;

use crate::machine::{Machine, PartId, PartKind, UnknownPart};

/// The default chunk of Linux' software RAID (byte).
const CHUNK: u64 = 512 << 10;

/// Drives that hold one file system; one drive alone is an array, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// For results.
    pub name: String,
    /// The members.
    pub drives: Vec<PartId>,
    /// Bytes that go to one member before the next.
    pub chunk: u64,
}

/// What is wrong with an array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// It has no members.
    #[error("the array `{0}` has no drives: name those of a node, such as `node[0].ssd[0]`")]
    Empty(String),
    /// A member is not there.
    #[error("the array `{array}`: {error}")]
    Unknown {
        /// The array.
        array: String,
        /// What is there.
        error: UnknownPart,
    },
    /// A member is something else.
    #[error("the array `{array}` has `{part}`, which is a {kind}: name drives")]
    NotADrive {
        /// The array.
        array: String,
        /// The name.
        part: String,
        /// What it is.
        kind: PartKind,
    },
    /// A member comes twice.
    #[error("the array `{array}` has `{drive}` twice: name each of its drives once")]
    Twice {
        /// The array.
        array: String,
        /// The name.
        drive: String,
    },
}

impl Array {
    /// An array of the drives of these names, with the chunk that Linux chooses.
    ///
    /// # Errors
    /// If there are none, or one is not there or comes twice.
    pub fn new(machine: &Machine, name: &str, drives: &[impl AsRef<str>]) -> Result<Self, ArrayError> {
        let array = || name.to_owned();
        let mut members = Vec::with_capacity(drives.len());
        for drive in drives.iter().map(AsRef::as_ref) {
            let found = machine.part_named(drive);
            let part = found.map_err(|error| ArrayError::Unknown { array: array(), error })?;
            let kind = machine.part(part).kind;
            if kind != PartKind::Ssd {
                return Err(ArrayError::NotADrive { array: array(), part: drive.to_owned(), kind });
            }
            if members.contains(&part) {
                return Err(ArrayError::Twice { array: array(), drive: drive.to_owned() });
            }
            members.push(part);
        }
        if members.is_empty() { Err(ArrayError::Empty(array())) } else { Ok(Self::of(name, members)) }
    }

    /// An array of these drives, with the chunk that Linux chooses.
    pub fn of(name: &str, drives: Vec<PartId>) -> Self {
        Self { name: name.to_owned(), drives, chunk: CHUNK }
    }

    /// The members that a transfer of so many bytes touches: small ones do not reach all.
    pub fn touched(&self, bytes: u64) -> &[PartId] {
        let chunks = bytes.div_ceil(self.chunk.max(1)).max(1);
        &self.drives[..self.drives.len().min(chunks.try_into().unwrap_or(usize::MAX))]
    }

    /// Bytes that it holds; none if one of its drives does not say.
    pub fn capacity(&self, machine: &Machine) -> Option<u64> {
        self.drives.iter().map(|&drive| machine.part(drive).capacity).sum()
    }
}
