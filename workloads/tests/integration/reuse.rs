//! How far back operators have touched what they read, beside a plain stack of parts.

use proptest::prelude::*;
use workloads::graph::Phase;
use workloads::graph::operator::{Label, Operator, Stream, StreamClass, Tensor, TensorId, Work};
use workloads::model::reuse::{self, Reuse};

/// Bytes of the tensors of the tests.
const BYTES: [u64; 6] = [6_400, 12_800, 640, 64_000, 19_200, 1_280];
const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;
const D: u32 = 3;

fn reused(operators: &[Operator], before: Option<u32>) -> Vec<Vec<Reuse>> {
    let tensors = BYTES.map(|bytes| Tensor { name: Label::default(), bytes });
    reuse::reused(operators, &tensors, before.map(TensorId).as_slice())
}

#[test]
fn an_operator_right_after_the_producer_finds_what_both_have_not_swept_away() {
    // A is filled, then read for B, of which one half goes by on average.
    let operators = [touch(&[], &[A], 0), touch(&[A], &[B], 0)];
    assert_eq!(reused(&operators, None), [vec![], vec![Reuse { bytes: 6_400, distance: 12_800 }]]);
    // What came before stands like a producer that touched nothing else.
    assert_eq!(reused(&operators[1..], Some(A)), reused(&operators, None)[1..]);
}

#[test]
fn what_lies_between_two_uses_counts_once_and_whole() {
    let between = touch(&[], &[B, D], 0);
    let operators = [touch(&[], &[A], 0), between.clone(), between, touch(&[A], &[], 0)];
    let distance = 6_400 + 12_800 + 64_000;
    assert_eq!(reused(&operators, None)[3], [Reuse { bytes: 6_400, distance }]);
}

#[test]
fn a_tensor_of_both_operators_goes_by_once() {
    let operators = [touch(&[C], &[A], 0), touch(&[A, C], &[], 0), touch(&[], &[C], 0)];
    assert_eq!(reused(&operators, None)[1][0], Reuse { bytes: 6_400, distance: 6_400 + 640 });
}

#[test]
fn what_has_no_name_is_new_each_time() {
    let weights = touch(&[], &[], 1_000);
    let operators = [touch(&[], &[A], 500), weights.clone(), weights, touch(&[A], &[], 300)];
    assert_eq!(reused(&operators, None)[3], [Reuse { bytes: 6_400, distance: 6_400 + 2_000 + 400 }]);
}

#[test]
fn what_was_never_touched_is_not_read_again() {
    // It is written only later, and the list that wrote it first is another.
    let operators = [touch(&[A], &[B], 0), touch(&[], &[A], 0)];
    assert_eq!(reused(&operators, None), [vec![], vec![]]);
}

proptest! {
    /// Each operator sweeps over its tensors part by part, side by side; a part returns after the different parts touched since.
    #[test]
    fn distances_are_those_of_a_stack_of_parts(operators in prop::collection::vec(operator(), 1..9)) {
        let plain = by_parts(&operators);
        for (at, (reused, plain)) in reused(&operators, None).iter().zip(plain).enumerate() {
            prop_assert_eq!(reused.len(), plain.len());
            for (reuse, distance) in reused.iter().zip(plain) {
                // A part of each tensor before or after.
                let slack = BYTES.iter().sum::<u64>() as f64 + 8e3;
                let off = (reuse.distance as f64 - distance).abs();
                prop_assert!(off <= slack / PARTS as f64 + 1.0, "{at}: {reuse:?} beside {distance}");
            }
        }
    }
}

const PARTS: usize = 64;

/// The mean distance of the parts of every tensor that is read again, in the order of ids.
fn by_parts(operators: &[Operator]) -> Vec<Vec<f64>> {
    // The last touched comes last.
    let mut stack: Vec<(String, f64)> = Vec::new();
    let mut distances = Vec::new();
    for (at, op) in operators.iter().enumerate() {
        let mut tensors: Vec<TensorId> = op.reads.iter().chain(&op.writes).copied().collect();
        tensors.sort_unstable();
        tensors.dedup();
        // What nobody writes is new each time.
        tensors.retain(|tensor| operators.iter().any(|op| op.writes.contains(tensor)));
        let size = |tensor: &TensorId| BYTES[tensor.0 as usize] as f64;
        let nameless = op.work.bytes() as f64 - tensors.iter().map(size).sum::<f64>();
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); tensors.len()];
        for part in 0..PARTS {
            stack.push((format!("new {at} {part}"), nameless.max(0.0) / PARTS as f64));
            for (tensor, found) in tensors.iter().zip(&mut found) {
                let entry = (format!("{tensor:?} {part}"), size(tensor) / PARTS as f64);
                if let Some(last) = stack.iter().position(|known| *known == entry) {
                    found.push(stack[last..].iter().map(|(_, bytes)| bytes).sum());
                    stack.remove(last);
                }
                stack.push(entry);
            }
        }
        let read = tensors
            .iter()
            .zip(found)
            .filter(|(tensor, found)| op.reads.contains(tensor) && !found.is_empty());
        distances.push(read.map(|(_, found)| found.iter().sum::<f64>() / PARTS as f64).collect());
    }
    distances
}

fn operator() -> impl Strategy<Value = Operator> {
    let some = || prop::sample::subsequence((0..BYTES.len() as u32).collect::<Vec<_>>(), 0..3);
    (some(), some(), 0..8_000_u64).prop_map(|(reads, writes, nameless)| touch(&reads, &writes, nameless))
}

/// An operator that reads and writes tensors, and something without a name.
fn touch(reads: &[u32], writes: &[u32], nameless: u64) -> Operator {
    let bytes = |tensors: &[u32]| tensors.iter().map(|&tensor| BYTES[tensor as usize]).sum::<u64>();
    let class = StreamClass::Elementwise;
    let (bytes_read, bytes_written) = (bytes(reads) + nameless, bytes(writes));
    Operator {
        name: Label::Borrowed("touch"),
        phase: Phase::Forward,
        work: Work::Stream(Stream {
            class,
            bytes_read,
            bytes_written,
            bytes_cached: 0,
            rows: None,
            looked_up: 0,
        }),
        reads: reads.iter().copied().map(TensorId).collect(),
        writes: writes.iter().copied().map(TensorId).collect(),
        workspace: 0,
        awaited: false,
        members: 1,
        math: None,
        views: 0,
        driver: Default::default(),
        module: None,
        choice: None,
    }
}
