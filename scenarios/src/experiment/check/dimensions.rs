//! The dimensions of a transformer: what is written, over those of a preset or a `config.json`, over those of GPT-3.

use hw_models::catalogue::nearest;
use workloads::model::transformer::Transformer;

use super::Check;
use crate::catalogue;
use crate::plans::transformer::dimensions;
use crate::schema::{self, Count};
use crate::text::node::shorten;

const MODEL: &str = "model.transformer";
const PRESET: &str = "model.transformer.preset";
const EXPERTS: &str = "model.transformer.experts";
const PAD: &str = "model.transformer.experts.pad_to_capacity";
const LATENT: &str = "model.transformer.latent";
const CONFIG: &str = "model.transformer.config";

impl Check<'_> {
    /// Completes the dimensions; whether they can be.
    pub(super) fn dimensions(&mut self, settings: &mut schema::Transformer) -> bool {
        if settings.preset.is_some() && settings.config.is_some() {
            let about = [(CONFIG, String::new()), (PRESET, String::new())];
            self.report(&about, "a model has a `preset` or a `config`, not both", "remove one of them");
            return false;
        }
        let base = match (&settings.preset, &settings.config) {
            (Some(name), _) => self.preset(name).map(|model| (model, format!("preset {name}"))),
            (_, Some(path)) => self.config(path).map(|model| (model, path.clone())),
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
        self.complete(settings)
    }

    fn preset(&mut self, name: &str) -> Option<Transformer> {
        let presets = catalogue::presets();
        if presets.get(name).is_none() {
            let known: Vec<&str> = presets.keys().map(String::as_str).collect();
            let help = nearest::closest(name, known.iter().copied()).map_or_else(
                || "`foretrain list models` has the names".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            self.report(&[(PRESET, String::new())], format!("there is no model `{}`", shorten(name)), help);
        }
        presets.get(name).map(|preset| preset.model.clone())
    }

    fn config(&mut self, path: &str) -> Option<Transformer> {
        let node = self.tree.at(&super::paths::keys(CONFIG))?;
        match self.named.configs.get(node.mark, path) {
            Ok(model) => Some(model.clone()),
            Err(reason) => {
                let help = "give the `config.json` of the model, or its dimensions";
                self.report(&[(CONFIG, String::new())], reason, help);
                None
            }
        }
    }

    /// Takes over from `base` what is not written. What is in proportion there stays so: a wider GPT has a wider MLP.
    fn take_over(&mut self, settings: &mut schema::Transformer, base: &Transformer, origin: &str) {
        let mut taking = Taking { derived: &mut self.derived, origin };
        taking.count(&mut settings.layers, base.layers, "model.transformer.layers");
        taking.count(&mut settings.hidden, base.hidden, "model.transformer.hidden");
        taking.count(&mut settings.heads, base.heads, "model.transformer.heads");
        if base.kv_heads != base.heads {
            taking.count(&mut settings.kv_heads, base.kv_heads, "model.transformer.kv_heads");
        }
        if u64::from(base.heads) * u64::from(base.head_dim) != u64::from(base.hidden) {
            taking.count(&mut settings.head_dim, base.head_dim, "model.transformer.head_dim");
        }
        if u64::from(base.ffn) != 4 * u64::from(base.hidden) {
            taking.count(&mut settings.ffn, base.ffn, "model.transformer.ffn");
        }
        taking.count(&mut settings.vocabulary, base.vocabulary, "model.transformer.vocabulary");
        taking.count(&mut settings.max_positions, base.max_positions, "model.transformer.max_positions");
        taking.word(&mut settings.tied_embedding, base.tied_embedding, "model.transformer.tied_embedding");
        taking.word(&mut settings.norm, base.norm, "model.transformer.norm");
        taking.word(&mut settings.mlp, base.mlp, "model.transformer.mlp");
        taking.word(&mut settings.bias, base.bias, "model.transformer.bias");
        taking.word(&mut settings.positions, base.positions, "model.transformer.positions");
        taking.word(&mut settings.dropout, base.dropout, "model.transformer.dropout");
        let parallel = base.parallel_residual;
        taking.word(&mut settings.parallel_residual, parallel, "model.transformer.parallel_residual");
        if let Some(window) = base.window {
            taking.count(&mut settings.window, window, "model.transformer.window");
        }
        if let Some(encoder) = base.encoder {
            taking.word(&mut settings.encoder, encoder, "model.transformer.encoder");
        }
        if let Some(classes) = base.classes {
            taking.count(&mut settings.classes, classes, "model.transformer.classes");
        }
        if let Some(base) = &base.experts {
            let experts = settings.experts.get_or_insert_default();
            taking.count(&mut experts.count, base.count, "model.transformer.experts.count");
            taking.count(&mut experts.top_k, base.top_k, "model.transformer.experts.top_k");
            taking.count(&mut experts.ffn, base.ffn, "model.transformer.experts.ffn");
            let dense = base.dense_layers;
            taking.count(&mut experts.dense_layers, dense, "model.transformer.experts.dense_layers");
            if let Some(shared) = base.shared_ffn {
                taking.count(&mut experts.shared_ffn, shared, "model.transformer.experts.shared_ffn");
            }
        }
        if let Some(base) = &base.latent {
            let latent = settings.latent.get_or_insert_default();
            taking.count(&mut latent.kv_rank, base.kv_rank, "model.transformer.latent.kv_rank");
            taking.count(&mut latent.rotary_dim, base.rotary_dim, "model.transformer.latent.rotary_dim");
            taking.count(&mut latent.value_dim, base.value_dim, "model.transformer.latent.value_dim");
            if let Some(rank) = base.query_rank {
                taking.count(&mut latent.query_rank, rank, "model.transformer.latent.query_rank");
            }
        }
    }

    /// Derives the other dimensions from those that must be there.
    fn complete(&mut self, settings: &mut schema::Transformer) -> bool {
        let needed = [
            ("layers", settings.layers.is_some()),
            ("hidden", settings.hidden.is_some()),
            ("heads", settings.heads.is_some()),
            ("vocabulary", settings.vocabulary.is_some()),
            ("max_positions", settings.max_positions.is_some()),
        ];
        let missing: Vec<&str> = needed.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            let message = format!("`{MODEL}` lacks {}", nearest::list(missing));
            self.report(
                &[(MODEL, String::new())],
                message,
                "add them, or a `preset`: `foretrain list models` has the names",
            );
            return false;
        }
        if !self.parts(settings) {
            return false;
        }
        let (Some(hidden), Some(heads)) = (settings.hidden, settings.heads) else { return false };
        if settings.head_dim.is_none() && hidden.get() % heads.get() != 0 {
            let message = format!("{} heads do not divide a width of {}", heads.get(), hidden.get());
            let about = "model.transformer.heads";
            self.report_with(
                about,
                &["model.transformer.hidden", PRESET],
                message,
                "give `head_dim`, or other `heads`",
            );
            return false;
        }
        let full = dimensions(settings);
        let proportions = [
            (settings.kv_heads.is_none(), "model.transformer.kv_heads", "as many as `heads`"),
            (settings.head_dim.is_none(), "model.transformer.head_dim", "`hidden` / `heads`"),
            (settings.ffn.is_none(), "model.transformer.ffn", "4 x `hidden`"),
        ];
        for (_, path, reason) in proportions.into_iter().filter(|(absent, ..)| *absent) {
            self.derived.insert(path, reason.to_owned());
        }
        settings.kv_heads = Count::new(full.kv_heads.into());
        settings.head_dim = Count::new(full.head_dim.into());
        settings.ffn = Count::new(full.ffn.into());
        settings.tied_embedding.get_or_insert(full.tied_embedding);
        settings.norm.get_or_insert(full.norm);
        settings.mlp.get_or_insert(full.mlp);
        settings.bias.get_or_insert(full.bias);
        settings.positions.get_or_insert(full.positions);
        settings.dropout.get_or_insert(full.dropout);
        settings.parallel_residual.get_or_insert(full.parallel_residual);
        true
    }
}

