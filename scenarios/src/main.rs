//! foretrain rehearses a training run before anyone pays for it. The simulation is the business of the libraries; here
//! is only the command line.
#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
