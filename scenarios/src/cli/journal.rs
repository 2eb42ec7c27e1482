//! A journal of outcomes on disk: a heading, then one line for each simulation that has ended.
//!
//! A line is written at once when its simulation ends, so that who is killed loses only what was
//! under way. Lines that are not whole are passed over.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use reports::summary::Outcome;
use scenarios::Experiment;
use scenarios::run::{self, Key, Knowledge, Options, Shard};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::VERSION;
use super::lines::line;
use super::printer::Printer;

/// Form of a journal.
const FORM: u32 = 1;
/// Digits of the sources that this program was built from.
const SOURCES: &str = env!("FORETRAIN_SOURCES");

/// First line of a journal: whose outcomes it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heading {
    form: u32,
    /// Version and sources of the program.
    pub(super) foretrain: String,
    /// Name of the experiment.
    name: String,
    /// Digits of its texts, the seed and the variants.
    pub(super) experiment: String,
    /// Part of it that this is. `None`: the journal of a whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<String>,
}

/// An outcome, as a line.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    outcome: Outcome,
}

/// A line that is whole, whatever its outcome.
#[derive(Deserialize)]
struct Keyed {
    key: String,
    #[serde(rename = "outcome")]
    _outcome: IgnoredAny,
}

/// Last line of a shard that was simulated to its end.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct End {
    ended: bool,
}

/// Content of a journal.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// `None`: the first line is not whole, so that nothing below it is known.
    pub(super) heading: Option<Heading>,
    /// Lines by key.
    known: BTreeMap<String, String>,
    /// True if a shard was simulated to its end.
    pub(super) ended: bool,
    /// Knowledge of plans of a search, of this run alone.
    plans: Plans,
}

/// Knowledge by plan.
type Plans = Arc<Mutex<BTreeMap<Key, Knowledge>>>;

/// A journal that a run looks into and adds to.
pub(super) struct Journal {
    path: PathBuf,
    heading: Heading,
    content: Content,
    /// `None`: nothing was added yet.
    file: Mutex<Option<File>>,
    failure: OnceLock<io::Error>,
}

impl Heading {
    /// The heading of an experiment's journal.
    pub(super) fn of(experiment: &Experiment, options: &Options, shard: Option<Shard>) -> Self {
        let chosen = options.variants.iter().map(|name| format!("{name}\0")).collect::<String>();
        let digits = hw_models::digest::digest(&(experiment.digest(), options.seed, chosen));
        Self {
            form: FORM,
            foretrain: format!("{VERSION} of sources {SOURCES}"),
            name: experiment.name().to_owned(),
            experiment: digits.map(|digits| format!("{digits:016x}")).concat(),
            shard: shard.map(|shard| shard.to_string()),
        }
    }

    /// True if outcomes below the other heading are outcomes of this program.
    pub(super) fn is_of_version(&self, other: &Self) -> bool {
        (self.form, &self.foretrain) == (other.form, &other.foretrain)
    }
}

