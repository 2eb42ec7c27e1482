//! Pages for people, the README and the guide: their scenarios are right, and their commands print what they show.
//!
//! Blocks of a page are a session in an empty folder, by the words behind their fence:
//!
//! - `yaml NAME`, `json NAME`, `csv NAME`: a file, which is written. Words behind a fence are not shown, so that the text
//!   names it, too. Every `yaml` is a scenario as it stands.
//! - `yaml NAME set`: the same of a set of measurements, which is no scenario.
//! - `console`: commands behind `$`, each with lines that it prints; `...` stands for lines, or parts of a line, that
//!   are left out. A command that is shown with a line `error: ` fails.
//! - `console slow`: commands that take long, or need what only some machines have; they are not run.
//!
//! Lines that changed are edited by hand, as the text around them speaks of their numbers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{Answer, Sandbox};

/// Words that the README may have.
const README_WORDS: usize = 600;

/// Stands for what is left out.
const LEFT_OUT: &str = "...";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The README and every page of the guide, by path.
fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join("guide/src")];
    let mut paths = vec![root().join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "md" => paths.push(path),
                _ => {}
            }
        }
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("UTF-8"))).collect()
}

/// A fenced block: the words behind the fence, and its lines.
struct Block<'a> {
    words: Vec<&'a str>,
    lines: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open): (Vec<Block<'_>>, bool) = (Vec::new(), false);
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(words) => {
                blocks.push(Block { words: words.split_whitespace().collect(), lines: Vec::new() });
                open = true;
            }
            None if open => blocks.last_mut().expect("a block is open").lines.push(line),
            None => {}
        }
    }
    blocks
}

/// Commands of a console, each with the lines that it is said to print.
fn commands<'a>(lines: &[&'a str]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => panic!("a console begins with a command: {line}"),
        }
    }
    commands
}

/// Runs a line in a shell that finds the binary as `foretrain`.
fn run(sandbox: &Sandbox, line: &str) -> Answer {
    let binary = Path::new(env!("CARGO_BIN_EXE_foretrain")).parent().expect("a folder").to_owned();
    let path = std::env::join_paths([binary, "/usr/bin".into(), "/bin".into()]).expect("a path");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(sandbox.path(".")).env("PATH", path);
    shell.env("LC_ALL", "C.UTF-8");
    Answer::of(shell.output().expect("a shell"))
}

/// Whether lines are as shown, but for those that are left out.
fn prints(printed: &[&str], shown: &[&str]) -> bool {
    match (shown, printed) {
        ([], _) => printed.is_empty(),
        ([LEFT_OUT, rest @ ..], _) => (0..=printed.len()).any(|end| prints(&printed[end..], rest)),
        ([line, shown @ ..], [first, printed @ ..]) => matches(first, line) && prints(printed, shown),
        (_, []) => false,
    }
}

/// Whether a line is as shown, but for what is left out within it.
fn matches(printed: &str, shown: &str) -> bool {
    match shown.split_once(LEFT_OUT) {
        None => printed == shown,
        Some((begin, rest)) => printed
            .strip_prefix(begin)
            .is_some_and(|printed| printed.char_indices().any(|(end, _)| matches(&printed[end..], rest))),
    }
}

fn trimmed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines.map(str::trim_end).filter(|line| !line.is_empty()).collect()
}

/// True for a line that slow machines print meanwhile.
fn is_progress(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_digit())
        && line.contains(" of ")
        && (line.ends_with(" left") || line.ends_with(" so far"))
}

#[test]
fn pages_are_sessions_that_work() {
    for (path, page) in pages() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let sandbox = Sandbox::new(&format!("page-{name}"));
        let blocks = blocks(&page);
        for block in &blocks {
            match block.words[..] {
                ["yaml" | "json" | "csv", file] | ["yaml", file, "set"] => {
                    assert!(
                        page.contains(&format!("`{file}`")),
                        "{name}: readers do not see the name {file}"
                    );
                    sandbox.write(file, block.lines.join("\n") + "\n");
                }
                ["console"] => {
                    for (line, shown) in commands(&block.lines) {
                        let answer = run(&sandbox, line);
                        let fails = shown.iter().any(|line| line.starts_with("error: "));
                        assert_eq!(answer.exit != 0, fails, "{name}: {line}\n{}", answer.out);
                        let lines = answer.out.lines().filter(|line| !is_progress(line));
                        let (printed, shown) = (trimmed(lines), trimmed(shown.into_iter()));
                        let fine = shown.is_empty() || prints(&printed, &shown);
                        assert!(fine, "{name}: {line}\nprints\n{}\nnot\n{}", answer.out, shown.join("\n"));
                    }
                }
                _ => {}
            }
        }
        // After the commands, which may have written what a scenario names.
        let is_scenario =
            |block: &&Block<'_>| block.words.first() == Some(&"yaml") && block.words.last() != Some(&"set");
        for block in blocks.iter().filter(is_scenario) {
            sandbox.write("block.yaml", block.lines.join("\n") + "\n");
            let answer = sandbox.run("check block.yaml");
            assert_eq!(answer.exit, 0, "{name}: {}\n{}{}", block.lines.join("\n"), answer.out, answer.err);
        }
    }
}

/// Words as `wc -w` counts them, those of blocks and tables included.
#[test]
fn the_readme_is_short() {
    let words = fs::read_to_string(root().join("README.md")).expect("a README").split_whitespace().count();
    assert!(words <= README_WORDS, "the README has {words} words: move some to the guide");
}

/// Links between files of the project lead somewhere, and every page is in the summary.
#[test]
fn links_of_pages_lead_somewhere() {
    let summary = fs::read_to_string(root().join("guide/src/SUMMARY.md")).expect("a summary");
    for (path, page) in pages() {
        let folder = path.parent().expect("a folder");
        for link in page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let inside = !link.is_empty() && !link.contains("://");
            assert!(!inside || folder.join(link).exists(), "{}: no file {link}", path.display());
        }
        if let Ok(chapter) = path.strip_prefix(root().join("guide/src")) {
            let listed = summary.contains(&format!("({})", chapter.display()));
            assert!(listed || chapter.ends_with("SUMMARY.md"), "{} is not in the summary", path.display());
        }
    }
}
