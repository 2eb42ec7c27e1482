//! Plans that others tuned, among those that a search finds: ranks, gaps, errors.

use std::io::{self, Write};

use indexmap::IndexMap;
use serde::Serialize;

use super::LeftOut;
use crate::quantity;
use crate::searched;
use crate::summary::SCHEMA_VERSION;
use crate::terminal::{Style, clean, grid, numeric};

/// Tuned plans beside those of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TunedPlans {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of foretrain that was judged.
    pub version: String,
    /// A command line that gives these figures again.
    pub reproduce: String,
    /// Subject of the tuning, in a sentence.
    pub title: String,
    /// Origin of the measurements, with their licence.
    pub source: String,
    /// Rows that count, axes, and settings beside them.
    pub protocol: String,
    /// Shares to reach.
    pub criterion: Criterion,
    /// Share of the plans that count which the search reports among its best.
    pub among_the_best: Option<f64>,
    /// Share of them that is close enough to the best.
    pub close_to_the_best: Option<f64>,
    /// Mean absolute error of predicted tokens per second, over all rows with a prediction.
    pub mape: Option<f64>,
    /// Rows that scenarios express.
    pub plans: Vec<TunedPlan>,
    /// Rows that they do not, with the missing feature.
    pub left_out: Vec<LeftOut>,
}

/// Shares to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Criterion {
    /// Plans that a search reports.
    pub kept: usize,
    /// Share of plans that are among them.
    pub among_the_best: f64,
    /// A plan is close if its predicted time is at most this above that of the best.
    pub behind_at_most: f64,
    /// Share of plans that are close.
    pub within_that: f64,
}

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TunedPlan {
    /// The data file and the line in it.
    pub place: String,
    /// Its cells, column by column.
    pub inputs: IndexMap<String, String>,
    /// Measured tokens per second of a GPU.
    pub measured: f64,
    /// Predicted tokens per second of a GPU. `None`: the plan is said not to run.
    pub predicted: Option<f64>,
    /// Reason why it is said not to run.
    pub refused: Option<String>,
    /// The search. `None`: the row does not count, or no plan fits.
    pub searched: Option<Searched>,
}

/// A plan among those of its search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Searched {
    /// Plans of the space.
    pub plans: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Position of the tuned plan among those reported: one more than all where it is behind them.
    pub rank: Option<usize>,
    /// Predicted time over that of the best plan, less one.
    pub behind: Option<f64>,
    /// Settings of the best plan.
    pub best: IndexMap<String, String>,
    /// Its predicted tokens per second of a GPU.
    pub best_predicted: f64,
    /// Cause that sets both apart. `None`: the tuned plan is the best.
    pub term: Option<Term>,
}

/// A cause of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// Its word in breakdowns of steps.
    pub cause: String,
    /// Time that the tuned plan has more of it, over the step of the best plan.
    pub share: f64,
}

impl TunedPlans {
    /// Rows, with shares of those that count.
    pub fn new(criterion: Criterion, plans: Vec<TunedPlan>) -> Self {
        let searches: Vec<&Searched> = plans.iter().filter_map(|plan| plan.searched.as_ref()).collect();
        let share = |holds: &dyn Fn(&Searched) -> bool| {
            let count = searches.iter().filter(|search| holds(search)).count();
            (!searches.is_empty()).then(|| count as f64 / searches.len() as f64)
        };
        let errors: Vec<f64> = plans.iter().filter_map(TunedPlan::error).map(f64::abs).collect();
        Self {
            schema_version: SCHEMA_VERSION,
            among_the_best: share(&|search| search.rank.is_some_and(|rank| rank <= criterion.kept)),
            close_to_the_best: share(&|search| {
                search.behind.is_some_and(|behind| behind <= criterion.behind_at_most)
            }),
            mape: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
            criterion,
            plans,
            ..Self::default()
        }
    }

