//! Width, colours and characters of a terminal.

use super::clean;
use crate::wording::unbroken;

/// How to write for a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// True: colour with ANSI sequences. Colour is never the only carrier of a meaning.
    pub colour: bool,
    /// Characters of a line.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100 }
    }
}

impl Style {
    /// Lines of at most [`Style::width`] characters, all behind the first behind an indent, too. A
    /// word that is longer stands alone.
    pub(crate) fn wrapped(self, text: &str, indent: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in unbroken(&clean(text)).split(' ').filter(|word| !word.is_empty()) {
            let word = word.replace('\u{a0}', " ");
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= self.width => {
                    line.push(' ');
                    line.push_str(&word);
                }
                Some(_) => lines.push(format!("{indent}{indent}{word}")),
                None => lines.push(format!("{indent}{word}")),
            }
        }
        lines
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Text for terminals whose locale has no UTF-8: characters of tables and bars as ASCII, one for
/// one, all others as `?`.
pub fn ascii(text: &str) -> String {
    let plain = |c: char| match c {
        _ if c.is_ascii() => c,
        '─' | '–' | '—' | '−' => '-',
        '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '▍' | '▎' | '▏' => ' ',
        '✓' => '+',
        '✗' | '×' => 'x',
        'µ' => 'u',
        '…' => '~',
        '≤' => '<',
        '≥' => '>',
        '±' => '~',
        'τ' => 't',
        '\u{a0}' | '\u{202f}' => ' ',
        _ => '?',
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_the_terminal() {
        let style = Style { colour: false, width: 12 };
        assert_eq!(style.wrapped("one two three four", "  "), ["  one two", "    three", "    four"]);
        assert_eq!(style.wrapped("a-word-that-is-longer x", ""), ["a-word-that-is-longer", "x"]);
        assert_eq!(style.wrapped("a step takes 1.2 s", ""), ["a step takes", "1.2 s"], "with its unit");
        assert!(style.wrapped("", "").is_empty());
    }

    #[test]
    fn a_locale_without_utf_8_gets_ascii_of_the_same_width() {
        let line = " 1.31× faster  ████▌ ✗ 5–6 µs…";
        assert_eq!(ascii(line), " 1.31x faster  ##### x 5-6 us~");
        assert!(ascii("日本").is_ascii());
    }
}
