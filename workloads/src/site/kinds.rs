//! Kinds of GPUs of a job: the ranks of a stage are on GPUs of one, those of another stage may be
//! on GPUs of another.

use std::collections::BTreeMap;

use hw_models::catalogue::Gpu;
use hw_models::machine::Machine;

use crate::placement::{Extent, Placement};

/// Different GPUs of the stages of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Positions in [`Machine::gpu_kinds`], in the order of the stages.
    of_machine: Vec<usize>,
    /// By stage, a position among those.
    of_stage: Vec<u32>,
}

/// A stage on GPUs of two kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixedStage {
    /// The stage.
    pub stage: u32,
    /// Numbers of two of its GPUs that differ.
    pub gpus: [u32; 2],
    /// A change that gives each stage GPUs of one kind.
    pub remedy: String,
}

/// Ranks up to which a remedy lists the GPU of each.
const LISTED_MAX: usize = 16;

impl Kinds {
    /// The kinds of a job that has its ranks on GPUs of the machine.
    ///
    /// # Errors
    /// The first stage that is on GPUs of several.
    pub fn of(machine: &Machine, extent: Extent, placement: &Placement) -> Result<Self, MixedStage> {
        let mut kinds = Self { of_machine: Vec::new(), of_stage: Vec::new() };
        for stage in 0..extent.stages {
            let kind = kind_of_stage(machine, extent, placement, stage).map_err(|gpus| {
                let remedy = remedy(machine, extent);
                MixedStage { stage, gpus, remedy }
            })?;
            let known = kinds.of_machine.iter().position(|&known| known == kind);
            kinds.of_stage.push(known.unwrap_or(kinds.of_machine.len()) as u32);
            if known.is_none() {
                kinds.of_machine.push(kind);
            }
        }
        Ok(kinds)
    }

    /// Number of kinds.
    pub fn count(&self) -> usize {
        self.of_machine.len()
    }

    /// By stage, its kind.
    pub fn by_stage(&self) -> &[u32] {
        &self.of_stage
    }

    /// The kind of a stage.
    pub fn of_stage(&self, stage: u32) -> usize {
        self.of_stage[stage as usize] as usize
    }

    /// Stages on GPUs of a kind.
    pub fn stages_of(&self, kind: usize) -> impl Iterator<Item = u32> + '_ {
        let stages = (0u32..).zip(&self.of_stage);
        stages.filter(move |&(_, &of)| of as usize == kind).map(|(stage, _)| stage)
    }

    /// The GPU of a kind: its name in the catalogue, and its entry.
    pub fn gpu<'m>(&self, machine: &'m Machine, kind: usize) -> (&'m str, &'m Gpu) {
        let (name, gpu) = &machine.gpu_kinds()[self.of_machine[kind]];
        (name, gpu)
    }
}

/// The kind of the GPUs of a stage.
///
/// # Errors
/// Two GPUs of different kinds.
fn kind_of_stage(
    machine: &Machine,
    extent: Extent,
    placement: &Placement,
    stage: u32,
) -> Result<usize, [u32; 2]> {
    let first = extent.gpu(placement, stage, 0);
    let kind = machine.kind_of_gpu(first);
    if machine.gpu_kinds().len() > 1 {
        let mut gpus = (1..extent.replicas()).map(|replica| extent.gpu(placement, stage, replica));
        if let Some(other) = gpus.find(|&gpu| machine.kind_of_gpu(gpu) != kind) {
            return Err([first, other]);
        }
    }
    Ok(kind)
}

/// A change of the order of ranks, or of their number, with which each stage is on GPUs of one
/// kind.
fn remedy(machine: &Machine, extent: Extent) -> String {
    let orders = [
        ("sequential", Placement::Sequential),
        ("pair-adjacent", Placement::PairAdjacent),
        ("copy-after-copy", Placement::CopyAfterCopy),
    ];
    let separates = |placement: &Placement| {
        (0..extent.stages).all(|stage| kind_of_stage(machine, extent, placement, stage).is_ok())
    };
    if let Some((name, _)) = orders.iter().find(|(_, placement)| separates(placement)) {
        return format!("write `placement: {name}`");
    }
    let mut gpus: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for gpu in 0..machine.gpus() {
        gpus.entry(machine.kind_of_gpu(gpu)).or_default().push(gpu);
    }
    let replicas = extent.replicas() as usize;
    let whole = gpus.values().flat_map(|of_kind| of_kind.chunks_exact(replicas)).flatten();
    let listed: Vec<String> =
        whole.take(replicas * extent.stages as usize).map(ToString::to_string).collect();
    if listed.len() == replicas * extent.stages as usize {
        let list = if listed.len() <= LISTED_MAX { listed.join(", ") } else { "...".to_owned() };
        return format!("list the GPUs of one stage after the other, `placement: {{ gpus: [{list}] }}`");
    }
    let together = gpus.values().fold(0, |all, of_kind| gcd(all, of_kind.len()));
    format!(
        "write `pipeline: {}` and let tensor x context x data be {together}, or use GPUs of one kind alone and write \
         `idle: allow`",
        machine.gpus() as usize / together
    )
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
