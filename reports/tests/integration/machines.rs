//! What a report says of machines: parts, communication, links, constants, memory by kind.

use reports::summary::{AllocatorPeak, IdleGpus, LinkKind, PartKind, RunSummary};
use reports::terminal::{Style, write};
use reports::{Summary, csv, finding, html, json};

use crate::cluster::{DGX, OTHERS, Shape, cluster, machine, too_big};
use crate::fixture::{bare, comparison, summary};

fn written(writer: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    writer(&mut out).expect("a vector takes every byte");
    String::from_utf8(out).expect("text")
}

fn page(summary: &Summary) -> String {
    written(|out| html::write(out, summary))
}

fn screen(summary: &Summary) -> String {
    written(|out| write(out, summary, Style::default()))
}

#[test]
fn the_terminal_tells_communication_and_what_the_step_rests_on() {
    insta::assert_snapshot!(screen(&cluster()));
}

#[test]
fn json_of_a_machine() {
    let mut summary = cluster();
    summary.machine = Some(machine(&OTHERS[3], 1));
    summary.constants.truncate(1);
    summary.variants.drain(..2);
    summary.variants[0].peak_memory_bytes.clear();
    summary.variants[0].links.truncate(1);
    insta::assert_snapshot!(written(|out| json::write(out, &summary)));
}

#[test]
fn csv_tells_communication_by_kind() {
    let mut summary = cluster();
    for run in &mut summary.variants {
        run.communication.truncate(1);
    }
    insta::assert_snapshot!(written(|out| csv::write(out, &summary)));
}

#[test]
fn a_machine_reads_back_to_the_same_summary() {
    let summary = cluster();
    let back: Summary =
        serde_json::from_str(&written(|out| json::write(out, &summary))).expect("it was written");
    assert!(back == summary);
}

