//! What a run that fits measured.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use hw_models::catalogue::Gpu;
use indexmap::IndexMap;
use reports::summary::{DevicePeak, LinkUse, RankTime, ResourceUse, RunSummary, Uncertainty};
use sim_core::id::FluidId;
use sim_core::noise::{Noise, Pause};
use sim_core::outcome::{ByCause, Run};
use sim_core::platform::Fluid;
use sim_core::time::Time;
use workloads::lower::{Lowered, RankIds};
use workloads::names::{cause, kind};
use workloads::plan::Built;

use super::asked::{Asked, asked, bounds};
use super::communication::communication;
use super::drawing::link_kind;
use super::drives::drives;
use super::epoch_parts;
use super::idle::idle_gpus;
use super::lasting;
use super::power;
use super::ranks;
use super::tally::Tally;
use super::uncertainty::{Evidence, uncertainty};
use super::words::Words;
use crate::catalogue;
use crate::plans;
use crate::schema::{Count, Launch, Scenario, Share, Software};

/// Steps are steady when their times differ by no more than this, relative.
const STEADY: f64 = 1e-9;

/// A completed run.
#[derive(Clone, Copy)]
pub(super) struct Measured<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) built: &'a Built,
    pub(super) words: &'a Words<'a>,
    pub(super) run: &'a Run,
    /// Where its time goes by kind; none for a profile.
    pub(super) tally: Option<&'a Tally<'a>>,
}

/// The measured steps of one rank.
struct Window {
    start: Time,
    end: Time,
    spent: ByCause,
}

