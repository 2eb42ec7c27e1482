//! A plausible experiment: an eight-stage pipeline replayed with seven ways of training it, over six numbers of
//! micro-batches, where the way that keeps everything does not fit.

use indexmap::IndexMap;
use reports::Summary;
use reports::finding::{Headline, finding};
use reports::summary::{
    Assumption, Check, Citation, DevicePeak, Difference, Failure, FailureKind, MemoryCurve, MemoryPoint,
    Pair, RankTime, Remedy, ResourceUse, RunSummary, SCHEMA_VERSION, Spread, Timeline, TimelineRow,
    TimelineSpan,
};

const STAGES: usize = 8;
const CAPACITY: u64 = 40_000_000_000;
const WEIGHTS: u64 = 4_000_000_000;
const AXIS: &str = "training.micro_batches";

/// One way of training, as the replay needs it.
struct Way {
    name: &'static str,
    /// Forwards a stage runs before its first backward, given its index and the micro-batches.
    warm_up: fn(usize, usize) -> usize,
    forward_s: f64,
    recompute_s: f64,
    backward_s: f64,
    message_s: f64,
    activation: u64,
}

const ONE_F_ONE_B: fn(usize, usize) -> usize = |stage, micro_batches| (STAGES - stage).min(micro_batches);

const PLAIN: Way = Way {
    name: "1f1b",
    warm_up: ONE_F_ONE_B,
    forward_s: 0.018_522,
    recompute_s: 0.0,
    backward_s: 0.027_423,
    message_s: 0.000_601,
    activation: 3_500_000_000,
};

const WAYS: [Way; 7] = [
    PLAIN,
    Way { name: "gpipe", warm_up: |_, micro_batches| micro_batches, ..PLAIN },
    Way { name: "recompute", recompute_s: 0.018_1, activation: 400_000_000, ..PLAIN },
    Way { name: "fused-kernels", forward_s: 0.016_9, backward_s: 0.025_8, ..PLAIN },
    Way { name: "slow-links", message_s: 0.006, ..PLAIN },
    Way {
        name: "gpipe-recompute",
        warm_up: |_, m| m,
        recompute_s: 0.018_1,
        activation: 400_000_000,
        ..PLAIN
    },
    Way { name: "half-precision-activations", forward_s: 0.018_9, activation: 1_750_000_000, ..PLAIN },
];

/// The comparison at one point, 24 micro-batches, without sweep.
pub(crate) fn comparison() -> Summary {
    let mut runs = runs(&[24], true);
    for run in &mut runs {
        run.point.clear();
    }
    summary("pipeline-schedules", &[], runs)
}

/// The comparison over six numbers of micro-batches.
pub(crate) fn sweep() -> Summary {
    summary("pipeline-schedules", &[AXIS], runs(&[8, 16, 24, 32, 48, 64], false))
}

/// The comparison over two axes, one of them in words.
pub(crate) fn two_axes() -> Summary {
    let mut all = Vec::new();
    for (send, factor) in [("latency", 1.0), ("eager", 1.01), ("rendezvous", 1.08)] {
        for mut run in runs(&[8, 16, 32], false) {
            run.point.insert("parallelism.send".to_owned(), send.to_owned());
            let factor = if run.variant == "fused-kernels" { factor * factor } else { factor };
            run.step_time_s = run.step_time_s.map(|time| time * factor);
            run.samples_per_s = run.samples_per_s.map(|rate| rate / factor);
            all.push(run);
        }
    }
    summary("send-modes", &[AXIS, "parallelism.send"], all)
}

/// A run that fits and says nothing but its step time.
pub(crate) fn bare(variant: &str, step_time_s: f64) -> RunSummary {
    RunSummary {
        variant: variant.to_owned(),
        fits: true,
        step_time_s: Some(step_time_s),
        ..RunSummary::default()
    }
}

/// A run that does not fit by so many bytes.
pub(crate) fn too_big(variant: &str, short: u64) -> RunSummary {
    let failure = Failure {
        kind: FailureKind::OutOfMemory,
        message: "stage 0 ran out of memory".to_owned(),
        store: Some("stage 0".to_owned()),
        short_bytes: Some(short),
        ..Failure::default()
    };
    RunSummary { variant: variant.to_owned(), failure: Some(failure), ..RunSummary::default() }
}

