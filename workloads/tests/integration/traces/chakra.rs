//! Chakra graphs: one of others, timelines by hand, a plain scheduler beside them, and files that
//! are no graphs.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use prost::Message;
use workloads::lanes::{HostItem, LanesError};
use workloads::trace::Traced;
use workloads::trace::chakra::message::{Attribute, GlobalMetadata, Node, Value};
use workloads::trace::chakra::{self, ChakraError};
use workloads::trace::changes::Change;

use super::{replayed, us};

const RECORDED: &[u8] = include_bytes!("../../data/traces/chakra_convolutional_ddp.et.gz");

/// Types of nodes in the schema.
const COMPUTE: i32 = 4;
const COLLECTIVE: i32 = 7;

/// A node that takes some time (us) after others.
fn node(id: u64, duration: u64, after: &[u64]) -> Node {
    let name = format!("node {id}").into_bytes();
    let (data_deps, duration_micros) = (after.to_vec(), duration);
    Node { id, name, kind: COMPUTE, data_deps, duration_micros, ..Node::default() }
}

fn with(mut node: Node, facts: &[(&str, Value)]) -> Node {
    let fact = |&(name, value): &(&str, Value)| Attribute { name: name.into(), value: Some(value) };
    node.attr.extend(facts.iter().map(fact));
    node
}

fn host(id: u64, thread: i64, duration: u64, after: &[u64]) -> Node {
    with(node(id, duration, after), &[("is_cpu_op", Value::Bool(true)), ("tid", Value::Int64(thread))])
}

fn device(id: u64, stream: i64, duration: u64, after: &[u64]) -> Node {
    with(node(id, duration, after), &[("is_cpu_op", Value::Bool(false)), ("stream", Value::Int64(stream))])
}

fn file(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = GlobalMetadata { version: vec![b"0.0.4".to_vec()] }.encode_length_delimited_to_vec();
    nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}

fn traced(nodes: &[Node]) -> Traced {
    chakra::read(&file(nodes)[..]).expect("a graph").traced()
}

/// How long the whole graph takes (us).
fn whole(traced: &Traced) -> f64 {
    us(replayed(traced).steps[0].replayed)
}

#[test]
fn a_recorded_graph_is_decided_by_its_kernels() {
    let read = || chakra::read(RECORDED).expect("a graph").traced();
    let found = read().findings;
    let kinds: Vec<u64> = found.counts.understood.values().copied().collect();
    assert_eq!(
        (kinds, found.missing_dependencies, found.circular_dependencies),
        (vec![7, 320, 889, 2448], 0, 0)
    );
    let busy = |stream: i64| {
        let traced = read();
        let stream = traced.lanes.streams.iter().find(|it| it.id == (0, stream)).expect("a stream");
        stream.items.iter().map(|item| us(item.duration)).sum::<f64>()
    };
    let changed = |changes: &[Change]| {
        let mut traced = read();
        changes.iter().for_each(|change| _ = change.apply(&mut traced));
        whole(&traced)
    };
    assert!(whole(&read()) > busy(7));
    assert!((changed(&[Change::Host(0.0)]) / busy(7) - 1.0).abs() < 1e-3);
    // The threads work 19.226 and 33.026 ms, one after the other.
    let no_device = [Change::Kernels(0.0), Change::Copies(0.0), Change::Collectives(0.0)];
    assert_eq!(changed(&no_device), 19_226.0 + 33_026.0);
}

#[test]
fn a_launch_takes_effect_when_its_operator_ends() {
    // Thread 1 works 10, launches 50 on stream 7, works 5 more; thread 2 waits for the kernel.
    let nodes = [host(1, 1, 10, &[]), device(2, 7, 50, &[1]), host(3, 1, 5, &[1]), host(4, 2, 1, &[2])];
    let traced = traced(&nodes);
    assert_eq!(whole(&traced), 61.0);
    assert_eq!((traced.findings.blocking_calls, traced.findings.not_launched), (1, 0));
    let launches = |items: &[HostItem]| items.iter().any(|item| matches!(item, HostItem::Launch(_)));
    let of_threads: Vec<bool> = traced.lanes.threads.iter().map(|thread| launches(&thread.items)).collect();
    assert_eq!(of_threads, [true, false]);
}

#[test]
fn an_activity_begins_when_both_threads_have_let_it() {
    let nodes = [host(1, 1, 10, &[]), host(2, 2, 30, &[]), device(3, 7, 5, &[1, 2])];
    assert_eq!(whole(&traced(&nodes)), 35.0);
}

