//! `foretrain show`: a scenario as it is run, every value with its origin.

use scenarios::run::{First, first};
use scenarios::schema::Shape;
use scenarios::{Experiment, Point};

use super::Exit;
use super::input::{self, Changes};
use super::printer::Printer;
use super::trouble::Trouble;

/// What is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A scenario file, the name of a library scenario, or `-` for standard input
    #[arg(value_name = "FILE|NAME")]
    file: String,
    #[command(flatten)]
    changes: Changes,
    /// The variant; the first if not given
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Only this setting, and what it means, such as `parallelism.schedule`
    #[arg(long, value_name = "SETTING")]
    explain: Option<String>,
    /// Tensors that wait for the backward pass, and where they are meanwhile, as a file for
    /// `techniques.movement_plan`
    #[arg(long, conflicts_with = "explain")]
    tensors: bool,
    /// Kernels among which fusion searches, as a file for `techniques.fusion.measured`
    #[arg(long, conflicts_with_all = ["explain", "tensors"])]
    kernels: bool,
}

/// Prints one run of the experiment; over a sweep the first whose sizes multiply.
pub(super) fn show(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let experiment = input::experiment(&arguments.file, &arguments.changes)?;
    let First { variant, point, resolved } = first(&experiment, arguments.variant.as_deref())?;
    let settings = experiment.explain(&resolved);
    match &arguments.explain {
        _ if arguments.tensors => super::tensors::print(&resolved, printer),
        _ if arguments.kernels => super::fusion::print_kernels(&resolved, printer),
        Some(path) => printer.print(&explanation(path, &settings)?),
        None => {
            let notes = resolved.scenario.model.not_modelled().iter().map(|note| format!("# {note}\n"));
            let above = heading(&experiment, variant, &point) + &notes.collect::<String>();
            printer.print(&(above + &experiment.titled(&settings)))
        }
    }
}

/// Which run it is, in comments; empty where there is only one.
fn heading(experiment: &Experiment, variant: &str, point: &Point) -> String {
    let mut heading = String::new();
    let variants = experiment.variants().count();
    if variants > 1 {
        heading += &format!("# variant {variant}, one of {variants}; --variant NAME shows another\n");
    }
    if !point.values().is_empty() {
        heading += &format!("# the first of the {} points of the sweep\n", experiment.points().count());
    }
    heading
}

/// The lines about the setting at `path`, then what it means and what else could stand there.
fn explanation(path: &str, settings: &str) -> Result<String, Trouble> {
    let keys: Vec<&str> = path.split('.').collect();
    let shape = find(&keys).map_err(Trouble::Mistake)?;
    let mut text = lines_about(&keys, settings);
    if text.is_empty() {
        text = format!("this run has no `{path}`\n");
    }
    text += &format!("\n{}\n", shape.documentation());
    let described = shape.described();
    if !described.is_empty() {
        text += if shape.is_choice() { "\nchoices\n" } else { "\nsettings\n" };
    }
    let width = described.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, documentation) in described {
        text += format!("  {name:width$}  {documentation}").trim_end();
        text.push('\n');
    }
    Ok(text)
}

/// The place at `keys` in the schema, or how far they lead.
fn find(keys: &[&str]) -> Result<Shape<'static>, String> {
    let mut shape = Shape::file();
    for (depth, key) in keys.iter().enumerate() {
        let Some(next) = shape.at(&[key]) else {
            let known = shape.names();
            let place =
                if depth == 0 { "a scenario".to_owned() } else { format!("`{}`", keys[..depth].join(".")) };
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            return Err(format!("there is no setting `{}`: {place} has {known}", keys.join(".")));
        };
        shape = next;
    }
    Ok(shape)
}

/// Of settings with two spaces of indentation a level, the lines of those under `keys`, the first without indentation.
fn lines_about(keys: &[&str], settings: &str) -> String {
    let mut path: Vec<&str> = Vec::new();
    let mut found = String::new();
    for line in settings.lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let key = line.trim_start().split(':').next().unwrap_or_default();
        path.truncate(depth);
        path.push(key.trim_matches(['"', '\'']));
        if path.starts_with(keys) {
            found += &line[2 * (keys.len() - 1)..];
            found.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_its_indentation() {
        let settings = "a:\n  b: 1  # x.yaml:1\n  c:\n    b: 2\nb: 3\n";
        assert_eq!(lines_about(&["a", "b"], settings), "b: 1  # x.yaml:1\n");
        assert_eq!(lines_about(&["a", "c"], settings), "c:\n  b: 2\n");
        assert_eq!(lines_about(&["c"], settings), "");
    }
}
