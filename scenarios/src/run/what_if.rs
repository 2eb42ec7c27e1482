//! Faster and slower parts of a run: each class of parts twice and half as fast, simulated again.

use std::collections::BTreeSet;

use hw_models::catalogue::LinkKind;
use hw_models::machine::PartClass;
use hw_models::settings::Factor;
use rayon::prelude::*;
use reports::explanation::WhatIf;

use super::one::{self, Drawn};
use super::{Progress, in_parallel};
use crate::constants::Speed;
use crate::plans;
use crate::schema::{Duration, Model, PerStage, Scenario};

/// Speeds that are simulated: twice and half.
const FACTORS: [f64; 2] = [2.0, 0.5];

/// A class of parts that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Parts of a machine, or its hosts.
    Machine(Speed),
    /// Stage times of a profile.
    Stages,
    /// Transfers of a profile.
    Transfers,
    /// Durations of a recording.
    Recorded(Recorded),
}

/// Durations of a recording that change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    Host,
    Kernels,
    Copies,
    Collectives,
}

/// Times of a step with each class of parts twice and half as fast, the weightiest first. Classes
/// of links are those of which `used` has the kind; without it all that the machine has.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn what_ifs(
    scenario: &Scenario,
    (step_s, used): (f64, Option<&BTreeSet<LinkKind>>),
    (seed, jobs): (u64, Option<usize>),
    progress: &dyn Progress,
) -> Result<Vec<WhatIf>, String> {
    let parts = parts(scenario, used);
    let pairs: Vec<(Part, f64)> =
        parts.iter().flat_map(|&part| FACTORS.map(|factor| (part, factor))).collect();
    progress.begin(pairs.len() as u64);
    let time = |&(part, factor): &(Part, f64)| {
        if progress.stop() {
            return Ok(None);
        }
        let run = one::outcome(&part.applied(scenario, factor), seed, Drawn::No);
        progress.done();
        Ok::<_, String>(run?.step_time())
    };
    let times = in_parallel(jobs, || pairs.par_iter().map(time).collect::<Result<Vec<_>, _>>())?;
    let times = times.chunks_exact(2).zip(parts);
    let mut all: Vec<WhatIf> = times
        .map(|(times, part)| WhatIf { part: part.name().to_owned(), twice_s: times[0], half_s: times[1] })
        .collect();
    let weight = |it: &WhatIf| {
        let saved = it.twice_s.map_or(0.0, |time| step_s - time);
        let lost = it.half_s.map_or(0.0, |time| time - step_s);
        (saved, lost)
    };
    all.sort_by(|a, b| {
        let (a, b) = (weight(a), weight(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    Ok(all)
}

/// Classes of parts that a run may have.
fn parts(scenario: &Scenario, used: Option<&BTreeSet<LinkKind>>) -> Vec<Part> {
    match &scenario.model {
        Model::ProfiledPipeline(_) => vec![Part::Stages, Part::Transfers],
        Model::Trace(_) => [Recorded::Host, Recorded::Kernels, Recorded::Copies, Recorded::Collectives]
            .map(Part::Recorded)
            .to_vec(),
        _ => {
            let Ok(machine) = plans::machine::of(scenario) else { return Vec::new() };
            let has: BTreeSet<LinkKind> = machine.links().map(|link| machine.link(link).kind).collect();
            let links = used.unwrap_or(&has).iter().map(|&kind| PartClass::Links(kind));
            let classes = [PartClass::GpuCompute, PartClass::GpuMemory].into_iter().chain(links);
            classes.map(Speed::Parts).chain([Speed::Host]).map(Part::Machine).collect()
        }
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Machine(Speed::Host) => "host",
            Self::Machine(Speed::Parts(PartClass::GpuCompute)) => "GPU compute",
            Self::Machine(Speed::Parts(PartClass::GpuMemory)) => "GPU memory",
            Self::Machine(Speed::Parts(PartClass::Links(kind))) => super::path::link_name(kind),
            Self::Stages => "stages",
            Self::Transfers => "transfers",
            Self::Recorded(Recorded::Host) => "host",
            Self::Recorded(Recorded::Kernels) => "kernels",
            Self::Recorded(Recorded::Copies) => "copies",
            Self::Recorded(Recorded::Collectives) => "collectives",
        }
    }

    /// A scenario with the part `factor` times as fast.
    fn applied(self, scenario: &Scenario, factor: f64) -> Scenario {
        let mut changed = scenario.clone();
        match (self, &mut changed.model) {
            (Self::Machine(speed), _) => {
                changed.constants = scenario.constants.at_speed(speed, factor);
                if let (Speed::Host, Some(software)) = (speed, &mut changed.software) {
                    software.host_overhead = scaled(software.host_overhead, factor);
                }
            }
            (Self::Stages, Model::ProfiledPipeline(pipeline)) => {
                let times =
                    [&mut pipeline.forward, &mut pipeline.backward_input, &mut pipeline.backward_weight];
                let of_techniques = changed.techniques.stage_times();
                times.into_iter().chain(of_techniques).for_each(|times| each(times, factor));
            }
            (Self::Transfers, Model::ProfiledPipeline(pipeline)) => each(&mut pipeline.transfer, factor),
            (Self::Recorded(recorded), Model::Trace(trace)) => {
                let field = match recorded {
                    Recorded::Host => &mut trace.what_if.host,
                    Recorded::Kernels => &mut trace.what_if.kernels,
                    Recorded::Copies => &mut trace.what_if.copies,
                    Recorded::Collectives => &mut trace.what_if.collectives,
                };
                let share = 100.0 * field.map_or(1.0, Factor::as_f64) / factor;
                *field = Factor::parse(&format!("{share} %")).ok().or(*field);
            }
            _ => {}
        }
        changed
    }
}

fn each(times: &mut PerStage<Duration>, factor: f64) {
    *times = match times {
        PerStage::All(time) => PerStage::All(scaled(*time, factor)),
        PerStage::Each(times) => PerStage::Each(times.iter().map(|time| scaled(*time, factor)).collect()),
    };
}

/// A duration of a part that is `factor` times as fast.
fn scaled(time: Duration, factor: f64) -> Duration {
    let scaled = (time.picoseconds() as f64 / factor).round();
    Duration::parse(&format!("{scaled} ps")).unwrap_or(time)
}
