//! Changes of a scenario that may make it fit, in the order in which they are tried: what costs
//! least comes first.

use hw_models::machine::{Choice, GpuSettings};
use workloads::passes::Saving;

use super::features;
use crate::plans;
use crate::schema::{
    Count, GatherLimit, Machine, Model, Scenario, Schedule, Sharding, SingleNode, Techniques,
};

/// Paths of settings, each with its value as YAML.
pub(super) type Settings = Vec<(String, String)>;

/// A change of a scenario.
#[derive(Clone)]
pub(super) struct Change {
    /// Ways to write it; the first counts that passes all checks and leaves the work of a step as
    /// it is.
    pub(super) ways: Vec<Settings>,
    /// Ranks with it.
    pub(super) ranks: u64,
    /// Its effects, as clauses.
    pub(super) effects: Vec<&'static str>,
}

/// Changes of one kind, of which each takes less memory, and more time, than those before it.
#[derive(Clone)]
pub(super) struct Family {
    pub(super) steps: Vec<Change>,
}

impl Change {
    /// Both changes.
    pub(super) fn and(&self, other: &Self) -> Self {
        let both = |a: &Settings| other.ways.iter().map(|b| [&a[..], b].concat()).collect::<Vec<_>>();
        Self {
            ways: self.ways.iter().flat_map(both).collect(),
            ranks: self.ranks,
            effects: [&self.effects[..], &other.effects].concat(),
        }
    }
}

impl Family {
    pub(super) fn one(change: Change) -> Self {
        Self { steps: vec![change] }
    }

    /// Each of its changes with the last of another.
    pub(super) fn and(&self, other: &Self) -> Self {
        let both = |step: &Change| other.steps.last().map_or(step.clone(), |last| step.and(last));
        Self { steps: self.steps.iter().map(both).collect() }
    }

    /// The change that takes least memory, alone.
    pub(super) fn last(&self) -> Self {
        Self { steps: self.steps.last().cloned().into_iter().collect() }
    }

    /// Trials until the first step that fits is found, at most, with one of segments that grow.
    pub(super) fn trials(&self) -> u32 {
        self.steps.len().checked_ilog2().map_or(0, |log| log + 2)
    }
}

/// Single changes on the same GPUs, but for [`growing_segments`] and what copies share.
pub(super) fn singles(scenario: &Scenario) -> Vec<Family> {
    let before = Before { scenario, ranks: plans::ranks(scenario) };
    let mut families = Vec::new();
    families.extend(before.waiting());
    families.extend(before.balanced());
    families.extend(Techniques::savings(before.layers()).into_iter().map(|saving| before.technique(saving)));
    families.extend(features::families(&before));
    families.extend(before.smaller_micro_batches());
    families.extend(before.deeper());
    families
}

/// More that copies of the model share, from the states of the optimizer to all.
pub(super) fn shared(scenario: &Scenario) -> Vec<Family> {
    let before = Before { scenario, ranks: plans::ranks(scenario) };
    let family = |(ways, effect)| Family::one(before.change(ways, effect));
    before.shared().into_iter().map(family).collect()
}

/// Segments that grow, where they do not yet.
pub(super) fn growing_segments(scenario: &Scenario) -> Option<Change> {
    let grow = scenario.memory.allocator.is_some_and(|allocator| allocator.expandable_segments);
    let before = Before { scenario, ranks: plans::ranks(scenario) };
    let ways = vec![vec![said("memory.allocator.expandable_segments", &"true")]];
    (!grow).then(|| before.change(ways, "segments that grow leave no gaps"))
}

/// Layouts of a model over several times the GPUs, with machines of as many.
pub(super) fn layouts_on_more(scenario: &Scenario, times: u64) -> Vec<Family> {
    let before = Before { scenario, ranks: plans::ranks(scenario) };
    let parallelism = &scenario.parallelism;
    let [tensor, data] = [parallelism.tensor, parallelism.data].map(|count| count.map_or(1, Count::get));
    let stages = scenario.stages() as u64;
    let accumulate = scenario.training.accumulate.map_or(1, Count::get);
    let mut families = Vec::new();
    let mut on_more = |settings: &[(&str, u64)], shared: bool, effect: &'static str| {
        let shared = shared.then(|| said("parallelism.sharding", &"parameters"));
        let layout: Settings = settings.iter().map(|(path, value)| said(path, value)).chain(shared).collect();
        let on_machine = before.machine(times).map(|machine| [&layout[..], &[machine]].concat());
        families.push(Family::one(Change {
            ways: [layout].into_iter().chain(on_machine).collect(),
            ranks: before.ranks * times,
            effects: vec![effect],
        }));
    };
    on_more(&[("parallelism.pipeline", stages * times)], false, "each GPU has fewer layers");
    on_more(&[("parallelism.tensor", tensor * times)], false, "more GPUs share each layer");
    if accumulate.is_multiple_of(times) {
        let settings = [("parallelism.data", data * times), ("training.accumulate", accumulate / times)];
        on_more(&settings, true, "more copies of the model share all that they hold");
    }
    families
}

/// A scenario before it is changed.
pub(super) struct Before<'a> {
    pub(super) scenario: &'a Scenario,
    ranks: u64,
}

