//! Power of a run: what its kernels ask of each board over a step.

use hw_models::power::{BoardPower, BoardUse};
use hw_models::provenance::Origin;
use indexmap::IndexMap;
use reports::summary::{NINE_OF_TEN, PowerUse, RunSummary};
use sim_core::outcome::Run;
use workloads::lower::Lowered;
use workloads::names::cause;

use super::asked::Asked;
use super::host_power::host_power;
use super::ranks;
use crate::plans;
use crate::schema::Scenario;

/// Relative deviations of the power of a board that was measured, and of one that was not.
///
/// The first is the root mean square of the errors on 28 training steps of an H100 (set `plans` of
/// `validate`). The second is an assumption: nobody measured a board of another kind.
const MEASURED: f64 = 0.08;
const ASSUMED: f64 = 0.2;

/// Power and energy of the ranks of a run, in which kernels run for `busy_s` of a step, by rank.
///
/// `None`: no board was ever measured, or the machine is not known.
pub(super) fn power(
    scenario: &Scenario,
    (lowered, run, asked): (&Lowered, &Run, &[Asked]),
    busy_s: &[f64],
    summary: &RunSummary,
) -> Option<PowerUse> {
    let machine = plans::machine::of(scenario).ok()?;
    let gpus = plans::machine::gpus(&machine, scenario);
    let boards = gpus.iter().map(|(_, gpu)| BoardPower::of(scenario.constants.devices(), gpu));
    let boards: Vec<BoardPower> = boards.collect::<Option<_>>()?;
    let step_s = summary.step_time_s?;
    let all_steps_s = step_s * f64::from(plans::steps(scenario));
    let drawn = |(rank, busy_s): (usize, &f64)| {
        let stage = rank / ranks::replicas(lowered);
        boards[stage].drawn(BoardUse {
            busy: busy_s / step_s,
            memory: asked[rank].bytes_s / all_steps_s,
            products: asked[rank].at_peak_s / all_steps_s,
        })
    };
    let all_w: f64 = busy_s.iter().enumerate().map(drawn).sum();
    let board_power_w = all_w / busy_s.len() as f64;
    let origin = boards.iter().map(|board| board.provenance.origin).max()?;
    let deviation = if origin == Origin::Estimate { ASSUMED } else { MEASURED };
    let of_time = summary.step_time_interval_s.map_or(0.0, |[least, most]| (most / least).ln() / 2.0);
    let around = |value: f64, half: f64| [value * (-half).exp(), value * half.exp()];
    let of_power = NINE_OF_TEN * deviation;
    let step_energy_j = all_w * step_s;
    Some(PowerUse {
        board_power_w,
        board_power_interval_w: around(board_power_w, of_power),
        step_energy_j,
        step_energy_interval_j: around(step_energy_j, of_power.hypot(of_time)),
        token_energy_j: summary.tokens_per_s.map(|tokens| all_w / tokens),
        hosts: host_power(scenario, &machine, (lowered, run), all_w),
        origin: origin.to_string(),
    })
}

/// Time of a step (s) in which kernels of a rank run, of its times by cause. Those of a collective hold
/// their SMs while they wait for peers.
pub(super) fn busy_s(times: &IndexMap<String, f64>) -> f64 {
    let works = [cause::COMPUTE, cause::RECOMPUTE, cause::COMMUNICATION];
    works.iter().filter_map(|work| times.get(*work)).sum()
}
