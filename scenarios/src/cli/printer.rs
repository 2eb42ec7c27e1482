//! Standard output and standard error, as the only places that the command line writes to besides files.

use std::io::{self, IsTerminal, Write};

use clap::ColorChoice;

use super::{Exit, Trouble};

/// Where results and complaints go, and whether in colour.
pub(super) struct Printer {
    /// Whether results may be coloured.
    pub(super) color: bool,
    /// Whether complaints may be coloured.
    color_errors: bool,
}

impl Printer {
    pub(super) fn new(choice: ColorChoice) -> Self {
        Self {
            color: in_color(choice, io::stdout().is_terminal()),
            color_errors: in_color(choice, io::stderr().is_terminal()),
        }
    }

    /// Prints a result at once.
    ///
    /// # Errors
    /// That nobody reads it any more, which is a normal end (`| head`), or that it cannot be written.
    pub(super) fn print(&self, text: &str) -> Result<Exit, Trouble> {
        self.print_bytes(text.as_bytes())
    }

    /// [`Printer::print`] for what a writer made.
    pub(super) fn print_bytes(&self, bytes: &[u8]) -> Result<Exit, Trouble> {
        // `println!` would panic over a closed pipe.
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Trouble::Output)?;
        Ok(Exit::Fine)
    }

    /// Prints `error: MESSAGE` on standard error.
    pub(super) fn complain(&self, message: &str) {
        let mark = if self.color_errors { "\u{1b}[1;31merror\u{1b}[0m" } else { "error" };
        self.tell(&format!("{mark}: {message}\n"));
    }

    /// Prints all problems of a file on standard error.
    pub(super) fn complain_about(&self, failure: &scenarios::Failure) {
        self.tell(&failure.render(self.color_errors));
    }

    /// Prints on standard error; where that is closed there is nobody to tell.
    pub(super) fn tell(&self, text: &str) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// `auto` means: on a terminal that knows colours, unless <https://no-color.org> says otherwise.
fn in_color(choice: ColorChoice, is_terminal: bool) -> bool {
    let says = |name: &str| std::env::var_os(name).unwrap_or_default();
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_terminal && says("NO_COLOR").is_empty() && says("TERM") != "dumb",
    }
}
