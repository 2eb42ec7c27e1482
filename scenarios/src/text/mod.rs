//! From bytes to typed values, with a position for every word: sources, trees, typing and problems.
//!
//! [`yaml`] grows a [`node::Node`] tree in which every value knows the line it was written on; [`decode`] types such
//! a tree with serde and reports all faults at once; [`problem`] prints them with the line they are about.

pub(crate) mod decode;
pub(crate) mod lines;
pub(crate) mod located;
pub(crate) mod node;
pub(crate) mod problem;
pub(crate) mod source;
mod syntax;
pub(crate) mod yaml;
