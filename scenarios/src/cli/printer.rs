//! Standard output and standard error, as the only places that the command line writes to besides files.

use std::io::{self, IsTerminal, Write};

use clap::ColorChoice;
use console::Term;
use reports::terminal::{self, Style};

use super::{Exit, Trouble};

/// Where results and complaints go, and in which form.
pub(super) struct Printer {
    /// Form of results for people.
    pub(super) style: Style,
    /// True if the locale has no UTF-8.
    is_ascii: bool,
    /// Whether complaints may be coloured.
    color_errors: bool,
}

impl Printer {
    pub(super) fn new(choice: ColorChoice) -> Self {
        Self {
            style: Style { colour: in_color(choice, io::stdout().is_terminal()), width: width() },
            is_ascii: !is_utf_8(),
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

    /// Prints a text for people, as ASCII where the locale has no UTF-8.
    ///
    /// # Errors
    /// As of [`Printer::print`].
    pub(super) fn print_text(&self, text: &[u8]) -> Result<Exit, Trouble> {
        match self.is_ascii {
            true => self.print(&terminal::ascii(&String::from_utf8_lossy(text))),
            false => self.print_bytes(text),
        }
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

/// The width of the terminal; that of a page where standard output is none.
fn width() -> usize {
    let columns = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    columns.filter(|columns| *columns > 0).unwrap_or(Style::default().width)
}

/// True if the locale says UTF-8: the first of these variables that is set decides (POSIX.1-2017, 8.2).
fn is_utf_8() -> bool {
    let values = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let locale = values.map(|value| value.to_string_lossy().to_lowercase()).find(|value| !value.is_empty());
    locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
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
