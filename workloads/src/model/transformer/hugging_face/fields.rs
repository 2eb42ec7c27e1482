//! The fields of a `config.json`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::Transformer;

/// The fields of a file, and what is wrong with them.
pub(super) struct Fields {
    fields: Map<String, Value>,
    /// Names that a reader has asked for.
    read: RefCell<BTreeSet<String>>,
    problems: Vec<String>,
}

impl Fields {
    pub(super) fn new(fields: Map<String, Value>) -> Self {
        Self { fields, read: RefCell::default(), problems: Vec::new() }
    }

    /// What is said under names that nobody has asked for.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&str, &Value)> {
        let read = self.read.borrow();
        let unread = |(name, _): &(&String, &Value)| !read.contains(*name);
        let unread: Vec<_> = self.fields.iter().filter(unread).collect();
        unread.into_iter().map(|(name, value)| (&**name, value))
    }

    /// Notes names that mean nothing beside others.
    pub(super) fn passed_over(&self, names: &[&str]) {
        self.read.borrow_mut().extend(names.iter().map(|name| (*name).to_owned()));
    }

    /// Whether nothing has been wrong so far.
    pub(super) fn is_right(&self) -> bool {
        self.problems.is_empty()
    }

    /// All that was wrong.
    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    /// What encoders, GPT-NeoX and the Llama family share.
    pub(super) fn decoder(&mut self) -> Transformer {
        let model = Transformer::gpt(
            self.number("num_hidden_layers"),
            self.number("hidden_size"),
            self.number("num_attention_heads"),
            self.number("vocab_size"),
            self.number_or("max_position_embeddings", 2_048),
        );
        if self.value("head_dim").is_some() { model } else { model.checked(self, "num_attention_heads") }
    }

    pub(super) fn number(&mut self, name: &str) -> u32 {
        self.optional(name).unwrap_or_else(|| {
            if self.value(name).is_none() {
                self.problem(format!("`{name}` is missing"));
            }
            0
        })
    }

    pub(super) fn number_or(&mut self, name: &str, default: u32) -> u32 {
        self.optional(name).unwrap_or(default)
    }

    /// A whole number; none where there is none or null.
    pub(super) fn optional(&mut self, name: &str) -> Option<u32> {
        let value = self.value(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        if number.is_none() {
            let problem = format!("`{name}` must be a whole number below 2^32, not {}", abridged(value));
            self.problem(problem);
        }
        number
    }

    pub(super) fn flag_or(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.value(name) else { return default };
        let flag = value.as_bool();
        if flag.is_none() {
            let problem = format!("`{name}` must be true or false, not {}", abridged(value));
            self.problem(problem);
        }
        flag.unwrap_or(default)
    }

    /// The first of these whole numbers that is there.
    pub(super) fn first_number(&mut self, names: &[&str]) -> Option<u32> {
        let numbers: Vec<Option<u32>> = names.iter().map(|name| self.optional(name)).collect();
        numbers.into_iter().flatten().next()
    }

    /// A number with or without a fraction; 0 where it is null.
    pub(super) fn number_of_any_kind(&mut self, name: &str, default: f64) -> f64 {
        if self.fields.get(name).is_some_and(Value::is_null) {
            return 0.0;
        }
        let Some(value) = self.value(name) else { return default };
        let number = value.as_f64();
        if number.is_none() {
            let problem = format!("`{name}` must be a number or null, not {}", abridged(value));
            self.problem(problem);
        }
        number.unwrap_or_default()
    }

    /// Takes numbers for what the file leaves out.
    pub(super) fn defaults(&mut self, defaults: &[(&str, u32)]) {
        for &(name, default) in defaults {
            self.fields.entry(name).or_insert_with(|| Value::from(default));
        }
    }

    /// A window's size, and every how many layers one has none: `by_default` unless `layer_types`
    /// lists it.
    pub(super) fn windows(&mut self, name: &str, by_default: u32, layers: u32) -> (Option<u32>, Option<u32>) {
        let is_full = |entry: &Value| entry.as_str() == Some("full_attention");
        let every = self.every_nth("layer_types", by_default, layers, is_full);
        let Some(window) = self.optional(name) else { return (None, None) };
        match every {
            0 => (Some(window), None),
            1 => (None, None),
            every => (Some(window), Some(every)),
        }
    }

    /// Every how many of all layers one differs, the last of them, by a list with an entry for
    /// each; 0: none does.
    pub(super) fn every_nth(
        &mut self,
        name: &str,
        by_default: u32,
        layers: u32,
        differs: impl Fn(&Value) -> bool,
    ) -> u32 {
        let Some(list) = self.value(name) else { return by_default };
        let Some(list) = list.as_array().filter(|list| !list.is_empty()) else { return by_default };
        let listed: Vec<bool> = list.iter().map(differs).collect();
        if listed.len() != layers as usize {
            self.problem(format!(
                "`{name}` must have an entry for each of {layers} layers, not {}",
                listed.len()
            ));
            return by_default;
        }
        let places: Vec<u32> =
            (1..).zip(&listed).filter(|(_, differs)| **differs).map(|(place, _)| place).collect();
        self.every_place(name, &places, layers)
    }

    /// Every how many layers one is in a list of their numbers, counted from 0.
    pub(super) fn every_listed(&mut self, name: &str, by_default: u32, layers: u32) -> u32 {
        let Some(places) = self.numbers(name) else { return by_default };
        let places: Vec<u32> = places.iter().map(|place| place.saturating_add(1)).collect();
        self.every_place(name, &places, layers)
    }

    /// How many layers a list of the first ones has.
    pub(super) fn first_layers(&mut self, name: &str) -> u32 {
        let mut listed = self.numbers(name).unwrap_or_default();
        listed.sort_unstable();
        if !(0..).zip(&listed).all(|(place, listed)| place == *listed) {
            self.problem(format!("`{name}` must list the first layers, `[0, 1]`, not {listed:?}"));
        }
        listed.len() as u32
    }

    /// Every how many layers one is at `places`, counted from 1; 0: none is.
    fn every_place(&mut self, name: &str, places: &[u32], layers: u32) -> u32 {
        let Some(&every) = places.first() else { return 0 };
        let is_regular = every > 0 && places.iter().copied().eq((every..=layers).step_by(every as usize));
        if !is_regular {
            self.problem(format!("`{name}` must differ at every n-th layer: others are not modelled"));
        }
        every
    }

    /// A list of whole numbers.
    fn numbers(&mut self, name: &str) -> Option<Vec<u32>> {
        let value = self.value(name)?;
        let number = |entry: &Value| entry.as_u64().and_then(|number| u32::try_from(number).ok());
        let numbers: Option<Vec<u32>> =
            value.as_array().and_then(|entries| entries.iter().map(number).collect());
        if numbers.is_none() {
            let problem = format!("`{name}` must list whole numbers, not {}", abridged(value));
            self.problem(problem);
        }
        numbers
    }

    /// Whether any of these probabilities is above 0.
    pub(super) fn any_dropout(&mut self, names: &[&str], default: f64) -> bool {
        let mut any = false;
        for name in names {
            let value = self.value(name).cloned().unwrap_or_else(|| Value::from(default));
            match value.as_f64().filter(|share| (0.0..1.0).contains(share)) {
                Some(share) => any |= share > 0.0,
                None => self.problem(format!("`{name}` must be from 0 to below 1, not {}", abridged(&value))),
            }
        }
        any
    }

    /// Checks a word that can be no other.
    pub(super) fn word(&mut self, name: &str, expected: &str) {
        if let Some(value) = self.value(name).filter(|value| value.as_str() != Some(expected)) {
            let problem = format!("`{name}` must be \"{expected}\", not {}", abridged(value));
            self.problem(problem);
        }
    }

    /// Whether a name of `architectures` ends so.
    pub(super) fn architecture_has(&self, end: &str) -> bool {
        let names = self.value("architectures").and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).any(|name| name.ends_with(end))
    }

    /// Classes: as many as have names, two where none have.
    pub(super) fn labels(&mut self) -> u32 {
        let named = self.value("id2label").and_then(Value::as_object).map(|names| names.len() as u32);
        named.unwrap_or_else(|| self.number_or("num_labels", 2))
    }

    /// What is said under a name, unless it is null.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.read.borrow_mut().insert(name.to_owned());
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn problem(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// A value as text, cut where it is long.
fn abridged(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
