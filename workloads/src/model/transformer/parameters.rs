//! How many parameters a transformer has, and how many of them a rank.

use super::classes;
use super::execution::ShardedTransformer;
use super::{AdapterParameters, Bias, Experts, LatentAttention, Layers, Norm, Positions, Transformer};

/// Parameters of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankParameters {
    /// Of its layers.
    pub layers: u64,
    /// Word, position and token-type embedding, with the norm of the latter.
    pub embedding: u64,
    /// Final norm.
    pub final_norm: u64,
    /// Output matrix, where it is not the embedding of the same rank; of an encoder also its bias and what comes before it.
    pub head: u64,
    /// Those of the above that all tensor ranks hold and that see only a part of the sequence under sequence
    /// parallelism: norms, and biases that are added after a sum over ranks.
    pub replicated: u64,
    /// Those of the above that are experts which ranks share: fewer ranks hold the same ones.
    pub experts: u64,
    /// Those of the above that the first and the last stage both hold, because the embedding is tied.
    pub shared: u64,
    /// Adapters of its layers, beside which all of the above are frozen; none: those are trained.
    pub adapters: Option<AdapterParameters>,
}

impl RankParameters {
    /// All of them.
    pub fn total(&self) -> u64 {
        let model = self.layers + self.embedding + self.final_norm + self.head;
        model + self.adapters.map_or(0, |adapters| adapters.all)
    }

    /// Parameters that have gradients and states of the optimizer: all, or adapters of layers.
    pub fn trained(&self) -> Self {
        let Some(AdapterParameters { all, replicated }) = self.adapters else { return *self };
        Self { layers: all, replicated, ..Self::default() }
    }
}

impl Transformer {
    /// Parameters of the model, without padding.
    pub fn parameters(&self) -> u64 {
        let words = u64::from(self.vocabulary) * u64::from(self.hidden);
        let head = if self.tied_embedding || self.classes.is_some() { 0 } else { words };
        self.all_layers(self.experts.as_ref().map_or(0, |experts| experts.count))
            + words
            + head
            + self.position_parameters()
            + self.token_type_parameters()
            + self.embedding_norm_parameters()
            + self.final_norm_parameters()
            + self.head_parameters()
            + self.output_biases(u64::from(self.vocabulary))
    }

    /// Those of [`Transformer::parameters`] that a token meets: of experts, as many as it goes to.
    pub fn active_parameters(&self) -> u64 {
        let met = self.experts.as_ref().map_or(0, |experts| experts.top_k);
        self.parameters() - self.all_layers(self.experts.as_ref().map_or(0, |experts| experts.count))
            + self.all_layers(met)
    }

    /// Those of all layers if those with experts had so many.
    fn all_layers(&self, experts: u32) -> u64 {
        let kinds: Layers = (0..self.layers).map(|layer| self.layer_kind(layer)).collect();
        let of_expert = self.experts.as_ref().map_or(0, |experts| self.expert_share(experts, 1));
        let mixture = self.layer_share(1, true) + u64::from(experts) * of_expert;
        u64::from(kinds.dense) * self.layer_share(1, false) + u64::from(kinds.experts) * mixture
    }

    /// Entries of the vocabulary, padded to a multiple.
    pub const fn padded_vocabulary(&self, multiple: u64) -> u64 {
        (self.vocabulary as u64).next_multiple_of(multiple)
    }

    /// Parameters of a layer on each of `tensor` ranks; without its experts, where it has a `mixture` of them.
    fn layer_share(&self, tensor: u64, mixture: bool) -> u64 {
        let hidden = u64::from(self.hidden);
        let mlp = match self.experts.as_ref().filter(|_| mixture) {
            Some(experts) => experts.shared_ffn.map_or(0, u64::from),
            None => u64::from(self.ffn),
        };
        let qkv = self.attention_width() + 2 * self.kv_width();
        let up = self.mlp_branches() * mlp;
        let attention = match &self.latent {
            Some(latent) => self.latent_share(latent),
            None => hidden * (qkv + self.context_width()),
        };
        let weights = attention + hidden * (up + mlp);
        let biases = match self.bias {
            Bias::None => 0,
            Bias::Qkv => qkv,
            Bias::All => qkv + up,
        };
        let sinks = if self.sinks { u64::from(self.heads) } else { 0 };
        (weights + biases + sinks) / tensor + self.layer_replicated(mixture)
    }

    /// Those of a layer that every tensor rank holds: norms, the biases of the layers split by
    /// rows, the router, what
    /// latent vectors come from and their norms.
    fn layer_replicated(&self, mixture: bool) -> u64 {
        let hidden = u64::from(self.hidden);
        let experts = self.experts.as_ref().filter(|_| mixture);
        let router = experts.map_or(0, |experts| u64::from(experts.count));
        let biases = match experts {
            _ if self.bias != Bias::All => 0,
            None => 2 * hidden,
            Some(experts) => hidden + experts.shared_ffn.map_or(0, |_| hidden) + router,
        };
        let latent = self.latent.as_ref().map_or(0, |latent| latent.replicated(hidden));
        let of_heads = self.query_key_norm.map_or(0, |norm| norm.parameters(self.head_dim.into()));
        let norms = if self.post_norms { 4 } else { 2 };
        norms * self.norm_parameters() + of_heads + biases + hidden * router + latent
    }

