//! What readers of foretrain's results see: sentences, tables, files and the page.

mod files;
mod fixture;
mod odd_inputs;
mod page;
mod sentences;
mod terminal_output;
