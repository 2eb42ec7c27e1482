//! What the hardware models promise, by subject.

mod allocator;
mod allocator_plain;
mod catalogue;
mod collectives;
mod copies;
mod described;
mod framework;
mod host;
mod host_update;
mod kernels;
mod machine;
mod machine_groups;
mod machine_set;
mod pages;
mod reads;
mod storage;
mod table;
