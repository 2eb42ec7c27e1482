//! What readers of foretrain's results see: sentences, tables, files and the page.

#[cfg(feature = "measured")]
mod calibration;
mod cluster;
mod compared;
mod detailed;
mod files;
mod fixture;
mod headlines;
mod machines;
mod odd_inputs;
mod page;
mod programs;
mod sentences;
mod terminal_output;
mod traces;
#[cfg(feature = "measured")]
mod validation;
mod winners;