impl Check<'_> {
    /// Completes what only some models have; whether it can be.
    fn parts(&mut self, settings: &mut schema::Transformer) -> bool {
        let mut missing = Vec::new();
        if let Some(experts) = &mut settings.experts {
            experts.dense_layers = experts.dense_layers.or(Count::new(0));
            if experts.pad_to_capacity == Some(true) && experts.capacity_factor.is_none() {
                let message = format!("`{PAD}` fills rooms that have no size");
                self.report_with(PAD, &[], message, "add `capacity_factor: 1.25`, or remove it");
            }
            let needed = [experts.count.is_some(), experts.top_k.is_some(), experts.ffn.is_some()];
            missing.push((EXPERTS, needed.into_iter().zip(["count", "top_k", "ffn"])));
        }
        if let Some(latent) = &settings.latent {
            let needed = [latent.kv_rank.is_some(), latent.rotary_dim.is_some(), latent.value_dim.is_some()];
            missing.push((LATENT, needed.into_iter().zip(["kv_rank", "rotary_dim", "value_dim"])));
        }
        let mut complete = true;
        for (path, needed) in missing {
            let names: Vec<&str> = needed.filter(|(there, _)| !there).map(|(_, name)| name).collect();
            if !names.is_empty() {
                complete = false;
                let message = format!("`{path}` lacks {}", nearest::list(names));
                let help = "add them, or a `preset` that has them: `foretrain list models` has the names";
                self.report(&[(path, String::new())], message, help);
            }
        }
        complete
    }
}

/// Takes dimensions from one origin where none are written.
struct Taking<'a> {
    derived: &'a mut super::Derived,
    origin: &'a str,
}

impl Taking<'_> {
    fn count<const MIN: u64, const MAX: u64>(
        &mut self,
        slot: &mut Option<Count<MIN, MAX>>,
        number: u32,
        path: &'static str,
    ) {
        if slot.is_none() {
            *slot = Count::new(number.into());
            self.derived.insert(path, self.origin.to_owned());
        }
    }

    fn word<T>(&mut self, slot: &mut Option<T>, word: T, path: &'static str) {
        if slot.is_none() {
            *slot = Some(word);
            self.derived.insert(path, self.origin.to_owned());
        }
    }
}
