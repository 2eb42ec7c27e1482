//! Commands, assignments and quotes.

use super::{Command, Fault, Letter, Place, State, Variable, Word, begin, push};

/// A position in letters: of the text, or of the default of a variable.
pub(super) struct Reader<'a> {
    pub(super) letters: &'a [Letter],
    pub(super) at: usize,
    pub(super) depth: u32,
    pub(super) state: &'a mut State,
}

/// Words before a command, as `then` is.
const KEYWORDS: [&str; 18] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "export",
    "declare", "local", "readonly", "exec", "!",
];
const BRANCHES: [&str; 5] = ["if", "for", "while", "until", "case"];

impl Reader<'_> {
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).map(|letter| letter.char)
    }

    pub(super) fn place(&self) -> Place {
        let last = || self.letters.last().map_or(Place { line: 1, column: 1 }, |letter| letter.place);
        self.letters.get(self.at).map_or_else(last, |letter| letter.place)
    }

    pub(super) fn script(&mut self) -> Result<(), Fault> {
        let mut command = Command::new();
        while let Some(char) = self.peek(0) {
            match char {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' => self.comment(),
                '\n' | ';' | '&' | '|' | '(' | ')' => {
                    self.at += 1;
                    self.end(&mut command);
                }
                '<' | '>' => self.redirection(&mut command)?,
                _ if command.is_empty() && self.assignment()? => {}
                _ => {
                    let before = self.at;
                    let words = self.word()?;
                    let text = words.first().map(Word::text).unwrap_or_default();
                    if command.is_empty() && KEYWORDS.contains(&text.as_str()) {
                        let is_branch = BRANCHES.contains(&text.as_str());
                        let place = self.letters[before].place;
                        self.state.branch = self.state.branch.or(is_branch.then_some(place));
                    } else {
                        command.extend(words);
                    }
                }
            }
        }
        self.end(&mut command);
        Ok(())
    }

    fn end(&mut self, command: &mut Command) {
        if !command.is_empty() {
            self.state.commands.push(std::mem::take(command));
        }
    }

    fn comment(&mut self) {
        while self.peek(0).is_some_and(|char| char != '\n') {
            self.at += 1;
        }
    }

    /// Skips `2>&1`, `> log` and texts up to the delimiter of `<< EOF`.
    fn redirection(&mut self, command: &mut Command) -> Result<(), Fault> {
        let adjacent = self.at > 0 && self.letters[self.at - 1].char.is_ascii_digit();
        let is_number = |word: &Word| word.text().chars().all(|char| char.is_ascii_digit());
        if adjacent && command.last().is_some_and(is_number) {
            command.pop();
        }
        let is_text = self.peek(0) == Some('<') && self.peek(1) == Some('<') && self.peek(2) != Some('<');
        while matches!(self.peek(0), Some('<' | '>' | '&' | ' ' | '\t')) {
            self.at += 1;
        }
        if is_text && self.peek(0) == Some('-') {
            self.at += 1;
        }
        let target = self.word()?;
        if is_text && let Some(delimiter) = target.first().map(Word::text) {
            self.here(&delimiter);
        }
        Ok(())
    }

    /// Cuts out the lines of a text that ends with a line of the delimiter.
    fn here(&mut self, delimiter: &str) {
        self.comment();
        while self.at < self.letters.len() {
            self.at += 1;
            let from = self.at;
            self.comment();
            let line: String = self.letters[from.min(self.at)..self.at].iter().map(|it| it.char).collect();
            if line.trim() == delimiter {
                return;
            }
        }
    }

    /// Follows `NAME=value`, `NAME+=value` and `NAME=( words )`.
    fn assignment(&mut self) -> Result<bool, Fault> {
        let name = self.name();
        let end = self.at + name.chars().count();
        let char = |at: usize| self.letters.get(at).map(|letter| letter.char);
        let (adds, after) = match (char(end), char(end + 1)) {
            (Some('='), _) => (false, end + 1),
            (Some('+'), Some('=')) => (true, end + 2),
            _ => return Ok(false),
        };
        if name.is_empty() {
            return Ok(false);
        }
        let opened = self.place();
        self.at = after;
        let value = if self.peek(0) == Some('(') {
            self.at += 1;
            Variable::Array(self.array(opened)?)
        } else {
            Variable::Text(self.joined()?)
        };
        self.assign(name, value, adds);
        Ok(true)
    }

    fn assign(&mut self, name: String, value: Variable, adds: bool) {
        let variables = &mut self.state.variables;
        if !variables.contains_key(&name) {
            self.state.names.push(name.clone());
        }
        let value = match (variables.remove(&name), value) {
            (Some(Variable::Array(mut words)), Variable::Array(more)) if adds => {
                words.extend(more);
                Variable::Array(words)
            }
            (Some(Variable::Text(mut word)), Variable::Text(more)) if adds => {
                word.letters.extend(more.letters);
                word.unknown = word.unknown.or(more.unknown);
                Variable::Text(word)
            }
            (_, value) => value,
        };
        variables.insert(name, value);
    }

    fn array(&mut self, opened: Place) -> Result<Vec<Word>, Fault> {
        let mut words = Vec::new();
        loop {
            match self.peek(0) {
                None => return Err(Fault::Open(opened, "the array")),
                Some(')') => {
                    self.at += 1;
                    return Ok(words);
                }
                Some('#') => self.comment(),
                Some('\\') if self.peek(1) == Some('\n') => self.at += 2,
                Some(' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | '<' | '>') => self.at += 1,
                Some(_) => words.extend(self.word()?),
            }
        }
    }

    /// Reads a word; variables in it can make several of it, or none.
    fn word(&mut self) -> Result<Vec<Word>, Fault> {
        let mut words = vec![Word { start: Some(self.place()), ..Word::default() }];
        while let Some(char) = self.peek(0) {
            match char {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => self.escaped(&mut words),
                '\'' => self.single(&mut words)?,
                '"' => self.double(&mut words)?,
                '$' | '`' => {
                    for (number, value) in self.expansion()?.into_iter().enumerate() {
                        self.split(value, number > 0, &mut words)?;
                    }
                }
                _ => {
                    push(&mut words, self.letters[self.at]);
                    self.at += 1;
                }
            }
        }
        words.retain(Word::is_there);
        Ok(words)
    }

    /// Reads the value of an assignment, which is one word.
    pub(super) fn joined(&mut self) -> Result<Word, Fault> {
        let start = Some(self.place());
        let words = self.word()?;
        let mut joined = Word { start, begun: true, ..Word::default() };
        for word in words {
            if let (false, Some(next)) = (joined.letters.is_empty(), word.letters.first()) {
                joined.letters.push(Letter { char: ' ', place: next.place });
            }
            joined.letters.extend(word.letters);
            joined.unknown = joined.unknown.or(word.unknown);
        }
        Ok(joined)
    }

    fn escaped(&mut self, words: &mut [Word]) {
        if let Some(letter) = self.letters.get(self.at + 1).filter(|letter| letter.char != '\n') {
            push(words, *letter);
        }
        self.at += 2;
    }

    fn single(&mut self, words: &mut [Word]) -> Result<(), Fault> {
        let opened = self.place();
        begin(words);
        self.at += 1;
        loop {
            match self.peek(0) {
                None => return Err(Fault::Open(opened, "the quote `'`")),
                Some('\'') => break,
                Some(_) => push(words, self.letters[self.at]),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn double(&mut self, words: &mut Vec<Word>) -> Result<(), Fault> {
        let opened = self.place();
        begin(words);
        self.at += 1;
        loop {
            match self.peek(0) {
                None => return Err(Fault::Open(opened, "the quote `\"`")),
                Some('"') => break,
                Some('\\') if matches!(self.peek(1), Some('"' | '\\' | '$' | '`' | '\n')) => {
                    self.escaped(words);
                }
                Some('$' | '`') => {
                    for (number, value) in self.expansion()?.into_iter().enumerate() {
                        if number > 0 {
                            words.push(Word::default());
                        }
                        self.append(value, words)?;
                    }
                }
                Some(_) => {
                    push(words, self.letters[self.at]);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(())
    }
}
