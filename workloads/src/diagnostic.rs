//! Diagnostics: faults of settings, for the person who wrote them. A rule stands once, with the technique or type that
//! it protects; scenarios add file, line and column.

use thiserror::Error;

/// A setting that cannot be as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {message}: {remedy}")]
pub struct Diagnostic {
    /// Path of the setting in a scenario, such as `techniques.bpipe`; a bare name where the path depends on the model.
    pub path: &'static str,
    /// Note on the setting; empty where the message says all.
    pub note: String,
    /// The fault.
    pub message: String,
    /// A change that mends it.
    pub remedy: String,
    /// Other settings with a part in it, each with a note.
    pub involved: Vec<(&'static str, String)>,
}

impl Diagnostic {
    /// A fault of the setting at `path`.
    pub fn new(path: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Self { path, note: String::new(), message, remedy, involved: Vec::new() }
    }

    /// A fault told in one sentence, "message: remedy".
    pub fn sentence(path: &'static str, text: impl AsRef<str>) -> Self {
        let (message, remedy) = split(text.as_ref());
        Self::new(path, message, remedy)
    }

    /// Adds a note on the setting.
    #[must_use]
    pub fn noting(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Adds a setting with a part in it.
    #[must_use]
    pub fn with(mut self, path: &'static str, note: impl Into<String>) -> Self {
        self.involved.push((path, note.into()));
        self
    }

    /// Adds settings with a part in it.
    #[must_use]
    pub fn with_all(self, paths: &[&'static str]) -> Self {
        paths.iter().fold(self, |diagnostic, path| diagnostic.with(path, ""))
    }
}

/// Fault and remedy of "message: remedy".
pub fn split(text: &str) -> (&str, &str) {
    let cut = [text.find(": "), text.find("; ")].into_iter().flatten().min();
    cut.map_or((text, "write another value"), |cut| (&text[..cut], &text[cut + 2..]))
}
