//! Names by which a source of models joins operators and tensors, until its draft has given the tensors ids.

use std::fmt;

use crate::graph::operator::Label;

/// Most words of a name.
const WORDS: usize = 6;

/// A name of an operator or a tensor: words of a source, some of them numbered (`convolution 3 input gradient`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name([Word; WORDS]);

/// Words with a number or without; no words where a name has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Word {
    text: &'static str,
    number: Option<u64>,
}

impl Name {
    /// A name in the words of a source.
    pub(crate) const fn of(text: &'static str) -> Self {
        let mut words = [Word { text: "", number: None }; WORDS];
        words[0].text = text;
        Self(words)
    }

    /// The same with a number at its end.
    pub(crate) fn numbered(mut self, number: impl Into<u64>) -> Self {
        let last = self.words().count() - 1;
        self.0[last].number = Some(number.into());
        self
    }

    fn words(&self) -> impl Iterator<Item = &Word> {
        self.0.iter().take_while(|word| !word.text.is_empty())
    }

    /// The name in words.
    pub(crate) fn label(self) -> Label {
        match self.0 {
            [Word { text, number: None }, Word { text: "", .. }, ..] => Label::Borrowed(text),
            _ => Label::Owned(self.words().map(Word::to_string).collect::<Vec<_>>().join(" ")),
        }
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Self::of(text)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{} {number}", self.text),
            None => f.write_str(self.text),
        }
    }
}

/// A name put together from two.
pub(crate) fn name(stem: impl Into<Name>, ending: impl Into<Name>) -> Name {
    let (mut name, ending) = (stem.into(), ending.into());
    let (begun, more) = (name.words().count(), ending.words().count());
    // More words than fit are a mistake of the source.
    name.0[begun..begun + more].copy_from_slice(&ending.0[..more]);
    name
}
