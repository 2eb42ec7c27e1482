//! What goes on at a GPU beside a training step: copies over its link without an end, or blocks that hold SMs, as those of a
//! collective do.

use hw_models::catalogue::CopyRates;
use hw_models::machine::{GpuResources, copy_ways, end_with, held, repeated};
use serde::{Deserialize, Serialize};
use sim_core::id::StreamId;
use sim_core::program::{Activity, Affine, Op, Slot};
use sim_core::time::Time;
use workloads::lower::Lowered;
use workloads::names::cause;

use crate::plans::machine;
use crate::schema::Scenario;

/// What goes on beside a step, as `beside.py` takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// Copies from the host to the GPU, one after the other.
    to_device: bool,
    /// Copies from the GPU to the host.
    to_host: bool,
    /// Blocks that hold an SM each.
    sms: u32,
}

/// The same at the GPU of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtGpu {
    background: Background,
    gpu: GpuResources,
    /// What copies get of its link (byte/s).
    link: CopyRates,
}

/// The name of its setting.
const SETTING: &str = "beside";
/// A copy (bytes).
const COPY: u64 = 256 << 20;
/// More than the longest step takes: all ends with it.
const COPIES: u32 = 1_000_000;
const LONGEST: Time = Time::from_ms(1_000_000);
/// The slot of a way, or of a pool.
const OBJECT: Slot = 0;

impl Background {
    /// What the settings of a row say of it, and the others.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn taken(settings: &[String]) -> Result<(Self, Vec<String>), String> {
        let mut background = Self::default();
        let mut others = Vec::new();
        for setting in settings {
            match setting.split_once('=') {
                Some((SETTING, value)) => {
                    background =
                        serde_yaml::from_str(value).map_err(|error| format!("`{SETTING}`: {error}"))?;
                }
                _ => others.push(setting.clone()),
            }
        }
        Ok((background, others))
    }

    /// At the GPU of a checked scenario.
    ///
    /// # Errors
    /// Why it cannot go on there.
    pub(super) fn of(self, scenario: &Scenario) -> Result<AtGpu, String> {
        let machine = machine::of(scenario).map_err(|error| error.to_string())?;
        let hardware = machine::hardware(&machine, scenario);
        let (name, gpu) = hardware.gpu().map_err(|error| error.to_string())?;
        if self.sms >= gpu.sms {
            return Err(format!("`{name}` has {} SMs: {} cannot be held beside a step", gpu.sms, self.sms));
        }
        let class = scenario.constants.devices().links.get(&gpu.pcie.class);
        let class = class.ok_or_else(|| format!("the catalogue has no link `{}`", gpu.pcie.class))?;
        let link = class.copied(gpu.pcie.lanes);
        Ok(AtGpu { background: self, gpu: machine.resources().gpus[0], link })
    }
}

