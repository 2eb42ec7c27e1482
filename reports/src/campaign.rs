//! A training run in words: the cells of its table, and what its numbers rest on.

use crate::naming::Naming;
use crate::quantity;
use crate::summary::{Campaign, Checkpoint, Cost, CostPart, Histories, JobFailures, RunSummary};

/// Titles of the table; those of numbers begin with `>`.
pub(crate) const TITLES: [&str; 9] = [
    "variant",
    ">takes",
    ">goodput",
    ">checkpoint",
    ">training waits",
    ">every",
    ">failures",
    ">cost",
    ">per million",
];

/// A cell, and the number that rows are sorted by.
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) sort: Option<f64>,
}

/// The campaigns of runs in a sentence: the shortest, and beside it the longest. `None`: no run has one.
pub fn finding(runs: &[RunSummary], axes: &[String]) -> Option<String> {
    let naming = Naming::of(runs, axes);
    let mut all: Vec<(&RunSummary, &Campaign)> =
        runs.iter().filter_map(|run| Some((run, run.campaign.as_ref()?))).collect();
    // What never ends takes longest.
    all.sort_by(|(_, a), (_, b)| wall_s(a).total_cmp(&wall_s(b)));
    let (&(shortest, first), &(longest, last)) = (all.first()?, all.last()?);
    if wall_s(first) == wall_s(last) {
        return Some(format!("Training {}.", takes(first, "")));
    }
    let with = |run| format!(" with {}", naming.run(run));
    Some(format!("Training {}; it {}.", takes(first, &with(shortest)), takes(last, &with(longest))))
}

fn wall_s(campaign: &Campaign) -> f64 {
    campaign.expected_s.unwrap_or(f64::INFINITY)
}

/// Expected time, the variant that takes it, and the share that makes progress.
fn takes(campaign: &Campaign, with: &str) -> String {
    match campaign.expected_s.zip(campaign.goodput) {
        Some((wall_s, goodput)) => {
            let (time, goodput) = (quantity::seconds(wall_s), quantity::percent(goodput));
            format!("takes {time}{with} (goodput {goodput})")
        }
        None => format!("never ends{with}"),
    }
}

/// The cells behind the name of the variant.
pub(crate) fn cells(campaign: &Campaign) -> Vec<Cell> {
    let number = |value: Option<f64>, text: fn(f64) -> String| Cell {
        text: value.map_or_else(|| quantity::NONE.to_owned(), text),
        sort: value,
    };
    let checkpoint = campaign.checkpoint.as_ref();
    let of_cost = |of: fn(&Cost) -> Option<f64>| {
        let cost = campaign.cost.as_ref();
        let value = cost.and_then(of);
        let text = cost.zip(value).map(|(cost, value)| money(value, &cost.currency));
        Cell { text: text.unwrap_or_else(|| quantity::NONE.to_owned()), sort: value }
    };
    let takes = Cell {
        text: campaign.expected_s.map_or("never ends".to_owned(), quantity::seconds),
        sort: campaign.expected_s,
    };
    vec![
        takes,
        number(campaign.goodput, quantity::percent),
        number(checkpoint.map(|it| it.bytes as f64), |bytes| quantity::bytes(bytes as u64)),
        number(checkpoint.map(|it| it.pause_s), quantity::seconds),
        number(checkpoint.map(|it| it.interval_s), quantity::seconds),
        number(campaign.failures.as_ref().and_then(|it| it.expected), quantity::count),
        of_cost(|cost| Some(cost.total)),
        of_cost(Cost::per_million),
    ]
}

/// Facts behind the numbers, each with its subject.
pub(crate) fn facts(campaign: &Campaign) -> Vec<(&'static str, String)> {
    let mut facts = vec![("length", length(campaign))];
    facts.extend(campaign.checkpoint.as_ref().map(|it| ("checkpoint", bytes(it))));
    facts.extend(campaign.checkpoint.as_ref().map(|it| ("interval", interval(it))));
    facts.extend(campaign.failures.as_ref().map(|it| ("failures", failures(it))));
    let played = campaign.histories.as_ref().map(histories);
    let fails = campaign.failures.as_ref().is_some_and(|it| it.expected.is_some());
    let too_many = || fails.then(|| "not played: they have too many failures".to_owned());
    facts.extend(played.or_else(too_many).map(|text| ("histories", text)));
    facts.push(("GPU hours", gpu_hours(campaign)));
    facts.extend(campaign.cost.as_ref().map(|it| ("prices", prices(it))));
    facts
}

