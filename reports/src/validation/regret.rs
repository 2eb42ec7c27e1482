//! Regret: how much longer the plan that is predicted fastest takes than the best measured one.
//!
//! ```text
//! regret = measured time of the picked plan / least measured time of its group - 1
//! ```
//!
//! A group holds at least [`PLANS_MIN`] measured plans that do the same work. A plan without a
//! prediction, as one that is said not to fit, is never picked, but it may be the best. A group
//! without any prediction has no pick and is left out. Of plans that are predicted alike the slower
//! one counts as picked. A plan that was measured twice is two plans.
//!
//! Beside ours stands a rule of thumb that needs no simulator: as many data ranks as fit, then the
//! largest micro-batch. Every measured plan fits. Of plans that the rule leaves open the fastest
//! counts, so that the rule looks no worse than it is.

use std::cmp::Reverse;

use indexmap::IndexMap;
use serde::Serialize;

use super::statistics::kendall_tau;
use crate::quantity;

/// Fewer plans leave little to pick from.
const PLANS_MIN: usize = 4;
/// Plans that can be tried on the cluster before one is kept.
const TRIED: usize = 3;

/// Regret over all groups of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Regret {
    /// Plans of the largest group, which may be too small to count.
    pub largest_group: usize,
    /// Figures over all groups that count; none where none does.
    pub summary: Option<RegretSummary>,
    /// Groups that count, the largest regret first.
    pub groups: Vec<PlanGroup>,
}

/// Figures over groups, each of which weighs the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RegretSummary {
    /// How many groups.
    pub groups: usize,
    /// Plans of a group, on average.
    pub plans_per_group: f64,
    /// Regret of the plan that is predicted fastest.
    pub picked: MeanAndWorst,
    /// Regret of the best measured of the three that are predicted fastest.
    pub best_of_three: MeanAndWorst,
    /// Regret of the rule, where data ranks are known.
    pub most_data_ranks: Option<MeanAndWorst>,
    /// Mean of the rank correlations within groups.
    pub kendall_tau: Option<f64>,
}

/// Mean and largest value over groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanAndWorst {
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub worst: f64,
}

/// Plans that do the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanGroup {
    /// Columns in which they say the same.
    pub work: IndexMap<String, String>,
    /// How many were measured.
    pub plans: usize,
    /// How many of these have no prediction.
    pub unpredicted: usize,
    /// Regret of the plan that is predicted fastest.
    pub regret: f64,
    /// Regret of the best measured of the three that are predicted fastest.
    pub best_of_three: f64,
    /// Regret of the rule, where data ranks are known.
    pub most_data_ranks: Option<f64>,
    /// Rank correlation of predictions and measurements (tau-b); none where either are all equal.
    pub kendall_tau: Option<f64>,
    /// The plan that is predicted fastest.
    pub picked: MeasuredPlan,
    /// The plan that was measured fastest.
    pub best: MeasuredPlan,
}

/// A plan with its measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredPlan {
    /// The data file and the line in it.
    pub place: String,
    /// Columns in which it says the same as the others of its group.
    #[serde(skip)]
    pub work: IndexMap<String, String>,
    /// Settings that were chosen for it, column by column.
    pub choices: IndexMap<String, String>,
    /// Measured time (s): of a step, or of a sequence where batches of a group differ.
    pub measured: f64,
    /// Our prediction of it; none where there is none.
    pub predicted: Option<f64>,
    /// Data ranks and sequences of a micro-batch, for the rule; 0 where the latter is not told.
    #[serde(skip)]
    pub ranks_and_micro_batch: Option<[u64; 2]>,
}

