//! The embedding: rows of words and positions, summed over the tensor ranks that share the vocabulary. That of encoders
//! adds rows of token types, and has a norm.

use crate::graph::Phase;

use super::Positions;
use super::draft::{BlockDraft, Draft, Drafted, Issue, Name};
use super::execution::ShardedTransformer;
use super::norm::{NormNames, norm_names};
use crate::graph::block::Block;
use crate::graph::operator::{CollectiveKind, Group, StreamClass};

const TOKENS: Name = Name::of("tokens");
const WORDS: Name = Name::of("word embedding");
const EMBEDDING: Name = Name::of("embedding");
const TYPES: Name = Name::of("token type embedding");
const TYPED: Name = Name::of("embedding with token types");
const NORM: &NormNames = norm_names!("embedding norm");
const SCATTERED: Name = Name::of("embedding, scattered");
const SCALED: Name = Name::of("scaled word embedding");
const SCALED_GRADIENT: Name = Name::of("scaled word embedding gradient");
const DROPPED: Name = Name::of("embedding dropped");
const MASK: Name = Name::of("embedding dropout mask");
const OUTPUT_GRADIENT: Name = Name::of("output gradient");
const DROPOUT_GRADIENT: Name = Name::of("embedding dropout gradient");
const GATHERED_GRADIENT: Name = Name::of("embedding gradient, gathered");
const IN_ORDER: Name = Name::of("embedding in order");
const WORD_GRADIENT: Name = Name::of("word gradient");
const POSITION_GRADIENT: Name = Name::of("position gradient");
const TYPE_GRADIENT: Name = Name::of("token type gradient");

/// Bytes of a token, an integer of 64 bits.
const TOKEN_BYTES: u64 = 8;

impl ShardedTransformer {
    /// The embedding of a micro-batch on a rank of the first stage.
    pub fn embedding(&self) -> Block {
        self.as_executed(BlockDraft {
            input: (TOKENS, TOKEN_BYTES * self.tokens()),
            output_gradient: Some(OUTPUT_GRADIENT),
            forward: forward(self),
            backward: backward(self),
            middle: None,
        })
    }
}

/// Megatron-LM's order: words looked up, cleared where another rank has them, and summed; positions; tokens of all
/// sequences side by side where there are several and it has them so; with sequence parallelism each rank's part of the sequence; dropout.
fn forward(on: &ShardedTransformer) -> Vec<Drafted> {
    let mut draft = Draft::new(Phase::Forward);
    let elementwise = StreamClass::Elementwise;
    let (whole, part) = (on.bytes(on.tokens() * on.hidden()), on.bytes(on.residual_elements()));
    let mut result = WORDS;
    let read = on.tokens() * TOKEN_BYTES + whole;
    let elements = (StreamClass::Embedding, on.tokens() * on.hidden());
    draft.look_up("look up words", elements, (read, whole), &[TOKENS], &[(WORDS, whole)]);
    if on.tensor() > 1 {
        let of_others = whole / on.tensor() * (on.tensor() - 1);
        draft.stream("clear words of others", elementwise, (0, of_others), &[WORDS], &[]);
        let sum = (CollectiveKind::AllReduce, Group::Tensor, whole);
        draft.collective("reduce words", sum, Issue::Waiting, &[WORDS], &[]);
    }
    if on.model().scaled_embedding {
        draft.stream("scale words", elementwise, (whole, whole), &[WORDS], &[(SCALED, whole)]);
        result = SCALED;
    }
    if on.model().encoder.is_some() {
        let writes = [(TYPES, whole)];
        draft.look_up("look up token types", elements, (read, whole), &[TOKENS], &writes);
        let reads = [result, TYPES];
        draft.stream("add token types", elementwise, (2 * whole, whole), &reads, &[(TYPED, whole)]);
        result = TYPED;
    }
    if on.model().positions == Positions::Learned {
        draft.stream("add positions", elementwise, (2 * whole, whole), &[result], &[(EMBEDDING, whole)]);
        result = EMBEDDING;
    }
    if puts_in_order(on) {
        draft.stream("put tokens in order", elementwise, (whole, whole), &[result], &[(IN_ORDER, whole)]);
        result = IN_ORDER;
    }
    if on.sequence_parallel() {
        draft.stream("split sequence", elementwise, (part, part), &[result], &[(SCATTERED, part)]);
        result = SCATTERED;
    }
    if on.model().encoder.is_some() {
        result = NORM.forward(&mut draft, on, result, on.hidden());
    }
    if on.model().dropout {
        let mask = on.residual_elements();
        let writes = [(DROPPED, part), (MASK, mask)];
        draft.stream("embedding dropout", elementwise, (part, part + mask), &[result], &writes);
    }
    draft.operators
}

