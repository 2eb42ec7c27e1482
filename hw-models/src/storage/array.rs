//! Arrays: named sets of drives of a node that a transfer is striped over (RAID 0).

use std::collections::BTreeMap;

use thiserror::Error;

use super::DriveSet;
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

/// A fault of an array, in a sentence that ends with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct ArrayError {
    /// Its name.
    pub array: String,
    text: String,
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

/// The arrays of a node, each by its name, with the chunk that Linux chooses. An array without a
/// set has all drives.
///
/// # Errors
/// For every array that names drives that are not there, or that another has, too.
pub fn arrays_of_node<'a>(
    machine: &Machine,
    node: u32,
    named: impl IntoIterator<Item = (&'a str, Option<&'a DriveSet>)>,
) -> Result<Vec<Array>, Vec<ArrayError>> {
    let (mut arrays, mut errors) = (Vec::new(), Vec::new());
    let mut owner: BTreeMap<PartId, &str> = BTreeMap::new();
    for (array, set) in named {
        let error =
            |text| ArrayError { array: array.to_owned(), text: format!("the array `{array}` {text}") };
        match drives_of(machine, node, set) {
            Ok(drives) => {
                let taken = drives
                    .iter()
                    .find_map(|drive| Some((local_name(machine, node, *drive), *owner.get(drive)?)));
                errors.extend(taken.map(|(drive, other)| {
                    error(format!(
                        "has `{drive}`, which `{other}` has, too: give each drive to one array, which several techniques can use"
                    ))
                }));
                owner.extend(drives.iter().map(|&drive| (drive, array)));
                arrays.push(Array::of(&machine.name_within(node, array), drives));
            }
            Err(text) => errors.push(error(text)),
        }
    }
    if errors.is_empty() { Ok(arrays) } else { Err(errors) }
}

/// The drives of a set, or what is wrong with it.
fn drives_of(machine: &Machine, node: u32, set: Option<&DriveSet>) -> Result<Vec<PartId>, String> {
    let mut all: Vec<PartId> = machine.drives_of_node(node).collect();
    let there = all.len();
    if there == 0 {
        return Err("has no drives, as the nodes of the machine have none: give them some, such as \
             `set: { ssd: { model: samsung-pm9a3-u2-3840gb, count: 4 } }`"
            .to_owned());
    }
    match set {
        None => Ok(all),
        Some(DriveSet::First(count)) => {
            let asked = count.get() as usize;
            if asked > there {
                return Err(format!(
                    "asks for {asked} drives of a node, which has {there}: ask for fewer, or give it more"
                ));
            }
            all.truncate(asked);
            Ok(all)
        }
        Some(DriveSet::Named(names)) if names.is_empty() => {
            Err("has no drives: name some of a node's".to_owned())
        }
        Some(DriveSet::Named(names)) => {
            let mut drives = Vec::with_capacity(names.len());
            for drive in names {
                let part = drive_named(machine, node, drive)?;
                if drives.contains(&part) {
                    return Err(format!("has `{drive}` twice: name each of its drives once"));
                }
                drives.push(part);
            }
            Ok(drives)
        }
    }
}

fn drive_named(machine: &Machine, node: u32, name: &str) -> Result<PartId, String> {
    let found = machine.part_named(&machine.name_within(node, name)).ok();
    let what = match found.map(|part| (part, machine.part(part).kind)) {
        Some((part, PartKind::Ssd)) => return Ok(part),
        Some((_, kind)) => format!("a {kind}"),
        None => "no part of a node".to_owned(),
    };
    let drives: Vec<String> =
        machine.drives_of_node(node).map(|drive| local_name(machine, node, drive)).collect();
    let drives: Vec<&str> = drives.iter().map(String::as_str).collect();
    Err(format!("has `{name}`, which is {what}: {}", remedy(name, &drives, "drive")))
}

fn local_name(machine: &Machine, node: u32, drive: PartId) -> String {
    let name = machine.part(drive).name;
    name.strip_prefix(&machine.name_within(node, "")).unwrap_or(&name).to_owned()
}
