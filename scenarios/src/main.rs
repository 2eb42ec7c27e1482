//! foretrain rehearses a training run before anyone pays for it. The simulation is the business of the libraries; here
//! is only the command line.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "measure"),
    allow(dead_code, reason = "verbs that are left out have helpers in common files")
)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
