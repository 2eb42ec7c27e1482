//! A network on a graph, as blocks of operators: one for each layer, the last with the loss.

use crate::graph::Phase;
use crate::graph::operator::{Dtype, StreamClass};
use crate::model::draft::{BlockDraft, Draft, Drafted};
use crate::model::layered::{LayeredExecution, LayeredModel, ModelBlock};
use crate::model::names::{Name, name};
use crate::model::transformer::Step;

use super::emit::{Emission, FEATURES, OUTPUT_GRADIENT};
use super::kinds::{LayerShape, NetworkKind};
use super::layer::{NetworkLayer, Space, ValueId};
use super::subgraph::Subgraph;
use super::system::{Rules, System};

/// A network as a system runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Function of its layers.
    pub kind: NetworkKind,
    /// Their shapes, the first one first.
    pub layers: Vec<LayerShape>,
    /// Which kernels compute them.
    pub system: System,
}

impl Network {
    /// Its operators, each layer on the part of a graph that it works on.
    pub fn model(&self, parts: &[Subgraph], on: &LayeredExecution) -> LayeredModel {
        let last = self.layers.len().saturating_sub(1);
        let layers = self.layers.iter().zip(parts).enumerate();
        let blocks = layers.map(|(at, (&shape, part))| {
            let layer = self.system.rewritten(self.kind.layer(shape));
            let writing = Writing { on, layer: &layer, part, rules: self.system.rules() };
            writing.block(at > 0, at == last)
        });
        LayeredModel::of_blocks(blocks.collect(), on)
    }
}

/// A block under construction.
struct Writing<'a> {
    on: &'a LayeredExecution,
    layer: &'a NetworkLayer,
    part: &'a Subgraph,
    rules: Rules,
}

impl Writing<'_> {
    fn block(&self, tracked: bool, is_last: bool) -> ModelBlock {
        let (layer, part) = (self.layer, self.part);
        let ends_with_loss = is_last && self.on.step != Step::Forward;
        let mut whole = Emission::new(self.on, (layer, part), self.rules, None, tracked);
        let [front, back] = whole.halves();
        let relations = if self.rules.by_relation { 0..part.relations.len() } else { 0..0 };
        let parts: Vec<Subgraph> = relations.map(|relation| part.only(relation)).collect();
        let of_type = |(at, part)| Emission::new(self.on, (layer, part), self.rules, Some(at), tracked);
        let mut each: Vec<Emission<'_>> = parts.iter().enumerate().map(of_type).collect();
        let mut forward = Vec::new();
        if self.rules.by_relation {
            for emission in &mut each {
                emission.forward(&front);
                forward.append(&mut emission.draft.operators);
            }
            whole.sum_types(&each, &front);
        } else {
            whole.forward(&front);
        }
        whole.forward(&back);
        forward.append(&mut whole.draft.operators);
        let output = whole.tensor(layer.output);
        let classes = layer.get(layer.output).width;
        let mut loss = Draft::new(Phase::Forward);
        let rows = part.rows(Space::Destinations);
        let gradient = match ends_with_loss {
            true => self.loss(&mut loss, output, (rows, classes)),
            false => OUTPUT_GRADIENT,
        };
        let is_forward = |op: &Drafted| op.phase == Phase::Forward;
        let (of_loss, mut backward): (Vec<_>, Vec<_>) = loss.operators.into_iter().partition(is_forward);
        forward.extend(of_loss);
        if self.on.step != Step::Forward {
            whole.start_from(layer.output, gradient);
            whole.backward(&back);
            if self.rules.by_relation {
                backward.append(&mut whole.draft.operators);
                for emission in &mut each {
                    whole.hand_sums_to(emission, &front);
                    emission.backward(&front);
                    if let Some(gradient) = emission.of_features() {
                        whole.give(ValueId(0), gradient);
                    }
                    backward.append(&mut emission.draft.operators);
                    backward.append(&mut whole.draft.operators);
                }
            } else {
                whole.backward(&front);
            }
            whole.of_features();
            backward.append(&mut whole.draft.operators);
        }
        let width = layer.get(ValueId(0)).width;
        let input_bytes = part.rows(Space::Sources) * width * self.on.dtype.bytes();
        let block = BlockDraft {
            input: (FEATURES, input_bytes),
            output_gradient: (!ends_with_loss).then_some(OUTPUT_GRADIENT),
            forward,
            backward,
            middle: None,
        };
        let parameters = Emission::parameters(layer, part);
        ModelBlock { block: block.block(), parameters, input_bytes }
    }

    /// Cross-entropy of each destination; gives the name of the gradient of what it starts from.
    fn loss(&self, draft: &mut Draft, from: Name, (rows, classes): (u64, u64)) -> Name {
        let (single, bytes) = (rows * classes * Dtype::Fp32.bytes(), rows * classes * self.on.dtype.bytes());
        let probabilities = Name::of("log-probabilities");
        let writes = [(probabilities, single)];
        draft.walk(probabilities, (StreamClass::Softmax, rows), (bytes, single), &[from], &writes);
        let loss = Name::of("loss");
        let traffic = (4 * rows, 4);
        draft.stream(loss, StreamClass::Reduction, traffic, &[probabilities], &[(loss, 4)]);
        let (picked, result) = (Name::of("picked gradient"), name("loss", "input gradient"));
        draft.within(Phase::BackwardInput, |draft| {
            draft.stream(picked, StreamClass::Elementwise, (0, single), &[], &[(picked, single)]);
            let (reads, writes) = ([probabilities, picked], [(result, bytes)]);
            draft.walk(result, (StreamClass::Softmax, rows), (2 * single, bytes), &reads, &writes);
        });
        result
    }
}