impl Before<'_> {
    pub(super) fn change(&self, ways: Vec<Settings>, effect: &'static str) -> Change {
        Change { ways, ranks: self.ranks, effects: vec![effect] }
    }

    fn one(&self, path: &str, value: &str, effect: &'static str) -> Family {
        Family::one(self.change(vec![vec![said(path, &value)]], effect))
    }

    /// Copies of the model.
    fn copies(&self) -> u64 {
        let parallelism = &self.scenario.parallelism;
        parallelism.data.map_or(1, Count::get) * parallelism.context.map_or(1, Count::get)
    }

    /// Layers of each chunk of a stage; 0 where a model is none of layers alike.
    fn layers(&self) -> u32 {
        let Model::Transformer(model) = &self.scenario.model else { return 0 };
        let chain = self.scenario.parallelism.schedule.chain(self.scenario.stages() as u32);
        model.layers.map_or(0, |layers| layers.get() as u32 / (chain.stages * chain.chunks).max(1))
    }

    /// A host that waits for memory to come back, where it takes memory as far ahead of its device
    /// as it is.
    fn waiting(&self) -> Option<Family> {
        let gather = self.scenario.parallelism.overlap_parameter_gather.as_ref()?;
        let effect = "the host gathers parameters only as memory comes back";
        (gather.limit == GatherLimit::None)
            .then(|| self.one("parallelism.overlap_parameter_gather.limit", "host", effect))
    }

    /// The plain schedule.
    fn balanced(&self) -> Option<Family> {
        let effect = "a backward pass begins as soon as it can";
        (self.scenario.parallelism.schedule != Schedule::OneFOneB)
            .then(|| self.one("parallelism.schedule", "1f1b", effect))
    }

    /// A technique; where copies of the model must share more for it, they do.
    fn technique(&self, Saving { technique, settings, effect }: Saving) -> Family {
        let path = format!("techniques.{technique}");
        let step = |value: &String| {
            let alone = vec![said(&path, value)];
            let shared = self.shared().into_iter().flat_map(|(sharing, _)| sharing);
            let beside = shared.map(|sharing| [&alone[..], &sharing].concat());
            let ways = [alone.clone()].into_iter().chain(beside).collect();
            self.change(ways, effect)
        };
        Family { steps: settings.iter().map(step).collect() }
    }

    /// Smaller micro-batches, more of them.
    fn smaller_micro_batches(&self) -> Option<Family> {
        let training = &self.scenario.training;
        let (one, many) = (training.micro_batch?.get(), training.accumulate?.get());
        let halves = (1..=one.trailing_zeros()).map(|halvings| {
            let smaller = said("training.micro_batch", &(one >> halvings));
            let more = said("training.accumulate", &(many << halvings));
            let effect = "smaller micro-batches save less at a time";
            self.change(vec![vec![smaller.clone()], vec![smaller, more]], effect)
        });
        let steps: Vec<Change> = halves.collect();
        (!steps.is_empty()).then_some(Family { steps })
    }

    /// Settings of what copies share beyond what they do, and its effect.
    fn shared(&self) -> Vec<(Vec<Settings>, &'static str)> {
        let levels = [
            (Sharding::Optimizer, "optimizer", "copies of the model share the states of the optimizer"),
            (Sharding::Gradients, "gradients", "copies of the model share states and gradients"),
            (Sharding::Parameters, "parameters", "copies of the model share all that they hold"),
        ];
        let now = self.scenario.parallelism.sharding.unwrap_or_default();
        let further = levels.into_iter().filter(|(level, ..)| self.copies() > 1 && *level > now);
        let ways = further.map(|(_, word, effect)| {
            let sharding = said("parallelism.sharding", &word);
            // A file may say the same in other words.
            let instead = said("parallelism.distributed_optimizer", &"none");
            (vec![vec![sharding.clone()], vec![sharding, instead]], effect)
        });
        ways.collect()
    }

    /// Twice as many tensor ranks or stages, half as many copies.
    fn deeper(&self) -> Vec<Family> {
        let parallelism = &self.scenario.parallelism;
        let Some(data) = parallelism.data.map(Count::get).filter(|data| data.is_multiple_of(2)) else {
            return Vec::new();
        };
        if !matches!(self.scenario.model, Model::Transformer(_)) {
            return Vec::new();
        }
        let many = self.scenario.training.accumulate.map_or(1, Count::get);
        let directions = [
            (
                "parallelism.tensor",
                parallelism.tensor.map_or(1, Count::get),
                "twice as many GPUs share each layer",
            ),
            ("parallelism.pipeline", self.scenario.stages() as u64, "each GPU has half of the layers"),
        ];
        let family = |(path, now, effect): (&str, u64, &'static str)| {
            let deeper = said(path, &(2 * now));
            let fewer = [said("parallelism.data", &(data / 2)), said("training.accumulate", &(2 * many))];
            let both = [&[deeper.clone()][..], &fewer].concat();
            Family::one(self.change(vec![vec![deeper], both], effect))
        };
        directions.into_iter().map(family).collect()
    }

    /// A setting of several times the machine; `None` where parts are spelled out or nodes differ.
    fn machine(&self, times: u64) -> Option<(String, String)> {
        match self.scenario.machine.as_ref()? {
            Machine::Cluster(cluster) if cluster.more.is_empty() => {
                Some(said("machine.cluster.count", &(cluster.count.get() * times)))
            }
            Machine::Node(SingleNode { name, gpu, set, degrade }) if set.is_empty() && degrade.is_empty() => {
                // A JSON text is one in YAML, too.
                let written = |gpu: &Choice<GpuSettings>| match gpu {
                    Choice::Named(name) => name.clone(),
                    Choice::Described(gpu) => reports::json::value(gpu).unwrap_or_default().to_string(),
                };
                let gpu = gpu.as_ref().map_or(String::new(), |gpu| format!(", gpu: {}", written(gpu)));
                Some(said("machine", &format!("{{ cluster: {{ node: {name}, count: {times}{gpu} }} }}")))
            }
            Machine::Cluster(_) | Machine::Node(_) | Machine::Parts(_) => None,
        }
    }
}

pub(super) fn said(path: &str, value: &impl ToString) -> (String, String) {
    (path.to_owned(), value.to_string())
}
