//! Windows of attention: which layers have one, and what a layer is by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::execution::ShardedTransformer;
use super::{Positions, Transformer};

/// Keys that a query of a window sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowForm {
    /// Its own key and those right before it (Gemma, Mistral, gpt-oss).
    #[default]
    Sliding,
    /// Those before it in its chunk of the sequence (Llama 4).
    Chunks,
}

impl WindowForm {
    /// Whether it is the form that nothing needs to say.
    pub(super) fn is_sliding(&self) -> bool {
        *self == Self::Sliding
    }
}

impl Transformer {
    /// Whether attention of a layer has a window; layers are counted from 0.
    pub fn has_window(&self, layer: u32) -> bool {
        let is_global = self.global_every.is_some_and(|every| every > 0 && (layer + 1).is_multiple_of(every));
        self.window.is_some() && !is_global
    }

    /// Keys that a query of a layer sees at most, out of a sequence of this `length`.
    pub(super) fn keys_seen(&self, layer: u32, length: u64) -> u64 {
        let window = self.window.filter(|_| self.has_window(layer));
        window.map_or(length, |window| length.min(window.into()))
    }

    /// Checks the settings that only windows have.
    pub(super) fn validate_windows(&self, wrong: &mut impl FnMut(&'static str, String)) {
        if self.window.is_none() && self.global_every.is_some() {
            let problem =
                "no layer has a window that others are without: add `window: 4096`, or leave it out";
            wrong("global_every", problem.to_owned());
        }
        if self.global_every == Some(0) {
            wrong("global_every", "layers are counted from 1: use 2 for every other one".to_owned());
        }
        if self.window.is_none() && self.window_form == WindowForm::Chunks {
            let problem = "chunks have no size: add `window: 8192`, or leave it out";
            wrong("window_form", problem.to_owned());
        }
        if !self.global_positions && self.global_every.is_none() {
            let problem = "all layers are alike: add `global_every: 4`, or leave it out";
            wrong("global_positions", problem.to_owned());
        }
    }
}

impl ShardedTransformer {
    /// The transformer whose layers all have the attention of `layer`. Windows of at least the
    /// sequence are none.
    pub(super) fn alike(&self, layer: u32) -> Self {
        let model = self.model();
        let windowed = model.has_window(layer);
        let turns = model.global_positions || windowed;
        let window = model.window.filter(|&window| windowed && window < self.execution().sequence);
        self.with_model(Transformer {
            window,
            window_form: if window.is_some() { model.window_form } else { WindowForm::default() },
            global_every: None,
            global_positions: true,
            positions: if turns { model.positions } else { Positions::None },
            ..model.clone()
        })
    }
}
