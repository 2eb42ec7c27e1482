//! Plans beside the best one, and what slower parts do to it, as rows of tables.

use super::{objective, setting};
use crate::quantity;
use crate::summary::{Alternative, AlternativePlan, Changed, RunSummary, SearchProof};

/// Titles of [`alternatives`].
pub(crate) fn titles(proof: &SearchProof) -> [String; 4] {
    let objective = proof.minimise.first().map(|one| objective::title(one)).unwrap_or_default();
    ["kind of plan".to_owned(), "its best".to_owned(), format!(">{objective}"), ">over the best".to_owned()]
}

/// Titles of [`changes`].
pub(crate) const CHANGES: [&str; 3] = ["slower", ">the best plan takes", "best then"];

/// By kind of plan its best one: settings, its objective and that over the best one's.
pub(crate) fn alternatives(proof: &SearchProof, best: &RunSummary) -> Vec<Vec<String>> {
    let Some(objective) = proof.minimise.first() else { return Vec::new() };
    let row = |kind: &Alternative| {
        let Alternative { name, plan, stopped, .. } = kind;
        let [plan, figure, ratio] = match plan {
            Some(plan) => [
                setting(&plan.variant, &plan.point),
                objective::text(objective, plan.objective, best),
                objective::value(objective, best).map(|best| ratio(plan, best)).unwrap_or_default(),
            ],
            None if *stopped => {
                ["not known: the search was stopped".to_owned(), String::new(), String::new()]
            }
            None => ["none fits".to_owned(), String::new(), String::new()],
        };
        vec![name.replace('_', "-"), plan, figure, ratio]
    };
    proof.alternatives.iter().map(row).collect()
}

fn ratio(plan: &AlternativePlan, best: f64) -> String {
    let may_tie = plan.relative_to_best.is_some_and(|ratio| ratio.interval[0] <= 1.0);
    let times = quantity::times(plan.objective / best);
    if may_tie && plan.objective > best { format!("{times}, may be as good") } else { times }
}

/// By change the objective of the best plan with it over that without, and which plan is best then.
pub(crate) fn changes(proof: &SearchProof) -> Vec<Vec<String>> {
    let row = |changed: &Changed| {
        let another = changed.another.as_ref().map(|plan| setting(&plan.variant, &plan.point));
        let remains = || format!("the same, of {}", changed.plans);
        vec![changed.change.clone(), quantity::times(changed.of_best), another.unwrap_or_else(remains)]
    };
    proof.sensitivity.iter().map(row).collect()
}

/// Sources of the rules of thumb that are shown.
pub(crate) fn sources(proof: &SearchProof) -> impl Iterator<Item = (&str, &str)> {
    proof.alternatives.iter().filter_map(|kind| Some((kind.name.as_str(), kind.source.as_deref()?)))
}