impl Content {
    /// Reads a journal; of none that is there, nothing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut lines = bytes.split(|&byte| byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
        let heading = lines.next().and_then(|line| serde_json::from_str(line).ok());
        let mut content = Self { heading, ..Self::default() };
        if content.heading.is_none() {
            return Ok(content);
        }
        for line in lines {
            match serde_json::from_str(line) {
                Ok(Keyed { key, .. }) => drop(content.known.insert(key, line.to_owned())),
                Err(_) => content.ended |= serde_json::from_str(line).is_ok_and(|End { ended }| ended),
            }
        }
        Ok(content)
    }

    /// Outcomes that it has.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    fn plans(&self) -> MutexGuard<'_, BTreeMap<Key, Knowledge>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// Takes up the journal at a path. One with another heading is set aside, which is told.
    pub(super) fn open(path: PathBuf, heading: Heading, printer: &Printer) -> Self {
        let content = Content::read(&path).and_then(|content| match &content.heading {
            Some(other) if *other == heading => Ok(content),
            Some(other) => set_aside(&path, &heading, other, printer).map(|()| Content::default()),
            None => clear(&path).map(|()| content),
        });
        let mut journal = Self {
            path,
            heading,
            content: Content::default(),
            file: Mutex::default(),
            failure: OnceLock::new(),
        };
        match content {
            Ok(content) => journal.content = content,
            Err(error) => journal.fail(error),
        }
        journal
    }

    /// Adds what is known from elsewhere.
    pub(super) fn learn(&mut self, other: Content) {
        self.content.known.extend(other.known);
    }

    /// Outcomes that were known when it was opened.
    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    /// Outcomes that it has by now. `None`: none, or none that can be read.
    pub(super) fn ended(&self) -> Option<Content> {
        let ended = Content::read(&self.path).ok().filter(|content| content.len() > 0)?;
        Some(Content { plans: Arc::clone(&self.content.plans), ..ended })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, and the error since which nothing is kept in it.
    pub(super) fn failure(&self) -> Option<(&Path, &io::Error)> {
        self.failure.get().map(|error| (self.path(), error))
    }

    /// Notes that a shard was simulated to its end.
    pub(super) fn end(&self) {
        if !self.content.ended {
            self.add(&line(&End { ended: true }));
        }
    }

    /// Removes it, as nothing of it is needed any more.
    pub(super) fn remove(self) {
        // Litter must not hide how the run ended.
        let _ = fs::remove_file(&self.path);
    }

    /// Adds a line. After an error nothing is added any more: a run is worth more than its journal.
    fn add(&self, line: &str) {
        if self.failure.get().is_some() {
            return;
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let open = file.take().map_or_else(|| self.appending(), Ok);
        match open.and_then(|mut open| open.write_all(line.as_bytes()).map(|()| open)) {
            Ok(open) => *file = Some(open),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&self, error: io::Error) {
        // The first error tells why.
        let _ = self.failure.set(error);
    }

    /// The file, with its heading, at the beginning of a line.
    fn appending(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::options().read(true).append(true).create(true).open(&self.path)?;
        let length = file.seek(SeekFrom::End(0))?;
        if length == 0 {
            file.write_all(line(&self.heading).as_bytes())?;
            return Ok(file);
        }
        // The last line may not be whole.
        let mut last = [0];
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
        Ok(file)
    }
}

/// A journal to which nothing is added any more.
impl run::Journal for Content {
    fn known(&self, key: Key) -> Option<Outcome> {
        let line = self.known.get(&key.to_string())?;
        serde_json::from_str(line).ok().map(|Line { outcome, .. }| outcome)
    }

    fn keep(&self, _: Key, _: Outcome) {}

    fn told(&self, plan: Key) -> Option<Knowledge> {
        self.plans().get(&plan).cloned()
    }

    fn is_closed(&self) -> bool {
        true
    }
}

impl run::Journal for Journal {
    fn known(&self, key: Key) -> Option<Outcome> {
        self.content.known(key)
    }

    fn keep(&self, key: Key, outcome: Outcome) {
        let kept = Line { key: key.to_string(), outcome };
        let text = line(&kept);
        // JSON knows no infinity: an outcome that it would change is simulated again.
        if serde_json::from_str(&text).is_ok_and(|Line { outcome, .. }| outcome == kept.outcome) {
            self.add(&text);
        }
    }

    fn told(&self, plan: Key) -> Option<Knowledge> {
        self.content.told(plan)
    }

    fn tell(&self, plan: Key, knowledge: Knowledge) {
        self.content.plans().insert(plan, knowledge);
    }
}

fn set_aside(path: &Path, wanted: &Heading, other: &Heading, printer: &Printer) -> io::Result<()> {
    let aside = path.with_extension("set-aside");
    fs::rename(path, &aside)?;
    let whose = match wanted.is_of_version(other) {
        true => "other settings".to_owned(),
        false => format!("foretrain {}", other.foretrain),
    };
    let [from, to] = [path, &aside].map(Path::display);
    printer.tell(&format!("note: `{from}` is of {whose}: it was set aside as `{to}`\n"));
    Ok(())
}

/// Removes a file whose first line is not whole.
fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
