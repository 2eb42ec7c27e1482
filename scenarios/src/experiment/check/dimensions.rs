//! The dimensions of a transformer: what is written, over those of a preset or a `config.json`, over those of GPT-3.

use hw_models::catalogue::nearest;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use workloads::model::transformer::{Configuration, Transformer};

use super::Check;
use crate::catalogue;
use crate::schema;

const MODEL: &str = "model.transformer";
const PRESET: &str = "model.transformer.preset";
const PAD: &str = "model.transformer.experts.pad_to_capacity";
const CONFIG: &str = "model.transformer.config";

impl Check<'_> {
    /// Completes the dimensions; whether they can be.
    pub(super) fn dimensions(&mut self, settings: &mut schema::Transformer) -> bool {
        if settings.preset.is_some() && settings.config.is_some() {
            let about = [(CONFIG, String::new()), (PRESET, String::new())];
            self.report(&about, "a model has a `preset` or a `config`, not both", "remove one of them");
            return false;
        }
        let mut not_modelled = Vec::new();
        let base = match (&settings.preset, &settings.config) {
            (Some(name), _) => self.preset(name).map(|model| (model, format!("preset {name}"))),
            (_, Some(path)) => self.config(path).map(|read| {
                not_modelled = read.not_modelled;
                (read.model, path.clone())
            }),
            _ => None,
        };
        // What was not found has been reported, and would only be missed again.
        if base.is_none() && (settings.preset.is_some() || settings.config.is_some()) {
            return false;
        }
        // All its dimensions are here now, and paths mean nothing elsewhere.
        settings.config = None;
        if let Some((base, origin)) = &base {
            self.take_over(settings, base, origin);
        }
        let complete = self.complete(settings);
        settings.not_modelled = not_modelled;
        complete
    }

    fn preset(&mut self, name: &str) -> Option<Transformer> {
        let presets = catalogue::presets();
        if presets.get(name).is_none() {
            self.no_preset(PRESET, ("model", name), presets.keys().map(String::as_str));
        }
        presets.get(name).map(|preset| preset.model.clone())
    }

    fn config(&mut self, path: &str) -> Option<Configuration> {
        let node = self.tree.at(&self.keys(CONFIG))?;
        match self.named.configs.get(node.mark, path) {
            Ok(read) => Some(read.clone()),
            Err(reason) => {
                let help = "give the `config.json` of the model, or its dimensions";
                self.report(&[(CONFIG, String::new())], reason, help);
                None
            }
        }
    }

    /// Takes over from `base` what is not written. What is in proportion there stays so: a wider GPT has a wider MLP.
    fn take_over(&mut self, settings: &mut schema::Transformer, base: &Transformer, origin: &str) {
        let gpt = Transformer::gpt(base.layers, base.hidden, base.heads, base.vocabulary, base.max_positions);
        let in_proportion = [
            ("kv_heads", base.kv_heads == gpt.kv_heads),
            ("head_dim", u64::from(base.heads) * u64::from(base.head_dim) == u64::from(base.hidden)),
            ("ffn", base.ffn == gpt.ffn),
        ];
        let mut base = json(base);
        for (name, _) in in_proportion.into_iter().filter(|(_, there)| *there) {
            base.shift_remove(name);
        }
        self.fill(settings, base, |_| Some(origin.to_owned()));
    }

    /// Fills settings that are not written from `dimensions`, for a reason that is told.
    fn fill(
        &mut self,
        settings: &mut schema::Transformer,
        dimensions: Map<String, Json>,
        reason: impl Fn(&str) -> Option<String>,
    ) {
        let mut written = json(settings);
        fill(&mut written, dimensions, MODEL, &mut |path| {
            if let Some(reason) = reason(&path) {
                self.derived.insert(path.into(), reason);
            }
        });
        // Dimensions beyond the limits of settings have been reported where they are written.
        if let Ok(filled) = serde_json::from_value(Json::Object(written)) {
            *settings = filled;
        }
    }

    /// Derives the other dimensions from those that must be there.
    fn complete(&mut self, settings: &mut schema::Transformer) -> bool {
        let written = json(settings);
        let missing = lacks(&written, &["layers", "hidden", "heads", "vocabulary", "max_positions"]);
        if !missing.is_empty() {
            self.incomplete(MODEL, &nearest::list(missing));
            return false;
        }
        if !self.parts(settings, &written) {
            return false;
        }
        let full = settings.dimensions();
        if settings.head_dim.is_none() && !full.hidden.is_multiple_of(full.heads) {
            let message = format!("{} heads do not divide a width of {}", full.heads, full.hidden);
            let about = "model.transformer.heads";
            self.report_with(
                about,
                &["model.transformer.hidden", PRESET],
                message,
                "give `head_dim`, or other `heads`",
            );
            return false;
        }
        self.fill(settings, json(&full), |path| match path {
            "model.transformer.kv_heads" => Some("as many as `heads`".to_owned()),
            "model.transformer.head_dim" => Some("`hidden` / `heads`".to_owned()),
            "model.transformer.ffn" => Some("4 x `hidden`".to_owned()),
            _ => None,
        });
        true
    }

    /// Checks what only some models have; whether it is complete.
    fn parts(&mut self, settings: &schema::Transformer, written: &Map<String, Json>) -> bool {
        let experts = settings.experts.as_ref();
        if experts.is_some_and(|it| it.pad_to_capacity == Some(true) && it.capacity_factor.is_none()) {
            let message = format!("`{PAD}` fills rooms that have no size");
            self.report_with(PAD, &[], message, "add `capacity_factor: 1.25`, or remove it");
        }
        let mut complete = true;
        for (part, needed) in
            [("experts", ["count", "top_k", "ffn"]), ("latent", ["kv_rank", "rotary_dim", "value_dim"])]
        {
            let Some(names) = written.get(part).and_then(Json::as_object).map(|part| lacks(part, &needed))
            else {
                continue;
            };
            if !names.is_empty() {
                complete = false;
                let path = format!("{MODEL}.{part}");
                let message = format!("`{path}` lacks {}", nearest::list(names));
                let help = "add them, or a `preset` that has them: `foretrain list models` has the names";
                self.report(&[(&path, String::new())], message, help);
            }
        }
        complete
    }
}

/// Dimensions, or settings of them, by name; what is not said is null.
fn json(dimensions: &impl Serialize) -> Map<String, Json> {
    match serde_json::to_value(dimensions) {
        Ok(Json::Object(map)) => map,
        _ => Map::new(),
    }
}

/// The names under which nothing is said.
fn lacks<'n>(written: &Map<String, Json>, names: &[&'n str]) -> Vec<&'n str> {
    names.iter().copied().filter(|name| written.get(*name).is_none_or(Json::is_null)).collect()
}

/// Fills places of `written` where nothing is said, and tells their paths.
fn fill(
    written: &mut Map<String, Json>,
    from: Map<String, Json>,
    path: &str,
    filled: &mut impl FnMut(String),
) {
    for (name, value) in from {
        let path = format!("{path}.{name}");
        let place = written.entry(name).or_insert(Json::Null);
        match value {
            Json::Null => {}
            Json::Object(from) => {
                if place.is_null() {
                    *place = Json::Object(Map::new());
                }
                if let Json::Object(place) = place {
                    fill(place, from, &path, filled);
                }
            }
            value if place.is_null() => {
                *place = value;
                filled(path);
            }
            _ => {}
        }
    }
}
