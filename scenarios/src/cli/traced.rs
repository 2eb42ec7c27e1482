//! `--trace`: a run as a file that timeline viewers open.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use reports::summary::Summary;
use reports::trace::{Chrome, JSON_SLICES_MAX, Perfetto, Tracer};
use scenarios::Experiment;
use scenarios::run::{self, Options};

use super::files::cannot_write;
use super::trouble::Trouble;

/// A trace to write: its path, whose ending says the form.
#[derive(Clone, Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Perfetto,
    Chrome,
}

impl TraceFile {
    /// Parses a path of the command line.
    pub(super) fn parser() -> impl TypedValueParser<Value = Self> {
        clap::builder::PathBufValueParser::new().try_map(|path| {
            let form = match path.extension().and_then(|ending| ending.to_str()) {
                Some("pftrace") => Form::Perfetto,
                Some("json") => Form::Chrome,
                _ => {
                    return Err(
                        "end it in `.pftrace`, for Perfetto, or `.json`, for viewers of Chrome's traces",
                    );
                }
            };
            Ok(Self { path, form })
        })
    }

    /// Refuses an experiment of several variants, unless it is a search.
    ///
    /// # Errors
    /// The choice that is left.
    pub(super) fn refuse_several(&self, experiment: &Experiment, chosen: &[String]) -> Result<(), Trouble> {
        let mut variants: Vec<&str> = chosen.iter().map(String::as_str).collect();
        if variants.is_empty() {
            variants = experiment.variants().collect();
        }
        match variants[..] {
            [first, _, ..] if experiment.search().is_none() => Err(Trouble::Mistake(format!(
                "`--trace` writes one run, and this has {} variants: choose one with `--variant {first}`",
                variants.len()
            ))),
            _ => Ok(()),
        }
    }

    /// Writes the run of a summary, the best if a sweep or a search has more; gives its name.
    ///
    /// # Errors
    /// Why that cannot be: it does not fit, it is too long for its form, there is no room.
    pub(super) fn write_run(
        &self,
        experiment: &Experiment,
        options: &Options,
        summary: &Summary,
    ) -> Result<String, Trouble> {
        let Some(run) = run::best(&summary.variants) else { return Ok(String::new()) };
        let written = self.write(run.activities.unwrap_or(0), |tracer| {
            Ok(run::trace(experiment, options.seed, run, tracer)?)
        })?;
        match written {
            Some(path) => Ok(format!("{} of {}", path.display(), run.label())),
            None => Err(Trouble::Mistake(format!(
                "`{}` has no trace, as it does not run to its end: choose one that fits",
                run.label()
            ))),
        }
    }

    /// Writes what `write` does; nothing where that gives false.
    ///
    /// # Errors
    /// Its own, and a file that is too long for its form or cannot be written.
    pub(super) fn write(
        &self,
        activities: u64,
        write: impl FnOnce(&mut dyn Tracer) -> Result<bool, Trouble>,
    ) -> Result<Option<&Path>, Trouble> {
        let path = self.path.display();
        if self.form == Form::Chrome && activities > JSON_SLICES_MAX {
            return Err(Trouble::Mistake(format!(
                "`{path}` would have {activities} activities, more than the {JSON_SLICES_MAX} that viewers of JSON \
                 take: name it `{}`",
                self.path.with_extension("pftrace").display()
            )));
        }
        let unfinished = self.path.with_extension("unfinished");
        let failed = |error: &io::Error| {
            // It is usually gone, and litter must not hide what went wrong.
            let _ = fs::remove_file(&unfinished);
            cannot_write(&self.path, error)
        };
        let out = BufWriter::new(File::create(&unfinished).map_err(|error| failed(&error))?);
        let (mut perfetto, mut chrome);
        let tracer: &mut dyn Tracer = match self.form {
            Form::Perfetto => {
                perfetto = Perfetto::new(out);
                &mut perfetto
            }
            Form::Chrome => {
                chrome = Chrome::new(out);
                &mut chrome
            }
        };
        let is_written = write(tracer)?;
        if !is_written {
            let _ = fs::remove_file(&unfinished);
            return Ok(None);
        }
        tracer.finish().map_err(|error| failed(&error))?;
        fs::rename(&unfinished, &self.path).map_err(|error| failed(&error))?;
        Ok(Some(&self.path))
    }
}