#[test]
fn streams_and_threads_wait_for_each_other() {
    let nodes = [
        device(1, 7, 20, &[]),
        device(2, 9, 30, &[1]),
        host(3, 1, 4, &[]),
        host(4, 2, 6, &[3]),
        // The thread goes on after both: 10 of threads, 50 of streams.
        host(5, 1, 2, &[4, 2]),
    ];
    let traced = traced(&nodes);
    assert_eq!(whole(&traced), 52.0);
    let found = traced.findings;
    assert_eq!((found.recorded_handoffs, found.recorded_waits, found.blocking_calls), (2, 1, 1));
}

#[test]
fn nodes_that_do_not_say_where_share_a_lane_of_their_kind() {
    let collective = |id, after: &[u64]| Node { kind: COLLECTIVE, ..node(id, 40, after) };
    let nodes = [node(1, 10, &[]), collective(2, &[1]), node(3, 20, &[1]), collective(4, &[3])];
    let traced = traced(&nodes);
    assert_eq!((traced.findings.placed, traced.lanes.streams.len()), (4, 2));
    assert_eq!(whole(&traced), 90.0);
}

#[test]
fn time_between_recorded_begins_is_the_interpreters() {
    let at = |begin, node| Node { start_time_micros: begin, ..node };
    // 1,000 is the origin; 5 pass between the operators; the last blocks until the kernel ends.
    let nodes = [
        at(1_000, host(1, 1, 10, &[])),
        at(1_011, device(2, 7, 50, &[1])),
        at(1_015, host(3, 1, 5, &[1])),
        at(1_020, host(4, 1, 45, &[3, 2])),
    ];
    let mut traced = traced(&nodes);
    let found = replayed(&traced);
    // The kernel begins with the end of its operator, at 10, so that it ends 1 earlier.
    assert_eq!((us(found.steps[0].recorded.expect("begins")), us(found.steps[0].replayed)), (65.0, 64.0));
    Change::Host(0.0).apply(&mut traced);
    assert_eq!(whole(&traced), 50.0);
}

#[test]
fn control_dependencies_order_only_files_without_others() {
    let after = |ctrl_deps: &[u64], node| Node { ctrl_deps: ctrl_deps.to_vec(), ..node };
    let only = [host(1, 1, 10, &[]), after(&[1], host(2, 2, 10, &[]))];
    assert_eq!(whole(&traced(&only)), 20.0);
    let both = [only[0].clone(), only[1].clone(), host(3, 3, 1, &[1])];
    let traced = traced(&both);
    assert_eq!(whole(&traced), 11.0);
    assert_eq!(traced.findings.counts.ignored.values().sum::<u64>(), 1);
}

#[test]
fn packed_graphs_are_the_same() {
    let nodes = [host(1, 1, 10, &[]), device(2, 7, 50, &[1])];
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&file(&nodes)).expect("memory");
    let packed = packed.finish().expect("memory");
    assert_eq!(chakra::read(&packed[..]).expect("a graph").traced().lanes, traced(&nodes).lanes);
}

