//! What the binary promises to whoever types.

mod beginning;
mod calibrating;
mod campaigns;
mod clusters;
mod comparing;
mod configured;
mod determinism;
mod devices;
mod explaining;
mod framework;
mod guide;
mod hardware_files;
mod help;
mod importing;
mod interchanging;
mod looking;
mod mistakes;
mod output;
mod programs;
mod running;
mod searching;
mod sharding;
mod support;
mod traces;
mod validating;
mod workloads;
