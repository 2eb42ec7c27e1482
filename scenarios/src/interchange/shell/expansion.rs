//! Values of variables in words.

use super::reader::Reader;
use super::{EXPANDED_MAX, Fault, Letter, Unknown, Variable, Word, begin, push};

/// Deepest nesting of `${A:-${B}}`.
const DEPTH_MAX: u32 = 16;

impl Reader<'_> {
    /// The value of a variable: one word, or those of an array.
    pub(super) fn expansion(&mut self) -> Result<Vec<Word>, Fault> {
        let place = self.place();
        let from = self.at;
        let written = |to: usize, letters: &[Letter]| -> String {
            letters[from..to.min(letters.len())].iter().map(|letter| letter.char).take(40).collect()
        };
        let unknown = |to: usize, letters: &[Letter]| {
            let unknown = Some(Unknown { written: written(to, letters), place });
            vec![Word { start: Some(place), unknown, ..Word::default() }]
        };
        match (self.peek(0), self.peek(1)) {
            (Some('`'), _) => {
                self.skip_to('`', '`', 1);
                Ok(unknown(self.at, self.letters))
            }
            (_, Some('(')) => {
                self.skip_to('(', ')', 1);
                Ok(unknown(self.at, self.letters))
            }
            (_, Some('{')) => {
                self.skip_to('{', '}', 1);
                let end = self.at.saturating_sub(1).max(from + 2).min(self.letters.len());
                let inner = &self.letters[(from + 2).min(end)..end];
                let found = self.braced(inner)?;
                Ok(found.unwrap_or_else(|| unknown(self.at, self.letters)))
            }
            (_, Some(char)) if char.is_ascii_alphabetic() || char == '_' => {
                self.at += 1;
                let name = self.name();
                self.at += name.chars().count();
                let value = self.state.variables.get(&name).map(Variable::as_text);
                Ok(value.map_or_else(|| unknown(self.at, self.letters), |word| vec![word]))
            }
            (_, Some('0'..='9' | '@' | '*' | '#' | '?' | '$' | '!' | '-')) => {
                self.at += 2;
                Ok(unknown(self.at, self.letters))
            }
            _ => {
                self.at += 1;
                Ok(vec![Word { letters: vec![Letter { char: '$', place }], ..Word::default() }])
            }
        }
    }

    /// The value of `${...}`. `None`: the text does not have it.
    fn braced(&mut self, inner: &[Letter]) -> Result<Option<Vec<Word>>, Fault> {
        let name = Reader { letters: inner, at: 0, depth: self.depth, state: self.state }.name();
        let length = name.chars().count();
        let rest: String = inner[length..].iter().map(|letter| letter.char).collect();
        let value = self.state.variables.get(&name);
        if rest.is_empty() {
            return Ok(value.map(|value| vec![value.as_text()]));
        }
        if matches!(rest.as_str(), "[@]" | "[*]") {
            return Ok(value.map(|value| match value {
                Variable::Array(words) => words.clone(),
                Variable::Text(word) => vec![word.clone()],
            }));
        }
        let default = [":-", ":=", "-", "="].into_iter().find(|operator| rest.starts_with(operator));
        match (value, default) {
            (_, None) => Ok(None),
            (Some(value), Some(_)) => Ok(Some(vec![value.as_text()])),
            (None, Some(_)) if self.depth >= DEPTH_MAX => Ok(None),
            (None, Some(operator)) => {
                let letters = &inner[length + operator.len()..];
                let mut reader = Reader { letters, at: 0, depth: self.depth + 1, state: self.state };
                Ok(Some(vec![reader.joined()?]))
            }
        }
    }

    /// Goes behind the end of what opens `ahead` letters on; to the end of the text without one.
    fn skip_to(&mut self, open: char, close: char, ahead: usize) {
        let (mut depth, first) = (0_u32, self.at);
        self.at += usize::from(open != close) * ahead;
        while let Some(char) = self.peek(0) {
            self.at += 1;
            if char == close && !(open == close && self.at == first + 1) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return;
                }
            } else if char == open {
                depth += 1;
            }
        }
    }

    /// The name that begins here; empty if none does.
    pub(super) fn name(&self) -> String {
        let chars = self.letters[self.at.min(self.letters.len())..].iter().map(|letter| letter.char);
        let name: String = chars.take_while(|char| char.is_ascii_alphanumeric() || *char == '_').collect();
        if name.starts_with(|char: char| char.is_ascii_digit()) { String::new() } else { name }
    }

    /// Adds a value to the last word.
    pub(super) fn append(&mut self, value: Word, words: &mut [Word]) -> Result<(), Fault> {
        self.state.expanded += value.letters.len() + 1;
        if self.state.expanded > EXPANDED_MAX {
            return Err(Fault::TooLong(self.place()));
        }
        begin(words);
        if let Some(last) = words.last_mut() {
            last.start = last.start.or(value.start);
            last.letters.extend(value.letters);
            last.unknown = last.unknown.take().or(value.unknown);
        }
        Ok(())
    }

    /// Adds a value outside quotes, where its spaces separate words.
    pub(super) fn split(&mut self, value: Word, anew: bool, words: &mut Vec<Word>) -> Result<(), Fault> {
        self.state.expanded += value.letters.len() + 1;
        if self.state.expanded > EXPANDED_MAX {
            return Err(Fault::TooLong(self.place()));
        }
        if anew {
            words.push(Word::default());
        }
        for letter in value.letters {
            if letter.char.is_whitespace() {
                words.push(Word::default());
            } else {
                push(words, letter);
            }
        }
        if let Some(last) = words.last_mut() {
            last.start = last.start.or(value.start);
            last.unknown = last.unknown.take().or(value.unknown);
        }
        Ok(())
    }
}
