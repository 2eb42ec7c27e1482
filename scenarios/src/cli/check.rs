//! `foretrain check`: whether files are right and what running them takes. Nothing is simulated.

use std::collections::BTreeSet;

use reports::quantity;
use reports::summary::SCHEMA_VERSION;
use scenarios::Experiment;
use scenarios::run::{Options, Plan, Progress, Reason, Refusal, Shard, first, plan_of};
use serde::Serialize;

use super::input::{self, Inputs};
use super::printer::Printer;
use super::progress::Bar;
use super::trouble::{self, Trouble};
use super::{Exit, Format, SEED, each};

/// What is checked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Checks each file in turn.
pub(super) fn check(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    each(&arguments.inputs.files, arguments.format, printer, |_, file| {
        let experiment = input::experiment(file, &arguments.inputs.changes)?;
        let options = Options { seed: SEED, jobs: None, variants: Vec::new(), reproduce: String::new() };
        let checked = Checked::of(&experiment, &options, Shard::WHOLE, &Bar::new(false, "runs"))?;
        match arguments.format {
            Format::Table => {
                let notes: String = checked.notes.iter().map(|note| format!("note: {note}\n")).collect();
                printer.print(&format!("ok: {}\n{}{notes}", checked.in_words(), checked.impossible()))
            }
            Format::Json => printer.print(&trouble::json(&checked)),
        }
    })
}

/// An experiment that is right, and what running it takes.
#[derive(Serialize)]
pub(super) struct Checked<'a> {
    schema_version: u32,
    name: &'a str,
    variants: Vec<&'a str>,
    plan: Plan,
    /// Parts of models read from other files that are not modelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl<'a> Checked<'a> {
    /// Sizes up a shard of the variants that `options` choose.
    ///
    /// # Errors
    /// Every refusal of `run`.
    pub(super) fn of(
        experiment: &'a Experiment,
        options: &Options,
        shard: Shard,
        progress: &dyn Progress,
    ) -> Result<Self, Refusal> {
        let plan = plan_of(experiment, options, shard, progress)?;
        let chosen =
            |name: &&str| options.variants.is_empty() || options.variants.iter().any(|chosen| chosen == name);
        let variants: Vec<&str> = experiment.variants().filter(chosen).collect();
        let firsts = variants.iter().filter_map(|variant| first(experiment, Some(variant)).ok());
        let mut notes: Vec<String> =
            firsts.flat_map(|it| it.resolved.scenario.model.not_modelled().to_vec()).collect();
        let mut known = BTreeSet::new();
        notes.retain(|note| known.insert(note.clone()));
        Ok(Self { schema_version: SCHEMA_VERSION, name: experiment.name(), variants, plan, notes })
    }

    /// `Pipeline schedules: 6 points, 8 variants, 48 runs, about 11.2 M activities, roughly 1.41 s on one core`.
    pub(super) fn in_words(&self) -> String {
        let number = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let plan = &self.plan;
        let activities = quantity::whole(plan.activities);
        let variants = self.variants.len() as u64;
        if plan.searched {
            let plans = number(plan.points * variants, "plan");
            return format!("{}: {plans} to search, {}", self.name, number(variants, "variant"));
        }
        let mut parts =
            vec![number(plan.points, "point"), number(variants, "variant"), number(plan.runs, "run")];
        if plan.infeasible > 0 {
            parts.push(format!("{} more impossible", plan.infeasible));
        }
        parts.push(format!("about {activities} activities"));
        parts.push(match plan.estimated_s {
            seconds if seconds < 1.0 => "less than a second".to_owned(),
            seconds => format!("roughly {} on one core", quantity::seconds(seconds)),
        });
        format!("{}: {}", self.name, parts.join(", "))
    }

    /// Reasons of impossible runs, a line each.
    pub(super) fn impossible(&self) -> String {
        let line = |Reason { reason, runs }: &Reason| format!("  {runs} x {reason}\n");
        self.plan.reasons.iter().map(line).collect()
    }
}
