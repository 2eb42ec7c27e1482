//! Adaptive keep: tensors of the last layers stay, as far as what holds those that leave cannot take them and give them back in
//! time (Wu et al., SSDTrain, DAC 2025; `solve_num_adaptive_keep_layers` of github.com/K-Wu/FlashTrain). What it can take is measured
//! in a step in which all leave that may ([`crate::plan`]).
//!
//! *Scopes* are the attention of a layer, its MLP and the layer, in this order. If tensors stay from behind scope `n` on, those of the
//! scopes before it are written and those of `n` are written and read, while the forward pass is executed and the backward pass, which
//! takes twice as long, comes back to `n`. So they ask for
//!
//! ```text
//! B(n) = (sum of V(k) over k before n + 2 V(n)) / (3 T - 2 sum of t(k) over k before n)
//! ```
//!
//! with the bytes `V` and the forward times `t` of scopes, which add up to `T`. They stay from the first scope on that asks for
//! more than was measured.

use std::ops::Range;

use crate::graph::OpGraph;
use crate::model::cut::PartKind;

use super::{ActivationOffload, LayerOps, Leaving, candidates};

/// What is tracked of a stage, in the order of its forward pass, without the head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Halves of layers, and blocks that have none.
    pub(crate) parts: Vec<Part>,
    /// From which on tensors may stay.
    scopes: Vec<Scope>,
}

/// Half of a layer, or a block that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its operators in the forward pass, by number.
    pub(crate) forward: Range<u32>,
    /// Those of the backward pass.
    backward: Range<u32>,
    /// What it saves and may leave (bytes); what several parts save is the first's.
    bytes: u64,
}

/// A layer or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    /// `attention of layer 3`.
    name: String,
    parts: Range<usize>,
}

/// What was measured of a stage on one of its ranks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    /// By part, the time of its forward pass (s).
    pub(crate) seconds: Vec<f64>,
    /// At which its tensors left (byte/s).
    pub(crate) rate: f64,
}

/// What stays of each micro-batch on a rank, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The scope from which on tensors stay; none: all leave.
    pub from: Option<String>,
    /// Bytes that stay, and those that might leave.
    pub bytes: [u64; 2],
    /// What that scope asks for; where all leave, the most that any asks for (byte/s).
    pub needed: f64,
    /// What was measured (byte/s); none where nothing left, or the step did not come so far.
    pub measured: Option<f64>,
}

impl Tracked {
    /// That of a stage with one chunk. `layers` are those of all stages.
    pub(crate) fn of(
        technique: &ActivationOffload,
        graph: &OpGraph,
        layers: &[LayerOps],
        stage: u32,
    ) -> Self {
        let leaving = candidates(graph, stage, 0).into_iter();
        let leaving = leaving.filter(|candidate| candidate.bytes >= technique.smallest());
        let leaving: Vec<(u32, u64)> =
            leaving.map(|candidate| (candidate.needed_last.0, candidate.bytes)).collect();
        let (mut tracked, mut number) = (Self::default(), 0);
        for layer in layers {
            number += u32::from(layer.kind == PartKind::Layer);
            if layer.stage != stage || layer.kind == PartKind::Head {
                continue;
            }
            let LayerOps { forward, backward, .. } = layer;
            let name = match layer.kind {
                PartKind::Layer => format!("layer {number}"),
                PartKind::Embedding | PartKind::Head => "the embedding".to_owned(),
            };
            let Some([middle, middle_back]) = layer.middle else {
                tracked.add(name, [forward.clone(), backward.clone()], &leaving);
                continue;
            };
            let first = tracked.parts.len();
            let attention = [forward.start..middle, middle_back..backward.end];
            let mlp = [middle..forward.end, backward.start..middle_back];
            tracked.add(format!("attention of {name}"), attention, &leaving);
            tracked.add(format!("MLP of {name}"), mlp, &leaving);
            tracked.scopes.push(Scope { name, parts: first..first + 2 });
        }
        tracked
    }

    /// Adds a part. `leaving` are what may leave: the last operator that needs it, and its bytes.
    fn add(&mut self, name: String, [forward, backward]: [Range<u32>; 2], leaving: &[(u32, u64)]) {
        let own = leaving.iter().filter(|(op, _)| backward.contains(op));
        let bytes = own.map(|(_, bytes)| bytes).sum();
        let at = self.parts.len();
        self.scopes.push(Scope { name, parts: at..at + 1 });
        self.parts.push(Part { forward, backward, bytes });
    }

