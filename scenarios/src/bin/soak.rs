//! Runs random scenarios and says what does not hold; `--case N` prints one of them.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::Parser;
use scenarios::soak::{Changed, Examined, Outcome, changed, examine, examine_changed, scenario};

/// Runs random scenarios, and says which contradict themselves
#[derive(Parser)]
struct Arguments {
    /// Cases to run
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// First case
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Root of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print this case as YAML, and what was found, instead
    #[arg(long)]
    case: Option<u64>,
    /// Change library scenarios by the schema instead of making new ones
    #[arg(long)]
    changed: bool,
}

impl Arguments {
    /// A case: a comment about it, and its text.
    fn case(&self, number: u64) -> (String, String) {
        if self.changed {
            let Changed { from, how, text } = changed(self.seed, number);
            (format!("library:{from} with {how}"), text)
        } else {
            (String::new(), scenario(self.seed, number))
        }
    }

    fn examine(&self, text: &str) -> Examined {
        if self.changed { examine_changed(text) } else { examine(text) }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = stdout().lock();
    match report(&arguments, &mut out) {
        Ok(0) => ExitCode::SUCCESS,
        // What reads the output may close it early.
        Ok(_) | Err(_) => ExitCode::FAILURE,
    }
}

/// Examines all cases; the number of those that do not hold.
fn report(arguments: &Arguments, out: &mut impl Write) -> std::io::Result<u64> {
    if let Some(number) = arguments.case {
        let (about, text) = arguments.case(number);
        let Examined { outcome, breaches } = arguments.examine(&text);
        writeln!(out, "{text}# {about}\n# {outcome:?}")?;
        breaches.iter().try_for_each(|breach| writeln!(out, "# {breach}"))?;
        return Ok(u64::from(!breaches.is_empty()));
    }
    let (mut failed, mut outcomes, mut properties) = (0, BTreeMap::new(), BTreeMap::new());
    // One after the other: a run has its own threads.
    for number in arguments.from..arguments.from.saturating_add(arguments.cases) {
        let (about, text) = arguments.case(number);
        let Examined { outcome, breaches } = arguments.examine(&text);
        *outcomes.entry(kind(&outcome)).or_insert(0_u64) += 1;
        if breaches.is_empty() {
            continue;
        }
        failed += 1;
        writeln!(out, "case {number} {about}")?;
        for breach in &breaches {
            *properties.entry(breach.property).or_insert(0_u64) += 1;
            writeln!(out, "    {breach}")?;
        }
    }
    let counts = |counts: &BTreeMap<&str, u64>| {
        counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    };
    writeln!(out, "{} cases of seed {}: {}", arguments.cases, arguments.seed, counts(&outcomes))?;
    writeln!(out, "{failed} do not hold: {}", counts(&properties))?;
    Ok(failed)
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Refused(_) => "refused",
        Outcome::NotRun(_) => "not run",
        Outcome::Panicked => "panicked",
        Outcome::Ran(verdicts) if verdicts.fit > 0 => "fit",
        Outcome::Ran(verdicts) if verdicts.short > 0 => "do not fit",
        Outcome::Ran(_) => "impossible",
    }
}
