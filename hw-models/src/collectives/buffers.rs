//! Bytes of GPU memory that communicators hold in buffers (NVIDIA, nccl 2.14: `src/init.cc`, `src/graph/paths.cc`,
//! `src/transport/p2p.cc`, `src/transport/net.cc`).
//!
//! A connection between two ranks has a buffer for each protocol, in every channel. Inside a node it is in the memory of
//! one end, between nodes in that of both, where flags in 8 bytes are sent from the host's. With c channels
//!
//! ```text
//! connection = ll + ll128 + simple
//! collective = c d (connection + (ll128 + simple) / ranks per node, if there are several nodes)
//! messages   = inside c' connection + 2 c' steps chunk, if some go to another node
//! ```
//!
//! where rings use a connection to the next member and trees those ways back (d = 2; two members are next to each other
//! both ways: d = 1), a channel enters and leaves a node through one of its members, and messages have connections of
//! their own: each neighbour inside the node, and one pool for all others in either direction. All of it is made with
//! the communicator or with its first message. What switches need for their sums (NVLS) is not counted.

use serde::Deserialize;

use super::{CollectiveModel, GroupShape, InsideLink};
use crate::provenance::Provenance;

/// Sizes of the buffers of a connection in one channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSizes {
    /// For flags in 8 bytes.
    pub ll_bytes: u64,
    /// For flags in 128 bytes.
    pub ll128_bytes: u64,
    /// For counters.
    pub simple_bytes: u64,
    /// Channels of messages between two ranks, unless all members are at one NVLink switch.
    pub channels_per_peer: u32,
    /// Messages under way to other nodes, in each channel and direction.
    pub net_steps: u32,
    /// Largest part of a message to another node.
    pub net_chunk_bytes: u64,
    /// Where they are from.
    pub provenance: Provenance,
}

impl CollectiveModel {
    /// Bytes that a member of a communicator holds for its collectives.
    pub fn collective_buffers(&self, group: &GroupShape) -> u64 {
        if group.ranks < 2 {
            return 0;
        }
        let sizes = &self.buffers;
        let at_both_ends = if group.nodes() > 1 {
            (sizes.ll128_bytes + sizes.simple_bytes) / u64::from(group.ranks_per_node.max(1))
        } else {
            0
        };
        let directions = if group.ranks == 2 { 1 } else { 2 };
        u64::from(self.limits.channels(group)) * directions * (sizes.connection() + at_both_ends)
    }

    /// Bytes that a member of a communicator holds for messages to and from so many others `inside` its node, and to and
    /// from any `outside`.
    pub fn message_buffers(&self, group: &GroupShape, inside: u32, outside: bool) -> u64 {
        let sizes = &self.buffers;
        let channels = self.limits.channels(group).next_power_of_two();
        let at_one_switch = group.nodes() == 1 && group.inside.link == InsideLink::NvSwitch;
        let per_peer = if at_one_switch { channels } else { sizes.channels_per_peer };
        let pools = if outside { 2 * u64::from(channels) } else { 0 };
        u64::from(inside) * u64::from(per_peer) * sizes.connection()
            + pools * u64::from(sizes.net_steps) * sizes.net_chunk_bytes
    }
}

impl BufferSizes {
    /// Bytes of a connection in one channel.
    const fn connection(&self) -> u64 {
        self.ll_bytes + self.ll128_bytes + self.simple_bytes
    }
}
