//! The hardware files that scenarios lay over the catalogue: read once, when the scenario is.

use std::collections::BTreeMap;

use calibration::hardware::Hardware;

use super::files::{self, Files};
use super::layers::Layers;
use crate::catalogue;
use crate::constants::Constants;
use crate::hardware;
use crate::text::node::{Node, Value, shorten};
use crate::text::source::{SourceId, Sources};

/// The setting that lists them.
pub(super) const CALIBRATION: &str = "calibration";
/// The most lists.
const MAX_LISTS: usize = 100;

/// Constants, with and without such files.
#[derive(Clone, Debug, Default)]
pub(super) struct Calibrations {
    /// Without any.
    pub(super) plain: Constants,
    /// By the list of files, each with the source that names it; or what is wrong with which file.
    laid: BTreeMap<List, Result<Constants, Vec<Mistake>>>,
}

type List = Vec<(SourceId, String)>;

/// What is wrong with a file.
#[derive(Clone, Debug)]
pub(super) struct Mistake {
    /// Its place in the list.
    pub(super) entry: usize,
    pub(super) message: String,
}

impl Calibrations {
    /// Reads the files that any layer lists.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        let mut known = BTreeMap::new();
        let mut read = |source: SourceId, path: &str, sources: &mut Sources| {
            let path = files::relative(&sources.get(source).name.clone(), path);
            known.entry(path.clone()).or_insert_with(|| self::read(files, &path, sources)).clone()
        };
        let mut calibrations = Self::default();
        for settings in layers.saying(&[CALIBRATION]) {
            let Some(list) = settings.child(CALIBRATION).and_then(listed) else { continue };
            if !list.is_empty()
                && calibrations.laid.len() < MAX_LISTS
                && !calibrations.laid.contains_key(&list)
            {
                let read: Vec<_> =
                    list.iter().map(|(source, path)| (shorten(path), read(*source, path, sources))).collect();
                calibrations.laid.insert(list, laid(&read));
            }
        }
        calibrations
    }

    /// The constants with the files of a list laid over them.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub(super) fn get(&self, list: &Node) -> Result<Constants, Vec<Mistake>> {
        let Some(list) = listed(list).filter(|list| !list.is_empty()) else {
            return Ok(self.plain.clone());
        };
        let too_many = || {
            let message = format!("the experiment has more than {MAX_LISTS} lists of hardware files");
            Err(vec![Mistake { entry: 0, message }])
        };
        self.laid.get(&list).cloned().unwrap_or_else(too_many)
    }
}

/// The files of a list, if it is one of texts.
fn listed(list: &Node) -> Option<List> {
    let Value::List(items) = &list.value else { return None };
    items.iter().map(|item| Some((item.mark.source, item.as_text()?.to_owned()))).collect()
}

fn laid(list: &[(String, Result<Hardware, String>)]) -> Result<Constants, Vec<Mistake>> {
    let mut overlay = catalogue::overlay().clone();
    let mut mistakes = Vec::new();
    for (entry, (path, hardware)) in list.iter().enumerate() {
        let wrong = match hardware {
            Ok(hardware) => overlay.lay(path, hardware).err().unwrap_or_default(),
            Err(reason) => {
                mistakes.push(Mistake { entry, message: reason.clone() });
                continue;
            }
        };
        mistakes.extend(wrong.iter().map(|error| Mistake { entry, message: format!("`{path}` {error}") }));
    }
    if mistakes.is_empty() { Ok(Constants::of(overlay)) } else { Err(mistakes) }
}

fn read(files: &dyn Files, path: &str, sources: &mut Sources) -> Result<Hardware, String> {
    let shown = shorten(path);
    let bytes = files.read(path).map_err(|reason| format!("cannot read `{shown}`: {reason}"))?;
    // As a source it has a part in the digest of the experiment.
    sources.add(path, String::from_utf8_lossy(&bytes));
    hardware::read(&bytes).map_err(|wrong| format!("`{shown}` {wrong}"))
}
