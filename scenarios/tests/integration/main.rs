//! What the scenario language promises.

mod broken;
mod expectations;
mod hostile;
mod language;
mod library;
mod schema;
mod support;
