//! Arrays: named sets of drives of a node that a transfer is striped over (RAID 0).

use std::collections::BTreeMap;

use thiserror::Error;

use crate::catalogue::nearest::remedy;
use crate::machine::{Machine, PartId, PartKind};

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

/// Which drives of its node an array has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// All.
    All,
    /// The first so many.
    First(u32),
    /// Those of these names, which are names within the node: `ssd[0]`, or as spelled out.
    Named(Vec<String>),
}

/// What is wrong with an array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// It has no members.
    #[error("the array `{0}` has no drives: name some of a node's")]
    Empty(String),
    /// The nodes have no drives at all.
    #[error(
        "the array `{0}` has no drives, as the nodes of the machine have none: give them some, such as \
         `set: {{ ssd: {{ model: samsung-pm9a3-u2-3840gb, count: 4 }} }}`"
    )]
    NoDrives(String),
    /// It asks for more than a node has.
    #[error(
        "the array `{array}` asks for {asked} drives of a node, which has {there}: ask for fewer, or give it more"
    )]
    TooMany {
        /// The array.
        array: String,
        /// Drives that it asks for.
        asked: u32,
        /// Those of a node.
        there: u32,
    },
    /// A member is not there, or something else.
    #[error("the array `{array}` has `{part}`, which is {what}: {remedy}")]
    NotADrive {
        /// The array.
        array: String,
        /// The name.
        part: String,
        /// What it is.
        what: String,
        /// Which drives there are.
        remedy: String,
    },
    /// A member comes twice.
    #[error("the array `{array}` has `{drive}` twice: name each of its drives once")]
    Twice {
        /// The array.
        array: String,
        /// The name.
        drive: String,
    },
    /// Another array has one of its drives, too.
    #[error(
        "the array `{array}` has `{drive}`, which `{other}` has, too: give each drive to one array, which several techniques can use"
    )]
    Shared {
        /// The array.
        array: String,
        /// The one before.
        other: String,
        /// The drive.
        drive: String,
    },
}

impl ArrayError {
    /// The array that it is about.
    pub fn array(&self) -> &str {
        match self {
            Self::Empty(array) | Self::NoDrives(array) => array,
            Self::TooMany { array, .. }
            | Self::NotADrive { array, .. }
            | Self::Twice { array, .. }
            | Self::Shared { array, .. } => array,
        }
    }
}

impl Array {
    /// An array of these drives, with the chunk that Linux chooses.
    pub fn of(name: &str, drives: Vec<PartId>) -> Self {
        Self { name: name.to_owned(), drives, chunk: CHUNK }
    }

    /// The members that a transfer of so many bytes touches: small ones do not reach all.
    pub fn touched(&self, bytes: u64) -> &[PartId] {
        let chunks = bytes.div_ceil(self.chunk.max(1)).max(1);
        &self.drives[..self.drives.len().min(chunks.try_into().unwrap_or(usize::MAX))]
    }

    /// Bytes that it holds, as many on each member as the smallest has; none if one of its drives does not say.
    pub fn capacity(&self, machine: &Machine) -> Option<u64> {
        let of_drives = self.drives.iter().map(|&drive| machine.part(drive).capacity);
        let least = of_drives.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
        Some(least.saturating_mul(self.drives.len() as u64))
    }
}

/// The arrays of a node, each by its name, with the chunk that Linux chooses.
///
/// # Errors
/// For every array that names drives that are not there, or that another has, too.
pub fn arrays_of_node<'a>(
    machine: &Machine,
    node: u32,
    named: impl IntoIterator<Item = (&'a str, &'a Members)>,
) -> Result<Vec<Array>, Vec<ArrayError>> {
    let (mut arrays, mut errors) = (Vec::new(), Vec::new());
    let mut owner: BTreeMap<PartId, &str> = BTreeMap::new();
    for (name, members) in named {
        match drives_of(machine, node, name, members) {
            Ok(drives) => {
                let taken = drives
                    .iter()
                    .find_map(|drive| Some((local_name(machine, node, *drive), *owner.get(drive)?)));
                errors.extend(taken.map(|(drive, other)| ArrayError::Shared {
                    array: name.to_owned(),
                    other: other.to_owned(),
                    drive,
                }));
                owner.extend(drives.iter().map(|&drive| (drive, name)));
                arrays.push(Array::of(&machine.name_within(node, name), drives));
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(arrays) } else { Err(errors) }
}

fn drives_of(machine: &Machine, node: u32, name: &str, members: &Members) -> Result<Vec<PartId>, ArrayError> {
    let array = || name.to_owned();
    let mut all: Vec<PartId> = machine.drives_of_node(node).collect();
    let there = all.len() as u32;
    match members {
        _ if there == 0 => Err(ArrayError::NoDrives(array())),
        Members::All => Ok(all),
        Members::First(0) => Err(ArrayError::Empty(array())),
        &Members::First(asked) if asked > there => Err(ArrayError::TooMany { array: array(), asked, there }),
        &Members::First(asked) => {
            all.truncate(asked as usize);
            Ok(all)
        }
        Members::Named(names) if names.is_empty() => Err(ArrayError::Empty(array())),
        Members::Named(names) => {
            let mut drives = Vec::with_capacity(names.len());
            for drive in names {
                let part = drive_named(machine, node, name, drive)?;
                if drives.contains(&part) {
                    return Err(ArrayError::Twice { array: array(), drive: drive.clone() });
                }
                drives.push(part);
            }
            Ok(drives)
        }
    }
}

fn drive_named(machine: &Machine, node: u32, array: &str, name: &str) -> Result<PartId, ArrayError> {
    let found = machine.part_named(&machine.name_within(node, name)).ok();
    let what = match found.map(|part| (part, machine.part(part).kind)) {
        Some((part, PartKind::Ssd)) => return Ok(part),
        Some((_, kind)) => format!("a {kind}"),
        None => "no part of a node".to_owned(),
    };
    let drives: Vec<String> =
        machine.drives_of_node(node).map(|drive| local_name(machine, node, drive)).collect();
    let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
    let remedy = remedy(name, &drives, "drive");
    Err(ArrayError::NotADrive { array: array.to_owned(), part: name.to_owned(), what, remedy })
}

fn local_name(machine: &Machine, node: u32, drive: PartId) -> String {
    let name = machine.part(drive).name;
    name.strip_prefix(&machine.name_within(node, "")).unwrap_or(&name).to_owned()
}
