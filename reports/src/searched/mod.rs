//! A search in words: the plan that was found, the proof, and plans that nobody can tell from it.

pub(crate) mod beside;
pub(crate) mod extreme;
pub(crate) mod front;
pub(crate) mod objective;

use indexmap::IndexMap;

use crate::finding::Headline;
use crate::naming::shortest;
use crate::quantity;
use crate::ranking::Speed;
use crate::summary::{RunSummary, SearchProof};
use crate::wording::said;

/// The answer of a search; `runs` are its best plans, or the one that lacks least. A search that
/// was stopped says how many plans it did not come to.
pub fn finding(proof: &SearchProof, runs: &[RunSummary]) -> Headline {
    let Headline { verdict, conditions } = answer(proof, runs);
    let left = quantity::whole(proof.left);
    let cut = format!("It was stopped with {left} of {} plans not looked at.", quantity::whole(proof.plans));
    // Values that need no look are left where one is asked for, too.
    let is_cut = proof.left > 0 && proof.extreme.is_none();
    let said = [conditions].into_iter().chain(is_cut.then_some(cut));
    let conditions = said.filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join(" ");
    Headline { verdict, conditions }
}

fn answer(proof: &SearchProof, runs: &[RunSummary]) -> Headline {
    if let Some(asked) = &proof.extreme {
        return extreme::finding(asked);
    }
    let plans = quantity::whole(proof.plans);
    let [none, leads] = match proof.left {
        0 => ["None", "Best"],
        _ => ["So far none", "So far best"],
    };
    let Some(best) = runs.first().filter(|run| run.step_time().is_some()) else {
        let closest = runs.first().and_then(|run| run.failure.as_ref()?.short_bytes);
        let closest = closest.map(|short| format!("The closest lacks {}.", quantity::bytes(short)));
        return Headline {
            verdict: format!("{none} of {plans} plans fits."),
            conditions: closest.unwrap_or_default(),
        };
    };
    let proven = match proof.gap {
        None => "nothing proven yet".to_owned(),
        Some(0.0) => "proven to be the best".to_owned(),
        Some(gap) => format!("proven within {}", quantity::percent(gap)),
    };
    if proof.minimise.len() > 1 {
        return of_front(proof, (best, runs), &plans, &proven);
    }
    let step = best.step_time().map(quantity::seconds).unwrap_or_default();
    let step = format!("{step} a step");
    let speed = Speed::of(std::slice::from_ref(best));
    let rate = speed.value(best).filter(|_| speed.is_of_work()).map(|value| speed.text(value));
    let (asked, then) = match amount(proof, best) {
        Some(amount) => (amount, Some(step)),
        None => (step, None),
    };
    let plan = [setting(&best.variant, &best.point)].into_iter().chain(rate).chain(then);
    Headline {
        verdict: format!("{leads} of {plans} plans: {asked}, {proven}."),
        conditions: format!("Its settings: {}.", plan.collect::<Vec<_>>().join("; ")),
    }
}

/// The answer where several figures are to be least.
fn of_front(
    proof: &SearchProof,
    (best, runs): (&RunSummary, &[RunSummary]),
    plans: &str,
    proven: &str,
) -> Headline {
    let [first, last] =
        [Some(best), runs.last()].map(|run| run.map(|run| end(proof, run)).unwrap_or_default());
    let [front, one] = match proof.left {
        0 => ["The front has", "One plan is best in all of"],
        _ => ["So far the front has", "So far one plan is best in all of"],
    };
    match runs.len() {
        1 => Headline {
            verdict: format!("{one} {plans}, {proven}."),
            conditions: format!("Its settings: {first}."),
        },
        count => Headline {
            verdict: format!("{front} {count} of {plans} plans, {proven}."),
            conditions: format!("It goes from {first} to {last}."),
        },
    }
}

/// A plan at an end of a front, with its values.
fn end(proof: &SearchProof, run: &RunSummary) -> String {
    let value = |one: &String| Some(objective::text(one, objective::value(one, run)?, run));
    let values: Vec<String> = proof.minimise.iter().filter_map(value).collect();
    format!("{} ({})", setting(&run.variant, &run.point), values.join(", "))
}

/// The cost, energy or memory that was to be least.
fn amount(proof: &SearchProof, best: &RunSummary) -> Option<String> {
    let [objective] = &proof.minimise[..] else { return None };
    let value = objective::text(objective, objective::value(objective, best)?, best);
    let of_tokens = || best.campaign.as_ref()?.cost.as_ref()?.per_million_tokens;
    match objective.as_str() {
        "cost" if of_tokens().is_some() => Some(format!("{value} per million tokens")),
        "cost" => Some(format!("{value} per million samples")),
        "energy" => Some(format!("{value} a sample")),
        "peak_memory" => Some(value),
        _ => None,
    }
}

