//! The graph files that scenarios name: read once, when the scenario is.

use std::collections::BTreeMap;

use graphs::Statistics;

use super::files::{self, Files};
use super::layers::Layers;
use crate::text::node::{Node, shorten};
use crate::text::source::{Mark, SourceId, Sources};

/// Statistics, or what is wrong with the file, by the text that names it and the source of that
/// text.
#[derive(Clone, Debug, Default)]
pub(super) struct GraphFiles(BTreeMap<(SourceId, String), Result<Statistics, String>>);

/// Settings that say which graph it is.
const ABOUT: [&str; 4] = ["model", "model.graph", "model.graph.data", "model.graph.data.file"];
/// The most files, and the longest of them (bytes): a histogram has few thousand degrees.
const MAX_FILES: usize = 100;
const MAX_BYTES: usize = 64 << 20;

impl GraphFiles {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        let named: Vec<_> = layers.saying(&ABOUT).filter_map(|node| file(&node)).collect();
        let mut graphs = Self::default();
        for (source, text) in named {
            if graphs.0.len() < MAX_FILES && !graphs.0.contains_key(&(source, text.clone())) {
                let path = files::relative(&sources.get(source).name.clone(), &text);
                graphs.0.insert((source, text), read(files, &path, sources));
            }
        }
        graphs
    }

    /// The graph in the file called `path` by the text at `mark`.
    ///
    /// # Errors
    /// The fault of the file.
    pub(super) fn get(&self, mark: Mark, path: &str) -> Result<Statistics, String> {
        let too_many = || Err(format!("the experiment names more than {MAX_FILES} graphs"));
        self.0.get(&(mark.source, path.to_owned())).cloned().unwrap_or_else(too_many)
    }
}

/// The text of the setting, where a layer has it.
fn file(settings: &Node) -> Option<(SourceId, String)> {
    let node = settings.at(&["model", "graph", "data", "file"])?;
    Some((node.mark.source, node.as_text()?.to_owned()))
}

fn read(files: &dyn Files, path: &str, sources: &mut Sources) -> Result<Statistics, String> {
    let shown = shorten(path);
    let bytes = files.read(path).map_err(|reason| format!("cannot read `{shown}`: {reason}"))?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("`{shown}` is longer than {} MiB", MAX_BYTES >> 20));
    }
    let text = String::from_utf8_lossy(&bytes);
    // As a source it has a part in the digest of the experiment.
    sources.add(path, text.clone());
    Statistics::read(&text).map_err(|problem| format!("`{shown}` {}", problem.fault))
}
