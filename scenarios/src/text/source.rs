//! The texts an experiment is made of, and positions in them.

use std::fmt;

/// Position of a word: source, line and column, the latter two counted from 1 in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub(crate) source: SourceId,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// Index of a text in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceId(u32);

/// One text: a file, a library scenario or a `--set` argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// As the user knows it: a path, `library:NAME` or `--set`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// All texts of an experiment, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    sources: Vec<Source>,
}

impl Sources {
    /// The texts, in the order in which they were read; the file asked for comes first.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }

    /// `name:line:column`, as editors and terminals understand it.
    pub fn locate(&self, mark: Mark) -> String {
        format!("{}:{}:{}", self.get(mark.source).name, mark.line, mark.column)
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = SourceId(u32::try_from(self.sources.len()).expect("fewer than 2^32 sources"));
        self.sources.push(Source { name: name.into(), text: text.into() });
        id
    }

    pub(crate) fn get(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize]
    }

    /// The line `mark` is on, without its line end; empty past the end of the text.
    pub(crate) fn line(&self, mark: Mark) -> &str {
        self.get(mark.source).text.lines().nth(mark.line as usize - 1).unwrap_or("")
    }
}

impl Mark {
    /// For values that stand in no text; never shown.
    pub(crate) fn nowhere() -> Self {
        SourceId(u32::MAX).start()
    }
}

impl SourceId {
    pub(crate) fn start(self) -> Mark {
        self.at(1, 1)
    }

    pub(crate) fn at(self, line: u32, column: u32) -> Mark {
        Mark { source: self, line, column }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
