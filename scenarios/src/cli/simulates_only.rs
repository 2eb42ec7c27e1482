//! The verbs about measurements where they are left out: each says how to build the whole.

use std::ffi::OsString;

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

/// Arguments of the other build, unread.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<OsString>,
}

/// Refuses to calibrate.
pub(super) fn calibrate(_: &Arguments, _: &Printer) -> Result<Exit, Trouble> {
    Err(refusal())
}

/// Refuses to validate.
pub(super) fn validate(_: &Arguments, _: &Printer) -> Result<Exit, Trouble> {
    Err(refusal())
}

/// Refuses to list the sets of measurements.
pub(super) fn sets() -> Result<Vec<(String, String)>, Trouble> {
    Err(refusal())
}

fn refusal() -> Trouble {
    let remedy = "for measurements, `cargo build --release` builds the whole";
    Trouble::NoDevice(format!("this build of foretrain only simulates: {remedy}"))
}
