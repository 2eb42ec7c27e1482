//! Mistakes in foretrain itself: what to tell whoever meets one.

use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use super::{VERSION, run};

/// Makes panics say what to do instead of printing what only the authors understand.
pub(super) fn hook() {
    let default = panic::take_hook();
    let explain = move |info: &PanicHookInfo<'_>| {
        let payload = info.payload();
        let message =
            payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let message = message.unwrap_or("no reason given");
        let place = info.location().map_or(String::new(), |place| format!(" at {place}"));
        report(&format!("{message}{place}"));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|wish| wish != "0") {
            default(info);
        }
    };
    panic::set_hook(Box::new(explain));
}

/// Asks on standard error to report a bug; once, also when several threads meet it.
pub(super) fn report(reason: &str) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
        let _ = io::stderr().write_all(text(reason, arguments).as_bytes());
    });
}

fn text(reason: &str, arguments: impl Iterator<Item = String>) -> String {
    let command = run::command(arguments);
    format!(
        "error: this is a bug in foretrain; please report it with these lines and the scenario\n\
         \x20 version  {VERSION}\n\
         \x20 command  {command}\n\
         \x20 reason   {reason}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_what_is_needed_to_see_the_bug_again() {
        let text = text("a < b", ["run", "my file.yaml"].map(str::to_owned).into_iter());
        assert!(text.contains(VERSION), "{text}");
        assert!(text.contains("foretrain run 'my file.yaml'\n"), "{text}");
        assert!(text.contains("a < b\n"), "{text}");
    }
}
