//! Multi-head latent attention (DeepSeek-V2, 2024, section 2.1): queries, keys and values of all heads come from two
//! narrow vectors of a token, and only a part of each head is rotated, for keys the same one in all heads.
//!
//! The operators are those of Megatron-LM's `MLASelfAttention` with fused rotation: the layers to the narrow vectors are
//! whole on every tensor rank and see its part of the sequence, those to the heads are shared by columns.

use serde::Serialize;

use super::Transformer;
use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use super::norm::{NormNames, norm_names};
use super::residual::add_gradients;
use super::shape::{turns_pairs, within};
use crate::graph::operator::{CollectiveKind, Group, Module, StreamClass};

/// Dimensions of latent attention, beside the heads of a model, whose `head_dim` is the part that is not rotated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LatentAttention {
    /// Width of the vector that queries come from; none: they come from the residual stream.
    pub query_rank: Option<u32>,
    /// Width of the vector that keys and values come from.
    pub kv_rank: u32,
    /// Width of the part of a head of queries and keys that is rotated.
    pub rotary_dim: u32,
    /// Width of a head of values.
    pub value_dim: u32,
}

const INPUT_GRADIENT: Name = Name::of("attention input gradient");
const RANK_MAX: u32 = 1 << 20;
const DIM_MAX: u32 = 1 << 12;

const QUERY_DOWN: &Names = linear_names!("query down");
const QUERY_UP: &Names = linear_names!("query up");
const QUERY: &Names = linear_names!("query");
const KV_DOWN: &Names = linear_names!("key value down");
const KV_UP: &Names = linear_names!("key value up");
const QUERY_NORM: &NormNames = norm_names!("query norm");
const KV_NORM: &NormNames = norm_names!("key value norm");
pub(super) const KEYS: Name = Name::of("keys");
pub(super) const VALUES: Name = Name::of("values");
const POSITIONS: Name = Name::of("rotated keys, gathered");
const POSITIONS_GRADIENT: Name = Name::of("rotated keys gradient");
const KV_UP_GRADIENT: Name = Name::of("key value up output gradient");
const KV_DOWN_GRADIENT: Name = Name::of("key value down output gradient");

impl LatentAttention {
    /// Checks the dimensions beside those of the model.
    pub(super) fn validate(&self, model: &Transformer, wrong: &mut impl FnMut(&'static str, String)) {
        let extents = [
            ("latent.query_rank", self.query_rank, RANK_MAX),
            ("latent.kv_rank", Some(self.kv_rank), RANK_MAX),
            ("latent.rotary_dim", Some(self.rotary_dim), DIM_MAX),
            ("latent.value_dim", Some(self.value_dim), DIM_MAX),
        ];
        within(extents.into_iter().filter_map(|(field, value, most)| Some((field, value?, most))), wrong);
        if !self.rotary_dim.is_multiple_of(2) {
            wrong("latent.rotary_dim", turns_pairs(self.rotary_dim));
        }
        if model.kv_heads != model.heads {
            let (heads, kv_heads) = (model.heads, model.kv_heads);
            let problem = format!(
                "every head has keys and values of its own from the latent vector: {heads} heads need as many, not {kv_heads}"
            );
            wrong("kv_heads", problem);
        }
    }

    /// Weights of the layers to the latent vectors.
    pub(super) fn down(&self, hidden: u64) -> u64 {
        let query = self.query_rank.map_or(0, u64::from);
        hidden * (query + u64::from(self.kv_rank) + u64::from(self.rotary_dim))
    }

    /// Parameters that every tensor rank holds: those layers, and norms of the vectors.
    pub(super) fn replicated(&self, hidden: u64) -> u64 {
        self.down(hidden) + self.query_rank.map_or(0, u64::from) + u64::from(self.kv_rank)
    }
}

/// Layers of a rank from the residual stream to queries, keys and values.
pub(super) struct Projections<'a> {
    latent: &'a LatentAttention,
    hidden: u64,
    heads: u64,
    head_dim: u64,
}

impl<'a> Projections<'a> {
    pub(super) fn of(on: &ShardedTransformer, latent: &'a LatentAttention) -> Self {
        let model = on.model();
        let heads = u64::from(model.heads) / on.tensor();
        Self { latent, hidden: on.hidden(), heads, head_dim: model.head_dim.into() }
    }

    /// The forward pass from the output of the norm; queries are the tensor of [`Self::queries`], keys [`KEYS`], values
    /// [`VALUES`].
    pub(super) fn forward(&self, draft: &mut Draft, on: &ShardedTransformer, input: Name) {
        match self.latent.query_rank {
            Some(rank) => {
                let latent = self.query_down(rank).forward(draft, on, input);
                let normed = QUERY_NORM.forward(draft, on, latent, rank.into());
                let up = self.query_up(rank);
                draft.module(Module::LatentUp, |draft| up.forward(draft, on, normed));
            }
            None => {
                draft.module(Module::LatentUp, |draft| self.query().forward(draft, on, input));
            }
        }
        let latent = self.kv_down().forward(draft, on, input);
        let normed = KV_NORM.forward(draft, on, latent, self.latent.kv_rank.into());
        draft.module(Module::LatentUp, |draft| self.kv_up().forward(draft, on, normed));
        let mut positions = latent;
        if on.sequence_parallel() {
            let bytes = on.bytes(on.tokens() * self.rotary());
            let work = (CollectiveKind::AllGather, Group::Tensor, bytes);
            let writes = [(POSITIONS, bytes)];
            draft.collective("gather rotated keys", work, Issue::Waiting, &[latent], &writes);
            positions = POSITIONS;
        }
        draft.module(Module::LatentUp, |draft| self.rotate(draft, on, positions));
    }

