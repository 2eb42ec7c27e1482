//! Reads a scenario and what it extends.

use std::collections::BTreeMap;
use std::io::Read;

use hw_models::catalogue::nearest;

use super::draft::Draft;
use crate::library;
use crate::text::node::shorten;
use crate::text::problem::Problem;
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;

/// Where scenarios come from. Only front ends open files; tests and the library need none.
pub trait Files {
    /// The bytes of the file at `path`, at least the first [`MAX_BYTES`](crate::MAX_BYTES) and one more.
    ///
    /// # Errors
    /// Why it cannot be read, in a few words ("no such file").
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;

    /// The file at `path` as a stream, however long it is.
    ///
    /// # Errors
    /// Why it cannot be opened, in a few words ("no such file").
    fn open(&self, path: &str) -> Result<Box<dyn Read + '_>, String>;
}

/// Files in memory, by path.
impl Files for BTreeMap<String, Vec<u8>> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn open(&self, path: &str) -> Result<Box<dyn Read + '_>, String> {
        let bytes = self.get(path).ok_or_else(|| "no such file".to_owned())?;
        Ok(Box::new(bytes.as_slice()))
    }
}

/// The longest chain of `extends`.
const MAX_CHAIN: usize = 8;
const LIBRARY: &str = "library:";

/// Opens a trace: one of the library, or a file.
///
/// # Errors
/// Why it cannot be opened, and what to do about it.
pub(super) fn open_trace<'f>(files: &'f dyn Files, path: &str) -> Result<Box<dyn Read + 'f>, String> {
    let Some(name) = path.strip_prefix(LIBRARY) else {
        let shown = shorten(path);
        return files.open(path).map_err(|reason| format!("cannot read `{shown}`: {reason}"));
    };
    let bytes = library::trace(name).ok_or_else(|| {
        let names: Vec<&str> = library::trace_names().collect();
        let remedy = nearest::remedy(name, &names, "library trace");
        format!("the library has no trace `{}`: {remedy}", shorten(name))
    })?;
    Ok(Box::new(bytes))
}

/// True for what the library has, wherever a scenario is kept.
pub(super) fn is_of_library(path: &str) -> bool {
    path.starts_with(LIBRARY)
}

/// The experiment in `name` on top of all that it extends.
pub(super) fn read(
    files: &dyn Files,
    name: &str,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) -> Option<Draft> {
    let mut chain: Vec<String> = Vec::new();
    let mut drafts: Vec<Draft> = Vec::new();
    let mut next = Some((normal(name), None));
    while let Some((path, said)) = next {
        if let Some(problem) = refuse_link(&chain, &path, said) {
            problems.push(problem);
            return None;
        }
        let draft = match read_bytes(files, &path) {
            Ok(bytes) => match said {
                None => parse(&path, bytes, sources, problems)?,
                Some(said) => parse_named(&path, bytes, said, sources, problems)?,
            },
            Err(Unreadable { message, help }) => {
                let mark = said.unwrap_or_else(|| sources.add(&path, "").start());
                problems.push(Problem::new(mark, message).help(help));
                return None;
            }
        };
        next = draft.extends(problems).map(|(target, mark)| (relative(&path, &target), Some(mark)));
        chain.push(path);
        drafts.push(draft);
    }
    let base = drafts.pop()?;
    Some(drafts.into_iter().rev().fold(base, Draft::extended_by))
}

/// Why `path` cannot be the next link, said at `said`.
fn refuse_link(chain: &[String], path: &str, said: Option<Mark>) -> Option<Problem> {
    let said = said?;
    if let Some(start) = chain.iter().position(|link| link == path) {
        let circle = [&chain[start..], &[path.to_owned()]].concat().join(" -> ");
        return Some(
            Problem::new(said, format!("`extends` runs in a circle: {circle}")).help("remove this line"),
        );
    }
    (chain.len() >= MAX_CHAIN).then(|| {
        Problem::new(said, format!("`extends` reaches deeper than {MAX_CHAIN} files"))
            .help("extend a file nearer to the base")
    })
}

