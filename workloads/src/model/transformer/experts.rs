//! The dimensions of a mixture of experts.

use serde::Serialize;

use super::Routing;
use super::shape::within;

/// Layers whose MLP is a mixture of experts: a router sends each token to a few of them (Shazeer et al. 2017).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Experts {
    /// Experts of a layer, E.
    pub count: u32,
    /// Experts that a token goes to, k.
    pub top_k: u32,
    /// Inner width of an expert.
    pub ffn: u32,
    /// Inner width of the MLP that all tokens go through beside, where there is one; several are as one of their widths
    /// together.
    pub shared_ffn: Option<u32>,
    /// Layers before the first that may have experts.
    pub dense_layers: u32,
    /// Every how many layers one has experts, the last of them; 1: all.
    #[serde(skip_serializing_if = "is_one")]
    pub every: u32,
    /// How the router deals tokens out, which no model says.
    #[serde(skip)]
    pub routing: Routing,
}

/// Most experts of a layer.
const COUNT_MAX: u32 = 1 << 14;
const FFN_MAX: u32 = 1 << 22;

impl Experts {
    /// Whether a layer has them; layers are counted from 0.
    pub(super) fn are_in(&self, layer: u32) -> bool {
        layer >= self.dense_layers && (layer + 1).is_multiple_of(self.every.max(1))
    }

    /// Checks the dimensions beside those of a model of so many layers.
    pub(super) fn validate(&self, layers: u32, wrong: &mut impl FnMut(&'static str, String)) {
        let widths = [("experts.ffn", Some(self.ffn)), ("experts.shared_ffn", self.shared_ffn)];
        let extents = [("experts.count", Some(self.count), COUNT_MAX)]
            .into_iter()
            .chain(widths.map(|(field, width)| (field, width, FFN_MAX)));
        within(extents.filter_map(|(field, value, most)| Some((field, value?, most))), wrong);
        if !(1..=self.count).contains(&self.top_k) {
            let (top_k, count) = (self.top_k, self.count);
            wrong(
                "experts.top_k",
                format!("a token goes to 1 to {count} of {count} experts, not to {top_k}"),
            );
        }
        if self.count > 0 && self.top_k > 0 {
            self.validate_routing(wrong);
        }
        if self.dense_layers >= layers {
            let dense = self.dense_layers;
            let problem = format!(
                "{dense} layers before the first with experts are all {layers} of the model: use fewer, or leave out `experts`"
            );
            wrong("experts.dense_layers", problem);
        } else if self.every == 0 {
            wrong("experts.every", "no layer is the 0th: leave it out, or write 1 for all".to_owned());
        } else if !(0..layers).any(|layer| self.are_in(layer)) {
            let (every, dense) = (self.every, self.dense_layers);
            let problem = format!(
                "of {layers} layers none behind the first {dense} is a multiple of {every}: use fewer, or leave out `experts`"
            );
            wrong("experts.every", problem);
        }
    }
}

fn is_one(every: &u32) -> bool {
    *every == 1
}
