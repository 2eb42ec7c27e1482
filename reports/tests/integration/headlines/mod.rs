//! Headlines are true: every claim follows again from `results.csv`, and the sentence says its
//! claims and nothing else.

mod judge;
mod random;
mod table;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use reports::finding::{Claim, Finding, Headline, VERDICT_WORDS_MAX, WORDS_MAX, finding};
use reports::summary::{Interrupted, RunSummary, SearchProof};
use reports::{Summary, csv};

use crate::fixture;
use judge::judge;
use random::{Experiment, Random};
use table::Table;

/// Random experiments that are judged.
const EXPERIMENTS: usize = 2_000;

/// Every experiment by its number, so that one that fails can be looked at alone.
fn experiments() -> impl Iterator<Item = (usize, Experiment)> {
    (0..EXPERIMENTS).map(|number| (number, Random(number as u64).experiment()))
}

fn found(experiment: &Experiment) -> Finding {
    finding(&experiment.runs, &experiment.axes, &experiment.cases, experiment.interrupted)
}

/// Results as a program reads them.
fn table(runs: &[RunSummary], axes: &[String], cases: &[String]) -> Table {
    let summary = Summary { axes: axes.to_vec(), ..fixture::summary("random", &[], runs.to_vec()) };
    let mut text = Vec::new();
    csv::write(&mut text, &summary).expect("a vector takes every byte");
    Table::read(&String::from_utf8(text).expect("text"), axes, cases)
}

/// First mistake of a headline, in its claims or in its words.
fn wrong(finding: &Finding, table: &Table) -> Option<String> {
    let headline = finding.headline();
    for (sentence, most) in [(headline.verdict.clone(), VERDICT_WORDS_MAX), (headline.to_string(), WORDS_MAX)]
    {
        let words = sentence.split_whitespace().count();
        if words > most {
            return Some(format!("{words} words: {sentence}"));
        }
    }
    if headline.verdict != format!("{}.", finding.claims[0]) {
        return Some("the verdict is not the first claim".to_owned());
    }
    let with_detail = |claim: &Claim| {
        [Some(claim.to_string()), claim.detail()].into_iter().flatten().collect::<Vec<_>>().join(". ")
    };
    let clauses: Vec<String> = finding.claims.iter().map(with_detail).collect();
    if headline.to_string() != format!("{}.", clauses.join(". ")) {
        return Some("the headline is not its claims".to_owned());
    }
    let told = finding.claims.iter().map(|claim| match claim {
        Claim::Where { cases, .. } => cases.len(),
        _ => 0,
    });
    let told: usize = told.sum();
    if told > 0 && told != table.cases().len() {
        return Some(format!("{told} of {} cases are told", table.cases().len()));
    }
    finding.claims.iter().zip(&clauses).find_map(|(claim, clause)| {
        let wrong = judge(claim, table).and_then(|()| words::check(clause, claim, table)).err()?;
        Some(format!("{clause}: {wrong}"))
    })
}

#[test]
fn every_claim_about_random_results_follows_from_their_table() {
    for (number, experiment) in experiments() {
        let finding = found(&experiment);
        let table = table(&experiment.runs, &experiment.axes, &experiment.cases);
        if let Some(wrong) = wrong(&finding, &table) {
            panic!("experiment {number}: {wrong}\n{finding}\n{finding:#?}");
        }
    }
}

/// The random experiments lead to every claim that does not ask for a step by cause.
#[test]
fn random_results_lead_to_every_claim() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (_, experiment) in experiments() {
        for claim in found(&experiment).claims {
            let name = format!("{claim:?}");
            let end = name.find([' ', '(']).unwrap_or(name.len());
            *seen.entry(name[..end].to_owned()).or_default() += 1;
        }
    }
    let all = [
        "Alone",
        "Between",
        "Closest",
        "Counts",
        "Failed",
        "Fails",
        "Faster",
        "Fastest",
        "Interrupted",
        "LeastMemory",
        "NoneRuns",
        "NotIn",
        "Only",
        "Slower",
        "Tie",
        "TiesAll",
        "Unbeaten",
        "Where",
        "WinsAll",
    ];
    let missing: Vec<_> = all.iter().filter(|name| !seen.contains_key(**name)).collect();
    assert!(missing.is_empty(), "{missing:?} are never made: {seen:?}");
}

/// The judge finds what is false: claims about one experiment hardly ever hold for another.
#[test]
fn claims_about_other_results_are_refused() {
    let others: Vec<_> = experiments().take(300).collect();
    let (mut asked, mut refused) = (0, 0);
    for pair in others.windows(2) {
        let [(_, this), (_, other)] = pair else { continue };
        let (this, other) = (found(this), table(&other.runs, &other.axes, &other.cases));
        if other.rows.len() > 1 && !other.cases().is_empty() {
            asked += 1;
            let judged = std::panic::catch_unwind(|| wrong(&this, &other).is_some());
            refused += usize::from(judged.unwrap_or(true));
        }
    }
    assert!(asked > 150 && refused * 100 >= asked * 95, "{refused} of {asked} refused");
}

