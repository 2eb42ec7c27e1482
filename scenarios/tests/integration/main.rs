//! What the scenario language promises.

mod agreement;
mod allocator;
mod broken;
mod calibrations;
mod critical_path;
mod expectations;
mod found;
mod hostile;
mod language;
mod library;
mod page_locked;
mod plans;
mod schema;
mod support;
mod traffic;
mod transformers;
mod validation;