fn length(campaign: &Campaign) -> String {
    let of = |count: Option<f64>, what: &str| count.map(|count| format!("{} {what}", quantity::count(count)));
    let counted = of(campaign.tokens, "tokens").or_else(|| of(campaign.samples, "samples"));
    let counted = counted.map(|counted| format!("{counted} in ")).unwrap_or_default();
    let time = quantity::seconds(campaign.work_s);
    format!("{counted}{} steps, {time} without checkpoints and failures", campaign.steps)
}

fn bytes(checkpoint: &Checkpoint) -> String {
    let Checkpoint { to, bytes, held_bytes, .. } = checkpoint;
    let of_kind = |(kind, bytes): (&String, &u64)| format!("{kind} {}", quantity::bytes(*bytes));
    let kinds: Vec<String> = checkpoint.by_kind_bytes.iter().map(of_kind).collect();
    let lag = checkpoint.lag_s.map(|lag_s| format!(", durable {} later", quantity::seconds(lag_s)));
    format!(
        "{} to {to} ({}), each byte written once of {} that ranks hold{}",
        quantity::bytes(*bytes),
        kinds.join(", "),
        quantity::bytes(*held_bytes),
        lag.unwrap_or_default()
    )
}

fn interval(checkpoint: &Checkpoint) -> String {
    let estimates = [
        ("best", checkpoint.best_interval_s),
        ("Young", checkpoint.young_interval_s),
        ("Daly", checkpoint.daly_interval_s),
    ];
    let told = estimates.iter().filter_map(|(name, seconds)| {
        seconds.map(|seconds| format!("{name} {}", quantity::seconds(seconds)))
    });
    let told: Vec<String> = told.collect();
    let interval = quantity::seconds(checkpoint.interval_s);
    if told.is_empty() { interval } else { format!("{interval}; {}", told.join(", ")) }
}

fn failures(failures: &JobFailures) -> String {
    let JobFailures { mean_time_between_s, restart_s, expected } = failures;
    let [between, restart] = [*mean_time_between_s, *restart_s].map(quantity::seconds);
    let expected = expected.map(|count| format!("{} expected, ", quantity::count(count)));
    format!("{}one every {between}, {restart} to restart", expected.unwrap_or_default())
}

fn histories(histories: &Histories) -> String {
    let Histories { seeds, mean_s, nine_of_ten_s, failures, lost_share } = histories;
    let [least, most] = nine_of_ten_s.map(quantity::seconds);
    format!(
        "{seeds} simulated: {} on average, nine of ten {least} to {most}; {} failures, {} of the time lost work",
        quantity::seconds(*mean_s),
        quantity::count(*failures),
        quantity::percent(*lost_share)
    )
}

fn gpu_hours(campaign: &Campaign) -> String {
    let effective = quantity::count(campaign.effective_gpu_hours);
    let paid = campaign.gpu_hours.map(|hours| format!(" of {}", quantity::count(hours)));
    format!("{effective} effective{} on {} GPUs", paid.unwrap_or_default(), campaign.gpus)
}

fn prices(cost: &Cost) -> String {
    let part = |part: &CostPart| {
        let unit = match part.of.as_str() {
            "gpu_hour" => "GPU hour",
            "node_hour" => "node hour",
            _ => "TB written",
        };
        let (price, units) = (quantity::exact(part.price), quantity::count(part.units));
        format!("{units} x {price} {} a {unit} ({}, {})", cost.currency, part.source, part.date)
    };
    cost.parts.iter().map(part).collect::<Vec<_>>().join("; ")
}

fn money(amount: f64, currency: &str) -> String {
    format!("{} {currency}", quantity::count(amount))
}
