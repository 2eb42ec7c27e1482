//! The report page: complete, self-contained, readable, safe.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use reports::summary::{AllocatorPeak, DevicePeak, DriveState, NewDrives, RunSummary, TimelineSpan};
use reports::{Summary, html};

use crate::cluster::{OTHERS, cluster, machine};
use crate::fixture::{at, bare, comparison, summary, sweep, too_big, two_axes};
use crate::programs::programs;

/// The page; also written to the folder `FORETRAIN_PAGES` names, for eyes.
fn page(summary: &Summary) -> String {
    let mut out = Vec::new();
    html::write(&mut out, summary).expect("a vector takes every byte");
    let text = String::from_utf8(out).expect("text");
    if let Ok(folder) = std::env::var("FORETRAIN_PAGES") {
        let path =
            std::path::Path::new(&folder).join(format!("{}-{}.html", summary.name, summary.variants.len()));
        std::fs::write(path, &text).expect("the folder can be written");
    }
    text
}

/// Pages of every shape.
fn pages() -> Vec<(String, String)> {
    let one = summary("one", &[], comparison().variants.into_iter().take(1).collect());
    let none =
        summary("none-fits", &[], vec![too_big("plain", 4_000_000_000), too_big("gpipe", 9_000_000_000)]);
    let axis = "training.micro_batches";
    let times = [("8", 1.0), ("16", 1.9), ("1024", 99.0)];
    let no_rates = times.map(|(value, time)| at(bare("plain", time), axis, value));
    let words = ["gpipe", "1f1b", "zb-h1"].map(|value| at(bare("plain", 1.0), "parallelism.schedule", value));
    let mut many = summary("many", &[axis], no_rates.to_vec());
    many.variants.extend(
        (0..60).map(|index| at(bare(&format!("variant-{index}"), 2.0 + f64::from(index)), axis, "8")),
    );
    let others = OTHERS.map(|shape| {
        let machine = Some(machine(&shape, if shape.gpus > 1 { 2 } else { 1 }));
        Summary { machine, ..summary(shape.name, &[], vec![bare("plain", 1.0)]) }
    });
    [
        cluster(),
        comparison(),
        sweep(),
        two_axes(),
        programs(),
        one,
        none,
        many,
        summary("bare", &[], vec![bare("plain", 1.0), bare("other", 9.0)]),
        summary("no-rates", &[axis], no_rates.to_vec()),
        summary("words", &["parallelism.schedule"], words.to_vec()),
        summary("nothing", &[], vec![]),
    ]
    .iter()
    .chain(&others)
    .map(|summary| (format!("{} of {}", summary.name, summary.variants.len()), page(summary)))
    .collect()
}

/// The page without scripts, their data and what they stand in.
fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let first = parts.next().expect("a beginning").to_owned();
    let after = |part: &str| part.split_once("</script>").expect("its end").1.to_owned();
    std::iter::once(first).chain(parts.map(after)).collect()
}

/// Checks that elements nest, as a browser that does not guess would need it.
fn assert_nested(name: &str, page: &str) {
    const VOID: [&str; 2] = ["meta", "!DOCTYPE"];
    let page = without_scripts(page);
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("{name}: <{tag} has no end"));
        let word = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(_) => assert_eq!(open.pop(), Some(word), "{name}"),
            None if tag.ends_with('/') || VOID.contains(&word) => {}
            None => open.push(word),
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

#[test]
fn elements_nest() {
    for (name, page) in pages() {
        assert_nested(&name, &page);
    }
}

#[test]
fn a_page_needs_no_network() {
    // Names of XML's languages, for which nobody asks a server.
    const D3: &str = include_str!("../../src/html/timeline/d3.min.js");
    for (name, page) in pages() {
        let page = page.replace(D3, "");
        for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(outside), "{name} has {outside}");
        }
    }
}

#[test]
fn every_chart_asks_a_question_and_explains_itself() {
    for (name, page) in pages() {
        let figures = page.matches("<figure>").count();
        assert_eq!(page.matches("<figcaption><h3>").count(), figures, "{name}");
        for figure in page.split("<figure>").skip(1) {
            let heading = figure.split("</h3>").next().unwrap_or_default();
            assert!(heading.ends_with('?'), "{name}: {heading}");
            let aid = figure.split("<p class=\"aid\">").nth(1).and_then(|rest| rest.split("</p>").next());
            assert!(aid.is_some_and(|aid| aid.len() > 30 && aid.ends_with('.')), "{name}: {aid:?}");
        }
        let named = page.matches("role=\"img\"><title>").count();
        assert_eq!(named, page.matches("<svg ").count(), "{name}");
    }
}

