//! Edge lists of all forms, and of none.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use graphs::import::{Duplicates, Imported, Options, read};
use graphs::settings::DegreeSettings;
use graphs::{Graph, Statistics};
use proptest::prelude::*;

fn imported(bytes: &[u8]) -> Result<Imported, String> {
    read(bytes, &Options::default()).map_err(|faults| {
        assert!(faults.iter().all(|fault| !fault.remedy.is_empty() && !fault.place.is_empty()), "{faults:?}");
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    })
}

fn graph(bytes: &[u8]) -> Graph {
    let statistics = imported(bytes).expect("edges").statistics;
    let read = Statistics::read(&statistics.write()).expect("a file that is written can be read");
    assert_eq!(read, statistics);
    read.graph().expect("statistics without problems")
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn npy(header: &str, numbers: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(numbers);
    file
}

fn int64(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn one_graph_in_all_forms() {
    let plain = graph(b"0,1\n0,2\n3,1\n");
    assert_eq!((plain.nodes(), plain.edges(), plain.distinct_pairs()), (4, 3, 2));
    assert_eq!(plain.relations[0].in_degrees.counts(), [(0, 2), (1, 1), (2, 1)]);
    assert!(!plain.is_estimate());
    let rows = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }\n";
    let columns = "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }\n";
    let transposed = "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 3), }\n";
    let big = "{'descr': '>u4', 'fortran_order': False, 'shape': (3, 2), }\n";
    let words: Vec<u8> = [0_u32, 1, 0, 2, 3, 1].iter().flat_map(|number| number.to_be_bytes()).collect();
    for form in [
        b"source,destination\r\n0,1\r\n0,2\r\n3,1".to_vec(),
        b"# a comment\n\n0\t1\n3\t1\n0\t2\n".to_vec(),
        b"\xef\xbb\xbf0 1\n0 2\n3 1\n".to_vec(),
        packed(b"0;1\n0;2\n3;1\n"),
        [packed(b"0,1\n"), packed(b"0,2\n3,1\n")].concat(),
        npy(rows, &int64(&[0, 0, 3, 1, 2, 1])),
        npy(columns, &int64(&[0, 1, 0, 2, 3, 1])),
        packed(&npy(transposed, &int64(&[0, 1, 0, 2, 3, 1]))),
        npy(big, &words),
    ] {
        assert_eq!(graph(&form), plain, "{}", String::from_utf8_lossy(&form));
    }
}

#[test]
fn types_are_relations() {
    let typed = graph(b"s,d,type\n0,1,cites\n0,2,cites\n0,1,likes\n");
    let names: Vec<&str> = typed.relations.iter().map(|of| of.name.as_str()).collect();
    assert_eq!((names, typed.distinct_pairs()), (vec!["cites", "likes"], 2));
    let options = Options { reverse: true, ..Options::default() };
    let reversed = read(&b"0,1,cites\n0,2,cites\n"[..], &options).unwrap().statistics.graph().unwrap();
    assert_eq!((reversed.relations.len(), reversed.distinct_pairs()), (2, 3));
    let both = read(&b"0,1\n0,2\n"[..], &options).unwrap().statistics;
    assert!(both.symmetric && both.in_degrees == Some(DegreeSettings::Histogram(vec![[1, 2], [2, 1]])));
    assert!(imported(b"0,1\n1,0\n").unwrap().statistics.symmetric);
}

#[test]
fn peculiar_edges_are_counted() {
    let found = imported(b"0,1\n0,1\n1,1\n0,1\n").unwrap();
    assert_eq!((found.self_loops, found.duplicates), (1, Duplicates::Counted(2)));
}

#[test]
fn faults_have_a_place_and_a_remedy() {
    let bomb = packed(&vec![b'\n'; 100 << 20]);
    let whole = packed(b"0,1\n1,2\n2,3\n3,4\n");
    let short = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (9, 2), }", &int64(&[0, 1, 2]));
    let float = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 2), }", &[]);
    let endless = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 99999999999), }", &[]);
    let cube = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2, 2), }", &[]);
    let negative = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2), }", &int64(&[0, -5]));
    for (bytes, expected) in [
        (&b""[..], "has no edges"),
        (b"source,destination\n", "has no edges"),
        (b"0,0\n1,1\n", "only self-loops, 2"),
        (b"0,1\n0,-3\n", "line 2 has the negative node -3"),
        (
            b"0,1\n0,99999999999999999999999999999999999999999999999\n",
            "line 2 has node 999999999999999999999999,",
        ),
        (b"0,1\n2\n", "line 2 has 1 columns, those before 2"),
        (b"0,1,2,3\n", "line 1 has 4 columns"),
        (b"0,1\n1,x\ny,0\n", "line 2 has `x` for a node: number nodes from 0\nline 3 has `y`"),
        (b"\xff\xfe0\x00,\x001\x00", "is UTF-16"),
        (b"0,1\n\xc3\x28,1\n", "line 2 has `"),
        (b"0,1,\xff\xff\n", "not UTF-8"),
        (&[b'1'; 9000], "more than 4096 bytes"),
        (&bomb, "unpacks to more than 200 times"),
        (&whole[..whole.len() - 12], "ends within what gzip packed"),
        (&short, "number 4 of 18 is missing"),
        (&float, "numbers are `<f8`"),
        (&endless, "before the destinations"),
        (&cube, "is (2, 2, 2), not (2, E)"),
        (&negative, "number 2 of 2 is negative"),
        (b"\x93NUMPY", "header cannot be read"),
    ] {
        let found = imported(bytes).expect_err(expected);
        assert!(found.contains(expected), "{found} for {expected}");
    }
}

/// Cases, more of them by `FORETRAIN_FUZZ=10000000`.
fn cases() -> u32 {
    let asked = std::env::var("FORETRAIN_FUZZ").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(512)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// No bytes make it panic, and what it reads is a graph.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), form in 0..4, text in "[0-9,\t\n #a-]{0,200}") {
        let bytes = match form {
            0 => bytes,
            1 => text.into_bytes(),
            2 => packed(text.as_bytes()),
            _ => npy(&format!("{{'descr': '<u2', 'fortran_order': False, 'shape': ({}, 2), }}", bytes.len() / 4), &bytes),
        };
        if let Ok(found) = imported(&bytes) {
            let graph = found.statistics.graph();
            prop_assert!(graph.is_ok(), "{graph:?}");
        }
    }

    /// Statistics are those of the plain list.
    #[test]
    fn as_the_plain_list(pairs in prop::collection::vec((0_u32..40, 0_u32..40), 1..200)) {
        prop_assume!(pairs.iter().any(|(a, b)| a != b));
        let text: String = pairs.iter().map(|(source, destination)| format!("{source} {destination}\n")).collect();
        let nodes = pairs.iter().map(|(a, b)| a.max(b) + 1).max().unwrap();
        let plain = graphs::edges::Edges::new(nodes, &pairs, &[]).graph();
        let found = graph(text.as_bytes());
        let mut sorted = pairs.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(&found.relations[0].in_degrees, &plain.relations[0].in_degrees);
        prop_assert_eq!(&found.relations[0].out_degrees, &plain.relations[0].out_degrees);
        prop_assert_eq!(imported(text.as_bytes()).unwrap().duplicates, Duplicates::Counted((pairs.len() - sorted.len()) as u64));
    }
}
