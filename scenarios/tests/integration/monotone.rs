//! More of a machine is never slower, whatever technique makes room in its memory; nothing waits
//! for ever; and a technique that decides is no slower than its own simpler settings.

use reports::summary::{FailureKind, RunSummary};

use crate::memory_plans::{TECHNIQUES, cases, short, told};

/// Random plans; `FORETRAIN_CASES` says how many.
const CASES: usize = 6;
/// How much slower a better machine, or a decision, may be in 99 of 100 cases, and in any.
const SLOWER_MAX: f64 = 1.02;
const SLOWER_EVER: f64 = 1.10;

/// Further settings of techniques, and techniques beside each other.
const FURTHER: [&[&str]; 14] = [
    &["activation_offload={ keep: adaptive }"],
    &["activation_offload={ keep: none }"],
    &["activation_offload={ to: drives }"],
    &["activation_offload={ to: drives, keep: adaptive }"],
    &["activation_offload={}", "recompute={ mode: selective }"],
    &["activation_offload={}", "zero_offload={}"],
    &["swap={ coordination: disjoint }"],
    &["swap={ coordination: shifted }"],
    &["swap={ coordination: synchronised }"],
    &["swap={ recompute: true }"],
    &["swap={}", "recompute={ mode: selective }"],
    &["bpipe={}", "recompute={ mode: selective }"],
    &["zero_infinity={ states: drives, parameters: host }"],
    &["zero_infinity={ states: drives, parameters: drives }"],
];

/// A change of a machine to the worse: what is less, and the setting.
fn worse(text: &str, capacity: u64) -> Vec<(&'static str, String)> {
    let slow = |(name, gb_per_s): (&str, u32)| {
        text.contains(name).then(|| format!("machine.node.set={{ gpu: {{ rate: {gb_per_s} GB/s }} }}"))
    };
    let rates =
        [("dgx-1v-16g", 600), ("epyc-pcie-8x", 600), ("dgx-a100-40g", 1000), ("supermicro-4029gp-trt3", 600)];
    let rate = rates.into_iter().find_map(slow).expect("a node of the list");
    let hot = |gpu| format!("{{ part: 'node[0].gpu[{gpu}]', clock: 75 % }}");
    let clocks = (0..8).map(hot).collect::<Vec<_>>().join(", ");
    let slow = |socket| format!("{{ part: 'node[0].socket[{socket}]', rate: 40 % }}");
    let sockets = (0..2).map(slow).collect::<Vec<_>>().join(", ");
    let mut changes = vec![
        ("half of the lanes", "machine.node.set={ gpu: { lanes: 8 } }".to_owned()),
        ("40 % of the rate to sockets", format!("machine.node.degrade=[{sockets}]")),
        ("a slower memory", rate),
        ("slower clocks", format!("machine.node.degrade=[{clocks}]")),
        ("less memory", format!("memory.limit={} B", capacity / 8 * 7)),
    ];
    if text.contains("dgx-a100-40g") {
        changes.push(("fewer drives", "machine.node.set={ ssd: { count: 4 } }".to_owned()));
    }
    changes
}

/// Plans that do not fit, with the memory that they have. Segments grow: gaps that fixed ones leave
/// differ with everything, as on real GPUs.
fn plans() -> impl Iterator<Item = (String, u64)> {
    let grow = |text: String| text.replace(" B }", " B, allocator: { expandable_segments: true } }");
    (1..).filter_map(short).map(move |(text, capacity)| (grow(text), capacity))
}

/// A plan with techniques, and other settings.
fn with(text: &str, techniques: &[&str], setting: Option<&str>) -> Option<RunSummary> {
    let techniques: Vec<String> = techniques.iter().map(|it| format!("techniques.{it}")).collect();
    let all: Vec<&str> = techniques.iter().map(String::as_str).chain(setting).collect();
    told(text, &all)
}