    /// True if both shares are reached.
    pub fn passed(&self) -> bool {
        let reached = |share: Option<f64>, least: f64| share.is_some_and(|share| share >= least);
        reached(self.among_the_best, self.criterion.among_the_best)
            && reached(self.close_to_the_best, self.criterion.within_that)
    }
}

impl TunedPlan {
    /// Predicted over measured throughput, less one.
    pub fn error(&self) -> Option<f64> {
        self.predicted.map(|predicted| predicted / self.measured - 1.0)
    }

    /// Words for the row: release, model and GPUs.
    fn name(&self) -> String {
        let cell = |column: &str| self.inputs.get(column).map_or("", String::as_str);
        let words = [cell("release"), cell("model"), cell("gpus"), "GPUs, batch", cell("global_batch")];
        words.join(" ")
    }
}

/// Writes the plans for people.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, found: &TunedPlans, style: Style) -> io::Result<()> {
    let titles = numeric(&[
        "plan",
        ">measured",
        ">predicted",
        ">error",
        ">rank",
        ">behind",
        ">our best",
        "which is",
        "differs most in",
    ]);
    let signed = |share: f64| format!("{:+.1} %", share * 100.0);
    let tokens = |tokens: f64| format!("{tokens:.0}");
    let none = || quantity::NONE.to_owned();
    let row = |plan: &TunedPlan| {
        let searched = plan.searched.as_ref();
        let rank = |search: &Searched| match search.rank {
            Some(rank) if rank > found.criterion.kept => format!("> {}", found.criterion.kept),
            rank => rank.map_or_else(none, |rank| rank.to_string()),
        };
        let term = |search: &Searched| {
            search.term.as_ref().map(|term| format!("{} {}", term.cause, signed(term.share)))
        };
        vec![
            plan.name(),
            tokens(plan.measured),
            plan.predicted.map_or_else(none, tokens),
            plan.error().map_or_else(none, signed),
            searched.map_or_else(none, rank),
            searched.and_then(|search| search.behind).map_or_else(none, signed),
            searched.map_or_else(none, |search| tokens(search.best_predicted)),
            searched.map_or_else(none, |search| searched::setting("base", &search.best)),
            searched.and_then(term).unwrap_or_else(none),
        ]
    };
    writeln!(out, "{}\n", style.bold(&clean(&found.title)))?;
    writeln!(out, "tokens per second and GPU\n{}", grid(titles, found.plans.iter().map(row).collect()))?;
    for plan in &found.plans {
        if let Some(reason) = &plan.refused {
            writeln!(out, "{}: {}", plan.name(), clean(reason))?;
        }
    }
    writeln!(out, "\n{}", found.verdict())?;
    if !found.left_out.is_empty() {
        writeln!(out, "\n{}", style.bold("rows that scenarios cannot express, with what is missing"))?;
    }
    for row in &found.left_out {
        let cell = |column: &str| row.inputs.get(column).map_or("", String::as_str);
        writeln!(out, "  {} {}, {}: {}", cell("release"), cell("model"), row.place, clean(&row.reason))?;
    }
    Ok(())
}

/// Writes a line for each row.
///
/// # Errors
/// Errors of `out`.
pub fn csv(out: &mut impl Write, found: &TunedPlans) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record([
        "place",
        "plan",
        "measured",
        "predicted",
        "rank",
        "behind",
        "best_predicted",
        "best",
        "term",
        "left_out",
    ])?;
    let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for plan in &found.plans {
        let searched = plan.searched.clone().unwrap_or_default();
        writer.write_record([
            plan.place.clone(),
            plan.name(),
            plan.measured.to_string(),
            text(plan.predicted),
            searched.rank.map(|rank| rank.to_string()).unwrap_or_default(),
            text(searched.behind),
            text(plan.searched.as_ref().map(|search| search.best_predicted)),
            plan.searched.as_ref().map(|search| searched::setting("base", &search.best)).unwrap_or_default(),
            searched.term.map(|term| term.cause).unwrap_or_default(),
            String::new(),
        ])?;
    }
    for LeftOut { place, inputs, reason } in &found.left_out {
        let plan = TunedPlan { inputs: inputs.clone(), ..TunedPlan::default() };
        let empty = [""; 7].map(str::to_owned);
        let cells = [place.clone(), plan.name()].into_iter().chain(empty).chain([reason.clone()]);
        writer.write_record(cells.collect::<Vec<_>>())?;
    }
    writer.flush()
}