fn backward(on: &ShardedTransformer) -> Vec<Drafted> {
    let mut draft = Draft::new(Phase::BackwardInput);
    if !on.trains_weights() {
        return draft.operators;
    }
    let (whole, part) = (on.bytes(on.tokens() * on.hidden()), on.bytes(on.residual_elements()));
    let mut gradient = OUTPUT_GRADIENT;
    if on.model().dropout {
        let (traffic, writes) = ((part + on.residual_elements(), part), [(DROPOUT_GRADIENT, part)]);
        draft.stream(DROPOUT_GRADIENT, StreamClass::Elementwise, traffic, &[gradient, MASK], &writes);
        gradient = DROPOUT_GRADIENT;
    }
    if on.model().encoder.is_some() {
        gradient = NORM.backward(&mut draft, on, norm_input(on), gradient, on.hidden());
    }
    draft.phase = Phase::BackwardWeight;
    if on.sequence_parallel() {
        let gather = (CollectiveKind::AllGather, Group::Tensor, whole);
        let writes = [(GATHERED_GRADIENT, whole)];
        draft.collective("gather embedding gradient", gather, Issue::Waiting, &[gradient], &writes);
        gradient = GATHERED_GRADIENT;
    }
    let positions = on.model().position_parameters();
    if positions > 0 {
        let names = ("clear position gradient", POSITION_GRADIENT, "accumulate position gradient");
        table_gradient(&mut draft, on, names, positions, &[gradient]);
    }
    let types = on.model().token_type_parameters();
    if types > 0 {
        let names = ("clear token type gradient", TYPE_GRADIENT, "accumulate token type gradient");
        table_gradient(&mut draft, on, names, types, &[gradient]);
    }
    if on.model().scaled_embedding {
        let writes = [(SCALED_GRADIENT, whole)];
        draft.stream("scale word gradient", StreamClass::Elementwise, (whole, whole), &[gradient], &writes);
        gradient = SCALED_GRADIENT;
    }
    let names = ("clear word gradient", WORD_GRADIENT, "accumulate word gradient");
    table_gradient(&mut draft, on, names, on.vocabulary_share() * on.hidden(), &[gradient, TOKENS]);
    draft.operators
}

/// Whether tokens of several sequences are put side by side, as Megatron-LM does; where they stay sequence after sequence, heads of
/// several are not evenly apart.
const fn puts_in_order(on: &ShardedTransformer) -> bool {
    on.execution().micro_batch > 1 && on.execution().fusion.strided_heads
}

/// What the norm of an encoder's embedding reads.
const fn norm_input(on: &ShardedTransformer) -> Name {
    if on.sequence_parallel() {
        SCATTERED
    } else if puts_in_order(on) {
        IN_ORDER
    } else {
        EMBEDDING
    }
}

/// The gradient of a table: cleared, then what `reads` say is added to the rows that were read, then all of it is added to the sum over micro-batches, which no kernel does on the way.
fn table_gradient(
    draft: &mut Draft,
    on: &ShardedTransformer,
    (clear, scatter, accumulate): (&'static str, Name, &'static str),
    parameters: u64,
    reads: &[Name],
) {
    let (whole, table) = (on.bytes(on.tokens() * on.hidden()), on.bytes(parameters));
    draft.stream(clear, StreamClass::Elementwise, (0, table), &[], &[(scatter, table)]);
    let reads: Vec<Name> = reads.iter().copied().chain([scatter]).collect();
    draft.add_to_rows(scatter, on.execution().dtype, (whole, table), &reads);
    draft.accumulate(accumulate, on, scatter, parameters);
}
