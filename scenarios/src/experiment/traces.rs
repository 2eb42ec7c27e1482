//! The traces that scenarios name: each understood once, when the scenario is read.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use workloads::trace::{Traced, chakra, kineto};

use super::files::{self, Files};
use super::layers::Layers;
use crate::schema::Recorded;
use crate::text::node::{Node, shorten};
use crate::text::source::{Mark, SourceId, Sources};

/// Traces, or what is wrong with the file, by its path.
#[derive(Clone, Debug, Default)]
pub(super) struct Traces {
    understood: BTreeMap<String, Result<Recorded, String>>,
    /// Paths by the text that names the file and the source of that text.
    paths: BTreeMap<(SourceId, String), String>,
}

/// Settings that say which trace is replayed.
const TRACE: [&str; 3] = ["model", "model.trace", "model.trace.file"];
/// Ends of names of Chakra graphs; other files are of PyTorch's profiler.
const CHAKRA: [&str; 3] = [".et", ".et.gz", ".et.zst"];
/// The most files: lanes of each are held until the report is written.
const MAX_FILES: usize = 32;

impl Traces {
    /// Reads the files that any layer names.
    pub(super) fn read(files: &dyn Files, layers: &Layers, sources: &mut Sources) -> Self {
        let mut named = Vec::new();
        for node in layers.saying(&TRACE) {
            named.extend(file(&node));
        }
        let mut traces = Self::default();
        for (source, text) in named {
            let path = files::relative(&sources.get(source).name.clone(), &text);
            if traces.understood.len() < MAX_FILES && !traces.understood.contains_key(&path) {
                traces.understood.insert(path.clone(), read(files, &path, sources));
            }
            traces.paths.insert((source, text), path);
        }
        traces
    }

    /// The trace in the file called `path` by the text at `mark`.
    ///
    /// # Errors
    /// The fault of the file.
    pub(super) fn get(&self, mark: Mark, path: &str) -> Result<Recorded, String> {
        let path = self.paths.get(&(mark.source, path.to_owned()));
        let too_many = || Err(format!("the experiment names more than {MAX_FILES} traces"));
        path.and_then(|path| self.understood.get(path)).cloned().unwrap_or_else(too_many)
    }
}

/// The text of `model: { trace: { file: TEXT } }`.
fn file(settings: &Node) -> Option<(SourceId, String)> {
    let node = settings.at(&["model", "trace", "file"])?;
    Some((node.mark.source, node.as_text()?.to_owned()))
}

fn read(files: &dyn Files, path: &str, sources: &mut Sources) -> Result<Recorded, String> {
    let mut input = Digested { input: files::open_trace(files, path)?, bytes: 0, digest: BASIS };
    let traced = if CHAKRA.iter().any(|end| path.ends_with(end)) {
        chakra::read(&mut input).map(chakra::Graph::traced).map_err(|error| error.to_string())
    } else {
        kineto::read(&mut input).map(Traced::of).map_err(|error| error.to_string())
    };
    let traced = traced.map_err(|error| format!("`{}` {error}", shorten(path)))?;
    // As a source it has a part in the digest of the experiment; its text would take much room.
    sources.add(path, format!("{} bytes, {:016x}", input.bytes, input.digest));
    Ok(Recorded { path: path.to_owned(), traced: Arc::new(traced) })
}

/// Offset basis and prime of 64-bit FNV-1a.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A stream whose bytes are digested as they pass.
struct Digested<R> {
    input: R,
    bytes: u64,
    digest: u64,
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.bytes += count as u64;
        let digest = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(PRIME);
        self.digest = buffer[..count].iter().fold(self.digest, digest);
        Ok(count)
    }
}
