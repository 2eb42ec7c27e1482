//! What measuring devices needs, what of it is there, and how to get the rest.

use calibration::measure::{Capability, Found};
use serde::Serialize;

use super::Arguments;
use super::device::Target;
use crate::cli::printer::Printer;
use crate::cli::trouble::{self, Trouble};
use crate::cli::{Exit, Format};

/// What a device needs.
#[derive(Serialize)]
struct Needs {
    device: String,
    /// Whether it can be measured.
    ready: bool,
    needs: Vec<Capability>,
}

/// Tells what the device needs, or if none is named every one. A device that is named and cannot be measured is no device.
pub(super) fn tell(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let targets = match &arguments.device {
        Some(target) => vec![target.clone()],
        None => vec![Target::Host, Target::Cuda(0)],
    };
    let mut told = Vec::new();
    for target in &targets {
        let mut needs = target.open(arguments)?.capabilities();
        if arguments.device.is_none() && !arguments.with_torch && *target != Target::Host {
            // Who asks what can be measured at all hears of it too.
            let torch = target.torch(&arguments.python)?.capabilities();
            needs.extend(torch.into_iter().map(|need| Capability { required: false, ..need }));
        }
        let ready = needs.iter().all(|need| !need.required || matches!(need.found, Found::Present(_)));
        told.push(Needs { device: target.to_string(), ready, needs });
    }
    printer.print(&match arguments.format {
        Format::Json => trouble::json(&told),
        Format::Table => told.iter().map(text).collect::<Vec<_>>().join("\n"),
    })?;
    let missing = arguments.device.is_some() && told.iter().any(|needs| !needs.ready);
    Ok(if missing { Exit::NoDevice } else { Exit::Fine })
}

fn text(needs: &Needs) -> String {
    let verdict = if needs.ready { "can be measured" } else { "cannot be measured" };
    let widest = needs.needs.iter().map(|need| need.name.len()).max().unwrap_or(0);
    let line = |need: &Capability| match &need.found {
        Found::Present(which) => format!("  {:widest$}  present: {which}\n", need.name),
        Found::Missing { why, remedy } => format!(
            "  {:widest$}  missing, for {}: {why}\n  {:widest$}    {remedy}\n",
            need.name, need.purpose, ""
        ),
    };
    format!("{} {verdict}\n{}", needs.device, needs.needs.iter().map(line).collect::<String>())
}
