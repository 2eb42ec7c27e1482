//! How a transformer is split over tensor ranks, pipeline stages, parts of a sequence and experts, and which splits come
//! out even.

use std::ops::Range;

use crate::diagnostic::Diagnostic;

use super::{ContextExchange, Experts, Transformer};

/// A split of a transformer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Ranks that share each layer, t.
    pub tensor: u32,
    /// Norms and residuals are split over the tensor ranks along the sequence (Korthikanti et al. 2023).
    pub sequence_parallel: bool,
    /// Pipeline stages, p.
    pub stages: u32,
    /// Chunks of layers per stage, v.
    pub chunks: u32,
    /// Layers of each chunk in the order of the model, p v of them; none: all have as many.
    pub layers: Option<Vec<u32>>,
    /// Ranks that have parts of the same sequences, c.
    pub context: u32,
    /// How those compute attention.
    pub context_exchange: ContextExchange,
    /// Ranks that share the experts of each layer, e. They are of those that hold the same parameters otherwise.
    pub expert: u32,
}

const KV_HEADS: &str = "heads of keys and values";

/// Most ranks of a ring: each is a step of every layer.
const RING_MAX: u32 = 1 << 10;

impl Split {
    /// Everything on one device.
    pub const NONE: Self = Self {
        tensor: 1,
        sequence_parallel: false,
        stages: 1,
        chunks: 1,
        layers: None,
        context: 1,
        context_exchange: ContextExchange::AllToAll,
        expert: 1,
    };

    /// The layers of the chunk at a position of the chain of stages. The split is valid.
    pub fn layers_at(&self, position: u32, model: &Transformer) -> Range<u32> {
        match &self.layers {
            Some(layers) => {
                let (before, from) = layers.split_at(layers.len().min(position as usize));
                let before = before.iter().sum();
                before..before + from.first().copied().unwrap_or_default()
            }
            None => {
                let each = self.layers_each(model);
                position * each..(position + 1) * each
            }
        }
    }

    /// Most layers of a chunk.
    pub fn layers_max(&self, model: &Transformer) -> u32 {
        let most = self.layers.iter().flatten().max();
        most.copied().unwrap_or_else(|| self.layers_each(model))
    }

    /// Layers of a chunk where all have as many.
    fn layers_each(&self, model: &Transformer) -> u32 {
        model.layers / self.positions().max(1)
    }

    /// Chunks of all stages, p v.
    const fn positions(&self) -> u32 {
        self.stages.saturating_mul(self.chunks)
    }