impl TunedPlans {
    /// Both shares beside those to reach.
    fn verdict(&self) -> String {
        let Criterion { kept, among_the_best, behind_at_most, within_that } = self.criterion;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let share = |share: Option<f64>| share.map_or_else(|| quantity::NONE.to_owned(), percent);
        let counted = self.plans.iter().filter(|plan| plan.searched.is_some()).count();
        let verdict = if self.passed() { "reached" } else { "not reached" };
        format!(
            "of {counted} plans that count {} are among the {kept} best (to reach: {}), and {} are at most {} \
             behind the best (to reach: {}): {verdict}\nmean error of tokens per second over all rows above: {}",
            share(self.among_the_best),
            percent(among_the_best),
            share(self.close_to_the_best),
            percent(behind_at_most),
            percent(within_that),
            self.mape.map_or_else(|| quantity::NONE.to_owned(), |mape| format!("{:.1} %", mape * 100.0)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rank: usize, behind: f64) -> TunedPlan {
        let searched = Searched { rank: Some(rank), behind: Some(behind), ..Searched::default() };
        TunedPlan { measured: 100.0, predicted: Some(90.0), searched: Some(searched), ..TunedPlan::default() }
    }

    #[test]
    fn shares_are_of_the_plans_that_count() {
        let criterion = Criterion { kept: 10, among_the_best: 0.7, behind_at_most: 0.05, within_that: 0.8 };
        let older = TunedPlan { searched: None, ..plan(1, 0.0) };
        let found = TunedPlans::new(criterion, vec![plan(1, 0.0), plan(10, 0.04), plan(11, 0.06), older]);
        assert_eq!((found.among_the_best, found.close_to_the_best), (Some(2.0 / 3.0), Some(2.0 / 3.0)));
        assert!(!found.passed() && (found.mape.expect("four errors") - 0.1).abs() < 1e-12);
        assert!(TunedPlans::new(criterion, vec![plan(3, 0.01)]).passed());
        assert!(!TunedPlans::new(criterion, Vec::new()).passed());
    }

    #[test]
    fn a_plan_that_is_behind_says_in_what() {
        let criterion = Criterion { kept: 10, among_the_best: 0.7, behind_at_most: 0.05, within_that: 0.8 };
        let term = Some(Term { cause: "pipeline bubble".to_owned(), share: 0.053 });
        let behind = TunedPlan {
            searched: plan(11, 0.06).searched.map(|it| Searched { term, ..it }),
            ..plan(11, 0.06)
        };
        let refused = TunedPlan {
            predicted: None,
            refused: Some("no room".to_owned()),
            searched: None,
            ..plan(1, 0.0)
        };
        let left_out = LeftOut {
            place: "x.csv:5".to_owned(),
            inputs: IndexMap::from([("model".to_owned(), "a hybrid".to_owned())]),
            reason: "layers of Mamba-2".to_owned(),
        };
        let found =
            TunedPlans { left_out: vec![left_out], ..TunedPlans::new(criterion, vec![behind, refused]) };
        let mut text = Vec::new();
        write(&mut text, &found, Style::default()).expect("a table");
        let text = String::from_utf8(text).expect("UTF-8");
        for words in
            ["> 10", "+6.0 %", "pipeline bubble +5.3 %", "no room", "a hybrid, x.csv:5: layers of Mamba-2"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let mut rows = Vec::new();
        csv(&mut rows, &found).expect("rows");
        assert_eq!(String::from_utf8(rows).expect("UTF-8").lines().count(), 4);
    }
}