#[test]
fn nodes_that_lie_are_counted() {
    let mut nodes = vec![host(1, 1, 10, &[99]), device(2, 7, 50, &[1, 3]), device(3, 7, 5, &[2, 3])];
    nodes.push(host(1, 1, 10, &[]));
    nodes.push(device(4, 7, u64::MAX - 5, &[]));
    nodes.push(Node { start_time_micros: (-7i64) as u64, ..device(5, 7, 1, &[]) });
    nodes.push(Node { kind: 77, ..device(6, 7, 1, &[]) });
    let sends = Node { duration_micros: 0, ..with(device(7, 9, 0, &[]), &[("comm_size", Value::Int64(8))]) };
    nodes.push(Node { kind: COLLECTIVE, ..sends });
    let traced = traced(&nodes);
    let found = &traced.findings;
    assert_eq!(found.counts.refused.values().copied().collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!((found.missing_dependencies, found.circular_dependencies, found.untimed), (1, 2, 1));
    assert_eq!(whole(&traced), 65.0);
}

#[test]
fn files_that_break_off_say_where() {
    let bytes = file(&[host(1, 1, 10, &[]), device(2, 7, 50, &[1])]);
    let cut = chakra::read(&bytes[..bytes.len() - 3]).expect("a part");
    assert!(cut.counts.truncated.is_some_and(|at| at.contains("at byte")));
    // A length that no file has: nothing is reserved for it.
    let mut long = bytes.clone();
    long.extend([0xff; 9]);
    long.push(1);
    assert!(chakra::read(&long[..]).expect("a part").counts.truncated.is_some());
}

#[test]
fn foreign_graphs_are_refused() {
    let foreign = |bytes: &[u8]| matches!(chakra::read(bytes), Err(ChakraError::Foreign(_)));
    assert!(foreign(b"") && foreign(b"not a trace") && foreign(br#"{"traceEvents":[]}"#));
    assert!(foreign(&[0xff; 40]) && foreign(&[4, 0xff, 0xff, 0xff, 0xff]));
    let untimed = with(node(1, 0, &[]), &[("num_ops", Value::Int64(1_000))]);
    assert!(matches!(chakra::read(&file(&[untimed])[..]), Err(ChakraError::Nothing(1))));
}

/// A node of a random graph.
#[derive(Clone, Debug)]
struct Random {
    lane: u8,
    duration: u64,
    after: Vec<usize>,
}

fn random() -> impl Strategy<Value = Vec<Random>> {
    let node = (0u8..5, 0u64..50, prop::collection::vec(0usize..1_000, 0..5));
    let node = node.prop_map(|(lane, duration, after)| Random { lane, duration, after });
    prop::collection::vec(node, 1..60)
}

/// Ends of the last node (us), as a plain scheduler has it: again and again the node with the least
/// number of which all dependencies have been taken, behind its lane.
fn scheduled(nodes: &[Random]) -> u64 {
    let mut ends: Vec<Option<u64>> = vec![None; nodes.len()];
    let mut lanes: BTreeMap<u8, u64> = BTreeMap::new();
    while ends.iter().any(Option::is_none) {
        let is_ready =
            |&at: &usize| ends[at].is_none() && nodes[at].after.iter().all(|&on| ends[on].is_some());
        let at = (0..nodes.len()).find(is_ready).expect("no circle");
        let Random { lane, duration, after } = &nodes[at];
        let begin = after.iter().filter_map(|&on| ends[on]).max().unwrap_or(0);
        let free = lanes.entry(*lane).or_default();
        *free = begin.max(*free) + duration;
        ends[at] = Some(*free);
    }
    lanes.values().copied().max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Lanes of a random graph take as long as a plain scheduler of it says: of three threads and
    /// two streams, with numbers shuffled against the order of the file and dependencies.
    #[test]
    fn a_plain_scheduler_agrees(mut nodes in random(), seed in 1usize..997) {
        let count = nodes.len();
        // Dependencies run from a rank to a lower one, ranks being shuffled numbers.
        let rank = |at: usize| (at * seed + seed / 3) % 997;
        for (at, node) in nodes.iter_mut().enumerate() {
            let lower = |on: &usize| rank(*on) < rank(at);
            node.after = node.after.iter().map(|on| on % count).filter(lower).collect();
        }
        let ids = |after: &[usize]| after.iter().map(|&on| on as u64).collect::<Vec<_>>();
        let written = nodes.iter().zip(0..).map(|(node, id)| match node.lane {
            lane @ 0..3 => host(id, lane.into(), node.duration, &ids(&node.after)),
            lane => device(id, lane.into(), node.duration, &ids(&node.after)),
        });
        let mut written: Vec<Node> = written.collect();
        let middle = seed % count;
        written.rotate_left(middle);
        let expected = scheduled(&nodes);
        if expected == 0 {
            return Ok(());
        }
        let traced = traced(&written);
        prop_assert_eq!(traced.findings.circular_dependencies, 0);
        prop_assert_eq!(whole(&traced), expected as f64);
    }

    /// Changed and cut bytes cause no panic: what is read can be replayed or is refused.
    #[test]
    fn changed_messages_are_no_harm(
        nodes in random(),
        changes in prop::collection::vec((0usize..4_000, any::<u8>()), 0..8),
        cut in 0usize..4_000,
    ) {
        let ids = |after: &[usize]| after.iter().map(|&on| on as u64 % 60).collect::<Vec<_>>();
        let written = nodes.iter().zip(0..).map(|(node, id)| match node.lane {
            lane @ 0..3 => host(id, lane.into(), node.duration, &ids(&node.after)),
            lane => device(id, lane.into(), node.duration, &ids(&node.after)),
        });
        let mut bytes = file(&written.collect::<Vec<_>>());
        let count = bytes.len();
        for (at, byte) in changes {
            bytes[at % count] = byte;
        }
        bytes.truncate(count.min(cut + 100));
        if let Ok(graph) = chakra::read(&bytes[..]) {
            let found = workloads::trace::replay(&graph.traced(), 2);
            prop_assert!(!matches!(found, Err(LanesError::Broken(_))), "{found:?}");
        }
    }
}