/// Techniques of a plan: each of the list in turn.
fn techniques(number: usize) -> Vec<&'static str> {
    let singles = TECHNIQUES.iter().map(|technique| vec![*technique]);
    let all: Vec<Vec<&str>> = singles.chain(FURTHER.iter().map(|set| set.to_vec())).collect();
    all[number % all.len()].clone()
}

fn step(run: &RunSummary) -> f64 {
    run.step_time().unwrap_or(f64::INFINITY)
}

/// Cases that are slower than they may be, with how much; of all of them few may be at all.
fn judge(slower: &[(f64, String)], compared: usize) {
    let told = || slower.iter().map(|(ratio, what)| format!("{ratio:.3}: {what}")).collect::<Vec<_>>();
    let beyond = slower.iter().filter(|(ratio, _)| *ratio > SLOWER_EVER).count();
    assert!(
        beyond == 0 && slower.len() * 100 <= compared,
        "{} of {compared}\n{}",
        slower.len(),
        told().join("\n")
    );
}

#[test]
fn a_better_machine_is_not_slower() {
    let (mut slower, mut compared) = (Vec::new(), 0);
    for (number, (text, capacity)) in (1..).zip(plans()).take(cases(CASES)) {
        let techniques = techniques(number);
        let Some(better) = with(&text, &techniques, None) else { continue };
        for (less, setting) in worse(&text, capacity) {
            let Some(worse) = with(&text, &techniques, Some(&setting)) else { continue };
            if worse.failure.is_some() {
                continue;
            }
            compared += 1;
            let ratio = step(&better) / step(&worse);
            if ratio > SLOWER_MAX {
                slower.push((ratio, format!("{less} ({setting}) with {techniques:?}:\n{text}")));
            }
        }
    }
    judge(&slower, compared);
}

#[test]
fn nothing_waits_for_ever() {
    for (number, (text, _)) in (1..).zip(plans()).take(cases(CASES)) {
        let techniques = techniques(number);
        let failure = with(&text, &techniques, None).and_then(|run| run.failure);
        let Some(failure) = failure else { continue };
        let verdict = match failure.kind {
            FailureKind::OutOfMemory => failure.store.is_some() && failure.short_bytes.is_some(),
            kind => kind == FailureKind::Infeasible,
        };
        assert!(verdict, "{techniques:?}: {failure:#?}\n{text}");
    }
}

/// Techniques that decide, each with the settings that it decides among or could have left alone.
const DECIDING: [(&[&str], &[&[&str]]); 4] = [
    (
        &["swap={ recompute: true }"],
        &[&["swap={}"], &["recompute={ mode: selective }"], &["recompute={ mode: full }"]],
    ),
    (
        &["swap={ coordination: automatic }"],
        &[
            &["swap={}"],
            &["swap={ coordination: disjoint }"],
            &["swap={ coordination: shifted }"],
            &["swap={ coordination: synchronised }"],
        ],
    ),
    (
        &["activation_offload={ keep: adaptive }"],
        &[&["activation_offload={ keep: none }"], &["activation_offload={ keep: { layers: 1 } }"]],
    ),
    (
        &["activation_offload={ to: drives, keep: adaptive }"],
        &[
            &["activation_offload={ to: drives, keep: none }"],
            &["activation_offload={ to: drives, keep: { layers: 1 } }"],
        ],
    ),
];

#[test]
fn a_decision_is_not_slower_than_simpler_settings() {
    let (mut slower, mut compared) = (Vec::new(), 0);
    for (number, (text, _)) in (1..).zip(plans()).take(cases(CASES)) {
        let (deciding, simpler) = DECIDING[number % DECIDING.len()];
        let Some(decided) = with(&text, deciding, None) else { continue };
        for simpler in simpler.iter().copied().chain([&[][..]]) {
            let Some(simple) = with(&text, simpler, None) else { continue };
            if simple.failure.is_some() {
                continue;
            }
            compared += 1;
            let ratio = step(&decided) / step(&simple);
            if ratio > SLOWER_MAX {
                slower.push((ratio, format!("{deciding:?} than {simpler:?}:\n{text}")));
            }
        }
    }
    judge(&slower, compared);
}
