//! Results of a run, as the texts that the command line writes.

use pyo3::prelude::*;
use reports::finding::fastest;
use reports::summary::Summary;

use super::failure::written;

/// Results of an experiment.
#[pyclass(frozen, module = "foretrain._native")]
pub(super) struct Outcome {
    pub(super) summary: Summary,
    /// The run that is shown, as a scenario.
    pub(super) scenario: String,
}

#[pymethods]
impl Outcome {
    /// The answer.
    #[getter]
    fn finding(&self) -> &str {
        &self.summary.finding
    }

    /// The run that is shown, as a scenario that can be run.
    #[getter]
    fn scenario(&self) -> &str {
        &self.scenario
    }

    /// Index of the best run: of a search the first, otherwise the fastest.
    #[getter]
    fn best(&self) -> Option<usize> {
        let Summary { search, variants, .. } = &self.summary;
        if search.is_some() { (!variants.is_empty()).then_some(0) } else { fastest(variants) }
    }

    /// Everything, as JSON.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        written(py, |out| reports::json::write(out, &self.summary))
    }

    /// A row for every run, as CSV.
    fn csv(&self, py: Python<'_>) -> PyResult<String> {
        written(py, |out| reports::csv::write(out, &self.summary))
    }

    /// The report, as HTML.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        written(py, |out| reports::html::write(out, &self.summary))
    }
}