    /// Rotates queries in place, and puts keys and values together from what comes from the narrow
    /// vector and the rotated part, tensor `positions`.
    fn rotate(&self, draft: &mut Draft, on: &ShardedTransformer, positions: Name) {
        let class = StreamClass::Elementwise;
        let turned = on.bytes(on.tokens() * self.heads * self.rotary());
        draft.stream("rotate queries", class, (turned, turned), &[self.queries()], &[]);
        let [made, keys, values] = self.key_value_bytes(on);
        let read = made + on.bytes(on.tokens() * self.rotary());
        let writes = [(KEYS, keys), (VALUES, values)];
        draft.stream("rotate keys", class, (read, keys + values), &[KV_UP.output, positions], &writes);
    }

    /// The backward pass from the gradients of queries, keys and values; returns the name of the gradient of the input.
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        [query, keys, values]: [Name; 3],
    ) -> Name {
        let class = StreamClass::Elementwise;
        let [made, key_bytes, value_bytes] = self.key_value_bytes(on);
        let positions = on.bytes(on.tokens() * self.rotary());
        let writes = [(KV_UP_GRADIENT, made), (POSITIONS_GRADIENT, positions)];
        let traffic = (key_bytes + value_bytes, made + positions);
        draft.stream("rotate keys gradient", class, traffic, &[keys, values], &writes);
        let turned = on.bytes(on.tokens() * self.heads * self.rotary());
        draft.stream("rotate queries gradient", class, (turned, turned), &[query], &[]);
        if on.sequence_parallel() {
            // Each rank has its heads' sum for all tokens, and needs the sum of all for its part.
            let work = (CollectiveKind::ReduceScatter, Group::Tensor, positions);
            draft.collective(
                "reduce rotated keys gradient",
                work,
                Issue::Waiting,
                &[POSITIONS_GRADIENT],
                &[],
            );
        }
        let through_up = self.kv_up().backward(draft, on, KV_NORM.output, KV_UP_GRADIENT);
        let rank = self.latent.kv_rank.into();
        let latent = KV_NORM.backward(draft, on, KV_DOWN.output, through_up, rank);
        let bytes = on.bytes(on.residual_tokens() * (rank + self.rotary()));
        let (reads, writes) = ([latent, POSITIONS_GRADIENT], [(KV_DOWN_GRADIENT, bytes)]);
        draft.stream("concatenate key value gradient", class, (bytes, bytes), &reads, &writes);
        let through_keys = self.kv_down().backward(draft, on, input, KV_DOWN_GRADIENT);
        let through_queries = match self.latent.query_rank {
            Some(rank) => {
                let through_up = self.query_up(rank).backward(draft, on, QUERY_NORM.output, query);
                let latent = QUERY_NORM.backward(draft, on, QUERY_DOWN.output, through_up, rank.into());
                self.query_down(rank).backward(draft, on, input, latent)
            }
            None => self.query().backward(draft, on, input, query),
        };
        add_gradients(draft, on, [through_keys, through_queries], INPUT_GRADIENT)
    }

    /// The tensor of queries.
    pub(super) const fn queries(&self) -> Name {
        if self.latent.query_rank.is_some() { QUERY_UP.output } else { QUERY.output }
    }

    fn rotary(&self) -> u64 {
        self.latent.rotary_dim.into()
    }

    fn query_width(&self) -> u64 {
        self.heads * (self.head_dim + self.rotary())
    }

    /// Bytes of what keys and values are made from, of keys and of values.
    fn key_value_bytes(&self, on: &ShardedTransformer) -> [u64; 3] {
        let values = self.heads * u64::from(self.latent.value_dim);
        let widths = [self.heads * self.head_dim + values, self.query_width(), values];
        widths.map(|width| on.bytes(on.tokens() * width))
    }

    fn query_down(&self, rank: u32) -> Linear {
        Linear::new(QUERY_DOWN, Side::Whole, self.hidden, rank.into())
    }

    fn query_up(&self, rank: u32) -> Linear {
        Linear::new(QUERY_UP, Side::Columns, rank.into(), self.query_width())
    }

    fn query(&self) -> Linear {
        Linear::new(QUERY, Side::Columns, self.hidden, self.query_width())
    }

    fn kv_down(&self) -> Linear {
        let outputs = u64::from(self.latent.kv_rank) + self.rotary();
        Linear::new(KV_DOWN, Side::Whole, self.hidden, outputs)
    }

    fn kv_up(&self) -> Linear {
        let outputs = self.heads * (self.head_dim + u64::from(self.latent.value_dim));
        Linear::new(KV_UP, Side::Columns, self.latent.kv_rank.into(), outputs)
    }
}
