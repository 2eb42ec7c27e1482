//! What is wrong with an experiment, shown on the lines it is about.

use std::fmt::{self, Write as _};

use super::source::{Mark, SourceId, Sources};

/// One mistake: what is wrong, where, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in one sentence without full stop.
    pub message: String,
    /// The places it is about, the most important first; at least one.
    pub notes: Vec<Note>,
    /// How to mend it.
    pub help: Option<String>,
    /// True where nothing is wrong but that a system lacks what is asked for.
    pub unsupported: bool,
}

/// A place in a source and what is to be seen there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place.
    pub mark: Mark,
    /// What is to be seen there; may be empty.
    pub label: String,
}

/// All problems of an experiment, with the texts they quote. At least one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The texts.
    pub sources: Sources,
    /// The problems, sorted by position, no two alike.
    pub problems: Vec<Problem>,
}

impl Problem {
    pub(crate) fn new(mark: Mark, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            notes: vec![Note { mark, label: String::new() }],
            help: None,
            unsupported: false,
        }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        if let Some(note) = self.notes.first_mut() {
            note.label = label.into();
        }
        self
    }

    pub(crate) fn note(mut self, mark: Mark, label: impl Into<String>) -> Self {
        self.notes.push(Note { mark, label: label.into() });
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The problem of some variants, which it then names.
    pub(crate) fn of_variants(mut self, names: &[&str]) -> Self {
        const NAMED: usize = 3;
        let more = names.len().saturating_sub(NAMED);
        let mut named: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
        named.extend((more > 0).then(|| format!("{more} more")));
        // A problem of what the variant says names it already.
        if !named.first().is_some_and(|name| self.message.contains(name)) {
            let word = if names.len() == 1 { "variant" } else { "variants" };
            self.message += &format!(" ({word} {})", named.join(", "));
        }
        self
    }

    /// The problem with its lines, as the compiler would show it. `color` adds ANSI colours; they carry no meaning.
    pub fn render(&self, sources: &Sources, color: bool) -> String {
        let paint = Paint(color);
        let mut out = format!("{}{}\n", paint.error("error"), paint.strong(&format!(": {}", self.message)));
        let width = self.notes.iter().map(|note| note.mark.line.to_string().len()).max().unwrap_or(1) + 1;
        if let Some(first) = self.notes.first() {
            self.render_source(&mut out, sources, first.mark.source, width, &paint);
        }
        if let Some(help) = &self.help {
            let mut lines = help.lines();
            let bar = paint.frame("=");
            let _ =
                writeln!(out, "{:width$} {bar} {}: {}", "", paint.strong("help"), lines.next().unwrap_or(""));
            for line in lines {
                let _ = writeln!(out, "{:width$}         {line}", "");
            }
        }
        out
    }

    fn render_source(
        &self,
        out: &mut String,
        sources: &Sources,
        main: SourceId,
        width: usize,
        paint: &Paint,
    ) {
        let mut notes: Vec<(usize, &Note)> = self.notes.iter().enumerate().collect();
        notes.sort_by_key(|&(index, note)| (note.mark.source != main, note.mark, index));
        notes.dedup_by_key(|(_, note)| (note.mark, note.label.clone()));
        let mut previous: Option<Mark> = None;
        let mut shown_from = 0;
        for (index, note) in notes {
            let same_source = previous.is_some_and(|mark| mark.source == note.mark.source);
            if !same_source {
                let at = if note.mark.source == main { self.notes[0].mark } else { note.mark };
                let arrow = paint.frame(if previous.is_none() { "-->" } else { ":::" });
                let _ = writeln!(out, "{:width$}{arrow} {}", "", sources.locate(at));
                if sources.get(at.source).text.is_empty() {
                    return;
                }
                let _ = writeln!(out, "{:width$} {}", "", paint.frame("|"));
            }
            let gap = previous.filter(|_| same_source).map_or(0, |mark| note.mark.line - mark.line);
            if gap > 1 {
                let _ = writeln!(out, "{}", paint.frame(&format!("{:>width$}", "…")));
            }
            let excerpt = Excerpt::of(sources.line(note.mark), note.mark.column as usize - 1);
            // A place farther along a long line needs the line once more, cut around it.
            let new_line = !same_source || gap > 0 || excerpt.from != shown_from;
            shown_from = excerpt.from;
            render_note(out, note, &excerpt, (index == 0, new_line), width, paint);
            previous = Some(note.mark);
        }
        let _ = writeln!(out, "{:width$} {}", "", paint.frame("|"));
    }
}

/// The line (unless the note before shows it) and the underlined place with its label.
fn render_note(
    out: &mut String,
    note: &Note,
    excerpt: &Excerpt,
    (primary, new_line): (bool, bool),
    width: usize,
    paint: &Paint,
) {
    let bar = paint.frame("|");
    if new_line {
        let number = paint.frame(&format!("{:>width$}", note.mark.line));
        let _ = writeln!(out, "{}", format!("{number} {bar} {}", excerpt.text).trim_end());
    }
    let carets = if primary { "^" } else { "-" }.repeat(excerpt.length);
    let label = if note.label.is_empty() { String::new() } else { format!(" {}", note.label) };
    let marked = if primary {
        paint.error(&format!("{carets}{label}"))
    } else {
        paint.frame(&format!("{carets}{label}"))
    };
    let _ = writeln!(out, "{:width$} {bar} {:indent$}{marked}", "", "", indent = excerpt.start);
}

