//! foretrain rehearses a training run before anyone pays for it. The simulation is the business of the libraries; here
//! is only the command line.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
