//! What readers of foretrain's results see: sentences, tables, files and the page.

mod calibration;
mod cluster;
mod files;
mod fixture;
mod headlines;
mod machines;
mod odd_inputs;
mod page;
mod sentences;
mod terminal_output;
mod validation;