    /// Checks that a model and its sequences are split evenly.
    ///
    /// # Errors
    /// Everything that does not divide, with the nearest values that would.
    pub fn validate(&self, model: &Transformer, sequence: u32) -> Result<(), Vec<Diagnostic>> {
        let mut found = Vec::new();
        self.tensor_ranks(model, sequence, &mut found);
        self.pipeline(model, &mut found);
        self.context_ranks(model, sequence, &mut found);
        self.expert_ranks(model, &mut found);
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// Most tensor ranks, no more than these, that come out even with a model, its sequences and
    /// the GPUs of a machine.
    pub fn fewer_tensor_ranks(&self, model: &Transformer, sequence: u32, gpus: u32) -> u32 {
        let shared = self.shared(model, sequence);
        let is_even =
            |&t: &u32| gpus.is_multiple_of(t) && shared.iter().all(|(_, count)| count.is_multiple_of(t));
        (2..=self.tensor.min(gpus)).rev().find(is_even).unwrap_or(1)
    }

    /// Parts of the model that tensor ranks share, and how much of each there is.
    fn shared(&self, model: &Transformer, sequence: u32) -> Vec<(&'static str, u32)> {
        let mut shared = vec![
            ("heads", model.heads),
            (KV_HEADS, model.kv_heads),
            ("columns of the MLP (`ffn`)", model.ffn),
        ];
        if self.sequence_parallel {
            shared.push(("tokens of a sequence (`sequence_parallel`)", sequence));
        }
        shared
    }

    fn tensor_ranks(&self, model: &Transformer, sequence: u32, found: &mut Vec<Diagnostic>) {
        let t = self.tensor;
        let shared = self.shared(model, sequence);
        let common = shared.iter().fold(0, |common, (_, count)| gcd(common, *count));
        if t == 0 {
            let problem =
                format!("there must be at least one rank; {} would do", nearest_divisors(common, 1));
            found.push(Diagnostic::sentence("tensor", problem));
            return;
        }
        // Where the heads cannot be split, those of keys and values, of which they are a multiple,
        // cannot either.
        let heads = model.heads.is_multiple_of(t);
        let is_told = |what: &str| heads || what != KV_HEADS;
        let uneven = shared.iter().filter(|(what, count)| !count.is_multiple_of(t) && is_told(what));
        let uneven: Vec<String> = uneven.map(|(what, count)| format!("{count} {what}")).collect();
        if !uneven.is_empty() {
            let problem = format!(
                "{} cannot be split evenly over {t} ranks; {} would do",
                uneven.join(" and "),
                nearest_divisors(common, t)
            );
            found.push(Diagnostic::sentence("tensor", problem));
        }
        if let Some(experts) = &model.experts {
            shared_experts(experts, t, found);
            if t > 1 && !self.sequence_parallel {
                let problem = "a mixture of experts deals out each rank's part of the tokens: with several tensor ranks \
                               it needs `sequence_parallel: true`";
                found.push(Diagnostic::sentence("sequence_parallel", problem));
            }
        }
        if self.sequence_parallel && t == 1 {
            let problem = "needs at least 2 tensor ranks: raise `tensor` or leave it out".to_owned();
            found.push(Diagnostic::sentence("sequence_parallel", problem));
        }
    }

    /// Each rank has two pieces of a sequence, one from the front and one from the back, so that a causal mask leaves all
    /// the same work; an all-to-all deals out heads, a ring takes a step for each rank.
    fn context_ranks(&self, model: &Transformer, sequence: u32, found: &mut Vec<Diagnostic>) {
        let (c, t) = (self.context, self.tensor);
        let mut wrong = |problem| found.push(Diagnostic::sentence("context", problem));
        if c == 0 {
            wrong("there must be at least one rank".to_owned());
            return;
        }
        if c == 1 || t == 0 {
            return;
        }
        let ranks = if self.sequence_parallel { t } else { 1 };
        let pieces = c.saturating_mul(2).saturating_mul(ranks);
        if !sequence.is_multiple_of(pieces) {
            let of_tensor = if ranks > 1 { format!(" of {ranks} tensor ranks each") } else { String::new() };
            wrong(format!(
                "{sequence} tokens cannot be cut into two pieces for each of {c} ranks{of_tensor}: use a sequence that is \
                 a multiple of {pieces}"
            ));
        }
        let is_ring = matches!(self.context_exchange, ContextExchange::Ring | ContextExchange::GatheredRing);
        if is_ring && c > RING_MAX {
            wrong(format!("a ring of {c} ranks has more steps than {RING_MAX}: use fewer, or all-gather"));
        }
        let heads = model.kv_heads / t;
        if self.context_exchange == ContextExchange::AllToAll
            && model.kv_heads.is_multiple_of(t)
            && !heads.is_multiple_of(c)
        {
            wrong(format!(
                "{heads} heads of keys and values of a tensor rank cannot be dealt out to {c} ranks; {} would do, or \
                 another exchange: ring, all-gather, gathered-ring",
                nearest_divisors(heads, c)
            ));
        }
    }

    fn expert_ranks(&self, model: &Transformer, found: &mut Vec<Diagnostic>) {
        let e = self.expert;
        let mut wrong = |problem| found.push(Diagnostic::sentence("expert", problem));
        match &model.experts {
            _ if e == 0 => wrong("there must be at least one rank".to_owned()),
            None if e > 1 => wrong("the model has no experts: leave it out, or give it `experts`".to_owned()),
            Some(experts) if !experts.count.is_multiple_of(e) => wrong(format!(
                "{} experts cannot be split evenly over {e} ranks; {} would do",
                experts.count,
                nearest_divisors(experts.count, e)
            )),
            _ => {}
        }
    }

    fn pipeline(&self, model: &Transformer, found: &mut Vec<Diagnostic>) {
        let (p, v, layers) = (self.stages, self.chunks, model.layers);
        let mut wrong = |problem| found.push(Diagnostic::sentence("pipeline", problem));
        if p == 0 || v == 0 {
            wrong(format!("{p} stages of {v} chunks: there must be at least one of each"));
            return;
        }
        if let Some(listed) = &self.layers {
            self.listed(listed, layers, found);
            return;
        }
        if u64::from(layers).is_multiple_of(u64::from(p) * u64::from(v)) {
            return;
        }
        let of_chunks = if v > 1 { format!(" of {v} chunks") } else { String::new() };
        let remedy = if layers.is_multiple_of(v) {
            format!("{} stages would do", nearest_divisors(layers / v, p))
        } else if layers.is_multiple_of(p) {
            format!("{} chunks would do", nearest_divisors(layers / p, v))
        } else {
            format!("{} stages of one chunk would do", nearest_divisors(layers, p))
        };
        wrong(format!(
            "{layers} layers cannot be split evenly over {p} stages{of_chunks}; {remedy}, or a list (`stage_layers`)"
        ));
    }

    /// A list has as many chunks as the stages, each has a layer, and together they have all.
    fn listed(&self, listed: &[u32], layers: u32, found: &mut Vec<Diagnostic>) {
        let (p, v, positions) = (self.stages, self.chunks, self.positions());
        let mut wrong = |problem| found.push(Diagnostic::sentence("stage_layers", problem));
        let sum: u64 = listed.iter().copied().map(u64::from).sum();
        if listed.len() != positions as usize {
            let of_chunks = if v > 1 { format!(" of {v} chunks") } else { String::new() };
            wrong(format!(
                "{} numbers of layers are not for {p} stages{of_chunks}: list {positions}",
                listed.len()
            ));
        } else if listed.contains(&0) {
            wrong("a chunk has no layers: give each at least one".to_owned());
        } else if sum != u64::from(layers) {
            wrong(format!("the numbers add up to {sum} layers: list all {layers} of the model"));
        }
    }
}

/// Columns of experts, which tensor ranks share as those of any MLP.
fn shared_experts(experts: &Experts, t: u32, found: &mut Vec<Diagnostic>) {
    let widths = [("an expert", Some(experts.ffn)), ("the shared expert", experts.shared_ffn)];
    for (what, width) in widths.into_iter().filter_map(|(what, width)| Some((what, width?))) {
        if !width.is_multiple_of(t) {
            let problem = format!(
                "{width} columns of {what} cannot be split evenly over {t} ranks; {} would do",
                nearest_divisors(width, t)
            );
            found.push(Diagnostic::sentence("tensor", problem));
        }
    }
}

/// The divisors of `whole` next to `value`, below and above: `8 or 16`.
fn nearest_divisors(whole: u32, value: u32) -> String {
    let small = (1..=whole.isqrt()).filter(|&d| whole.is_multiple_of(d));
    let divisors: Vec<u32> = small.flat_map(|d| [d, whole / d]).collect();
    let below = divisors.iter().filter(|&&d| d <= value).max();
    let above = divisors.iter().filter(|&&d| d > value).min();
    match (below, above) {
        (Some(below), Some(above)) => format!("{below} or {above}"),
        (Some(only), None) | (None, Some(only)) => only.to_string(),
        (None, None) => "1".to_owned(),
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