struct Unreadable {
    message: String,
    help: String,
}

fn read_bytes(files: &dyn Files, path: &str) -> Result<Vec<u8>, Unreadable> {
    if let Some(name) = path.strip_prefix(LIBRARY) {
        let names = library::names();
        return library::get(name).map(|text| text.as_bytes().to_vec()).ok_or_else(|| Unreadable {
            message: format!("the library has no scenario `{}`", shorten(name)),
            help: match nearest::closest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`foretrain list scenarios` names them all".to_owned(),
            },
        });
    }
    let bytes = files.read(path).map_err(|reason| Unreadable {
        message: format!("cannot read `{}`: {reason}", shorten(path)),
        help: "paths are relative to the file that names them; library scenarios are `library:NAME`"
            .to_owned(),
    })?;
    if bytes.len() > yaml::MAX_BYTES {
        return Err(Unreadable {
            message: format!("`{}` is longer than {} KiB", shorten(path), yaml::MAX_BYTES / 1024),
            help: "a scenario has a few KiB; is this another file?".to_owned(),
        });
    }
    Ok(bytes)
}

fn parse(path: &str, bytes: Vec<u8>, sources: &mut Sources, problems: &mut Vec<Problem>) -> Option<Draft> {
    match String::from_utf8(bytes) {
        Ok(text) => {
            let source = sources.add(path, text);
            Draft::of(yaml::parse(sources, source, problems)?, problems)
        }
        Err(error) => {
            let source = sources.add(path, String::from_utf8_lossy(error.as_bytes()));
            problems.push(not_utf8(source, &error));
            None
        }
    }
}

/// A file that another one names. One that is no scenario may hold what is nobody's business here:
/// no line of it is quoted.
fn parse_named(
    path: &str,
    bytes: Vec<u8>,
    said: Mark,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) -> Option<Draft> {
    let mut found = Vec::new();
    let draft = parse(path, bytes, sources, &mut found).filter(|draft| !draft.is_empty());
    match &draft {
        Some(_) => problems.append(&mut found),
        None => problems.push(
            Problem::new(said, format!("`{}` is not a scenario", shorten(path)))
                .help(format!("`foretrain check {}` tells why", shorten(path))),
        ),
    }
    draft
}

fn not_utf8(source: SourceId, error: &std::string::FromUtf8Error) -> Problem {
    let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]).into_owned();
    let line = valid.matches('\n').count() as u32 + 1;
    let column = valid.rsplit('\n').next().map_or(0, |last| last.chars().count()) as u32 + 1;
    Problem::new(source.at(line, column), "the file is not UTF-8 text").help("save it as UTF-8")
}

/// `target` as the file `from` means it.
pub(super) fn relative(from: &str, target: &str) -> String {
    let folder = from.rsplit_once('/').map(|(folder, _)| folder).filter(|_| !from.starts_with(LIBRARY));
    match folder {
        Some(folder) if !target.starts_with(LIBRARY) && !target.starts_with('/') => {
            normal(&format!("{folder}/{target}"))
        }
        _ => normal(target),
    }
}

/// Without `.` and `a/..`, so that one file has one name.
fn normal(path: &str) -> String {
    if path.starts_with(LIBRARY) {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| !matches!(*last, ".." | "")) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        assert_eq!(relative("a/b.yaml", "../c.yaml"), "c.yaml");
        assert_eq!(relative("b.yaml", "./c.yaml"), "c.yaml");
        assert_eq!(relative("/x/b.yaml", "/y/c.yaml"), "/y/c.yaml");
        assert_eq!(relative("a/b.yaml", "library:bpipe-profiled"), "library:bpipe-profiled");
        assert_eq!(relative("../b.yaml", "../c.yaml"), "../../c.yaml");
    }
}
