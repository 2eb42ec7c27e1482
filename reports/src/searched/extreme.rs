//! The largest or the fewest of a quantity in words, and every value that was tried as rows of a table.

use indexmap::IndexMap;

use super::setting;
use crate::finding::Headline;
use crate::naming::shortest;
use crate::quantity;
use crate::summary::{Extreme, ExtremeWithout, TriedValue};
use crate::wording::capitalised;

/// Titles of [`rows`] behind that of the value.
const TITLES: [&str; 5] =
    [">parameters", "does it fit", ">plans", ">simulated", "with which plan, or why not"];

/// The answer: the value that was found, its plan, and what the next one lacks.
pub(super) fn finding(extreme: &Extreme) -> Headline {
    let [so_far, none] = match extreme.stopped {
        true => ["So far ", "So far none"],
        false => ["", "None"],
    };
    let name = name(extreme);
    let Some(found) = found(extreme) else {
        let not_even = |first: &TriedValue| {
            format!("Not even {}: {}{}.", value(&first.value), why(first), remedies(extreme))
        };
        return Headline {
            verdict: format!("{none} of the values of {name} fits."),
            conditions: first(extreme).map(not_even).unwrap_or_default(),
        };
    };
    let plan = found.plan.as_ref().map(|plan| {
        let step = quantity::seconds(plan.step_time_s);
        format!("The plan there: {}; {step} a step. ", setting(&plan.variant, &plan.point))
    });
    let gpus = found.gpus.filter(|_| extreme.wanted == "fewest").map(|gpus| format!("{gpus} GPUs"));
    let size = found.parameters.filter(|_| is_of_model(extreme)).map(parameters);
    let size = gpus.or(size).map(|size| format!(" ({size})")).unwrap_or_default();
    let verb = if name.ends_with('s') { "fit" } else { "fits" };
    let last = match extreme.wanted.as_str() {
        "fewest" => format!("from {} on{size}", value(&found.value)),
        _ => format!("up to {}{size}", value(&found.value)),
    };
    let behind = match next(extreme) {
        Some(next) => format!("Not {}: {}{}.", value(&next.value), why(next), remedies(extreme)),
        None if extreme.stopped => "Others were not tried before the search was stopped.".to_owned(),
        None => "It is the last value that was asked for.".to_owned(),
    };
    Headline {
        verdict: format!("{}.", capitalised(&format!("{so_far}{name} {verb} {last}"))),
        conditions: format!("{}{behind}", plan.unwrap_or_default()),
    }
}

/// Titles of [`rows`].
pub(crate) fn titles(extreme: &Extreme) -> Vec<String> {
    [name(extreme)].into_iter().chain(TITLES.map(str::to_owned)).collect()
}

/// By value that was tried what became of its plans.
pub(crate) fn rows(extreme: &Extreme) -> Vec<Vec<String>> {
    let row = |tried: &TriedValue| {
        let plan = tried.plan.as_ref().map(|plan| setting(&plan.variant, &plan.point));
        vec![
            value(&tried.value),
            tried.parameters.map(size).unwrap_or_default(),
            if tried.fits { "yes" } else { "no" }.to_owned(),
            tried.plans.to_string(),
            tried.simulated.to_string(),
            plan.unwrap_or_else(|| why(tried)),
        ]
    };
    extreme.tried.iter().map(row).collect()
}

/// Titles of [`without`].
pub(crate) fn titles_without(extreme: &Extreme) -> Vec<String> {
    vec![
        "technique left out".to_owned(),
        format!("{}, {}", name(extreme), extreme.wanted),
        ">parameters".to_owned(),
    ]
}

/// By technique of the plan the last value that fits without it.
pub(crate) fn without(extreme: &Extreme) -> Vec<Vec<String>> {
    let row = |ExtremeWithout { technique, value: last, parameters }: &ExtremeWithout| {
        let last = last.as_ref().map_or_else(|| "none".to_owned(), value);
        vec![technique.replace('_', "-"), last, parameters.map(size).unwrap_or_default()]
    };
    extreme.without.iter().map(row).collect()
}

/// The quantity: `sequence`, `layers and hidden`.
fn name(extreme: &Extreme) -> String {
    let paths: Vec<&str> = extreme.of.iter().map(String::as_str).collect();
    let names: Vec<String> = paths.iter().map(|path| shortest(path, &paths)).collect();
    names.join(" and ")
}

