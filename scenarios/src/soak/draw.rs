//! Random choices that a seed and a number repeat.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};

/// A stream of random choices.
#[derive(Clone, Debug)]
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream of case `number` under `seed`; no case depends on another.
    pub(super) fn of(seed: u64, number: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(number);
        Self(generator)
    }

    /// One of several, all equally likely.
    pub(super) fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    /// A position in a list of `length`, which is not empty.
    pub(super) fn index(&mut self, length: usize) -> usize {
        self.0.random_range(0..length)
    }

    /// A whole number from `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.random_range(least..=most)
    }

    /// True in `percent` of all cases.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }
}

/// Settings of a scenario under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(Map<String, Value>);

impl Settings {
    /// Writes a setting at a path of keys.
    pub(super) fn set(&mut self, path: &str, value: impl Into<Value>) {
        let mut keys: Vec<&str> = path.split('.').collect();
        let last = keys.pop().unwrap_or_default();
        let map = keys.into_iter().fold(&mut self.0, |map, key| {
            let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            entry.as_object_mut().expect("it has just been made one")
        });
        map.insert(last.to_owned(), value.into());
    }

    /// The setting at a path of keys, if it is written.
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let mut keys = rest.into_iter().flat_map(|rest| rest.split('.'));
        keys.try_fold(self.0.get(first)?, |value, key| value.get(key))
    }

    /// Writes some of the settings of the map at `path`, each with a chance in per cent. Tells
    /// whether any was written.
    ///
    /// `choices` names them, each with the list of values that it may have.
    pub(super) fn some(&mut self, draw: &mut Draw, percent: u32, path: &str, choices: &Value) -> bool {
        let mut written = false;
        for (key, values) in choices.as_object().expect("settings have names") {
            if draw.chance(percent) {
                self.set(&format!("{path}.{key}"), draw.one(values.as_array().expect("values are a list")));
                written = true;
            }
        }
        written
    }

    /// The settings as YAML.
    pub(super) fn yaml(&self) -> String {
        serde_yaml::to_string(&self.0).expect("JSON values can be printed as YAML")
    }
}