    /// The first part that stays, and what is told of it; none: all leave.
    pub(crate) fn decide(&self, profile: Option<&Profile>) -> (Option<usize>, Kept) {
        let all = self.parts.iter().map(|part| part.bytes).sum();
        let Some(Profile { seconds, rate }) = profile else {
            return (None, Kept { bytes: [0, all], ..Kept::default() });
        };
        let measured = self.parts.iter().zip(seconds).map(|(part, &seconds)| (part.bytes, seconds));
        let measured: Vec<(u64, f64)> = measured.collect();
        let needed: Vec<f64> = self.scopes.iter().map(|scope| needed(&measured, &scope.parts)).collect();
        let first = needed.iter().position(|needed| needed > rate);
        let from = first.map(|scope| self.scopes[scope].parts.start);
        let stays = from.map_or(0, |from| self.parts[from..].iter().map(|part| part.bytes).sum());
        let most = needed.iter().copied().fold(0.0, f64::max);
        let kept = Kept {
            from: first.map(|scope| self.scopes[scope].name.clone()),
            bytes: [stays, all],
            needed: first.map_or(most, |scope| needed[scope]),
            measured: Some(*rate),
        };
        (from, kept)
    }

    /// What leaves if the parts from one on stay.
    pub(crate) fn leaving(&self, from: Option<usize>) -> Leaving {
        let before = &self.parts[..from.unwrap_or(self.parts.len())];
        Leaving::NeededBy(before.iter().map(|part| part.backward.clone()).collect())
    }
}

/// The rate that writing what comes before a scope, and writing and reading the scope itself, asks for (byte/s). `parts` are bytes and
/// forward times (s).
fn needed(parts: &[(u64, f64)], scope: &Range<usize>) -> f64 {
    let bytes = |parts: &[(u64, f64)]| parts.iter().map(|&(bytes, _)| bytes).sum::<u64>() as f64;
    let seconds = |parts: &[(u64, f64)]| parts.iter().map(|&(_, seconds)| seconds).sum::<f64>();
    let before = &parts[..scope.start];
    (bytes(before) + 2.0 * bytes(&parts[scope.clone()])) / (3.0 * seconds(parts) - 2.0 * seconds(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layers: attention of 2 bytes and 1 s, MLP of 3 bytes and 2 s.
    const LAYERS: [(u64, f64); 4] = [(2, 1.0), (3, 2.0), (2, 1.0), (3, 2.0)];

    fn two_layers() -> Tracked {
        let part = |(bytes, _): (u64, f64)| Part { forward: 0..0, backward: 0..0, bytes };
        let scope = |(name, parts): (&str, Range<usize>)| Scope { name: name.to_owned(), parts };
        let scopes =
            [("A1", 0..1), ("M1", 1..2), ("L1", 0..2), ("A2", 2..3), ("M2", 3..4), ("L2", 2..4)].map(scope);
        Tracked { parts: LAYERS.map(part).to_vec(), scopes: scopes.to_vec() }
    }

    fn kept(rate: f64) -> Kept {
        let seconds = LAYERS.map(|(_, seconds)| seconds).to_vec();
        two_layers().decide(Some(&Profile { seconds, rate })).1
    }

    /// 4/18, (2 + 6)/(18 - 2), 10/18, (5 + 4)/(18 - 6), (7 + 6)/(18 - 8), (5 + 10)/(18 - 6).
    #[test]
    fn what_scopes_ask_for() {
        let needed: Vec<f64> =
            two_layers().scopes.iter().map(|scope| needed(&LAYERS, &scope.parts)).collect();
        assert_eq!(needed, [2.0 / 9.0, 0.5, 5.0 / 9.0, 0.75, 1.3, 1.25]);
    }

    #[test]
    fn tensors_stay_from_the_first_scope_that_asks_for_too_much() {
        let from = |rate| kept(rate).from;
        assert_eq!(from(1.3), None, "as much as there is is not too much");
        assert_eq!(from(1.0).as_deref(), Some("M2"));
        assert_eq!(from(0.74).as_deref(), Some("A2"));
        assert_eq!(
            from(0.52).as_deref(),
            Some("L1"),
            "of a layer whose halves are not too much by themselves"
        );
        assert_eq!(from(0.4).as_deref(), Some("M1"));
        assert_eq!(from(0.1).as_deref(), Some("A1"));
    }

    #[test]
    fn what_stays_is_told_with_the_rates() {
        let expected = Kept { from: Some("M2".to_owned()), bytes: [3, 10], needed: 1.3, measured: Some(1.0) };
        assert_eq!(kept(1.0), expected);
        assert_eq!(kept(2.0), Kept { from: None, bytes: [0, 10], needed: 1.3, measured: Some(2.0) });
        assert_eq!(kept(0.52).bytes, [10, 10]);
    }
}