#[test]
fn every_colour_of_a_picture_is_of_the_palette() {
    const NEUTRAL: [&str; 6] = ["#1B1B1B", "#6B6B6B", "#DADADA", "#F1F1F1", "#FEFEFE", "#010101"];
    const CAUSES: [&str; 8] =
        ["#0072B2", "#56B4E9", "#009E73", "#F0E442", "#E69F00", "#D55E00", "#CC79A7", "#999999"];
    const VARIANTS: [&str; 9] =
        ["#332288", "#DDCC77", "#44AA99", "#CC6677", "#88CCEE", "#882255", "#999933", "#AA4499", "#117733"];
    const BYTES: [&str; 8] =
        ["#77AADD", "#EE8866", "#44BB99", "#FFAABB", "#AAAA00", "#99DDFF", "#EEDD88", "#BBCC33"];
    let palette = [&NEUTRAL[..], &CAUSES, &VARIANTS, &BYTES].concat();
    let mut seen = BTreeSet::new();
    for (_, page) in pages() {
        for attribute in ["fill=\"", "stroke=\""] {
            let values = page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
            seen.extend(values.filter(|value| value.starts_with('#')).map(str::to_owned));
        }
    }
    let strangers: Vec<_> = seen.iter().filter(|colour| !palette.contains(&colour.as_str())).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn the_sections_come_in_their_order() {
    let page = page(&sweep());
    let order = [
        "class=\"finding\"",
        "Where does that hold?",
        "How do the variants compare at every point?",
        "What does speed cost in memory?",
        "What came out at every point?",
        "What was simulated?",
        "How fast is it?",
        "Where does the time go?",
        "What does one step look like at micro-batches 64?",
        "Does it fit?",
        "What the scenario expects",
        "How far are our figures from the published ones?",
        "How sure is it?",
    ];
    let places: Vec<_> =
        order.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn every_box_of_a_timeline_says_what_it_is() {
    let page = page(&comparison());
    assert!(page.contains("<title>F7 · compute: forward · 18.5 ms, from 130 ms</title>"));
    assert!(page.contains("<title>B0 · compute: backward · 27.4 ms, from "));
}

#[test]
fn paths_that_change_together_are_named_once() {
    let axes = ["model.stages", "model.forward", "model.activation"];
    let mut runs = Vec::new();
    for (stages, forward, activation) in [("8", "18.5 ms", "3.7 GB"), ("16", "11.3 ms", "1.1 GB")] {
        for variant in ["1f1b", "gpipe"] {
            let run = at(bare(variant, if variant == "1f1b" { 1.0 } else { 2.0 }), axes[0], stages);
            runs.push(at(at(run, axes[1], forward), axes[2], activation));
        }
    }
    let page = page(&summary("joined", &axes, runs));
    assert!(page.contains("1f1b (stages 8)") && page.contains("How long does a step take at stages 8?"));
    assert!(!page.contains("18.5") && !page.contains("3.7"), "neither needed nor said");
}

#[test]
fn a_step_time_that_did_not_settle_is_said() {
    let unsteady = RunSummary { steady: Some(false), ..bare("zb-auto", 1.4) };
    let page = page(&summary("unsteady", &[], vec![unsteady, bare("1f1b", 1.5)]));
    assert!(page.contains("Steps of zb-auto do not repeat"));
}

#[test]
fn shares_that_did_not_converge_are_said() {
    let approximate = RunSummary { unsettled: Some(3), ..bare("swap", 1.4) };
    let page = page(&summary("approximate", &[], vec![approximate, bare("recompute", 1.5)]));
    assert!(page.contains("Bandwidth shares did not converge in swap: "));
}

#[test]
fn runs_too_long_to_be_drawn_are_named_where_their_timeline_would_be() {
    let mut summary = comparison();
    let (first, rest) = summary.variants.split_first_mut().expect("the fixture has runs");
    (first.timeline, first.not_drawn) = (None, Some("more than 200000 activities".to_owned()));
    let sentence = format!("Not drawn: {} (more than 200000 activities).", first.variant);
    assert!(rest.iter().any(|run| run.timeline.is_some()));
    assert!(page(&summary).contains(&sentence), "beside other timelines");
    for run in &mut summary.variants {
        run.timeline = None;
    }
    assert!(page(&summary).contains(&format!("One step</h2><p>{sentence}")), "without any");
}

#[test]
fn a_long_timeline_stays_small() {
    let mut summary = comparison();
    summary.variants.truncate(1);
    let timeline = summary.variants[0].timeline.as_mut().expect("the fixture has one");
    let span = |index: u32| TimelineSpan {
        start_s: f64::from(index),
        end_s: f64::from(index) + 0.5,
        state: "compute: forward".to_owned(),
        label: format!("F{index}"),
    };
    timeline.end_s = 100_000.0;
    for row in &mut timeline.rows {
        row.spans = (0..100_000).map(span).collect();
    }
    let page = page(&summary);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

#[test]
fn hostile_names_are_text() {
    let hostile = "<script>alert(1)</script>\"'&";
    let mut run = RunSummary { variant: hostile.to_owned(), ..comparison().variants.remove(0) };
    if let Some(row) = run.timeline.as_mut().and_then(|timeline| timeline.rows.first_mut()) {
        row.name = hostile.to_owned();
        row.spans[0].label = hostile.to_owned();
    }
    run.ranks[0].name = hostile.to_owned();
    run.provenance.insert(hostile.to_owned(), 0.5);
    let mut summary = summary("safe", &[], vec![run, too_big(hostile, 5)]);
    summary.name = hostile.to_owned();
    summary.resolved_scenario = format!("name: {hostile}</code></pre>");
    summary.parameters.insert(hostile.to_owned(), hostile.to_owned());
    let mut out = Vec::new();
    html::write(&mut out, &summary).expect("a vector takes every byte");
    let page = String::from_utf8(out).expect("text");
    assert_eq!(page.matches("<script").count(), 4, "only our own");
    assert!(!page.contains("alert(1)</script>"));
    assert_nested("hostile", &page);
}

/// A smaller model is no better setting: fronts and winners keep to one case.
#[test]
fn over_cases_nothing_is_best_of_all() {
    let choices = sweep();
    let cases = Summary { cases: choices.axes.clone(), ..choices.clone() };
    let (choices, cases) = (page(&choices), page(&cases));
    assert!(choices.contains("Best: <strong>") && choices.contains("What does speed cost in memory?"));
    assert!(cases.contains("One of several cases, the best there: <strong>"));
    assert!(cases.contains("What does speed cost in memory at micro-batches 64?"));
}

#[test]
fn all_that_tie_are_marked_as_the_fastest() {
    let page = page(&summary("tie", &[], vec![bare("a", 1.0), bare("b", 1.0), bare("c", 2.0)]));
    assert_eq!(page.matches("<tr class=\" leads\">").count(), 2);
}

#[test]
fn the_state_of_drives_is_said_where_new_ones_do_not_stay_so() {
    let new = NewDrives { step_time_s: Some(1.33), drive_lifetime_years: Some(1.5) };
    let lasting = DriveState { lasting: true, new: Some(new), ..DriveState::default() };
    let lasting =
        RunSummary { drive_state: Some(lasting), drive_lifetime_years: Some(2.0), ..bare("zb-auto", 1.4) };
    let page_of = |run| page(&summary("drives", &[], vec![run, bare("1f1b", 1.5)]));
    let text = page_of(lasting);
    assert!(text.contains("Drives of zb-auto are as long training leaves them"), "{text}");
    assert!(text.contains("takes 0.95 times as long, and they would last 0.75 times as long"), "{text}");
    let new = RunSummary { drive_state: Some(DriveState::default()), ..bare("zb-auto", 1.4) };
    assert!(page_of(new).contains("Drives of zb-auto are new"));
}

/// One chart of memory: kinds stand in one order in every row, fragments and what is outside last.
#[test]
fn memory_is_one_chart_with_one_order_of_kinds() {
    let device = |device: &str, kinds: &[(&str, u64)]| DevicePeak {
        device: device.to_owned(),
        capacity_bytes: Some(80),
        peak_bytes: kinds.iter().map(|(_, bytes)| bytes).sum(),
        by_kind_bytes: kinds.iter().map(|(kind, bytes)| ((*kind).to_owned(), *bytes)).collect(),
        ..DevicePeak::default()
    };
    let mut first = bare("first", 1.0);
    first.peak_memory_bytes = vec![device("stage 0", &[("weights", 30), ("activations", 20)])];
    let mut second = bare("second", 1.0);
    second.peak_memory_bytes = vec![device("stage 0", &[("activations", 40), ("weights", 10)])];
    second.allocator = vec![AllocatorPeak {
        device: "stage 0".to_owned(),
        capacity_bytes: 80,
        outside_bytes: 3,
        peak_allocated_bytes: 50,
        peak_reserved_bytes: 57,
        by_kind_bytes: [("activations".to_owned(), 40), ("weights".to_owned(), 10)].into_iter().collect(),
        ..AllocatorPeak::default()
    }];
    let page = page(&summary("memory", &[], vec![first, second]));
    assert_eq!(page.matches("What fills the memory").count(), 1);
    let order = [
        "first: weights 30 B",
        "first: activations 20 B",
        "second: weights 10 B",
        "second: activations 40 B",
        "second: fragments 7 B",
        "second: outside the allocator 3 B",
    ];
    let places: Vec<_> =
        order.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

/// Speed in proportion to the number of nodes, from the fastest at the least.
#[test]
fn a_sweep_over_nodes_has_an_ideal_line() {
    let axis = "machine.cluster.count";
    let run = |count: &str, samples_per_s| {
        let mut run = at(bare("plain", 1.0), axis, count);
        run.samples_per_s = Some(samples_per_s);
        run
    };
    let runs = || vec![run("1", 10.0), run("2", 18.0), run("4", 30.0)];
    let scaling = page(&summary("scaling", &[axis], runs()));
    let sentence = "at 4 the fastest, plain, reaches 75.0 % of it.";
    assert!(scaling.contains(sentence) && scaling.contains("ideal\n</text>"), "an ideal line");
    let other = "training.micro_batch";
    let elsewhere =
        |(run, size): (RunSummary, &str)| at(RunSummary { point: IndexMap::new(), ..run }, other, size);
    let runs = runs().into_iter().zip(["1", "2", "4"]).map(elsewhere);
    assert!(!page(&summary("other", &[other], runs.collect())).contains("ideal\n</text>"));
}

/// Sections drawn for a point are there for every point, of which the one of the best run is shown first.
#[test]
fn other_points_can_be_picked() {
    let page = page(&sweep());
    let drawn = page.split("<div class=\"points\"").nth(1).expect("points");
    let shown = drawn.matches("<div class=\"point\" data-name=\"").count();
    let hidden = drawn.split("<div class=\"point\" data-name=\"").skip(1);
    let hidden =
        hidden.filter(|rest| rest.split('>').next().is_some_and(|tag| tag.ends_with(" hidden"))).count();
    assert!(shown > 1 && hidden == shown - 1, "{hidden} of {shown}");
    assert_eq!(page.matches("id=\"how-fast-is-it\"").count(), 1, "links lead to one place");
    assert_eq!(page.matches("data-anchor=\"how-fast-is-it\"").count(), shown);
}

/// Evidence is that of the point that is picked, not of the first.
#[test]
fn evidence_is_that_of_the_point() {
    let run = |size: &str, origin: &str| {
        let mut run = at(bare("plain", 1.0), "training.micro_batch", size);
        run.provenance = IndexMap::from([(origin.to_owned(), 0.5), ("estimate".to_owned(), 0.5)]);
        run
    };
    let runs = vec![run("1", "measured elsewhere"), run("2", "paper")];
    let page = page(&summary("evidence", &["training.micro_batch"], runs));
    let drawn: Vec<&str> = page.split("<div class=\"points\"").skip(1).collect();
    let [_, evidence] = drawn[..] else { panic!("{} places with points", drawn.len()) };
    let mut points = evidence.split("<div class=\"point\"").skip(1);
    for (size, origin) in [("1", "measured elsewhere"), ("2", "paper")] {
        let point = points.next().expect("a point");
        let question = format!("What do the times rest on at micro-batch {size}?");
        assert!(point.contains(&question) && point.contains(origin), "{size}: {point}");
    }
}

#[test]
fn every_seed_has_a_dot() {
    let page = page(&comparison());
    let (_, figure) = page.split_once("How much does chance move the step time?").expect("a figure");
    let figure = figure.split("</svg>").next().unwrap_or_default();
    let seeds: usize = comparison().variants.iter().map(|run| run.seed_step_times_s.len()).sum();
    assert!(seeds > 0 && figure.matches("<circle").count() == seeds, "{seeds}");
}
