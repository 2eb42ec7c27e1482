//! Words of a shell text, with the positions at which they were written.
//!
//! Nothing is executed: assignments are followed from the top to the bottom, variables of the text
//! are replaced by their values, and branches are read one after the other. A word that needs a
//! value from elsewhere (`$1`, `$(hostname)`) says so.

mod expansion;
mod reader;

use std::collections::BTreeMap;

use crate::text::problem::Problem;
use crate::text::source::{Mark, SourceId};

/// Most characters of all words together, once variables are replaced.
const EXPANDED_MAX: usize = 1 << 20;

/// A word as a shell reads it: in quotes where it must be.
pub fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./,:=+%@".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command line, split and with its variables replaced.
pub(super) type Command = Vec<Word>;

/// A word of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    letters: Vec<Letter>,
    /// Something was written, if only `''`.
    begun: bool,
    start: Option<Place>,
    /// The first value that the text does not have.
    unknown: Option<Unknown>,
}

/// A value that the text does not have.
#[derive(Clone, Debug)]
pub(super) struct Unknown {
    /// As it is written: `$NAME`.
    pub(super) written: String,
    place: Place,
}

/// The commands of a text.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Command>,
    /// Arrays, in the order of their first assignment.
    pub(super) arrays: Vec<(String, Vec<Word>)>,
    /// The first condition or loop.
    pub(super) branch: Option<Place>,
}

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    line: u32,
    column: u32,
}

#[derive(Clone, Copy, Debug)]
struct Letter {
    char: char,
    place: Place,
}

/// Reads the commands of a text.
///
/// # Errors
/// A quote that does not end, and variables that repeat each other without end.
pub(super) fn read(text: &str, source: SourceId) -> Result<Script, Problem> {
    let mut place = Place { line: 1, column: 1 };
    let mut letters = Vec::with_capacity(text.len());
    for char in text.chars() {
        letters.push(Letter { char, place });
        place = match char {
            '\n' => Place { line: place.line + 1, column: 1 },
            _ => Place { column: place.column + 1, ..place },
        };
    }
    let mut state = State::default();
    reader::Reader { letters: &letters, at: 0, depth: 0, state: &mut state }
        .script()
        .map_err(|fault| fault.problem(source))?;
    let arrays = state.names.into_iter().filter_map(|name| match state.variables.remove(&name) {
        Some(Variable::Array(words)) => Some((name, words)),
        _ => None,
    });
    Ok(Script { commands: state.commands, arrays: arrays.collect(), branch: state.branch })
}

impl Place {
    pub(super) fn mark(self, source: SourceId) -> Mark {
        source.at(self.line, self.column)
    }
}

impl Unknown {
    pub(super) fn mark(&self, source: SourceId) -> Mark {
        self.place.mark(source)
    }
}

impl Word {
    /// A word that stands alone on a line.
    pub(super) fn alone(text: &str, line: u32) -> Self {
        let place = |column: usize| Place { line, column: u32::try_from(column + 1).unwrap_or(u32::MAX) };
        let letters = text.chars().enumerate();
        let letters = letters.map(|(column, char)| Letter { char, place: place(column) }).collect();
        Self { letters, begun: true, start: Some(place(0)), unknown: None }
    }

    /// A word of another text.
    pub(super) fn placed(text: &str, mark: Mark) -> Self {
        let place = Place { line: mark.line, column: mark.column };
        let letters = text.chars().map(|char| Letter { char, place }).collect();
        Self { letters, begun: true, start: Some(place), unknown: None }
    }

    pub(super) fn text(&self) -> String {
        self.letters.iter().map(|letter| letter.char).collect()
    }

    pub(super) fn unknown(&self) -> Option<&Unknown> {
        self.unknown.as_ref()
    }

    pub(super) fn mark(&self, source: SourceId) -> Mark {
        let first = self.letters.first().map(|letter| letter.place).or(self.start);
        first.map_or_else(|| source.start(), |place| place.mark(source))
    }

    /// Cuts `--name=value` in two.
    pub(super) fn cut(&self, separator: char) -> Option<(Self, Self)> {
        let at = self.letters.iter().position(|letter| letter.char == separator)?;
        let part = |letters: &[Letter], unknown| Self {
            letters: letters.to_vec(),
            begun: true,
            start: self.letters.get(at).map(|letter| letter.place),
            unknown,
        };
        let value = part(&self.letters[at + 1..], self.unknown.clone());
        Some((part(&self.letters[..at], None), value))
    }

    fn is_there(&self) -> bool {
        self.begun || !self.letters.is_empty() || self.unknown.is_some()
    }
}

