//! Lists of requests that no program could make.

use thiserror::Error;

use super::{Request, Settings};

/// Something wrong with a list or the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Mistake {
    /// With a request of the list, by its position.
    #[error("request {0}: {1}")]
    Request(usize, Fault),
    /// With the settings.
    #[error("settings: {0}")]
    Settings(Fault),
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It is about a tensor that is allocated later or never.
    #[error(
        "tensor {0} has not been allocated: tensors are numbered from 0 in the order of their allocations"
    )]
    Unknown(u32),
    /// The tensor is gone.
    #[error("tensor {0} has been freed: leave it out, or free the tensor later")]
    Freed(u32),
    /// Nobody else uses the tensor.
    #[error("tensor {0} is not lent to other streams: lend it first")]
    NotLent(u32),
    /// More tensors than can be numbered.
    #[error("more than 2^32 - 1 tensors are allocated: shorten the list")]
    TooMany,
    /// `max_split_size` is too small.
    #[error("`max_split_size` is {0} B, and must be more than a segment of 20971520 B")]
    MaxSplitSize(u64),
    /// `roundup_power2_divisions` is none.
    #[error("`roundup_power2_divisions` is {0}, and must be a power of two from 1 to 64")]
    Divisions(u64),
}

/// What is known of a tensor while a list is read.
#[derive(Clone, Copy, Default)]
struct Tensor {
    freed: bool,
    lent: bool,
}

/// All that is wrong with a list and its settings.
pub(super) fn mistakes(requests: &[Request], settings: &Settings) -> Vec<Mistake> {
    let mut found: Vec<Mistake> = settings.faults().map(Mistake::Settings).collect();
    let mut tensors: Vec<Tensor> = Vec::new();
    for (position, request) in requests.iter().enumerate() {
        let checked = match *request {
            Request::Allocate { .. } if tensors.len() < u32::MAX as usize => {
                tensors.push(Tensor::default());
                Ok(())
            }
            Request::Allocate { .. } => Err(Fault::TooMany),
            Request::Lend(id) => known(&mut tensors, id).and_then(|tensor| {
                tensor.lent = true;
                if tensor.freed { Err(Fault::Freed(id)) } else { Ok(()) }
            }),
            Request::Done(id) => known(&mut tensors, id).and_then(|tensor| {
                if std::mem::take(&mut tensor.lent) { Ok(()) } else { Err(Fault::NotLent(id)) }
            }),
            Request::Free(id) => known(&mut tensors, id).and_then(|tensor| {
                if std::mem::replace(&mut tensor.freed, true) { Err(Fault::Freed(id)) } else { Ok(()) }
            }),
        };
        if let Err(fault) = checked {
            found.push(Mistake::Request(position, fault));
        }
    }
    found
}

fn known(tensors: &mut [Tensor], id: u32) -> Result<&mut Tensor, Fault> {
    tensors.get_mut(id as usize).ok_or(Fault::Unknown(id))
}