#[test]
fn an_experiment_without_machine_says_nothing_of_one() {
    let summary = comparison();
    let text = page(&summary) + &screen(&summary) + &written(|out| json::write(out, &summary));
    for word in [
        "made of?",
        "What does communication cost",
        "Which links are",
        "#constants",
        "\"machine\"",
        "\"links\"",
    ] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn what_concerns_the_machine_stands_where_it_belongs() {
    let page = page(&cluster());
    let order = [
        "The step of bpipe rests on",
        "What was simulated?",
        "What is a node of dgx-a100-80g made of?",
        "How fast is it?",
        "What does communication cost?",
        "Which links are the busiest?",
        "Does it fit?",
        "What fills the memory?",
        "What do the times rest on?",
        "Which constants does it rest on?",
    ];
    let places: Vec<_> =
        order.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_drawing_names_every_part_and_what_each_gpu_holds() {
    for shape in [DGX].iter().chain(&OTHERS) {
        let drawing = machine(shape, if shape.nics > 0 { 2 } else { 1 });
        let page =
            page(&Summary { machine: Some(drawing.clone()), ..summary("one", &[], vec![bare("a", 1.0)]) });
        for part in &drawing.node {
            assert!(page.contains(&format!("<code>{}</code>", part.name)), "{}: {}", shape.name, part.name);
            let told = format!("{}: ", part.name);
            let titles = page.split("<title>").skip(1).filter_map(|rest| rest.split("</title>").next());
            let boxes = titles.filter(|title| title.split("; ").any(|one| one.starts_with(&told))).count();
            assert_eq!(boxes, 1, "{}: boxes of {}", shape.name, part.name);
        }
        assert!(page.contains("gpu[0]: a100-sxm4-80gb · stage 0, tensor 0 · "), "{}", shape.name);
        let equals = page.contains("One of 2 equal nodes, joined by hdr200-fat-tree.");
        assert_eq!(equals, drawing.nodes == 2, "{}", shape.name);
    }
}

#[test]
fn rates_stand_beside_the_kinds_of_links_also_of_a_slow_one() {
    let mut drawing = machine(&DGX, 4);
    let slow = drawing.links.iter_mut().find(|link| link.kind == LinkKind::NvLink).expect("it has NVLinks");
    slow.bytes_per_s /= 2.0;
    let page = page(&Summary { machine: Some(drawing), ..cluster() });
    for text in ["NVLink 120 GB/s, 240 GB/s", "PCIe 26.1 GB/s", "between sockets 36.0 GB/s", "SSD 6.50 GB/s"]
    {
        assert!(page.contains(text), "{text}");
    }
    let boxes = page.matches("nvswitch 120 GB/s").count();
    assert_eq!(boxes, 1, "the slow link in its box");
}

#[test]
fn a_huge_or_tangled_node_is_a_sentence_or_a_drawing() {
    let mut tangled = machine(&DGX, 4);
    let names: Vec<_> = tangled.node.iter().map(|part| part.name.clone()).collect();
    for (index, from) in names.iter().enumerate() {
        let mut link = tangled.links[0].clone();
        (link.from, link.to, link.bytes_per_s) =
            (from.clone(), names[index * 7 % names.len()].clone(), f64::NAN);
        tangled.links.push(link);
    }
    tangled.links[0].to = "nobody".to_owned();
    let mut loose = machine(&DGX, 4);
    loose.links.clear();
    let huge = machine(&wide_shape(40), 4);
    for (drawing, text) in [(tangled, "<svg "), (loose, "<svg "), (huge, "Not drawn: a node has ")] {
        let page = page(&Summary { machine: Some(drawing), ..summary("odd", &[], vec![bare("a", 1.0)]) });
        assert!(page.contains(text) && !page.contains("NaN"));
    }
}

/// A node with so many devices of a kind below each switch.
fn wide_shape(devices: usize) -> Shape {
    Shape { gpus: devices, nics: devices, ssds: devices, ..DGX }
}

#[test]
fn hidden_communication_is_said_to_be_hidden() {
    let mut summary = cluster();
    for one in &mut summary.variants[2].communication {
        one.exposed_s = 0.0;
    }
    let page = page(&summary);
    assert!(page.contains("all of it is hidden"));
    assert!(page.contains("2.83 s, 17.8 % of the step"), "of the other run");
}

#[test]
fn numbers_that_do_not_exist_are_absent() {
    let mut summary = cluster();
    summary.constants[0].value = f64::NAN;
    summary.variants[1].communication[0].exposed_s = f64::NAN;
    summary.variants[1].links[0].utilisation = f64::INFINITY;
    let text = written(|out| json::write(out, &summary));
    assert!(!text.contains("null"));
    let back: Summary = serde_json::from_str(&text).expect("it was written");
    assert!(back.constants[0].value.is_nan() && back.variants[1].links[0].utilisation.is_nan());
    assert!(!(page(&summary) + &screen(&summary)).contains("NaN"));
}

#[test]
fn constants_of_low_confidence_are_counted_and_marked() {
    let page = page(&cluster());
    assert!(
        page.contains(
            "6 constants: 3 measured elsewhere, 2 estimate, 1 data sheet. One, marked !, is of low"
        )
    );
    assert_eq!(page.matches(">! low<").count(), 1);
    let table = page.find("class=\"sortable filterable\"").expect("the table");
    assert!(page[table..].contains("half of the NVLink hop in NCCL src/graph/tuning.cc"));
}

#[test]
fn a_run_that_does_not_fit_says_who_holds_the_memory() {
    let runs = [too_big()];
    assert_eq!(
        finding::finding(&runs, &[], &[], None).to_string(),
        "plain does not fit: gpu-memory of stage 0 is 4.32 GB short. Optimizer states hold 36.2 GB of its 84.0 GB, activations 31.7 GB."
    );
    let [mut alone] = runs;
    alone.failure.as_mut().expect("it failed").holders_bytes.truncate(1);
    let sentence = finding::finding(&[alone], &[], &[], None).to_string();
    assert_eq!(
        sentence, "plain does not fit: gpu-memory of stage 0 is 4.32 GB short.",
        "of one kind there is nothing to tell"
    );
    let page = page(&cluster());
    assert!(page.contains("What fills the memory?"));
    assert!(page.contains("plain: activations, asked for 5.28 GB"));
}

#[test]
fn what_a_step_rests_on_is_said_only_if_it_is_several_things() {
    let line = "rests on: 62.0\u{a0}% measured elsewhere, 30.0\u{a0}% data sheet, 8.00\u{a0}% estimate.";
    assert!(page(&cluster()).contains(line));
    let one = RunSummary { provenance: [("given".to_owned(), 1.0)].into(), ..bare("a", 1.0) };
    assert!(!page(&summary("one", &[], vec![one])).contains("rests on"));
}

#[test]
fn names_of_kinds_are_those_of_the_format() {
    let names = [PartKind::PcieSwitch, PartKind::HostMemory, PartKind::NvSwitch, PartKind::NetworkSwitch]
        .map(|kind| serde_json::to_string(&kind).expect("a word"));
    assert_eq!(names, ["\"pcie-switch\"", "\"host-memory\"", "\"nvswitch\"", "\"network-switch\""]);
    assert_eq!(serde_json::to_string(&LinkKind::NvLink).expect("a word"), "\"nv-link\"");
}

#[test]
fn gpus_that_are_left_over_are_named() {
    let idle = |count, first: &str| {
        Some(IdleGpus { count, first: first.to_owned(), last: "node[1].gpu[7]".to_owned() })
    };
    let run = |variant, idle_gpus| RunSummary { idle_gpus, ..bare(variant, 1.5) };
    let (four, one) = (idle(4, "node[1].gpu[4]"), idle(1, "node[1].gpu[7]"));
    let alone =
        Summary { machine: Some(machine(&DGX, 2)), ..summary("idle", &[], vec![run("a", four.clone())]) };
    let sentence = "4 GPUs are idle, node[1].gpu[4] to node[1].gpu[7]";
    assert!(screen(&alone).contains(&format!("\n{sentence}\n")), "{}", screen(&alone));
    assert!(page(&alone).contains(&format!("<p>{sentence}.</p>")));
    let several =
        summary("idle", &[], vec![run("a", four.clone()), run("b", four), run("c", one), run("d", None)]);
    let sentence = format!("{sentence}, in a and b; 1 GPU is idle, node[1].gpu[7], in c");
    assert!(screen(&several).contains(&sentence), "{}", screen(&several));
}

#[test]
fn runs_that_the_allocator_did_not_judge_are_named_with_the_reason() {
    let long = "it executes too many operators";
    let run = |variant, reason: Option<&str>| RunSummary {
        allocator_unknown: reason.map(str::to_owned),
        ..bare(variant, 1.5)
    };
    let judged = RunSummary { allocator: vec![AllocatorPeak::default()], ..bare("plain", 1.4) };
    let several = summary("mixed", &[], vec![judged.clone(), run("a", Some(long)), run("b", Some(long))]);
    let sentence = format!(
        "Memory is judged without the allocator for a and b ({long}): fragments, typically 1 to 9 %, are not counted"
    );
    let compared = format!("{sentence}; for the other variants they are");
    assert!(screen(&several).contains(&format!("\n{compared}\n")), "{}", screen(&several));
    assert!(page(&several).contains(&format!("<p>{compared}.</p>")));
    let alone = summary("swapped", &[], vec![run("a", Some(long)), run("b", Some(long))]);
    assert!(screen(&alone).contains(&format!("\n{sentence}\n")), "{}", screen(&alone));
    let all = summary("judged", &[], vec![judged, run("profile", None)]);
    assert!(!screen(&all).contains("without the allocator"), "{}", screen(&all));
}

#[test]
fn runs_whose_allocator_waits_for_the_gpu_are_named() {
    let run = |variant, retries| RunSummary {
        allocator: vec![AllocatorPeak { retries, ..AllocatorPeak::default() }],
        ..bare(variant, 1.5)
    };
    let both = summary("tight", &[], vec![run("roomy", 0), run("tight", 3)]);
    let sentence = "The step of tight is longer than simulated where its allocator waits for the GPU to return memory (retries)";
    assert!(screen(&both).contains(&format!("\n{sentence}\n")), "{}", screen(&both));
    assert!(page(&both).contains(&format!("<p>{sentence}.</p>")));
    // 0.3 of 1.5 s are told instead where they are simulated, and nothing where no step but the
    // first returns any.
    let priced = |retries_s| RunSummary { retries_s: Some(retries_s), ..run("tight", 3) };
    let told = screen(&summary("tight", &[], vec![priced(0.3)]));
    let sentence = "Memory that its allocator returns and asks for again in every step (retries) takes 20.0 % of that of tight";
    assert!(told.contains(&format!("\n{sentence}\n")), "{told}");
    assert!(!screen(&summary("tight", &[], vec![priced(0.0)])).contains("(retries)"));
    let roomy = summary("roomy", &[], vec![run("roomy", 0)]);
    assert!(!screen(&roomy).contains("longer than simulated"));
}
