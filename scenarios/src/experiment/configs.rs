//! The `config.json` files that scenarios name: read once, when the scenario is.

use std::collections::BTreeMap;

use workloads::model::transformer::Configuration;

use super::files::{self, Files};
use super::layers::Layers;
use crate::text::node::{Node, Value, shorten};
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;

/// Dimensions, or what is wrong with the file, by the text that names the file and the source of that text.
#[derive(Clone, Debug, Default)]
pub(super) struct Configs(BTreeMap<(SourceId, String), Result<Configuration, String>>);

/// Settings that say which model is trained.
const MODEL: [&str; 3] = ["model", "model.transformer", "model.transformer.config"];
/// The most files.
const MAX_FILES: usize = 100;

impl Configs {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        let mut named = Vec::new();
        for node in layers.saying(&MODEL) {
            collect(&node, &mut named);
        }
        let mut configs = Self::default();
        for (source, path) in named {
            if configs.0.len() < MAX_FILES && !configs.0.contains_key(&(source, path.clone())) {
                let model = read(files, &files::relative(&sources.get(source).name.clone(), &path), sources);
                configs.0.insert((source, path), model);
            }
        }
        configs
    }

    /// What the file called `path` by the text at `mark` says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn get(&self, mark: Mark, path: &str) -> Result<&Configuration, String> {
        match self.0.get(&(mark.source, path.to_owned())) {
            Some(read) => read.as_ref().map_err(Clone::clone),
            None => Err(format!("the experiment names more than {MAX_FILES} files")),
        }
    }
}

/// The texts `transformer: { config: TEXT }`, wherever they stand.
fn collect(node: &Node, named: &mut Vec<(SourceId, String)>) {
    let Value::Map(map) = &node.value else { return };
    for (key, entry) in map {
        let config = entry.node.child("config").filter(|_| key == "transformer");
        if let Some((node, text)) = config.and_then(|node| Some((node, node.as_text()?))) {
            named.push((node.mark.source, text.to_owned()));
        }
        collect(&entry.node, named);
    }
}

fn read(files: &dyn Files, path: &str, sources: &mut Sources) -> Result<Configuration, String> {
    let shown = shorten(path);
    let bytes = files.read(path).map_err(|reason| format!("cannot read `{shown}`: {reason}"))?;
    if bytes.len() > yaml::MAX_BYTES {
        return Err(format!("`{shown}` is longer than {} KiB", yaml::MAX_BYTES / 1024));
    }
    // As a source it has a part in the digest of the experiment.
    sources.add(path, String::from_utf8_lossy(&bytes));
    Configuration::from_hugging_face(&*bytes).map_err(|error| format!("`{shown}` is not understood: {error}"))
}