/// Settings of a plan: `tensor 8, micro-batch 2, recompute full`.
pub(crate) fn setting(variant: &str, point: &IndexMap<String, String>) -> String {
    let paths: Vec<&str> = point.keys().map(String::as_str).collect();
    let told = point.iter().filter(|(_, value)| !["none", "false", "1", "1f1b"].contains(&value.as_str()));
    let told = told.map(|(path, value)| {
        let name = shortest(path, &paths);
        match value.as_str() {
            "true" | "{}" => name,
            value => format!("{name} {}", said(value)),
        }
    });
    match told.collect::<Vec<_>>().join(", ") {
        plain if plain.is_empty() => variant.to_owned(),
        settings => settings,
    }
}

/// Plans by what became of them, those of which there are none left out.
pub(crate) fn outcomes(proof: &SearchProof) -> Vec<(String, u64)> {
    let &SearchProof { impossible, short_of_memory, slower, equal, fit, did_not_fit, left, .. } = proof;
    let all = [
        ("settings that do not go together", impossible),
        ("memory too small before anything is put in order", short_of_memory),
        ("slower by their bound", slower),
        ("equal to another plan", equal),
        ("simulated, memory too small", did_not_fit),
        ("simulated, fit", fit),
        ("not looked at", left),
    ];
    all.into_iter().filter(|(_, plans)| *plans > 0).map(|(what, plans)| (what.to_owned(), plans)).collect()
}

/// Rules and limits that plans break, the most frequent of each first.
pub(crate) fn broken(proof: &SearchProof) -> impl Iterator<Item = (&str, u64)> {
    let (limits, rules) = (proof.broken.iter(), proof.reasons.iter());
    limits.chain(rules).map(|broken| (broken.rule.as_str(), broken.plans))
}

/// Advice where the best plan cannot be told from others: their difference is within its interval.
pub(crate) fn ties(proof: &SearchProof, runs: &[RunSummary]) -> Option<String> {
    if proof.minimise.len() > 1 {
        return None;
    }
    let within = |run: &&RunSummary| run.relative_to_first.is_some_and(|ratio| ratio.interval[0] <= 1.0);
    match runs.iter().skip(1).filter(within).count() {
        0 => None,
        1 if runs.len() == 2 => Some(
            "The next plan may be as fast: the difference is within its interval. Measure both.".to_owned(),
        ),
        count => Some(format!(
            "{count} of the {} plans below the best may be as fast: their difference is within its interval. \
             Measure the first {}.",
            runs.len() - 1,
            (count + 1).min(3)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Ratio;

    fn run(tensor: &str, step: f64, interval: Option<[f64; 2]>) -> RunSummary {
        let point = [("parallelism.tensor", tensor), ("techniques.recompute", "none")];
        RunSummary {
            variant: "base".to_owned(),
            point: point.into_iter().map(|(path, value)| (path.to_owned(), value.to_owned())).collect(),
            fits: true,
            step_time_s: Some(step),
            relative_to_first: interval.map(|interval| Ratio::within(step, interval)),
            ..RunSummary::default()
        }
    }

    #[test]
    fn the_best_plan_is_told_with_its_proof() {
        let proof =
            SearchProof { plans: 1920, fit: 2, slower: 1918, gap: Some(0.004), ..SearchProof::default() };
        let runs = [run("8", 2.0, None), run("4", 2.1, Some([0.98, 1.1])), run("2", 2.2, Some([1.02, 1.2]))];
        assert_eq!(
            finding(&proof, &runs).to_string(),
            "Best of 1.92 k plans: 2.00 s a step, proven within 0.400 %. Its settings: tensor 8."
        );
        assert_eq!(
            ties(&proof, &runs).as_deref(),
            Some(
                "1 of the 2 plans below the best may be as fast: their difference is within its interval. \
                 Measure the first 2."
            )
        );
        assert_eq!(outcomes(&proof).iter().map(|(_, plans)| plans).sum::<u64>(), 1920);
        let none = SearchProof { gap: None, ..proof };
        assert_eq!(finding(&none, &[]).to_string(), "None of 1.92 k plans fits.");
        assert_eq!(setting("base", &IndexMap::new()), "base");
    }
}
