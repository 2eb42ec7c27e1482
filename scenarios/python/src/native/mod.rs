//! The module `foretrain._native`.

mod experiment;
mod failure;
mod outcome;
mod watch;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Native half of `foretrain`: experiments, results, and what comes with the package.
#[pymodule]
mod _native {
    use scenarios::best_plan::BestPlan;
    use scenarios::validation::{self, Options};

    use super::*;

    #[pymodule_export]
    use super::experiment::Experiment;
    #[pymodule_export]
    use super::outcome::Outcome;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name is Python's")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Names of the scenarios of the library.
    #[pyfunction]
    fn library() -> Vec<&'static str> {
        scenarios::library::names().collect()
    }

    /// The JSON Schema of scenarios.
    #[pyfunction]
    fn schema() -> String {
        scenarios::json_schema()
    }

    /// A scenario that searches for the best plan, as JSON.
    #[pyfunction]
    fn best_plan(
        model: &str,
        machine: &str,
        fabric: Option<&str>,
        global_batch: Option<u64>,
        sequence: Option<u64>,
    ) -> PyResult<String> {
        let plan = BestPlan { model, machine, fabric, global_batch, sequence, positions: None };
        let text = plan.scenario().map_err(PyValueError::new_err)?;
        let scenario: serde_json::Value = serde_yaml::from_str(&text).map_err(failure::bug)?;
        Ok(scenario.to_string())
    }

    /// How far predictions are from measurements, as JSON.
    #[pyfunction]
    fn validate(py: Python<'_>, sets: Vec<String>, jobs: Option<usize>) -> PyResult<String> {
        let version = scenarios::VERSION.to_owned();
        let reproduce = ["foretrain", "validate"].into_iter().chain(sets.iter().map(String::as_str));
        let options = Options { jobs, version, reproduce: reproduce.collect::<Vec<_>>().join(" ") };
        let judged = watch::interruptible(py, move |watch| validation::validate(&sets, &options, watch))?;
        match judged.map_err(|wrong| PyValueError::new_err(wrong.join("; ")))? {
            Some(found) => failure::written(py, |out| reports::json::write(out, &found)),
            None => Err(failure::bug("validation stopped by itself")),
        }
    }
}