impl Measured<'_> {
    /// Fills in everything a run that fits says.
    pub(super) fn describe(&self, summary: &mut RunSummary) {
        summary.fits = true;
        summary.micro_batches = Some(self.scenario.training.micro_batches());
        summary.bubble_fraction = self.bubble_fraction();
        summary.steady = self.steady();
        summary.idle_gpus = idle_gpus(self.scenario);
        summary.peak_memory_bytes = self.peaks();
        summary.peak_activation_bytes = summary.peak_memory_bytes.iter().map(activations).max();
        let fullest = summary.worst_device().map(|device| device.peak_bytes as f64);
        summary.peak_memory_interval_bytes =
            fullest.map(|bytes| catalogue::step_spreads().of_memory(bytes).map(|end| end.round() as u64));
        summary.resources = self.resources();
        summary.links = self.links();
        summary.critical_path_s = self.critical_path();
        let by_rank = self.by_rank();
        let busy_s: Vec<f64> = by_rank.iter().map(power::busy_s).collect();
        let asked = self.asked();
        self.set_breakdown(summary, &asked, by_rank);
        self.set_step_time(summary, self.step_time_s());
        summary.provenance = IndexMap::from([("given in the scenario".to_owned(), 1.0)]);
        if let Some((tally, accounts)) = self.tally.zip(self.built.accounts.as_ref()) {
            let steps = self.measured_steps();
            summary.communication = communication(self.lowered(), accounts, tally, steps);
            summary.power = power::power(self.scenario, (self.lowered(), self.run, &asked), &busy_s, summary);
            summary.provenance = tally.provenance(self.slowest(summary));
            summary.drives =
                drives((self.built, accounts), (self.run, tally), self.words, (steps, self.step_time_s()));
            let years = summary.drives.iter().filter_map(|array| array.lifetime_years);
            summary.drive_lifetime_years = years.reduce(f64::min);
        }
    }

    /// The rank that keeps the others waiting.
    fn slowest(&self, summary: &RunSummary) -> usize {
        let named = summary.slowest_rank.as_ref().and_then(|rank| self.words.rank_called(&rank.name));
        named.unwrap_or(0)
    }

    /// By rank, the demand of its kernels over all steps; nothing where no kernels are known.
    pub(super) fn asked(&self) -> Vec<Asked> {
        let Some(accounts) = &self.built.accounts else { return Vec::new() };
        let machine = plans::machine::of(self.scenario).ok();
        let gpus = machine.iter().flat_map(|machine| plans::machine::gpus(machine, self.scenario));
        let gpus: Vec<&Gpu> = gpus.map(|(_, gpu)| gpu).collect();
        asked(self.lowered(), accounts, &gpus)
    }

    /// The errors of the time of a step.
    fn uncertainty(&self, summary: &RunSummary) -> Option<Uncertainty> {
        let machine = plans::machine::of(self.scenario).ok()?;
        let slowest = self.slowest(summary);
        let stage = slowest / ranks::replicas(self.lowered());
        let gpu = *plans::machine::gpus(&machine, self.scenario).get(stage)?;
        let launch = self.scenario.software.as_ref().map_or(Launch::Eager, Software::launched);
        let evidence = Evidence { constants: &self.scenario.constants, gpu, launch };
        let path = &summary.critical_path_s;
        let host = path.get(cause::LAUNCH).copied().unwrap_or_default() / path.values().sum::<f64>();
        uncertainty(evidence, host, self.tally?.spent(slowest))
    }

    /// The time of a step and what follows from it.
    pub(super) fn set_step_time(&self, summary: &mut RunSummary, step_time_s: f64) {
        summary.step_time_s = Some(step_time_s);
        summary.step_time_uncertainty = self.uncertainty(summary);
        summary.step_time_interval_s =
            summary.step_time_uncertainty.as_ref().map(|errors| errors.interval(step_time_s));
        let batch = self.scenario.training.global_batch.map(Count::get);
        summary.samples_per_s = batch.map(|samples| samples as f64 / step_time_s);
        let steps = plans::steps(self.scenario) * plans::micro_batches_per_flush(self.scenario).max(1);
        let parts = |batches| epoch_parts::parts(self.lowered(), self.run, steps, batches);
        let first_s = self.window(0).start.as_secs();
        summary.epoch = plans::network::epoch(self.scenario, step_time_s, first_s, parts);
        if let Some(effort) = plans::effort(self.scenario) {
            summary.tokens_per_s = effort.tokens.map(|tokens| tokens / step_time_s);
            summary.mfu = effort.mfu(step_time_s);
        }
    }

    /// The mean distance between successive step marks on the rank where it is longest. For a single step that is the
    /// longest span of a rank, from its own first start to its own last end: the cost of Qi et al. 2024.
    pub(super) fn step_time_s(&self) -> f64 {
        let longest = self.windows().map(|window| window.end - window.start).max().unwrap_or(Time::ZERO);
        longest.as_secs() / self.measured_steps()
    }

    /// Steps of a window: without flush the warm-up cannot be told from the rest.
    fn measured_steps(&self) -> f64 {
        if self.scenario.training.flush {
            self.scenario.run.steps.measured.get() as f64
        } else {
            f64::from(plans::steps(self.scenario))
        }
    }

    /// The measured steps of every rank: from the end of the warm-up, or without one from its own first start.
    fn windows(&self) -> impl Iterator<Item = Window> + '_ {
        (0..self.lowered().ranks.len()).map(|rank| self.window(rank))
    }

    fn window(&self, rank: usize) -> Window {
        let stream = &self.run.streams[self.lowered().ranks[rank].compute.index()];
        let first = first_mark(self.scenario) as usize;
        let last = stream.marks.len() - 1;
        let mut spent = stream.spent_at_marks[last];
        for (total, before) in spent.iter_mut().zip(&stream.spent_at_marks[first]) {
            *total = *total - *before;
        }
        Window { start: stream.marks[first], end: stream.marks[last], spent }
    }

    /// max over ranks of (own span - busy) / own span, over the last step: the cost of Qi et al. 2024. A rank of a
    /// transformer is busy in collectives of its stage, too: what is left is waiting for other stages. None without any.
    fn bubble_fraction(&self) -> Option<f64> {
        if self.lowered().stages.len() < 2 {
            return None;
        }
        let position = |name| cause::ALL.iter().position(|&known| known == name);
        let work = [position(cause::COMPUTE)?, position(cause::RECOMPUTE)?];
        let bubble = |(rank, ids): (usize, &RankIds)| {
            let stream = &self.run.streams[ids.compute.index()];
            let [start, end] = [stream.marks.len() - 2, stream.marks.len() - 1];
            let busy = work.map(|w| stream.spent_at_marks[end][w] - stream.spent_at_marks[start][w]);
            let span = stream.marks[end] - stream.marks[start];
            let collectives = self.tally.map_or(Time::ZERO, |tally| tally.within_stage(rank));
            1.0 - (busy[0] + busy[1] + collectives).0 as f64 / span.0 as f64
        };
        self.lowered().ranks.iter().enumerate().map(bubble).reduce(f64::max)
    }

    /// True if steps repeat: stores and buckets are at the end where they were at the start, and
    /// successive steps took equally long on every rank. Unknown for a single one that may repeat.
    fn steady(&self) -> Option<bool> {
        let buckets = lasting::buckets(self.lowered(), self.run);
        if !lasting::all_returned(&buckets) || !self.stores_have_returned() {
            return Some(false);
        }
        if self.scenario.run.steps.measured.get() < 2 || !self.scenario.training.flush {
            return None;
        }
        let warm_up = self.scenario.run.steps.warm_up.get() as usize;
        let steady = |ids: &RankIds| {
            let marks = &self.run.streams[ids.compute.index()].marks;
            let ends: Vec<Time> = marks.iter().skip(1).step_by(2).copied().collect();
            let steps: Vec<Time> =
                ends[warm_up.saturating_sub(1)..].windows(2).map(|pair| pair[1] - pair[0]).collect();
            let longest = steps.iter().max().map_or(0.0, |t| t.as_secs());
            let shortest = steps.iter().min().map_or(0.0, |t| t.as_secs());
            longest - shortest <= STEADY * longest
        };
        Some(self.lowered().ranks.iter().all(steady))
    }

    /// True if every store holds as many bytes at the end as at the start.
    fn stores_have_returned(&self) -> bool {
        let mut held = vec![0; self.run.stores.len()];
        for &(store, _, bytes) in &self.lowered().start.stores {
            held[store.index()] += bytes;
        }
        let at_end = self.run.stores.iter().map(|store| store.held.iter().sum::<u64>());
        held.into_iter().eq(at_end)
    }

    /// How every rank spent a step, by cause. Beside its own span a rank is idle until the step of the slowest has passed.
    pub(super) fn by_rank(&self) -> Vec<IndexMap<String, f64>> {
        let step = self.step_time_s();
        let steps = self.measured_steps();
        let spent = |window: Window| {
            let mut times = self.words.by_cause(&window.spent);
            for time in times.values_mut() {
                *time /= steps;
            }
            let own = (window.end - window.start).as_secs() / steps;
            if step > own {
                *times.entry(cause::IDLE.to_owned()).or_default() += step - own;
            }
            times
        };
        self.windows().map(spent).collect()
    }

    /// Fills in where the time of a step goes, from that of every rank.
    pub(super) fn set_breakdown(
        &self,
        summary: &mut RunSummary,
        asked: &[Asked],
        by_rank: Vec<IndexMap<String, f64>>,
    ) {
        summary.time_breakdown_s = mean_by_cause(&by_rank);
        summary.kernel_time_s = bounds(asked, &by_rank, f64::from(plans::steps(self.scenario)));
        let groups = ranks::groups(self.lowered(), by_rank);
        summary.ranks = groups
            .into_iter()
            .map(|(rank, time_breakdown_s)| RankTime { name: self.words.rank(rank), time_breakdown_s })
            .collect();
        let busy = |rank: &&RankTime| {
            let work = [cause::COMPUTE, cause::RECOMPUTE];
            work.iter().filter_map(|word| rank.time_breakdown_s.get(*word)).sum::<f64>()
        };
        // Of equally busy ranks the first.
        summary.slowest_rank = summary.ranks.iter().rev().max_by(|a, b| busy(a).total_cmp(&busy(b))).cloned();
    }

    fn peaks(&self) -> Vec<DevicePeak> {
        let chunks = u64::from(self.built.chunks);
        let peak = |ids: &RankIds| {
            let peak = &self.run.stores[ids.memory.index()].peak;
            DevicePeak {
                device: String::new(),
                // Storages of blocks may be more than the tensors that the allocator has room for.
                capacity_bytes: Words::capacity(ids).filter(|&capacity| capacity >= peak.bytes),
                peak_bytes: peak.bytes,
                at_s: peak.at.as_secs(),
                operation: peak.place.as_ref().map(|place| self.words.operation(place)),
                by_kind_bytes: self.words.by_kind(&peak.by_kind),
                resident_micro_batches: Some(
                    self.run.stores[ids.resident.index()].peak.bytes.div_ceil(chunks),
                ),
            }
        };
        let peaks = ranks::groups(self.lowered(), self.lowered().ranks.iter().map(peak).collect());
        let named = |(rank, peak)| DevicePeak { device: self.words.rank(rank), ..peak };
        peaks.into_iter().map(named).collect()
    }

    /// What links carried per step: between the partners of a profiled pipeline, or the busiest of a machine.
    fn resources(&self) -> Vec<ResourceUse> {
        /// The most links of a machine that are told.
        const SHOWN: usize = 32;
        if self.scenario.model.profile().is_some() {
            return self.lowered().partner_links.iter().map(|&fluid| self.used(fluid)).collect();
        }
        let fluids = (0..self.run.fluids.len()).map(FluidId::from);
        let mut used: Vec<ResourceUse> =
            fluids.map(|fluid| self.used(fluid)).filter(|used| used.bytes > 0).collect();
        used.sort_by(|a, b| b.utilisation.partial_cmp(&a.utilisation).unwrap_or(Ordering::Equal));
        used.truncate(SHOWN);
        used
    }

    /// The links of a machine that were used most, busiest first.
    fn links(&self) -> Vec<LinkUse> {
        /// The most that are told.
        const SHOWN: usize = 32;
        let Ok(machine) = plans::machine::of(self.scenario) else { return Vec::new() };
        let fluids = &machine.resources().links;
        // Both directions of a half-duplex link are one.
        let mut told = BTreeSet::new();
        let once = machine.links().filter(|link| told.insert(fluids[link.index()]));
        let used = once.map(|link| {
            let ResourceUse { name, bytes, utilisation } = self.used(fluids[link.index()]);
            let kind = link_kind(machine.link(link).kind);
            LinkUse { name, kind, bytes, utilisation: utilisation.unwrap_or(f64::NAN) }
        });
        let mut used: Vec<LinkUse> = used.filter(|link| link.bytes > 0).collect();
        used.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
        used.truncate(SHOWN);
        used
    }

    fn used(&self, fluid: FluidId) -> ResourceUse {
        let bytes = self.run.fluids[fluid.index()].served as f64;
        let fluid = &self.lowered().platform.fluids[fluid.index()];
        let possible = possible(fluid, self.run.time.as_secs());
        ResourceUse {
            name: fluid.name.clone(),
            bytes: (bytes / f64::from(plans::steps(self.scenario))) as u64,
            utilisation: Some(bytes / possible),
        }
    }

    /// The critical path of a step: that between the marks of the rank whose window is the step time, so that it adds up
    /// to it.
    pub(super) fn critical_path(&self) -> IndexMap<String, f64> {
        let window = |(rank, ids): (usize, &RankIds)| {
            let Window { start, end, .. } = self.window(rank);
            (end - start, &self.run.streams[ids.compute.index()].critical)
        };
        // Of equally long windows the first.
        let longest = self.lowered().ranks.iter().enumerate().map(window).rev().max_by_key(|(time, _)| *time);
        let mut path = longest.map_or_else(IndexMap::new, |(_, path)| self.words.by_cause(path));
        for time in path.values_mut() {
            *time /= self.measured_steps();
        }
        path
    }

    fn lowered(&self) -> &Lowered {
        &self.built.lowered
    }
}