impl AtGpu {
    /// Adds its streams to a program of one rank: they end with the last step.
    pub(super) fn join(self, lowered: &mut Lowered) {
        let Lowered { platform, program, stages, .. } = lowered;
        let Background { to_device, to_host, sms } = self.background;
        let cause = program.cause(cause::TRANSFER);
        let ways = copy_ways(platform, self.gpu.hbm, self.link, cause);
        let (copy, run) = (Activity::moving(COPY, OBJECT, cause), Op::Run { activity: Affine::constant(0) });
        let mut others: Vec<StreamId> = [to_device, to_host]
            .into_iter()
            .zip(ways)
            .filter(|(goes_on, _)| *goes_on)
            .map(|(_, way)| repeated(program, [way.0], [run], copy, COPIES))
            .collect();
        if sms > 0 {
            let longest = Activity::lasting(LONGEST, cause);
            others.push(repeated(program, [self.gpu.sms.0], held(OBJECT, sms, cause), longest, 1));
        }
        end_with(program, stages[0].compute, &others);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hw_models::catalogue::OneWay;
    use sim_core::{Options, simulate};

    use super::super::simulation::{Checked, FILE};
    use super::*;
    use crate::plans;

    /// A step of passes over memory above all: few tokens, and a large table of words.
    const OF_PASSES: &str = "{ layers: 1, hidden: 1024, heads: 8, vocabulary: 50304, max_positions: 64 }";
    /// A step of products above all.
    const OF_PRODUCTS: &str = "{ layers: 2, hidden: 4096, heads: 32, vocabulary: 4096, max_positions: 2048 }";

    fn scenario(gpu: &str, model: &str, sequence: u32) -> Scenario {
        let text = format!(
            "name: beside\nmachine: {{ parts: {{ gpus: {{ gpu: {gpu} }} }} }}\nmodel: {{ transformer: {model} }}\n\
             training: {{ precision: bf16-mixed, micro_batch: 4, sequence: {sequence}, accumulate: 1 }}\n\
             software: {{ launch: graph, attention: flash }}\n"
        );
        let files = BTreeMap::from([(FILE.to_owned(), text.into_bytes())]);
        Checked::read(&files, &[]).unwrap_or_else(|wrong| panic!("{wrong}")).scenario
    }

    fn at(scenario: &Scenario, setting: &str) -> AtGpu {
        let (background, others) = Background::taken(&[format!("beside={setting}")]).unwrap();
        assert!(others.is_empty());
        background.of(scenario).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// What a step takes (s), and what kernels and copies together move in the memory.
    fn step(scenario: &Scenario, beside: AtGpu) -> (f64, u128) {
        let mut lowered = plans::built(scenario, &Default::default()).unwrap().lowered;
        let program = lowered.program.streams.len();
        beside.join(&mut lowered);
        let Lowered { platform, program: joined, start, stages, .. } = &lowered;
        let run = simulate(platform, joined, start, &Options::default()).unwrap();
        let end = run.streams[stages[0].compute.index()].finished;
        assert!(end == Some(run.time), "what goes on beside ends with the step");
        for other in &run.streams[program..] {
            assert_eq!(other.finished, end);
        }
        // Copies never wait: each way carries what it can until the end.
        let Background { to_device, to_host, .. } = beside.background;
        let CopyRates { to_device: down, from_device: up } = beside.link;
        let rate = |way: OneWay, other: bool| if other { way.against } else { way.alone };
        let ways = [(to_device, rate(down, to_host)), (to_host, rate(up, to_device))];
        for (way, (goes_on, rate)) in run.fluids[run.fluids.len() - 2..].iter().zip(ways) {
            let carried = if goes_on { rate * run.time.as_secs() } else { 0.0 };
            assert!((way.served as f64 - carried).abs() <= 1e-6 * carried, "{} of {carried}", way.served);
        }
        (run.time.as_secs(), run.fluids[beside.gpu.hbm.index()].served)
    }

    #[test]
    fn nothing_beside_a_step_costs_nothing() {
        let scenario = scenario("h200-sxm5-141gb", OF_PASSES, 32);
        let lowered = plans::built(&scenario, &Default::default()).unwrap().lowered;
        let run = simulate(&lowered.platform, &lowered.program, &lowered.start, &Options::default()).unwrap();
        assert_eq!(step(&scenario, at(&scenario, "{}")).0, run.time.as_secs());
    }

    /// Copies come first at the memory: where they leave kernels less than any of them would take, a step takes the longer the
    /// more they take, by the bytes that it moves over what is left.
    #[test]
    fn copies_cost_a_step_what_they_take_of_the_memory() {
        let scenario = scenario("h200-sxm5-141gb", OF_PASSES, 32);
        let memory = 4_800e9;
        let (alone, bytes) = step(&scenario, at(&scenario, "{}"));
        let with_link = |way: &str, rate: f64| {
            let way_of = OneWay { alone: rate, against: rate };
            let link = CopyRates { to_device: way_of, from_device: way_of };
            step(&scenario, AtGpu { link, ..at(&scenario, way) }).0
        };
        let one_way = "{ to_device: true }";
        assert!((with_link(one_way, 0.02 * memory) / alone - 1.0).abs() < 1e-6);
        let [much, most] = [0.95, 0.98].map(|share| with_link(one_way, share * memory));
        let expected = bytes as f64 / memory * (1.0 / 0.02 - 1.0 / 0.05);
        assert!(((most - much) / expected - 1.0).abs() < 1e-3, "{} and {expected}", most - much);
        // Either way, and both as one of twice the rate.
        assert_eq!(with_link("{ to_host: true }", 0.95 * memory), much);
        let both = with_link("{ to_device: true, to_host: true }", 0.475 * memory);
        assert!((both / much - 1.0).abs() < 1e-6, "{both} and {much}");
    }

    /// Blocks of products that find no SM wait for a wave of others: a few SMs less cost little where there are many waves, and a
    /// wave of the same length where as many blocks as SMs share all tiles.
    #[test]
    fn held_sms_cost_products_waves() {
        let slowdown = |gpu: &str, sms: u32| {
            let scenario = scenario(gpu, OF_PRODUCTS, 2_048);
            let beside = |setting: &str| step(&scenario, at(&scenario, setting)).0;
            beside(&format!("{{ sms: {sms} }}")) / beside("{}")
        };
        let [few, more, half] = [8, 24, 54].map(|sms| slowdown("a100-sxm4-80gb", sms));
        assert!(1.0 < few && few < 108.0 / 100.0, "{few}");
        assert!(1.1 < more && more < 108.0 / 84.0, "{more}");
        assert!(1.5 < half && half < 2.0, "{half}: passes need half of the SMs");
        // Kernels of Hopper have a block for each SM, which share the tiles: the last blocks begin when the others have ended.
        let [few, many] = [8, 48].map(|sms| slowdown("h200-sxm5-141gb", sms));
        assert!(1.5 < few && few <= many && many < 1.05 * few, "{few} and {many}");
    }

    #[test]
    fn what_cannot_go_on_is_told() {
        let refused = |setting: &str, gpu: &str| {
            let taken = Background::taken(&[format!("beside={setting}")]);
            let at = taken.and_then(|(background, _)| background.of(&scenario(gpu, OF_PASSES, 32)));
            at.unwrap_err()
        };
        assert!(refused("{ sms: 48 }", "rtx-3070").contains("46 SMs: 48 cannot be held"));
        assert!(refused("{ streams: 2 }", "h200-sxm5-141gb").contains("`beside`: unknown field `streams`"));
    }
}
