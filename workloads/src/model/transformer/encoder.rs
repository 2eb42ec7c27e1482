//! Encoders: BERT and RoBERTa, trained to restore masked words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bias, Mlp, Norm, Positions, Transformer};

/// Encoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Encoder {
    /// Two token types.
    Bert,
    /// One token type, and two positions that no token has.
    Roberta,
}

impl Encoder {
    /// Rows of the token-type embedding.
    pub const fn token_types(self) -> u32 {
        match self {
            Self::Bert => 2,
            Self::Roberta => 1,
        }
    }

    /// Rows of the position embedding that no token has.
    pub const fn unused_positions(self) -> u32 {
        match self {
            Self::Bert => 0,
            Self::Roberta => 2,
        }
    }

    /// Checks what `model` has beside.
    pub(super) fn validate(self, model: &Transformer, wrong: &mut impl FnMut(&'static str, String)) {
        let needed = [
            ("norm", model.norm == Norm::Layer, "`layer`"),
            ("mlp", model.mlp == Mlp::Gelu, "`gelu`"),
            ("bias", model.bias == Bias::All, "`all`"),
            ("positions", model.positions == Positions::Learned, "`learned`"),
            ("parallel_residual", !model.parallel_residual, "`false`"),
            ("window", model.window.is_none(), "none"),
            ("query_key_norm", model.query_key_norm.is_none(), "none"),
            ("sinks", !model.sinks, "`false`"),
            ("post_norms", !model.post_norms, "`false`"),
            ("scaled_embedding", !model.scaled_embedding, "`false`"),
            ("score_cap", !model.score_cap, "`false`"),
            ("logit_cap", !model.logit_cap, "`false`"),
            ("experts", model.experts.is_none(), "none"),
            ("latent", model.latent.is_none(), "none"),
        ];
        for (field, _, needed) in needed.into_iter().filter(|(_, fits, _)| !fits) {
            let problem =
                format!("BERT and RoBERTa have `{field}` {needed}: change it, or leave `encoder` out");
            wrong("encoder", problem);
        }
        let unused = self.unused_positions();
        if model.max_positions <= unused {
            let problem =
                format!("{} rows are not more than the {unused} that embed no token", model.max_positions);
            wrong("max_positions", problem);
        }
    }
}