impl Regret {
    /// Groups plans by their work.
    pub fn new(plans: impl IntoIterator<Item = MeasuredPlan>) -> Self {
        let mut by_work: Vec<Vec<MeasuredPlan>> = Vec::new();
        for plan in plans {
            match by_work.iter_mut().find(|group| group[0].work == plan.work) {
                Some(group) => group.push(plan),
                None => by_work.push(vec![plan]),
            }
        }
        let largest_group = by_work.iter().map(Vec::len).max().unwrap_or_default();
        let mut groups: Vec<PlanGroup> =
            by_work.iter().filter_map(|plans| PlanGroup::of_plans(plans)).collect();
        groups.sort_by(|a, b| b.regret.total_cmp(&a.regret));
        Self { largest_group, summary: RegretSummary::of_groups(&groups), groups }
    }

    /// Figures over all groups, in a line.
    pub(super) fn in_words(&self) -> Option<String> {
        self.summary.map(|summary| summary.in_words())
    }

    /// `nemo (at most 1)`, a set without a group that counts.
    pub(super) fn too_few_in_words(&self, set: &str) -> Option<String> {
        self.summary.is_none().then(|| format!("{set} (at most {})", self.largest_group))
    }
}

impl PlanGroup {
    /// Judges plans that do the same work. `None`: they are too few, or none has a prediction.
    fn of_plans(plans: &[MeasuredPlan]) -> Option<Self> {
        if plans.len() < PLANS_MIN {
            return None;
        }
        let fastest = |plans: &[&MeasuredPlan]| {
            plans.iter().copied().min_by(|a, b| a.measured.total_cmp(&b.measured)).cloned()
        };
        let best = fastest(&plans.iter().collect::<Vec<_>>())?;
        let over_best = |plan: &MeasuredPlan| plan.measured / best.measured - 1.0;
        let ranked = ranked(plans);
        let picked = (*ranked.first()?).clone();
        let pairs: Vec<(f64, f64)> =
            plans.iter().filter_map(|plan| Some((plan.predicted?, plan.measured))).collect();
        Some(Self {
            work: best.work.clone(),
            plans: plans.len(),
            unpredicted: plans.len() - ranked.len(),
            regret: over_best(&picked),
            best_of_three: over_best(&fastest(&ranked[..ranked.len().min(TRIED)])?),
            most_data_ranks: most_data_ranks(plans).map(over_best),
            kendall_tau: kendall_tau(&pairs),
            picked,
            best,
        })
    }

    /// The picked plan and the best one, each by the choices in which they differ.
    pub(super) fn picked_and_best(&self) -> [String; 2] {
        let words = |plan: &MeasuredPlan, other: &MeasuredPlan| {
            let differs = |column: &String| plan.choices.get(column) != other.choices.get(column);
            let choices = plan.choices.iter().filter(|(column, _)| differs(column));
            let choices: Vec<String> = choices.map(|(column, value)| format!("{column} {value}")).collect();
            let ours = plan.predicted.map_or(quantity::NONE.to_owned(), quantity::seconds);
            let times = format!("{}, ours {ours}", quantity::seconds(plan.measured));
            if choices.is_empty() { times } else { format!("{}: {times}", choices.join(", ")) }
        };
        [words(&self.picked, &self.best), words(&self.best, &self.picked)]
    }
}

/// Plans with a prediction, the one that is predicted fastest first.
fn ranked(plans: &[MeasuredPlan]) -> Vec<&MeasuredPlan> {
    let mut ranked: Vec<(f64, &MeasuredPlan)> =
        plans.iter().filter_map(|plan| Some((plan.predicted?, plan))).collect();
    ranked.sort_by(|(a, first), (b, second)| {
        a.total_cmp(b).then_with(|| second.measured.total_cmp(&first.measured))
    });
    ranked.into_iter().map(|(_, plan)| plan).collect()
}

/// The plan of the rule. `None`: data ranks of a plan are not known.
fn most_data_ranks(plans: &[MeasuredPlan]) -> Option<&MeasuredPlan> {
    if plans.iter().any(|plan| plan.ranks_and_micro_batch.is_none()) {
        return None;
    }
    let rule = |plan: &MeasuredPlan| Reverse(plan.ranks_and_micro_batch);
    plans.iter().min_by(|a, b| rule(a).cmp(&rule(b)).then_with(|| a.measured.total_cmp(&b.measured)))
}

