//! Why something could not be done, as exceptions.

use std::fmt::Display;
use std::io;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use scenarios::Failure;
use scenarios::run::Refusal;

/// `foretrain.ScenarioError`, with all problems of a scenario.
pub(super) fn scenario(py: Python<'_>, failure: &Failure) -> PyErr {
    let problems = serde_json::json!(failure.located()).to_string();
    raised(py, "ScenarioError", (failure.render(false), problems))
}

/// `foretrain.Refused`, or an exception that asks to report a bug.
pub(super) fn refusal(py: Python<'_>, refusal: &Refusal) -> PyErr {
    match refusal {
        Refusal::Broken { .. } => bug(refusal),
        _ => raised(py, "Refused", (refusal.to_string(),)),
    }
}

/// A mistake in foretrain.
pub(super) fn bug(reason: impl Display) -> PyErr {
    let version = scenarios::VERSION;
    PyRuntimeError::new_err(format!("a bug in foretrain {version}: {reason}; please report it"))
}

/// Text of a writer, which writes without the interpreter lock.
///
/// # Errors
/// A page that cannot be drawn, which is a bug.
pub(super) fn written(
    py: Python<'_>,
    write: impl FnOnce(&mut Vec<u8>) -> io::Result<()> + Send,
) -> PyResult<String> {
    let bytes = py.detach(move || {
        let mut bytes = Vec::new();
        write(&mut bytes).map(|()| bytes)
    });
    String::from_utf8(bytes.map_err(bug)?).map_err(bug)
}

/// An exception of the Python half.
fn raised<'py>(py: Python<'py>, class: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let error = py
        .import("foretrain._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(arguments));
    error.map_or_else(|error| error, PyErr::from_value)
}