/// Headlines that were wrong: a tie of three variants of which only two tie.
#[test]
fn the_mistakes_that_were_made_are_refused() {
    let axis = "model.hidden";
    let mut runs = Vec::new();
    for (hidden, slow) in [("8192", 1.29), ("12288", 1.30)] {
        for (variant, step_time_s) in [("keep", 1.0), ("offload", 1.0001), ("recompute", slow)] {
            runs.push(fixture::at(fixture::bare(variant, step_time_s), axis, hidden));
        }
    }
    let axes = [axis.to_owned()];
    let table = table(&runs, &axes, &axes);
    let true_one = finding(&runs, &axes, &axes, None);
    assert_eq!(
        true_one.to_string(),
        "keep and offload are equally fast in both cases. recompute is 1.29–1.30× slower."
    );
    assert_eq!(wrong(&true_one, &table), None);
    let tie = |with: &[&str]| Claim::TiesAll {
        name: "keep".to_owned(),
        with: with.iter().map(|name| (*name).to_owned()).collect(),
        named: 3,
        cases: 2,
        of: 2,
        apart: None,
        saving: None,
    };
    assert!(judge(&tie(&["offload"]), &table).is_ok());
    assert!(judge(&tie(&["offload", "recompute"]), &table).is_err());
    let Claim::Slower { names, by } = &true_one.claims[1] else { panic!("recompute is slower") };
    let less = Claim::Slower { names: names.clone(), by: reports::finding::Range { high: 1.31, ..*by } };
    assert!(judge(&less, &table).is_err());
}

/// Committed results: what they say, where a file has the figures that follow from.
#[test]
fn every_headline_of_the_library_follows_from_its_committed_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/library");
    let mut judged = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the library") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".expected.json") else { continue };
        let text = fs::read_to_string(&path).expect("a readable file");
        let expected: Expected =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(proof) = &expected.search {
            let told = reports::searched::finding(proof, &expected.runs);
            let written = expected.headline();
            assert!(alike(&told.to_string(), &written), "{name}: {told}\n{written}");
            assert!(told.verdict.split_whitespace().count() <= VERDICT_WORDS_MAX, "{told}");
            continue;
        }
        let axes: Vec<String> = expected.runs[0].point.keys().cloned().collect();
        let found = finding(&expected.runs, &axes, &expected.cases, None);
        // The last sentence is about campaigns.
        let of_campaigns = reports::campaign::finding(&expected.runs, &axes);
        let told = [found.to_string()].into_iter().chain(of_campaigns).collect::<Vec<_>>().join(" ");
        let written = expected.headline();
        assert!(alike(&told, &written), "{name}: {told}\n{written}");
        let wrong = wrong(&found, &table(&expected.runs, &axes, &expected.cases));
        assert_eq!(wrong, None, "{name}: {found}");
        judged.insert(name.to_owned());
    }
    assert!(judged.len() >= 24, "only {judged:?}");
}

/// Compares sentences with numbers that may differ by a per cent: committed figures have six
/// digits, and small differences of them fewer.
fn alike(a: &str, b: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        text.split([' ', '–', '(', ')', '×'])
            .map(|part| part.trim_end_matches(['.', ',', ';']).to_owned())
            .collect()
    };
    let (a, b) = (parts(a), parts(b));
    let number = |text: &str| text.parse::<f64>().ok();
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b || (a / b - 1.0).abs() < 0.01,
            _ => a == b,
        })
}

/// Committed results of a scenario.
#[derive(serde::Deserialize)]
struct Expected {
    finding: String,
    #[serde(default)]
    conditions: String,
    #[serde(default)]
    cases: Vec<String>,
    runs: Vec<RunSummary>,
    search: Option<SearchProof>,
}

impl Expected {
    fn headline(&self) -> String {
        let Self { finding, conditions, .. } = self;
        Headline { verdict: finding.clone(), conditions: conditions.clone() }.to_string()
    }
}

#[test]
fn an_interrupted_sweep_says_how_far_it_came() {
    let axis = "training.micro_batch";
    let runs: Vec<_> =
        ["1", "2", "4"].iter().map(|value| fixture::at(fixture::bare("a", 1.0), axis, value)).collect();
    let interrupted = Some(Interrupted { ended: 3, planned: 48 });
    let sentence = finding(&runs, &[axis.to_owned()], &[], interrupted).to_string();
    assert_eq!(sentence, "3 of 48 runs ended before the interrupt. a runs at 1.00 s a step in 3 cases.");
}
