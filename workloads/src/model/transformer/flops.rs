//! FLOPs by convention: what a model needs, whatever the hardware executes.

use super::Transformer;

impl Transformer {
    /// Multiplications and additions of a training step over `sequences` sequences of `length` tokens: three times the
    /// forward pass, nothing recomputed, attention over the whole square also where half is masked. For GPT it is
    /// `72 B L s h^2 (1 + s/(6h) + V/(12 h L))` (Korthikanti et al. 2023, appendix A). MFU is this over time and peak.
    pub fn model_flops(&self, sequences: u64, length: u64) -> f64 {
        let (hidden, width) = (f64::from(self.hidden), self.attention_width() as f64);
        let attention = 2.0 * width + 2.0 * self.kv_width() as f64;
        let mlp = (self.mlp_branches() + 1) as f64 * f64::from(self.ffn);
        let layer = 2.0 * hidden * (attention + mlp) + 4.0 * length as f64 * width;
        let logits = 2.0 * hidden * f64::from(self.vocabulary);
        3.0 * sequences as f64 * length as f64 * (f64::from(self.layers) * layer + logits)
    }
}