/// The part of a line around a place that fits a terminal: long lines are cut, control characters blanked.
struct Excerpt {
    /// Characters of the line that are left out before.
    from: usize,
    text: String,
    start: usize,
    length: usize,
}

impl Excerpt {
    fn of(line: &str, column: usize) -> Self {
        const BEFORE: usize = 60;
        const LONGEST: usize = 100;
        let is_long = line.chars().count() > LONGEST;
        let cut = if is_long && column > BEFORE { column - BEFORE / 2 } else { 0 };
        let mut chars = line.chars().skip(cut);
        let visible = |c: char| if c.is_control() || is_invisible(c) { ' ' } else { c };
        let mut text: String = chars.by_ref().take(LONGEST).map(visible).collect();
        if chars.next().is_some() {
            text.push('…');
        }
        let start = column - cut + usize::from(cut > 0);
        if cut > 0 {
            text.insert(0, '…');
        }
        let length = token_length(&text.chars().skip(start).collect::<Vec<_>>());
        Self { from: cut, text, start, length }
    }
}

/// Characters that reorder or hide text in a terminal.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Length in characters of the key or scalar at the start of `rest`; at least 1.
fn token_length(rest: &[char]) -> usize {
    let length = match rest.first() {
        Some(quote @ ('"' | '\'')) => {
            rest[1..].iter().position(|c| c == quote).map_or(rest.len(), |end| end + 2)
        }
        Some('{' | '[' | '|' | '>') | None => 1,
        // Words of a shell: arguments and variables.
        Some('$' | '-') if rest[0] == '$' || rest.get(1) == Some(&'-') => {
            rest.iter().position(|c| c.is_whitespace()).unwrap_or(rest.len())
        }
        Some('-') if rest.get(1).is_none_or(|c| c.is_whitespace()) => 1,
        Some(_) => {
            let ends = |i: usize| match rest[i] {
                ',' | ']' | '}' => true,
                ':' | '=' => rest.get(i + 1).is_none_or(|c| c.is_whitespace()),
                '#' => rest[i - 1].is_whitespace(),
                _ => false,
            };
            let end = (1..rest.len()).find(|&i| ends(i)).unwrap_or(rest.len());
            rest[..end].iter().rposition(|c| !c.is_whitespace()).map_or(1, |last| last + 1)
        }
    };
    length.max(1)
}

impl Failure {
    /// Sorts and removes repetitions; `problems` must not be empty.
    pub(crate) fn new(sources: Sources, mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| {
            let first = |problem: &Problem| problem.notes.first().map(|note| note.mark);
            (first(a), &a.message).cmp(&(first(b), &b.message))
        });
        problems.dedup();
        Self { sources, problems }
    }

    /// All problems one after the other, with an empty line between them and a count at the end.
    pub fn render(&self, color: bool) -> String {
        const SHOWN: usize = 100;
        let mut out = String::new();
        for problem in self.problems.iter().take(SHOWN) {
            out += &problem.render(&self.sources, color);
            out.push('\n');
        }
        let hidden = self.problems.len().saturating_sub(SHOWN);
        out += &match (self.problems.len(), hidden) {
            (1, _) => "1 problem\n".to_owned(),
            (all, 0) => format!("{all} problems\n"),
            (all, hidden) => format!("{all} problems, the last {hidden} not shown\n"),
        };
        out
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Failure {}

/// ANSI colours, or none.
struct Paint(bool);

impl Paint {
    fn error(&self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn strong(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn frame(&self, text: &str) -> String {
        self.with("34", text)
    }

    fn with(&self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_of_one_file_are_shown_in_their_order() {
        let mut sources = Sources::default();
        let file = sources.add("run.yaml", "stages: 8\nname: x\npipeline: 4 # a comment\n");
        let problem = Problem::new(file.at(3, 11), "`pipeline` must equal `stages`")
            .label("4 here")
            .note(file.at(1, 9), "8 stages here")
            .help("remove `pipeline`, it defaults to `stages`");
        let expected = "\
error: `pipeline` must equal `stages`
  --> run.yaml:3:11
   |
 1 | stages: 8
   |         - 8 stages here
 …
 3 | pipeline: 4 # a comment
   |           ^ 4 here
   |
   = help: remove `pipeline`, it defaults to `stages`
";
        assert_eq!(problem.render(&sources, false), expected);
        assert_eq!(problem.render(&sources, true).matches('\u{1b}').count() % 2, 0);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let mut sources = Sources::default();
        let file = sources.add("long.yaml", format!("{}wrong{}", "x".repeat(500), ",".repeat(500)));
        let rendered = Problem::new(file.at(1, 501), "wrong").render(&sources, false);
        assert!(rendered.lines().all(|line| line.chars().count() < 120), "{rendered}");
        assert!(rendered.contains("wrong,"), "{rendered}");
    }

    #[test]
    fn places_of_a_long_line_that_are_far_apart_are_shown_apart() {
        let mut sources = Sources::default();
        let file = sources.add("long.yaml", format!("first: 1, {}second: 2", " ".repeat(100)));
        let problem = Problem::new(file.at(1, 111), "wrong").note(file.at(1, 1), "and this");
        let rendered = problem.render(&sources, false);
        let lines: Vec<&str> = rendered.lines().collect();
        let under = |line: usize| {
            let (from, _) = lines[line + 1].char_indices().find(|&(_, c)| "^-".contains(c)).unwrap();
            lines[line].chars().skip(from).collect::<String>()
        };
        assert!(under(3).starts_with("first: 1") && under(5).starts_with("second: 2"), "{rendered}");
    }
}
