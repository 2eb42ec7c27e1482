//! `foretrain import graph`: an edge list as a graph file.

use std::fs::File;
use std::path::PathBuf;

use graphs::import::{Duplicates, Fault, Imported, Options, read};

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

/// An edge list, and what it does not say.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Edges, plain or packed with gzip: CSV or TSV of source, destination and, where there are
    /// several, the type; or an NPY array of 2 x E or E x 2 whole numbers. Nodes are numbered from
    /// 0
    file: PathBuf,
    /// Add the reverse of each edge; typed edges get a type of their own, `cites-reversed`
    #[arg(long)]
    reverse: bool,
    /// Name of the graph. Default: that of the file
    #[arg(long)]
    name: Option<String>,
    /// Nodes to train on, of which mini-batches take their seeds
    #[arg(long, value_name = "COUNT")]
    training_nodes: Option<u64>,
    /// Features of a node
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    features: Option<u64>,
}

/// Prints the graph file; tells what is peculiar about the edges.
pub(super) fn import(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let Arguments { file, reverse, name, training_nodes, features } = arguments;
    let shown = file.display();
    let stem = || {
        file.file_name().map(|name| name.to_string_lossy().split('.').next().unwrap_or_default().to_owned())
    };
    let options = Options {
        name: name.clone().or_else(stem),
        reverse: *reverse,
        training_nodes: *training_nodes,
        features: *features,
    };
    let edges = File::open(file).map_err(|error| {
        Trouble::Mistake(format!("`{shown}` cannot be read ({error}): give the path of an edge list"))
    })?;
    let told = |faults: Vec<Fault>| {
        let told = |fault: &Fault| format!("`{shown}`: {fault}");
        Trouble::Mistake(faults.iter().map(told).collect::<Vec<_>>().join("\n"))
    };
    let Imported { statistics, self_loops, duplicates } = read(edges, &options).map_err(told)?;
    let (duplicates, about) = match duplicates {
        Duplicates::Counted(count) => (count, ""),
        Duplicates::Estimated(count) => (count, "about "),
    };
    if self_loops > 0 {
        printer.tell(&format!("self-loops: {self_loops}, counted among the edges\n"));
    }
    if duplicates > 0 {
        printer.tell(&format!("duplicates: {about}{duplicates}, counted each time\n"));
    }
    printer.print(&statistics.write())
}