/// The same run at a point of the sweep.
pub(crate) fn at(mut run: RunSummary, path: &str, value: &str) -> RunSummary {
    run.point.insert(path.to_owned(), value.to_owned());
    run
}

/// A summary around any runs.
pub(crate) fn summary(name: &str, axes: &[&str], variants: Vec<RunSummary>) -> Summary {
    let axes: Vec<String> = axes.iter().map(|axis| (*axis).to_owned()).collect();
    let assumption = |what: &str, value: &str, origin: &str| Assumption {
        what: what.to_owned(),
        value: value.to_owned(),
        origin: origin.to_owned(),
    };
    let Headline { verdict, conditions } = finding(&variants, &axes, &[], None).headline();
    Summary {
        schema_version: SCHEMA_VERSION,
        name: name.to_owned(),
        description: Some("Which pipeline schedule is best for a 1.5B model on eight A100s?".to_owned()),
        finding: verdict,
        conditions,
        version: "0.1.0".to_owned(),
        seed: 1,
        reproduce: format!("foretrain run {name} --seed 1"),
        scenario_digest: "5f0c9a3e17d2".to_owned(),
        axes,
        cases: Vec::new(),
        winners: None,
        search: None,
        interrupted: None,
        variants,
        expectations: vec![
            Check {
                text: "gpipe does not fit, because gpu-memory".to_owned(),
                passed: true,
                measured: "52.0 GB short".to_owned(),
                location: Some("pipeline-schedules.yaml:31".to_owned()),
            },
            Check {
                text: "bubble_fraction of 1f1b is between 24 % and 24.2 %".to_owned(),
                passed: false,
                measured: "24.3 %".to_owned(),
                location: Some("pipeline-schedules.yaml:32".to_owned()),
            },
        ],
        published: vec![
            citation("bubble_fraction of 1f1b", 0.2431, 0.243_1),
            citation("bubble_fraction of zb-h1", 0.1585, 0.158_2),
            citation("bubble_fraction of zb-2p", 0.0433, 0.047_6),
        ],
        parameters: [("stages", "8"), ("micro-batches", "24"), ("memory per stage", "40 GB")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        assumptions: vec![
            assumption("parallelism.send", "latency", "default"),
            assumption("memory.reserved", "0 B", "estimate"),
        ],
        machine: None,
        calibrations: Vec::new(),
        constants: Vec::new(),
        resolved_scenario: "name: pipeline-schedules\nmodel:\n  profiled_pipeline:\n    stages: 8\n"
            .to_owned(),
        settings: IndexMap::new(),
    }
}

/// A published bubble fraction.
pub(crate) fn citation(text: &str, published: f64, ours: f64) -> Citation {
    Citation {
        text: text.to_owned(),
        at: String::new(),
        source: "Qi et al., ICLR 2024, Table 5".to_owned(),
        published: format!("{:.2} %", published * 100.0),
        ours: format!("{:.2} %", ours * 100.0),
        difference: Some(Difference::Points(short(ours - published))),
        pair: Some(Pair { published, ours }),
        subject: None,
    }
}

fn runs(points: &[usize], seeds: bool) -> Vec<RunSummary> {
    let run = |way: &Way, micro_batches: usize| {
        let mut run = at(replay(way, micro_batches), AXIS, &micro_batches.to_string());
        run.step_time_spread = run.step_time_s.filter(|_| seeds).map(|mean_s| Spread {
            min_s: mean_s * 0.99,
            mean_s,
            max_s: mean_s * 1.02,
            seeds: 5,
        });
        let spread = run.step_time_spread.into_iter();
        run.seed_step_times_s = spread.flat_map(|it| [it.min_s, it.mean_s, it.max_s]).collect();
        run
    };
    points.iter().flat_map(|m| WAYS.iter().map(move |way| run(way, *m))).collect()
}

/// Replays one step: an operation starts when its stage is free and its message has come.
fn replay(way: &Way, micro_batches: usize) -> RunSummary {
    let resident =
        (0..STAGES).map(|stage| (way.warm_up)(stage, micro_batches) as u64).max().unwrap_or_default();
    let needed = WEIGHTS + resident * way.activation;
    let variant = way.name.to_owned();
    if needed > CAPACITY {
        return RunSummary { variant, failure: Some(out_of_memory(way, needed)), ..RunSummary::default() };
    }
    let rows = spans(way, micro_batches);
    let end_s = rows.iter().flat_map(|row| row.spans.last()).map(|span| span.end_s).fold(0.0, f64::max);
    let ranks: Vec<_> = rows.iter().map(|row| rank_time(row, end_s)).collect();
    let mut mean = IndexMap::new();
    for (state, time) in ranks.iter().flat_map(|rank| &rank.time_breakdown_s) {
        *mean.entry(state.clone()).or_insert(0.0) += time / STAGES as f64;
    }
    let busy: f64 = mean.iter().filter(|(state, _)| state.contains("compute")).map(|(_, time)| time).sum();
    RunSummary {
        variant,
        fits: true,
        step_time_s: Some(short(end_s)),
        samples_per_s: Some(short(6.0 * micro_batches as f64 / end_s)),
        bubble_fraction: Some(short(1.0 - busy / end_s)),
        micro_batches: Some(micro_batches as u64),
        slowest_rank: ranks.first().cloned(),
        time_breakdown_s: shortened(mean),
        peak_memory_bytes: (0..STAGES).map(|stage| peak(way, stage, micro_batches)).collect(),
        resources: vec![ResourceUse {
            name: "link stage 0 to 1".to_owned(),
            bytes: 24_000_000,
            utilisation: Some(0.013),
        }],
        critical_path_s: shortened(
            [("compute".to_owned(), end_s * 0.97), ("communication".to_owned(), end_s * 0.03)].into(),
        ),
        provenance: [("measured elsewhere".to_owned(), 0.97), ("estimate".to_owned(), 0.03)].into(),
        activities: Some(2 * (STAGES * micro_batches) as u64),
        memory_curves: vec![curve(way, &rows[0])],
        ranks,
        timeline: Some(Timeline { end_s, rows }),
        ..RunSummary::default()
    }
}

/// To nine decimals, which every reader of JSON gets back exactly.
pub(crate) fn short(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

fn shortened(map: IndexMap<String, f64>) -> IndexMap<String, f64> {
    map.into_iter().map(|(key, value)| (key, short(value))).collect()
}

fn spans(way: &Way, micro_batches: usize) -> Vec<TimelineRow> {
    let mut rows: Vec<_> =
        (0..STAGES).map(|stage| TimelineRow { name: format!("stage {stage}"), spans: Vec::new() }).collect();
    let mut forward_end = vec![vec![None; micro_batches]; STAGES];
    let mut backward_end = forward_end.clone();
    let mut done = [(0usize, 0usize); STAGES];
    let mut free = [0.0f64; STAGES];
    while done.iter().any(|(_, backwards)| *backwards < micro_batches) {
        for stage in 0..STAGES {
            let (forwards, backwards) = done[stage];
            let ahead = (way.warm_up)(stage, micro_batches);
            let forward_next = forwards < micro_batches && forwards - backwards < ahead;
            let message = |end: Option<f64>| end.map(|end| end + way.message_s);
            let ready = match (forward_next, stage) {
                (true, 0) => Some(0.0),
                (true, _) => message(forward_end[stage - 1][forwards]),
                (false, _) if stage == STAGES - 1 => forward_end[stage].get(backwards).copied().flatten(),
                (false, _) => message(backward_end[stage + 1].get(backwards).copied().flatten()),
            };
            let Some(ready) = ready else { continue };
            let mut start = f64::max(free[stage], ready);
            if start > free[stage] {
                rows[stage].spans.push(span(free[stage], start, "pipeline bubble", "waits for a message"));
            }
            let mut work = |seconds: f64, state: &str, label: String| {
                rows[stage].spans.push(span(start, start + seconds, state, &label));
                start += seconds;
            };
            if forward_next {
                work(way.forward_s, "compute: forward", format!("F{forwards}"));
                forward_end[stage][forwards] = Some(start);
                done[stage].0 += 1;
            } else if backwards < micro_batches {
                if way.recompute_s > 0.0 {
                    work(way.recompute_s, "recompute", format!("R{backwards}"));
                }
                work(way.backward_s, "compute: backward", format!("B{backwards}"));
                backward_end[stage][backwards] = Some(start);
                done[stage].1 += 1;
            }
            free[stage] = start;
        }
    }
    rows
}

fn span(start_s: f64, end_s: f64, state: &str, label: &str) -> TimelineSpan {
    TimelineSpan { start_s, end_s, state: state.to_owned(), label: label.to_owned() }
}

fn rank_time(row: &TimelineRow, end_s: f64) -> RankTime {
    let mut time_breakdown_s: IndexMap<String, f64> = IndexMap::new();
    for span in &row.spans {
        let word = span.state.split(':').next().unwrap_or_default();
        *time_breakdown_s.entry(word.to_owned()).or_default() += span.end_s - span.start_s;
    }
    let last = row.spans.last().map_or(0.0, |span| span.end_s);
    time_breakdown_s.insert("idle at the end".to_owned(), end_s - last);
    RankTime { name: row.name.clone(), time_breakdown_s: shortened(time_breakdown_s) }
}

fn peak(way: &Way, stage: usize, micro_batches: usize) -> DevicePeak {
    let resident = (way.warm_up)(stage, micro_batches) as u64;
    let activations = resident * way.activation;
    DevicePeak {
        device: format!("stage {stage}"),
        capacity_bytes: Some(CAPACITY),
        peak_bytes: WEIGHTS + activations,
        at_s: short(way.forward_s * resident as f64),
        operation: Some(format!("forward of micro-batch {}", resident - 1)),
        by_kind_bytes: [("weights".to_owned(), WEIGHTS), ("activations".to_owned(), activations)].into(),
        resident_micro_batches: Some(resident),
    }
}

fn curve(way: &Way, row: &TimelineRow) -> MemoryCurve {
    let mut held = 0;
    let mut points = vec![MemoryPoint { at_s: 0.0, bytes: vec![WEIGHTS, 0] }];
    for span in &row.spans {
        let at_s = match span.label.as_bytes().first() {
            Some(b'F') => span.start_s,
            Some(b'B') => span.end_s,
            _ => continue,
        };
        held = if span.label.starts_with('F') { held + way.activation } else { held - way.activation };
        points.push(MemoryPoint { at_s, bytes: vec![WEIGHTS, held] });
    }
    let kinds = vec!["weights".to_owned(), "activations".to_owned()];
    MemoryCurve { device: row.name.clone(), capacity_bytes: Some(CAPACITY), kinds, points }
}

fn out_of_memory(way: &Way, needed: u64) -> Failure {
    let fitting = (CAPACITY - WEIGHTS) / way.activation;
    let held = WEIGHTS + fitting * way.activation;
    Failure {
        unsupported: false,
        unfragmented_bytes: None,
        kind: FailureKind::OutOfMemory,
        message: "stage 0 cannot hold the activations of one more micro-batch".to_owned(),
        time_s: Some(short(way.forward_s * fitting as f64)),
        stream: Some("stage 0".to_owned()),
        operation: Some(format!("forward of micro-batch {fitting}")),
        store: Some("memory of stage 0".to_owned()),
        requested_kind: Some("activations".to_owned()),
        requested_bytes: Some(way.activation),
        short_bytes: Some(needed - CAPACITY),
        capacity_bytes: Some(CAPACITY),
        holders_bytes: [("activations".to_owned(), held - WEIGHTS), ("weights".to_owned(), WEIGHTS)].into(),
        remedies: vec![
            remedy("use `parallelism: { schedule: 1f1b }`", 1.31, 32_000_000_000),
            remedy("use `techniques: { recompute: {} }`", 1.74, 13_600_000_000),
        ],
        waiting: Vec::new(),
    }
}

/// A change that was tried, and what came of it.
fn remedy(action: &str, step_time_s: f64, peak_bytes: u64) -> Remedy {
    let (step_time_s, peak_bytes) = (Some(step_time_s), Some(peak_bytes));
    Remedy { step_time_s, peak_bytes, ..Remedy::untried(action) }
}