impl RegretSummary {
    fn of_groups(groups: &[PlanGroup]) -> Option<Self> {
        let rule: Option<Vec<f64>> = groups.iter().map(|group| group.most_data_ranks).collect();
        let taus: Vec<f64> = groups.iter().filter_map(|group| group.kendall_tau).collect();
        let figures = |of: fn(&PlanGroup) -> f64| MeanAndWorst::of(groups.iter().map(of));
        Some(Self {
            groups: groups.len(),
            plans_per_group: figures(|group| group.plans as f64)?.mean,
            picked: figures(|group| group.regret)?,
            best_of_three: figures(|group| group.best_of_three)?,
            most_data_ranks: rule.and_then(MeanAndWorst::of),
            kendall_tau: MeanAndWorst::of(taus).map(|taus| taus.mean),
        })
    }

    /// `6.34 % on average, 13.0 % at worst in 4 groups of 12.8 plans; ...`.
    fn in_words(&self) -> String {
        let Self { groups, plans_per_group, picked, best_of_three, most_data_ranks, kendall_tau } = self;
        let groups = format!("{groups} {}", if *groups == 1 { "group" } else { "groups" });
        let rule = most_data_ranks
            .map(|rule| format!("; as many data ranks as fit instead: {}", rule.in_words()))
            .unwrap_or_default();
        let tau = kendall_tau.map(|tau| format!("; τ within a group {tau:.2}")).unwrap_or_default();
        format!(
            "{} in {groups} of {plans_per_group:.1} plans; best of our {TRIED} fastest: {}{rule}{tau}",
            picked.in_words(),
            best_of_three.in_words()
        )
    }
}