#[derive(Default)]
struct State {
    commands: Vec<Command>,
    variables: BTreeMap<String, Variable>,
    /// Names in the order of their first assignment.
    names: Vec<String>,
    branch: Option<Place>,
    expanded: usize,
}

#[derive(Clone, Debug)]
enum Variable {
    Text(Word),
    Array(Vec<Word>),
}

enum Fault {
    Open(Place, &'static str),
    TooLong(Place),
}

impl Fault {
    fn problem(self, source: SourceId) -> Problem {
        match self {
            Self::Open(place, what) => Problem::new(place.mark(source), format!("{what} does not end"))
                .help("close it, or remove it"),
            Self::TooLong(place) => {
                let message = format!("variables expand to more than {EXPANDED_MAX} characters");
                Problem::new(place.mark(source), message).help("write the arguments without variables")
            }
        }
    }
}

impl Variable {
    /// Its value where one word is wanted: of an array the first.
    fn as_text(&self) -> Word {
        match self {
            Self::Text(word) => word.clone(),
            Self::Array(words) => words.first().cloned().unwrap_or_default(),
        }
    }
}

fn push(words: &mut [Word], letter: Letter) {
    if let Some(last) = words.last_mut() {
        last.letters.push(letter);
    }
}

fn begin(words: &mut [Word]) {
    if let Some(last) = words.last_mut() {
        last.begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::source::Sources;

    fn script(text: &str) -> Result<Script, Problem> {
        read(text, Sources::default().add("x.sh", text))
    }

    fn commands(text: &str) -> Vec<String> {
        let script = script(text).unwrap_or_else(|problem| panic!("{}", problem.message));
        let shown = |command: &Command| command.iter().map(Word::text).collect::<Vec<_>>().join("|");
        script.commands.iter().map(shown).collect()
    }

    #[test]
    fn words_end_at_spaces_outside_quotes() {
        assert_eq!(commands("a 'b c' \"d e\"f \\\n  g\\ h # no\ni"), ["a|b c|d ef|g h", "i"]);
        assert_eq!(commands("a '' 2>&1 | tee log > x"), ["a|", "tee|log"]);
        assert_eq!(commands("cat << EOF\n --x\nEOF\nb"), ["cat", "b"]);
    }

    #[test]
    fn variables_are_followed() {
        assert_eq!(commands("A=\"--x 1 --y\"\nrun $A \"$A\""), ["run|--x|1|--y|--x 1 --y"]);
        assert_eq!(commands("A=( --x 1 ) ; A+=( # no\n --y 'a b' )\nrun ${A[@]}"), ["run|--x|1|--y|a|b"]);
        assert_eq!(commands("A=( '' 'a b' )\nrun \"${A[@]}\""), ["run||a b"]);
        assert_eq!(commands("B=${A:-${C:-8}}\nexport D=$B\nrun x${D}y"), ["run|x8y"]);
        assert_eq!(commands("X=1 run $X"), ["run|1"]);
    }

    #[test]
    fn values_from_elsewhere_are_unknown() {
        let script = script("run $1 ${N} $(hostname -f) `id` \"$((2 * 3))\" $ x").expect("a script");
        let unknown = |word: &Word| word.unknown().map(|it| it.written.clone());
        let found: Vec<_> = script.commands[0].iter().filter_map(unknown).collect();
        assert_eq!(found, ["$1", "${N}", "$(hostname -f)", "`id`", "$((2 * 3))"]);
    }

    #[test]
    fn words_know_their_places() {
        let script = script("A=\"--x 12\"\nrun \\\n  $A --y=3").expect("a script");
        let source = Sources::default().add("", "");
        let place = |word: &Word| word.mark(source).to_string();
        assert_eq!(script.commands[0].iter().map(place).collect::<Vec<_>>(), ["2:1", "1:4", "1:8", "3:6"]);
        let (name, value) = script.commands[0][3].cut('=').expect("two parts");
        assert_eq!((name.text().as_str(), value.text().as_str(), place(&value)), ("--y", "3", "3:10".into()));
    }

    #[test]
    fn texts_that_do_not_end_are_refused() {
        for (text, message) in [
            ("run 'x", "the quote `'` does not end"),
            ("run \"x", "the quote `\"` does not end"),
            ("A=( x", "the array does not end"),
        ] {
            assert_eq!(script(text).err().map(|problem| problem.message).as_deref(), Some(message));
        }
        let doubling: String = (0..40).map(|_| "A=\"$A$A\"\n").collect();
        assert!(script(&format!("A=xxxx\n{doubling}")).is_err());
    }
}
