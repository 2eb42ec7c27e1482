//! Experiments: loaded, sized up, shown, exported and run.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use scenarios::experiment::Search;
use scenarios::interchange::{self, Target};
use scenarios::run::{self, Options};
use scenarios::{Opened, load, refuse_special};

use super::failure;
use super::outcome::Outcome;
use super::watch::interruptible;

/// A scenario that is right, with its variants and points.
#[pyclass(frozen, module = "foretrain._native")]
pub(super) struct Experiment(Arc<scenarios::Experiment>);

#[pymethods]
impl Experiment {
    /// Reads the scenario at `path`, one of `texts` (path and text) or a file, with settings
    /// `path=value` over it.
    #[new]
    fn new(
        py: Python<'_>,
        path: String,
        texts: Vec<(String, String)>,
        settings: Vec<String>,
    ) -> PyResult<Self> {
        let named = path.clone();
        let open = move |path: &str| -> io::Result<Box<dyn Read>> {
            if let Some((_, text)) = texts.iter().find(|(known, _)| known == path) {
                return Ok(Box::new(Cursor::new(text.clone().into_bytes())));
            }
            // Only the file that the caller names may be a pipe.
            if path != named {
                let kind = fs::metadata(path)?.file_type();
                refuse_special(kind.is_file() || kind.is_dir())?;
            }
            Ok(Box::new(File::open(path)?))
        };
        let loaded = interruptible(py, move |_| load(&Opened(open), &path, &settings))?;
        loaded.map(|experiment| Self(Arc::new(experiment))).map_err(|wrong| failure::scenario(py, &wrong))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// Its variants, in the order of the file.
    #[getter]
    fn variants(&self) -> Vec<&str> {
        self.0.variants().collect()
    }

    /// Size of the experiment, as JSON; nothing is simulated.
    fn plan(&self, py: Python<'_>) -> PyResult<String> {
        let experiment = Arc::clone(&self.0);
        let options = Options { seed: 1, jobs: None, variants: Vec::new(), reproduce: String::new() };
        let plan = interruptible(py, move |watch| run::plan(&experiment, &options, watch))?;
        let plan = plan.map_err(|refusal| failure::refusal(py, &refusal))?;
        serde_json::to_string(&plan).map_err(failure::bug)
    }

    /// The first run of a variant as YAML, every value with its origin.
    fn show(&self, py: Python<'_>, variant: Option<&str>) -> PyResult<String> {
        let first = run::first(&self.0, variant).map_err(|refusal| failure::refusal(py, &refusal))?;
        Ok(self.0.titled(&self.0.explain(&first.resolved)))
    }

    /// The first run of a variant as a training framework is told it.
    fn export(&self, py: Python<'_>, to: &str, variant: Option<&str>) -> PyResult<String> {
        let target = match to {
            "megatron" => Target::MEGATRON,
            "deepspeed" => Target::DEEPSPEED,
            "torchtitan" => Target::TORCHTITAN,
            "megatron-bridge" => Target::MEGATRON_BRIDGE,
            _ => {
                let known = "`megatron`, `deepspeed`, `torchtitan` or `megatron-bridge`";
                return Err(PyValueError::new_err(format!("nothing is exported to `{to}`: write {known}")));
            }
        };
        let first = run::first(&self.0, variant).map_err(|refusal| failure::refusal(py, &refusal))?;
        let exported = interchange::export(&self.0, &first.resolved, target);
        Ok(exported.map_err(|wrong| failure::scenario(py, &wrong))?.text())
    }

    /// Simulates every run of these variants; all where none is named.
    fn run(
        &self,
        py: Python<'_>,
        variants: Vec<String>,
        seed: u64,
        jobs: Option<usize>,
        reproduce: String,
    ) -> PyResult<Outcome> {
        let experiment = Arc::clone(&self.0);
        let budget = experiment.search().and_then(Search::budget_ns).map(Duration::from_nanos);
        let options = Options { seed, jobs, variants, reproduce };
        let ended = interruptible(py, move |watch| {
            let summary = run::execute(&experiment, &options, &watch.within(budget))?;
            let scenario = run::shown(&experiment, &options, &summary, &absolute)?;
            Ok(Outcome { summary, scenario })
        })?;
        ended.map_err(|refusal| failure::refusal(py, &refusal))
    }
}

/// The name of a file from wherever a scenario is kept.
fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}