/// What a fluid can carry in a time: tokens of its bucket let it run at its burst rate until that is empty.
fn possible(fluid: &Fluid, seconds: f64) -> f64 {
    let sustained = fluid.capacity.units_per_second() * seconds;
    fluid.bucket.map_or(sustained, |bucket| {
        (bucket.burst.units_per_second() * seconds).min(sustained + bucket.tokens as f64)
    })
}

/// What a device holds of activations, wherever they are from, and of workspaces.
fn activations(device: &DevicePeak) -> u64 {
    let kinds = [
        kind::ACTIVATIONS,
        kind::FOR_WEIGHT_GRADIENTS,
        kind::HELD_FOR_PARTNER,
        kind::RECOMPUTED,
        kind::WORKSPACE,
    ];
    kinds.iter().filter_map(|kind| device.by_kind_bytes.get(*kind)).sum()
}

/// The mean of several breakdowns, cause by cause.
pub(super) fn mean_by_cause(all: &[IndexMap<String, f64>]) -> IndexMap<String, f64> {
    let mean = |word: &&str| {
        let total: f64 = all.iter().filter_map(|times| times.get(*word)).sum();
        (total > 0.0).then(|| ((*word).to_owned(), total / all.len() as f64))
    };
    cause::ALL.iter().filter_map(mean).collect()
}

/// The mark of a rank at which its measured steps begin: the end of its warm-up, or its own first start.
pub(super) fn first_mark(scenario: &Scenario) -> u32 {
    // Without flush all steps lie between one pair of marks.
    let warm_up = if scenario.training.flush { scenario.run.steps.warm_up.get() as u32 } else { 0 };
    (2 * warm_up).saturating_sub(1)
}

/// The noise of a scenario.
pub(super) fn noise(scenario: &Scenario) -> Noise {
    let Some(noise) = &scenario.run.noise else { return Noise::default() };
    Noise {
        device: noise.device.map_or(0.0, Share::as_f64),
        operation: noise.operation.map_or(0.0, Share::as_f64),
        pause: noise.pause.as_ref().map(|pause| Pause {
            every: Time(pause.every.picoseconds()),
            lasting: Time(pause.lasting.picoseconds()),
        }),
    }
}
