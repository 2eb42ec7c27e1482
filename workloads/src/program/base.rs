//! Operators that a program issues: those of a model on one GPU, with what each costs its host and
//! the device, block by block.

use hw_models::host::OpClass;
use sim_core::time::Time;

use super::path::Region;

/// Operators of a model, as an eager framework issues them and as a compiler leaves them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Base {
    /// Operator by operator.
    pub library: Operators,
    /// Passes over memory merged.
    pub merged: Operators,
    /// Tensors of parameters.
    pub tensors: u64,
    /// Time in which the device reads and writes them once.
    pub copy_parameters: Time,
    /// Copies from page-locked and from pageable memory of the host.
    pub to_device: [Way; 2],
    /// Copies of numbers to the host.
    pub from_device: Way,
}

/// A way between the host and the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Before the bytes flow.
    pub latency: Time,
    /// Their rate (byte/s).
    pub rate: f64,
}

impl Way {
    /// Time of a copy.
    pub fn copy(&self, bytes: u64) -> Time {
        Time(self.latency.0 + (bytes as f64 / self.rate * 1e12) as u64)
    }
}

/// Operators of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operators {
    /// Its blocks, in the order of the forward pass.
    pub blocks: Vec<BlockOperators>,
    /// Once per step, after the backward pass.
    pub update: Vec<Operator>,
    /// Fragments of the program.
    pub fragments: Vec<BlockOperators>,
}

impl Operators {
    /// Operators of a region.
    pub fn of(&self, region: Region) -> &[Operator] {
        match region {
            Region::Forward(block) => self.blocks.get(block as usize).map_or(&[], |it| &it.forward),
            Region::Backward(block) => self.blocks.get(block as usize).map_or(&[], |it| &it.backward),
            Region::Update => &self.update,
            Region::Fragment(at) => self.fragments.get(at as usize).map_or(&[], |it| &it.forward),
            Region::FragmentBackward(at) => self.fragments.get(at as usize).map_or(&[], |it| &it.backward),
        }
    }
}

/// Operators of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockOperators {
    /// In the forward pass.
    pub forward: Vec<Operator>,
    /// In the backward pass.
    pub backward: Vec<Operator>,
}

/// An operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// Its class to the host.
    pub class: OpClass,
    /// Time that each of its kernels takes beside its work.
    pub start: Time,
    /// Time of its work.
    pub work: Time,
    /// Operators of an eager framework that it stands for; of the library they are issued one by
    /// one, merged as one.
    pub members: u32,
    /// Operators before each that change shapes alone.
    pub views: u32,
}

impl Operator {
    /// Time of one of `parts` kernels that share its work.
    pub fn kernel(&self, parts: u32) -> Time {
        Time(self.start.0 + self.work.0 / u64::from(parts.max(1)))
    }
}
