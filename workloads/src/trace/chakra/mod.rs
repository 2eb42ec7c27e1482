//! Chakra execution traces (MLCommons): a graph of operations with recorded durations.
//!
//! ```text
//! framing   messages behind their lengths, plain or packed   -> Node
//! graph     nodes on threads and streams, kept briefly       -> Graph
//! sequence  one order of all nodes that keeps dependencies
//! lanes     threads that launch, wait and let others go on   -> Traced
//! ```
//!
//! A node begins when the one before it on its lane and all that it depends on have ended. A
//! thread is a `tid` of nodes with `is_cpu_op`, a stream the `stream` of the others (`tid` in files
//! of older converters). Where a node says neither, nodes of its kind share a lane: the host's,
//! compute, communication or memory. Latencies of launches are not recorded and therefore zero.

mod framing;
mod graph;
mod lanes;
pub mod message;
mod sequence;

use std::io::{self, BufReader, Read};

use prost::Message;
use thiserror::Error;

use super::packed::unpacked;
use framing::{Messages, Next};
pub use graph::Graph;
use graph::{DEPENDENCIES_MAX, NODES_MAX};
use message::{GlobalMetadata, Node};

/// Why a file gives no graph.
#[derive(Debug, Error)]
pub enum ChakraError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It does not begin with the messages of a Chakra trace.
    #[error(
        "is no Chakra trace: {0}; expected `GlobalMetadata`, then `Node` messages, each behind its length"
    )]
    Foreign(String),
    /// No node has a duration. The number of those that say operations or bytes.
    #[error(
        "has no node with a duration ({0} say operations or bytes, whose time depends on a machine): \
         convert a recorded trace, with `chakra_trace_link` and `chakra_converter`"
    )]
    Nothing(u64),
    /// It holds more than is kept.
    #[error(
        "has more than {NODES_MAX} nodes or {DEPENDENCIES_MAX} dependencies, or too long names: \
         record fewer steps"
    )]
    TooLong,
}

/// Reads a graph, packed or not.
///
/// # Errors
/// See [`ChakraError`]. A file that breaks off gives what came before, and says so in its counts.
pub fn read(input: impl Read) -> Result<Graph, ChakraError> {
    let mut messages = Messages::new(BufReader::with_capacity(1 << 16, unpacked(input)?));
    let mut graph = Graph::default();
    let foreign = |why: String| Err(ChakraError::Foreign(why));
    match messages.next()? {
        Next::Message(bytes) if GlobalMetadata::decode(bytes).is_ok() => {}
        Next::Message(_) => return foreign("its first message is no metadata".to_owned()),
        Next::Long => return foreign("its first message has more than 4 MiB".to_owned()),
        Next::End => return foreign("it is empty".to_owned()),
        Next::BrokenOff(at) => return foreign(format!("it has only {at}")),
    }
    loop {
        match messages.next() {
            Ok(Next::Message(bytes)) => match Node::decode(bytes) {
                Ok(node) => graph.add(&node),
                Err(_) => graph.refuse("a message that is no node"),
            },
            Ok(Next::Long) => graph.refuse("a message of more than 4 MiB"),
            Ok(Next::End) => break,
            Ok(Next::BrokenOff(at)) => {
                graph.counts.truncated = Some(at);
                break;
            }
            Err(error) if graph.is_empty() => return Err(error.into()),
            Err(error) => {
                graph.counts.truncated = Some(format!("{error} after byte {}", messages.position));
                break;
            }
        }
        if graph.is_too_long() {
            return Err(ChakraError::TooLong);
        }
    }
    if graph.is_empty()
        && let Some(at) = &graph.counts.truncated
    {
        return foreign(format!("it has only {at}"));
    }
    if graph.is_empty() && !graph.counts.refused.is_empty() {
        return foreign("its messages are no nodes".to_owned());
    }
    match graph.has_times() {
        true => Ok(graph),
        false => Err(ChakraError::Nothing(graph.untimed)),
    }
}
