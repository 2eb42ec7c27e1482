//! Which scenario an argument means: standard input, a file, or a scenario of the library.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use scenarios::{Experiment, Failure, Files, Opened, library, load};

use super::files::open_regular;
use super::trouble::Trouble;

/// Scenarios, and changes to all of them.
#[derive(Debug, clap::Args)]
pub(super) struct Inputs {
    /// Scenario files, names of library scenarios (`foretrain list scenarios`), or `-` for standard input
    #[arg(required = true, value_name = "FILE|NAME")]
    pub(super) files: Vec<String>,
    #[command(flatten)]
    pub(super) changes: Changes,
}

/// Changes on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct Changes {
    /// Replace a setting, such as `training.micro_batches=64`; where it is swept, only this value is run
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(super) set: Vec<String>,
}

/// How standard input is called on the command line, and in messages.
pub(super) const STDIN: &str = "-";
const STDIN_SHOWN: &str = "<stdin>";
const LIBRARY: &str = "library:";

/// Reads the scenario that `argument` means.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn experiment(argument: &str, changes: &Changes) -> Result<Experiment, Trouble> {
    let path = path(argument)?;
    Ok(load(&disk(&path), &path, &changes.set)?)
}

/// Reads a scenario of the library.
///
/// # Errors
/// That there is none of this name.
pub(super) fn library_experiment(name: &str) -> Result<Experiment, Failure> {
    let path = format!("{LIBRARY}{}", name.strip_prefix(LIBRARY).unwrap_or(name));
    load(&disk(&path), &path, &[])
}

/// Reads a whole text: a file, or standard input.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn text(argument: &str) -> Result<(String, String), Trouble> {
    let name = if argument == STDIN { STDIN_SHOWN } else { argument };
    let bytes = disk(name).read(name);
    let bytes = bytes.map_err(|reason| Trouble::Mistake(format!("cannot read `{name}`: {reason}")))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Trouble::Mistake(format!("`{name}` is not UTF-8 text: save it as UTF-8")))?;
    Ok((name.to_owned(), text))
}

/// Name of a folder for the results of `argument`: lower case, words joined by `-`.
pub(super) fn folder_name(argument: &str) -> String {
    const LONGEST: usize = 100;
    let stem = match argument.strip_prefix(LIBRARY) {
        _ if argument == STDIN => "stdin",
        Some(name) => name,
        None => Path::new(argument).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default(),
    };
    let mut name = String::new();
    for c in stem.chars().flat_map(char::to_lowercase) {
        match c {
            c if c.is_alphanumeric() => name.push(c),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
        if name.len() >= LONGEST {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "scenario".to_owned() } else { name.to_owned() }
}

/// True if a scenario of this name is there: a file, one of the library, or standard input.
pub(super) fn is_there(argument: &str) -> bool {
    let is_named = argument.starts_with(LIBRARY) || library::get(argument).is_some();
    argument == STDIN || is_named || Path::new(argument).exists()
}

/// What [`load`] calls the scenario that `argument` means. A file wins over the library; what looks like neither is
/// taken for a slip in a name of the library, which is where suggestions come from.
fn path(argument: &str) -> Result<String, Trouble> {
    let kind = Path::new(argument).metadata();
    let looks_like_path = argument.is_empty() || argument.contains(['/', '\\', '.', ':']);
    match kind {
        _ if argument == STDIN => Ok(STDIN_SHOWN.to_owned()),
        _ if argument.starts_with(LIBRARY) => Ok(argument.to_owned()),
        Ok(kind) if !kind.is_dir() => Ok(argument.to_owned()),
        _ if library::get(argument).is_some() => Ok(format!("{LIBRARY}{argument}")),
        Ok(_) => Err(Trouble::Mistake(format!("`{argument}` is a folder: name a scenario file in it"))),
        Err(error) if error.kind() == ErrorKind::NotFound && looks_like_path => {
            Err(Trouble::Mistake(format!(
                "there is no file `{argument}`: `foretrain new {argument}` would begin one, and `foretrain list scenarios` \
             lists those that are always there"
            )))
        }
        Err(_) if looks_like_path => Ok(argument.to_owned()),
        Err(_) => Ok(format!("{LIBRARY}{argument}")),
    }
}

/// Files on this machine, and standard input. Only the one that the command line names may be a
/// pipe.
pub(super) fn disk(named: &str) -> impl Files + Sync {
    Opened(move |path: &str| -> io::Result<Box<dyn Read>> {
        Ok(match path {
            STDIN_SHOWN => Box::new(io::stdin().lock()),
            path if path == named => Box::new(File::open(path)?),
            path => Box::new(open_regular(path)?),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_after_the_scenario() {
        assert_eq!(folder_name("runs/My run (2).yaml"), "my-run-2");
        assert_eq!(folder_name("library:bpipe-profiled"), "bpipe-profiled");
        assert_eq!(folder_name("zb.v2.yaml"), "zb-v2");
        assert_eq!(folder_name("-"), "stdin");
        assert_eq!(folder_name("..."), "scenario");
        assert!(folder_name(&"é".repeat(500)).len() < 104);
    }
}
