//! Hardware models of foretrain: catalogue of devices and machines, topology, kernels, copies, collectives, storage.
//! Depends on `sim-core` only; the crate `calibration` beside it finds their constants.
//!
//! A pipeline with profiled stage times needs no machine; the models come with the scenarios that describe one.
//!
//! The catalogue is embedded, each constant with its provenance; a machine is built of it, and answers what joins its parts:
//!
//! ```
//! use hw_models::catalogue::Catalogue;
//! use hw_models::machine::{Cluster, Machine, RouteKind};
//!
//! let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap();
//! let cluster = Cluster::new("dgx-a100-80g", 2);
//! let machine = Machine::build(&catalogue, &cluster).unwrap();
//! assert_eq!(machine.gpus(), 16);
//! // Neighbours on a node talk over NVLink, GPUs of different nodes over the fabric.
//! let [first, second, other_node] = [0, 1, 8].map(|gpu| machine.gpu(gpu));
//! assert_eq!(machine.route(first, second).unwrap().kind, RouteKind::NvLink);
//! assert_eq!(machine.route(first, other_node).unwrap().kind, RouteKind::Network);
//! ```

pub mod allocator;
pub mod catalogue;
pub mod collectives;
pub mod copies;
pub mod digest;
pub mod errors;
pub mod framework;
pub mod host;
pub mod host_update;
pub mod kernels;
pub mod machine;
pub mod power;
pub mod provenance;
pub mod reads;
pub mod search;
pub mod settings;
pub mod storage;
pub mod variation;
