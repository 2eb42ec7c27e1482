//! FLOPs of a transformer by convention, in closed form.

use super::{Layers, Transformer};

impl Transformer {
    /// Multiplications and additions of a forward pass over `sequences` sequences of `length` tokens, by the convention of
    /// [`model_flops`](crate::model::flops::model_flops): of experts those that a token goes to, no
    /// padding of the vocabulary, keys that a window hides as if there were none. For
    /// GPT a third of `72 B L s h^2 (1 + s/(6h) + V/(12 h L))` (Korthikanti et al. 2023, appendix A).
    pub fn forward_flops(&self, sequences: u64, length: u64) -> f64 {
        let (hidden, width) = (f64::from(self.hidden), self.attention_width() as f64);
        let context = self.context_width() as f64;
        let projections = match &self.latent {
            Some(latent) => (self.latent_share(latent) + latent.down(self.hidden.into())) as f64,
            None => hidden * (width + 2.0 * self.kv_width() as f64 + context),
        };
        let keys: u64 = (0..self.layers).map(|layer| self.keys_seen(layer, length)).sum();
        let attention = f64::from(self.layers) * 2.0 * projections + 2.0 * keys as f64 * (width + context);
        let kinds: Layers = (0..self.layers).map(|layer| self.layer_kind(layer)).collect();
        let columns = |columns: f64| 2.0 * hidden * (self.mlp_branches() + 1) as f64 * columns;
        let mixture = self.experts.as_ref().map_or(0.0, |experts| {
            let met = f64::from(experts.top_k) * f64::from(experts.ffn);
            let shared = experts.shared_ffn.map_or(0.0, f64::from);
            columns(met + shared) + 2.0 * hidden * f64::from(experts.count)
        });
        let layers = attention
            + f64::from(kinds.dense) * columns(self.ffn.into())
            + f64::from(kinds.experts) * mixture;
        let dense = if self.encoder.is_some() { 2.0 * hidden * hidden } else { 0.0 };
        let tokens = sequences as f64 * length as f64;
        // A head of classes sees one token of a sequence.
        let (seen, outputs) = match self.classes {
            Some(classes) => (sequences as f64, classes),
            None => (tokens, self.vocabulary),
        };
        tokens * layers + seen * (dense + 2.0 * hidden * f64::from(outputs))
    }
}
