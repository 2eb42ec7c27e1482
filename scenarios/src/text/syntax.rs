//! The YAML parser's own errors, in words a user can act on.

use super::problem::Problem;
use super::source::Mark;

/// What the parser says, what is meant, and how to mend it; the first that matches counts.
const WORDS: [(&str, &str, &str); 12] = [
    (
        "repetition limit exceeded",
        "the aliases (`*name`) of this file repeat too much of it",
        "write the values out, or give long axes as `{ from, to, steps }`",
    ),
    (
        "while scanning a quoted scalar",
        "this quoted text is never closed",
        "close it with the same quote; inside single quotes write an apostrophe twice",
    ),
    ("',' or ']'", "this list is not closed, or lacks a comma", "write it as `[a, b, c]`"),
    ("',' or '}'", "this map is not closed, or lacks a comma", "write it as `{ a: 1, b: 2 }`"),
    (
        "while parsing a flow node",
        "a value is missing here, or a bracket opened before is never closed",
        "close every `[` and `{`",
    ),
    (
        "mapping values are not allowed",
        "a `:` cannot stand here",
        "put a space after the `:` of a key, begin each key on its own line, or put the text in quotes",
    ),
    (
        "could not find expected ':'",
        "a `key: value` was expected here",
        "put a `:` and a space after the key",
    ),
    (
        "did not find expected key",
        "a key was expected here",
        "indent the keys of one map equally, and put texts that begin with a quote, `*` or `&` in quotes as a whole",
    ),
    (
        "did not find expected '-' indicator",
        "a list item was expected here",
        "begin each item with `- `, equally indented",
    ),
    (
        "unknown anchor",
        "this alias (`*name`) refers to no anchor",
        "put a text that begins with `*` in quotes",
    ),
    (
        "while scanning an alias",
        "this alias (`*name`) has no name",
        "put a text that begins with `*` in quotes",
    ),
    ("cannot start any token", "this character cannot begin a value", "put the value in quotes"),
];

/// The problem behind the parser's `error`, found at `mark` of `text`.
pub(super) fn explain(error: &str, text: &str, mark: Mark) -> Problem {
    if let Some(tab) = tab_in_indentation(text, mark) {
        return Problem::new(tab, "a tab stands where YAML wants spaces").help("indent with spaces only");
    }
    if error.contains("control characters") {
        return Problem::new(control_character(text, mark), "the file contains a control character")
            .help("remove it, or write it as `\\u0000` inside double quotes");
    }
    let Some(&(pattern, message, help)) = WORDS.iter().find(|(pattern, ..)| error.contains(pattern)) else {
        let message = error.split(" at line ").next().unwrap_or(error);
        return Problem::new(mark, format!("this is not YAML: {message}"))
            .help("see https://yaml.org/spec/1.2.2/");
    };
    // For what was opened and never closed the parser gives two places; the opening helps more than the end of the file.
    let opening = (error.contains("',' or") || pattern.contains("quoted"))
        .then(|| error.split_once("while ").map(|(_, context)| position(context).unwrap_or((1, 1))))
        .flatten();
    let mark = opening.map_or(mark, |(line, column)| Mark { line, column, ..mark });
    Problem::new(mark, message).help(help)
}

/// The last `line L column C` of an error's text.
pub(super) fn position(error: &str) -> Option<(u32, u32)> {
    let (_, after) = error.rsplit_once(" at line ")?;
    let (line, column) = after.split_once(" column ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// A tab among the blanks that begin the line of `mark` or the line before.
fn tab_in_indentation(text: &str, mark: Mark) -> Option<Mark> {
    let first = (mark.line as usize).saturating_sub(2);
    text.lines().skip(first).take(2).zip(first as u32 + 1..).find_map(|(line, number)| {
        let blank = line.chars().take_while(|c| c.is_whitespace());
        let column = blank.zip(1..).find(|&(c, _)| c == '\t')?.1;
        Some(Mark { line: number, column, ..mark })
    })
}

/// The first character that YAML does not allow; the parser does not say where it is.
fn control_character(text: &str, mark: Mark) -> Mark {
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    let numbered = text.lines().zip(1..);
    let place =
        numbered.filter_map(|(line, number)| Some((number, line.chars().position(forbidden)?))).next();
    place.map_or(mark, |(line, column)| Mark { line, column: column as u32 + 1, ..mark })
}
