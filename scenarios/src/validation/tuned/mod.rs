//! Plans that others tuned, among those that the search finds over their axes.
//!
//! ```text
//! row --work--> experiment --search--> the ten best   rank, gap, the term that differs
//!  +--work and plan--> run ----------> its time       error against the measurement
//! ```

mod space;

use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::RunSummary;
use reports::validation::LeftOut;
use reports::validation::tuned::{Criterion, Searched, Term, TunedPlan, TunedPlans};
use serde::Deserialize;
use serde_yaml::Mapping;

use super::set::NotJudged;
use super::settings::{Setting, number, of_column};
use super::steps::{SEED, files, read, settings, simulated};
use super::{Options, cells, embedded};
use crate::run::{self, Progress, Unwatched, in_parallel};
use crate::schema::Share;
use space::Axes;

/// Plans that a search reports.
const KEEP: usize = 10;

/// The file of the set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    title: String,
    protocol: String,
    /// Its table.
    data: String,
    among_the_best: Share,
    behind_at_most: Share,
    within_that: Share,
    /// Rows whose error is told, while another row of their plan counts.
    not_newest: NotJudged,
    left_out: Vec<NotJudged>,
    scenario: Mapping,
    /// Settings of the work of a row, which its plan and all others of the search do.
    work: IndexMap<String, Setting>,
    /// Axes by model.
    axes: IndexMap<String, Axes>,
}

/// Searches over the axes of every row whose place ends as one of `lines` says; of all where there
/// is none. `None`: `progress` stopped it.
///
/// # Panics
/// If the embedded table lacks a column, which a test would find.
pub fn tuned(lines: &[u64], options: &Options, progress: &dyn Progress) -> Option<TunedPlans> {
    let set = embedded::tuned_plans();
    let table = embedded::table(&set.data);
    let rows = table.rows().filter(|row| lines.is_empty() || lines.contains(&row.line()));
    let rows: Vec<(String, IndexMap<String, String>)> =
        rows.map(|row| (format!("{}:{}", table.name, row.line()), cells(table.columns(), &row))).collect();
    let missing = |cells: &IndexMap<String, String>| set.left_out.iter().find(|row| row.says(cells));
    let (left_out, expressed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| missing(&row.1).is_some());
    progress.begin(expressed.len() as u64);
    let judge = |(place, cells): (String, IndexMap<String, String>)| {
        if progress.stop() {
            return None;
        }
        let plan = set.judged(place, cells);
        progress.done();
        Some(plan)
    };
    let plans: Option<Vec<TunedPlan>> =
        in_parallel(options.jobs, || expressed.into_par_iter().map(judge).collect());
    let left_out = left_out.into_iter().map(|(place, inputs)| {
        let reason = missing(&inputs).map(|row| row.because.clone()).unwrap_or_default();
        LeftOut { place, inputs, reason }
    });
    let criterion = Criterion {
        kept: KEEP,
        among_the_best: set.among_the_best.as_f64(),
        behind_at_most: set.behind_at_most.as_f64(),
        within_that: set.within_that.as_f64(),
    };
    let found = TunedPlans { left_out: left_out.collect(), ..TunedPlans::new(criterion, plans?) };
    Some(TunedPlans {
        version: options.version.clone(),
        reproduce: options.reproduce.clone(),
        title: set.title.clone(),
        source: table.source.clone(),
        protocol: set.protocol.trim().to_owned(),
        ..found
    })
}

impl Set {
    /// The plan of a row by itself, and, where the row counts, among those of the search.
    fn judged(&self, place: String, inputs: IndexMap<String, String>) -> TunedPlan {
        let cells = &inputs;
        let run = self.published(cells);
        let per_gpu = |run: &RunSummary| Some(run.tokens_per_s? / number(cells, "gpus").ok()?);
        let predicted = run.as_ref().ok().and_then(per_gpu);
        let refusal = || {
            run.as_ref().map_or_else(
                |reason| Some(reason.clone()),
                |run| run.failure.as_ref().map(|failure| failure.message.clone()),
            )
        };
        let counts = !self.not_newest.says(cells);
        let published = run.as_ref().ok();
        let searched = counts.then(|| self.search(cells, published, &per_gpu));
        TunedPlan {
            measured: number(cells, "tokens_per_s_per_gpu").unwrap_or_default(),
            predicted,
            refused: refusal(),
            searched: searched.and_then(|found| found.unwrap_or_else(|reason| panic!("{place}: {reason}"))),
            place,
            inputs,
        }
    }

    /// The run of the plan of a row.
    fn published(&self, cells: &IndexMap<String, String>) -> Result<RunSummary, String> {
        let changes = [settings(&self.work, cells)?, self.axes(cells)?.plan(cells)?].concat();
        simulated(&files(&self.title, &self.scenario), &changes)
    }

    fn axes(&self, cells: &IndexMap<String, String>) -> Result<&Axes, String> {
        let model = of_column(cells, "model")?;
        self.axes.get(model).ok_or_else(|| format!("`{model}` has no axes"))
    }

    /// The search over the axes of a row, beside its own plan. `None`: no plan fits.
    fn search(
        &self,
        cells: &IndexMap<String, String>,
        published: Option<&RunSummary>,
        per_gpu: &dyn Fn(&RunSummary) -> Option<f64>,
    ) -> Result<Option<Searched>, String> {
        let mut scenario = self.scenario.clone();
        let search =
            serde_yaml::to_value(self.axes(cells)?.search(KEEP)).map_err(|error| error.to_string())?;
        scenario.insert("search".into(), search);
        let experiment = read(&files(&self.title, &scenario), &settings(&self.work, cells)?)?;
        // Rows are searched at the same time.
        let options =
            run::Options { seed: SEED, jobs: Some(1), variants: Vec::new(), reproduce: String::new() };
        let summary =
            run::execute(&experiment, &options, &Unwatched).map_err(|refusal| refusal.to_string())?;
        let found: Vec<(&RunSummary, f64)> =
            summary.variants.iter().filter_map(|run| Some((run, run.step_time()?))).collect();
        let Some(&(best, best_time)) = found.first() else { return Ok(None) };
        let time = published.and_then(RunSummary::step_time);
        Ok(Some(Searched {
            plans: summary.search.as_ref().map_or(0, |proof| proof.plans),
            simulated: summary.search.as_ref().map_or(0, |proof| proof.fit + proof.did_not_fit),
            rank: time.map(|time| 1 + found.iter().filter(|(_, other)| *other < time).count()),
            behind: time.map(|time| time / best_time - 1.0),
            best: best.point.clone(),
            best_predicted: per_gpu(best).unwrap_or_default(),
            term: published.and_then(|published| term(published, best)),
        }))
    }
}

/// The cause of which the plan has most time more than the best one, as a share of the best step.
fn term(plan: &RunSummary, best: &RunSummary) -> Option<Term> {
    let step = best.step_time()?;
    let more = plan.time_breakdown_s.iter().map(|(cause, time)| {
        let other = best.time_breakdown_s.get(cause).copied().unwrap_or_default();
        (cause, (time - other) / step)
    });
    let (cause, share) = more.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (share > 0.0).then(|| Term { cause: cause.clone(), share })
}
