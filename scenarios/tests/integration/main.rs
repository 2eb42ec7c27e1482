//! What the scenario language promises.

mod agreement;
mod allocator;
mod array_rate;
mod broken;
mod calibrations;
mod cases;
mod choices;
mod critical_path;
mod described;
mod effort;
mod expectations;
mod found;
mod hostile;
mod language;
mod largest_batches;
mod library;
mod lms;
mod measured_kernels;
mod memory_plans;
mod monotone;
mod nothing;
mod offloaded_modules;
mod page_locked;
mod pictures;
mod plans;
mod presets;
mod programs;
mod remedies;
mod schema;
mod support;
mod traffic;
mod transformers;
mod twice;
#[cfg(feature = "measure")]
mod validation;
mod vdnn;