impl MeanAndWorst {
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let worst = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { mean: values.iter().sum::<f64>() / values.len() as f64, worst })
    }

    fn in_words(self) -> String {
        format!("{} on average, {} at worst", quantity::percent(self.mean), quantity::percent(self.worst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of a model, with its data ranks, measured and predicted.
    fn plan(model: &str, data: u64, measured: f64, predicted: Option<f64>) -> MeasuredPlan {
        let cells = |column: &str, value: &str| IndexMap::from([(column.to_owned(), value.to_owned())]);
        MeasuredPlan {
            place: format!("{model}:{measured}"),
            work: cells("model", model),
            choices: cells("data", &data.to_string()),
            measured,
            predicted,
            ranks_and_micro_batch: Some([data, 0]),
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} against {b}");
    }

    #[test]
    fn two_groups_by_hand() {
        let found = Regret::new([
            // Picked: 1.1, the second that is tried is the best.
            plan("a", 4, 1.0, Some(0.9)),
            plan("b", 2, 2.0, Some(2.0)),
            plan("a", 2, 1.1, Some(0.8)),
            plan("a", 8, 1.5, Some(1.6)),
            plan("a", 1, 2.0, Some(1.7)),
            // Picked: the best. The rule takes 3.0, the faster of two with 4 data ranks.
            plan("b", 4, 4.0, Some(3.0)),
            plan("b", 1, 2.5, Some(2.4)),
            plan("b", 4, 3.0, Some(3.5)),
            // Three plans leave little to pick from.
            plan("c", 1, 1.0, Some(3.0)),
            plan("c", 1, 2.0, Some(2.0)),
            plan("c", 1, 3.0, Some(1.0)),
        ]);
        let summary = found.summary.expect("two groups have four plans");
        assert_eq!((summary.groups, found.largest_group), (2, 4));
        close(summary.plans_per_group, 4.0);
        close(summary.picked.mean, 0.05);
        close(summary.picked.worst, 0.1);
        assert_eq!(summary.best_of_three, MeanAndWorst { mean: 0.0, worst: 0.0 });
        let rule = summary.most_data_ranks.expect("data ranks are known");
        close(rule.mean, 0.5);
        close(rule.worst, 0.5);
        // Each has one of its six pairs in the opposite order.
        close(summary.kendall_tau.expect("nothing is tied"), 4.0 / 6.0);
        let [first, second] = &found.groups[..] else { panic!("two groups") };
        assert_eq!((first.work["model"].as_str(), second.work["model"].as_str()), ("a", "b"));
        assert_eq!(first.picked_and_best(), ["data 2: 1.10 s, ours 800 ms", "data 4: 1.00 s, ours 900 ms"]);
        assert_eq!(second.picked, second.best);
        assert_eq!(second.picked_and_best()[0], "2.00 s, ours 2.00 s");
        assert_eq!(
            found.in_words().expect("two groups"),
            "5.00 % on average, 10.0 % at worst in 2 groups of 4.0 plans; best of our 3 fastest: 0 % on \
             average, 0 % at worst; as many data ranks as fit instead: 50.0 % on average, 50.0 % at worst; \
             τ within a group 0.67"
        );
    }

    #[test]
    fn a_plan_without_a_prediction_is_never_picked_but_may_be_the_best() {
        let mut plans = vec![
            plan("a", 1, 1.0, None),
            plan("a", 1, 1.5, Some(1.0)),
            plan("a", 1, 3.0, Some(2.0)),
            plan("a", 1, 2.0, Some(3.0)),
        ];
        let found = Regret::new(plans.clone());
        let group = &found.groups[0];
        assert_eq!((group.plans, group.unpredicted), (4, 1));
        close(group.regret, 0.5);
        close(group.best_of_three, 0.5);
        close(group.kendall_tau.expect("three have predictions"), 1.0 / 3.0);
        plans.iter_mut().for_each(|plan| plan.predicted = None);
        let found = Regret::new(plans);
        assert_eq!((found.largest_group, found.summary, found.groups.len()), (4, None, 0));
    }

    #[test]
    fn the_slower_of_plans_that_are_predicted_alike_is_picked() {
        let times = [1.0, 1.2, 1.4, 1.6];
        let found = Regret::new(times.map(|measured| plan("a", 1, measured, Some(1.0))));
        let group = &found.groups[0];
        close(group.regret, 0.6);
        close(group.best_of_three, 0.2);
        // The rule leaves all four open, and no order is told.
        assert_eq!((group.most_data_ranks, group.kendall_tau), (Some(0.0), None));
        assert_eq!(found.summary.expect("one group").kendall_tau, None);
    }

    #[test]
    fn the_rule_takes_the_largest_micro_batch_of_most_data_ranks() {
        let rules = [[2, 8], [4, 1], [4, 2], [1, 16]];
        let plans = |rules: [Option<[u64; 2]>; 4]| {
            let times = [1.0, 2.0, 3.0, 4.0];
            rules.into_iter().zip(times).map(|(rule, time)| MeasuredPlan {
                ranks_and_micro_batch: rule,
                ..plan("a", 1, time, Some(time))
            })
        };
        assert_eq!(Regret::new(plans(rules.map(Some))).groups[0].most_data_ranks, Some(2.0));
        let [first, second, third, _] = rules.map(Some);
        let unknown = Regret::new(plans([first, second, third, None]));
        assert_eq!(unknown.summary.expect("one group").most_data_ranks, None);
    }

    #[test]
    fn few_plans_say_so() {
        let found = Regret::new([plan("a", 1, 1.0, Some(1.0)), plan("a", 2, 2.0, Some(2.0))]);
        assert_eq!(found.too_few_in_words("nemo").as_deref(), Some("nemo (at most 2)"));
        assert_eq!((found.in_words(), Regret::new([])), (None, Regret::default()));
    }
}