fn value(value: &IndexMap<String, String>) -> String {
    value.values().cloned().collect::<Vec<_>>().join(" and ")
}

fn is_of_model(extreme: &Extreme) -> bool {
    extreme.of.iter().any(|path| path.starts_with("model."))
}

fn parameters(count: u64) -> String {
    format!("{} parameters", size(count))
}

fn size(count: u64) -> String {
    quantity::count(count as f64)
}

fn found(extreme: &Extreme) -> Option<&TriedValue> {
    let value = extreme.value.as_ref()?;
    extreme.tried.iter().find(|tried| tried.value == *value)
}

/// The value behind the one that was found, of those that were tried.
fn next(extreme: &Extreme) -> Option<&TriedValue> {
    let value = extreme.value.as_ref()?;
    let place = extreme.tried.iter().position(|tried| tried.value == *value)?;
    match extreme.wanted.as_str() {
        "fewest" => extreme.tried[..place].last(),
        _ => extreme.tried.get(place + 1),
    }
}

/// The value that asks for least.
fn first(extreme: &Extreme) -> Option<&TriedValue> {
    match extreme.wanted.as_str() {
        "fewest" => extreme.tried.last(),
        _ => extreme.tried.first(),
    }
}

/// Reason for which a value has no plan.
fn why(tried: &TriedValue) -> String {
    let closest = if tried.plans == 1 {
        "the plan".to_owned()
    } else {
        format!("the closest of {} plans", tried.plans)
    };
    match (&tried.store, tried.short_bytes, &tried.reason) {
        (Some(store), Some(short), _) => {
            format!("{closest} lacks {} in {}", quantity::bytes(short), place(store))
        }
        (None, Some(short), _) => format!("{closest} lacks {}", quantity::bytes(short)),
        (_, None, Some(reason)) if tried.impossible < tried.plans => format!("{closest} fails `{reason}`"),
        (_, None, Some(reason)) => reason.clone(),
        (_, None, None) => "it was not looked at to the end".to_owned(),
    }
}

/// A store in words: `node[0].memory[1]` is memory of a host.
fn place(store: &str) -> String {
    match store.split('.').next_back() {
        Some(part) if part.starts_with("memory[") => format!("host memory, {store}"),
        _ => store.to_owned(),
    }
}

/// What else could be tried.
fn remedies(extreme: &Extreme) -> String {
    match &extreme.not_searched[..] {
        [] => String::new(),
        names => format!(". The search does not have {}", names.join(", ").replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::AlternativePlan;

    fn tried(layers: &str, short: Option<u64>) -> TriedValue {
        let plan =
            AlternativePlan { variant: "base".to_owned(), step_time_s: 2.0, ..AlternativePlan::default() };
        TriedValue {
            value: [("model.transformer.layers".to_owned(), layers.to_owned())].into_iter().collect(),
            parameters: Some(13_000_000_000),
            fits: short.is_none(),
            plan: short.is_none().then_some(plan),
            plans: 12,
            store: short.map(|_| "memory of stage 0".to_owned()),
            short_bytes: short,
            ..TriedValue::default()
        }
    }

    #[test]
    fn the_last_value_is_told_with_what_the_next_one_lacks() {
        let mut extreme = Extreme {
            wanted: "largest".to_owned(),
            of: vec!["model.transformer.layers".to_owned()],
            tried: vec![tried("48", None), tried("49", Some(1_300_000_000))],
            ..Extreme::default()
        };
        extreme.value = Some(extreme.tried[0].value.clone());
        assert_eq!(
            finding(&extreme).to_string(),
            "Layers fit up to 48 (13.0 G parameters). The plan there: base; 2.00 s a step. \
             Not 49: the closest of 12 plans lacks 1.30 GB in memory of stage 0."
        );
        extreme.tried.remove(0);
        extreme.value = None;
        extreme.not_searched = vec!["zero_offload".to_owned()];
        assert_eq!(
            finding(&extreme).to_string(),
            "None of the values of layers fits. Not even 49: the closest of 12 plans lacks \
             1.30 GB in memory of stage 0. The search does not have zero-offload."
        );
    }
}