    /// Those of an expert on each of `tensor` ranks, of which each adds the bias of the result.
    fn expert_share(&self, experts: &Experts, tensor: u64) -> u64 {
        let (hidden, ffn, branches) =
            (u64::from(self.hidden), u64::from(experts.ffn) / tensor, self.mlp_branches());
        let biases = if self.bias == Bias::All { branches * ffn + hidden } else { 0 };
        (branches + 1) * hidden * ffn + biases
    }

    /// Those of latent attention that tensor ranks share: from latent vectors to heads, and back to the residual stream.
    pub(super) fn latent_share(&self, latent: &LatentAttention) -> u64 {
        let queries = latent.query_rank.map_or(u64::from(self.hidden), u64::from) * self.attention_width();
        let heads = u64::from(self.heads);
        let keys_and_values = heads * u64::from(self.head_dim) + self.context_width();
        queries + u64::from(latent.kv_rank) * keys_and_values + self.context_width() * u64::from(self.hidden)
    }

    fn norm_parameters(&self) -> u64 {
        let vectors = if self.norm == Norm::Layer && self.bias == Bias::All { 2 } else { 1 };
        vectors * u64::from(self.hidden)
    }

    /// Decoders end with a norm; the last layer of an encoder already has.
    fn final_norm_parameters(&self) -> u64 {
        if self.encoder.is_some() { 0 } else { self.norm_parameters() }
    }

    /// Those of the norm of an encoder's embedding.
    fn embedding_norm_parameters(&self) -> u64 {
        if self.encoder.is_some() { self.norm_parameters() } else { 0 }
    }

    /// Those of an encoder's head beside the output matrix, dense layer and norm, or of its head of classes.
    fn head_parameters(&self) -> u64 {
        let hidden = u64::from(self.hidden);
        match (self.encoder, self.classes) {
            (None, _) => 0,
            (Some(_), Some(count)) => classes::parameters(hidden, count.into()),
            (Some(_), None) => hidden * hidden + hidden + self.norm_parameters(),
        }
    }

    /// Of so many words that an encoder's head gives logits for.
    fn output_biases(&self, words: u64) -> u64 {
        if self.encoder.is_some() && self.classes.is_none() { words } else { 0 }
    }

    pub(super) fn token_type_parameters(&self) -> u64 {
        self.encoder.map_or(0, |encoder| u64::from(encoder.token_types())) * u64::from(self.hidden)
    }

    pub(super) fn position_parameters(&self) -> u64 {
        match self.positions {
            Positions::Learned => u64::from(self.max_positions) * u64::from(self.hidden),
            Positions::Rotary | Positions::Alibi | Positions::None => 0,
        }
    }
}

impl ShardedTransformer {
    /// Parameters of a rank that holds so many layers, and the embedding if it is `first`, final norm and output matrix if
    /// it is `last`. The word embedding is the output matrix where one rank is both and it is tied.
    pub fn parameters(&self, layers: impl Into<Layers>, first: bool, last: bool) -> RankParameters {
        let (model, layers) = (self.model(), layers.into());
        let (dense, mixtures) = (u64::from(layers.dense), u64::from(layers.experts));
        let words = self.vocabulary_share() * self.hidden();
        let if_ = |is: bool, count: u64| if is { count } else { 0 };
        let (tied, ends_in_words) = (model.tied_embedding, model.classes.is_none());
        let final_norm = if_(last, model.final_norm_parameters());
        let (embedding_norm, of_head) =
            (if_(first, model.embedding_norm_parameters()), if_(last, model.head_parameters()));
        let output_biases = if_(last, model.output_biases(self.vocabulary_share()));
        let expert_ranks = u64::from(self.execution().split.expert);
        let of_mixture = model.experts.as_ref().map_or(0, |experts| {
            u64::from(experts.count) / expert_ranks * model.expert_share(experts, self.tensor())
        });
        let shared = dense * model.layer_share(self.tensor(), false)
            + mixtures * model.layer_share(self.tensor(), true);
        RankParameters {
            layers: shared + mixtures * of_mixture,
            embedding: if_(first, words + model.position_parameters() + model.token_type_parameters())
                + embedding_norm,
            final_norm,
            head: if_(last && ends_in_words && !(first && tied), words) + of_head + output_biases,
            replicated: dense * model.layer_replicated(false)
                + mixtures * model.layer_replicated(true)
                + final_norm
                + embedding_norm
                + of_head,
            experts: if_(expert_ranks > 1, mixtures * of_mixture),
            shared: if_(tied && ends_in_words && first != last, words),
            adapters: self.adapters(layers),
        }
    }

    /// Entries of the padded vocabulary on a rank.
    pub(super) fn vocabulary_share(&self) -> u64 {
        let multiple = u64::from(self.execution().vocabulary_multiple) * self.tensor();
        self.model().padded_vocabulary(multiple) / self.tensor()
    }
}
