//! A network on a graph, as blocks of operators: one for each layer, the last with the loss.

use std::collections::BTreeSet;

use crate::graph::Phase;
use crate::graph::operator::{Dtype, StreamClass};
use crate::model::draft::{BlockDraft, Draft, Drafted};
use crate::model::layered::{LayeredExecution, LayeredModel, ModelBlock};
use crate::model::names::{Name, name};
use crate::model::transformer::Step;

use super::emit::{Emission, FEATURES, OUTPUT_GRADIENT};
use super::kinds::{LayerShape, NetworkKind, classifier, entry};
use super::layer::{NetworkLayer, Space, ValueId};
use super::subgraph::Subgraph;
use super::system::{Rules, System};

/// A network as a system runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Functions and shapes of its layers, the first one first.
    pub layers: Vec<(NetworkKind, LayerShape)>,
    /// Width of the features that a linear layer of each type of nodes reads before the first, and
    /// classes of another one behind the last. `None`: layers alone.
    pub ends: Option<[u64; 2]>,
    /// Which kernels compute them.
    pub system: System,
}

impl Network {
    /// Its operators, each layer on the part of a graph that it works on.
    pub fn model(&self, parts: &[Subgraph], on: &LayeredExecution) -> LayeredModel {
        let own = self.layers.iter().zip(parts);
        let mut layers: Vec<(NetworkLayer, Subgraph)> =
            own.map(|(&(kind, shape), part)| (kind.layer(shape), part.clone())).collect();
        if let (Some([features, classes]), Some(first), Some(last)) = (self.ends, parts.first(), parts.last())
        {
            let hidden = self.layers.first().map_or(features, |(_, shape)| shape.inputs);
            let width = self.layers.last().map_or(hidden, |(_, shape)| shape.outputs);
            layers.insert(0, (entry(features, hidden), Subgraph::of_nodes(&first.sources)));
            // Nodes of the first type have classes.
            let destinations = last.destinations.iter().take(1).copied().collect();
            let labelled = Subgraph { destinations, ..Subgraph::of_nodes(&last.destinations) };
            layers.push((classifier(width, classes), labelled));
        }
        let last = layers.len().saturating_sub(1);
        let blocks = layers.into_iter().enumerate().map(|(at, (layer, part))| {
            let layer = self.system.rewritten(layer);
            let writing = Writing { on, layer: &layer, part: &part, rules: self.system.rules() };
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
        let by_relation = self.rules.by_relation && !part.relations.is_empty();
        let relations = if by_relation { 0..part.relations.len() } else { 0..0 };
        let parts: Vec<Subgraph> = relations.map(|relation| part.only(relation)).collect();
        let of_type = |(at, part)| Emission::new(self.on, (layer, part), self.rules, Some(at), tracked);
        let mut each: Vec<Emission<'_>> = parts.iter().enumerate().map(of_type).collect();
        let mut forward = Vec::new();
        if by_relation {
            let mut filled = BTreeSet::new();
            for emission in &mut each {
                whole.place_sums(emission, &front, &mut filled);
                emission.forward(&front);
                forward.append(&mut emission.draft.operators);
            }
            whole.sum_types(&each, &front, &mut filled);
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
            if by_relation {
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
