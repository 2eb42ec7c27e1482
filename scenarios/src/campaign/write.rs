//! Time that writing a checkpoint takes on a machine.
//!
//! Each rank writes an even share of the bytes that its stage writes once. Nodes write at the same
//! time and share nothing but a store of the cluster; what GPUs of a node share (links, host memory,
//! drives) the engine tells. A write that training waits for streams through host memory, so that the
//! slower of copy and store decides.

use std::collections::BTreeMap;

use hw_models::copies::{CopyStream, HostMemory, seconds_at_once as copies_at_once};
use hw_models::machine::{Machine, NoRoute, PartId};
use hw_models::storage::{Array, DriveSet, Transfer, Way, arrays_of_node, seconds_at_once};
use workloads::plan::{DriveArray, StageCheckpoint};

use crate::plans;
use crate::schema::{CheckpointStore, Checkpoints, Scenario};

/// Times of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Write {
    /// Time that training waits (s).
    pub(super) pause_s: f64,
    /// Time from there until the checkpoint is durable (s).
    pub(super) lag_s: f64,
}

/// Ranks of a node: their GPUs, each with the bytes that it writes.
type NodeShare = Vec<(u32, u64)>;

/// Times of a write of `stages` on the machine of a checked scenario.
///
/// # Errors
/// A sentence on what keeps the checkpoint from being written.
pub(super) fn write(
    scenario: &Scenario,
    checkpoints: &Checkpoints,
    stages: &[StageCheckpoint],
) -> Result<Write, String> {
    let machine = plans::machine::of(scenario).map_err(|error| error.to_string())?;
    let nodes = nodes(scenario, &machine, stages);
    let copy_s = || copies_s(scenario, &machine, &nodes);
    let pause = |pause_s| Write { pause_s, lag_s: 0.0 };
    match (checkpoints.to, checkpoints.background) {
        (CheckpointStore::Host, _) => Ok(pause(copy_s()?)),
        (CheckpointStore::Storage(rate), background) => {
            let bytes: u64 = stages.iter().map(StageCheckpoint::written).sum();
            let write_s = bytes as f64 / rate.bytes_per_second() as f64;
            let copy_s = copy_s()?;
            Ok(match background {
                true => Write { pause_s: copy_s, lag_s: write_s },
                false => pause(copy_s.max(write_s)),
            })
        }
        (CheckpointStore::Drives, true) => {
            Ok(Write { pause_s: copy_s()?, lag_s: drives_s(scenario, &machine, &nodes, From::Host)? })
        }
        (CheckpointStore::Drives, false) => drives_s(scenario, &machine, &nodes, From::Gpu).map(pause),
    }
}

/// Nodes that differ in what their GPUs write, or in themselves: the first of each kind.
fn nodes(scenario: &Scenario, machine: &Machine, stages: &[StageCheckpoint]) -> Vec<NodeShare> {
    let Some((extent, placement)) = plans::placed(scenario) else { return Vec::new() };
    let per_node = machine.gpus_per_node().max(1);
    let mut of_nodes: BTreeMap<u32, NodeShare> = BTreeMap::new();
    for (stage, checkpoint) in (0..).zip(stages) {
        let share = checkpoint.written().div_ceil(u64::from(checkpoint.ranks.max(1)));
        for replica in 0..extent.replicas() {
            let gpu = extent.gpu(&placement, stage, replica);
            of_nodes.entry(gpu / per_node).or_default().push((gpu, share));
        }
    }
    let alike: Vec<_> = machine.alike_nodes().collect();
    let mut kinds: BTreeMap<(usize, NodeShare), NodeShare> = BTreeMap::new();
    for (node, share) in of_nodes {
        let group = alike.iter().position(|range| range.contains(&node)).unwrap_or_default();
        let local = share.iter().map(|(gpu, bytes)| (gpu % per_node, *bytes)).collect();
        kinds.entry((group, local)).or_insert(share);
    }
    kinds.into_values().collect()
}

/// Time until all GPUs have copied their shares to the memory of their hosts (s).
fn copies_s(scenario: &Scenario, machine: &Machine, nodes: &[NodeShare]) -> Result<f64, String> {
    let hardware = plans::machine::hardware(machine, scenario);
    let mut streams = Vec::new();
    for &(gpu, bytes) in nodes.iter().flatten() {
        let part = machine.gpu(gpu);
        let costs = machine.gpu_model(part).and_then(|model| hardware.host_copies(model, HostMemory::Pinned));
        let [cost, _] = costs.ok_or("nobody knows what copies to host memory cost on this machine")?;
        streams.push(CopyStream { stops: vec![part, memory(machine, part)?], bytes, cost });
    }
    longest(copies_at_once(machine, &streams))
}

fn memory(machine: &Machine, gpu: PartId) -> Result<PartId, String> {
    machine.memory_of(gpu).ok_or_else(|| machine.no_memory(gpu).to_string())
}

/// Origin of what drives write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Gpu,
    Host,
}

/// Time until all shares are on the drives of their nodes (s). Of several arrays GPUs take one in
/// turn.
fn drives_s(scenario: &Scenario, machine: &Machine, nodes: &[NodeShare], from: From) -> Result<f64, String> {
    let declared = plans::declared_arrays(scenario);
    let named = || declared.iter().map(|array| (&*array.name, array.members.as_ref()));
    let per_node = machine.gpus_per_node().max(1);
    let mut longest_s = 0.0_f64;
    for share in nodes {
        let Some((first, _)) = share.first() else { continue };
        let arrays = arrays(machine, first / per_node, named())?;
        let mut on_array = vec![0_u64; arrays.len()];
        let mut transfers = Vec::new();
        for &(gpu, bytes) in share {
            let number = (gpu % per_node) as usize % arrays.len();
            on_array[number] += bytes;
            let DriveArray { to_host, to_gpu, .. } = &declared[number];
            let own = machine.gpu(gpu);
            let (path, end) = match from {
                From::Gpu => (to_gpu, own),
                From::Host => (to_host, memory(machine, own)?),
            };
            transfers.push(Transfer { array: &arrays[number], way: Way::Write, end, bytes, path });
        }
        for ((array, bytes), declared) in arrays.iter().zip(on_array).zip(&declared) {
            if let Some(capacity) = array.capacity(machine).filter(|&capacity| capacity < bytes) {
                return Err(format!(
                    "a checkpoint puts {bytes} bytes on `{}`, which holds {capacity}",
                    array.name
                ));
            }
            let [at_most, _] = declared.at_most;
            longest_s = longest_s.max(bytes as f64 / at_most);
        }
        let copies = scenario.constants.copies();
        longest_s = longest_s.max(longest(seconds_at_once(machine, copies, &transfers))?);
    }
    Ok(longest_s)
}

fn arrays<'a>(
    machine: &Machine,
    node: u32,
    named: impl Iterator<Item = (&'a str, Option<&'a DriveSet>)>,
) -> Result<Vec<Array>, String> {
    let arrays = arrays_of_node(machine, node, named);
    arrays.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn longest(seconds: Result<Vec<f64>, NoRoute>) -> Result<f64, String> {
    Ok(seconds.map_err(|error| error.to_string())?.into_iter().fold(0.0, f64::max))
}
