//! Plans by rules of thumb, of those in a space: how Megatron-LM is configured by hand, what
//! DeepSpeed's autotuner tries, and what there is without moving anything.

use std::collections::BTreeSet;
use std::rc::Rc;

use reports::summary::{Alternative, RunSummary};

use super::super::Refusal;
use super::alternatives::told;
use super::group::Place;
use super::hunt::Hunt;
use super::space::Space;
use crate::plans;
use crate::schema::{Count, Scenario};

const RECOMPUTE: &str = "techniques.recompute";

/// A rule: of the plans that it takes, those with the lowest rank of which one fits; of these the
/// best, though by hand a worse one may be taken.
struct Rule {
    name: &'static str,
    source: &'static str,
    /// True if the rule tells something beside a best plan like this.
    applies: fn(&Settings) -> bool,
    /// Rank of a plan. `None`: the rule never takes it.
    rank: fn(&Settings) -> Option<u64>,
}

const RULES: [Rule; 4] = [
    Rule {
        name: "with all of it on GPUs",
        source: "plans that keep states and activations where they are used, whatever they compute again",
        applies: |best| best.moves,
        rank: |plan| (!plan.moves).then_some(0),
    },
    Rule {
        name: "without tensor ranks and stages",
        source: "what ZeRO of DeepSpeed has by itself, with all that may leave GPUs",
        applies: |best| best.moves,
        rank: |plan| plan.is_unsplit().then_some(0),
    },
    Rule {
        name: "by the rule of Megatron-LM",
        source: "Narayanan et al. 2021, takeaways 1 and 2: tensor ranks up to the GPUs of a node, then stages, \
                 no more of both than memory asks for; recomputation only where nothing fits without",
        applies: |_| true,
        rank: megatron,
    },
    Rule {
        name: "by a grid of ZeRO stages and micro-batches",
        source: "what DeepSpeed's autotuner tries, as far as the space has it: neither tensor ranks nor stages, \
                 nothing off the GPU",
        applies: |_| true,
        rank: autotuner,
    },
];

/// Settings of a plan that rules go by.
struct Settings {
    gpus_per_node: u64,
    tensor: u64,
    stages: u64,
    context: u64,
    /// False if tensor ranks might share sequences as well and do not.
    shares_sequences: bool,
    /// True if parameters or gradients are sharded.
    shards_gradients: bool,
    /// 0: no activations are computed again, 1: some, 2: all.
    recompute: u64,
    /// True if a technique but recomputation is used.
    moves: bool,
}

/// Rank by GPUs of a copy of the model, then by what is computed again.
fn megatron(plan: &Settings) -> Option<u64> {
    let ranks = plan.tensor * plan.stages;
    let fills_nodes = plan.tensor == ranks.min(plan.gpus_per_node);
    let plain = plan.context == 1 && plan.shares_sequences && !plan.shards_gradients && !plan.moves;
    (fills_nodes && plain).then_some(ranks * 3 + plan.recompute)
}

fn autotuner(plan: &Settings) -> Option<u64> {
    (plan.is_unsplit() && !plan.moves).then_some(0)
}

/// Plans of all rules beside the best one, which is at a place and has a run.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn plans(
    hunt: &mut Hunt<'_>,
    (place, best): (Place, &RunSummary),
) -> Result<Vec<Alternative>, Refusal> {
    let Ok(base) = hunt.space.scenario(place) else { return Ok(Vec::new()) };
    let of_group = |group| Settings::of_group(hunt.space, &base, group).collect();
    let settings: Vec<Vec<Settings>> = (0..hunt.space.groups.len()).map(of_group).collect();
    let (group, member) = place;
    let rules = RULES.iter().filter(|rule| (rule.applies)(&settings[group][member]));
    rules.map(|rule| rule.plan(hunt, &settings, best)).collect()
}

impl Rule {
    /// The best plan by the rule, of plans with settings by group and member.
    fn plan(
        &self,
        hunt: &mut Hunt<'_>,
        settings: &[Vec<Settings>],
        best: &RunSummary,
    ) -> Result<Alternative, Refusal> {
        let of_group = |plans: &Vec<Settings>| plans.iter().map(self.rank).collect();
        let ranks: Rc<Vec<Vec<Option<u64>>>> = Rc::new(settings.iter().map(of_group).collect());
        let cells: BTreeSet<u64> = ranks.iter().flatten().flatten().copied().collect();
        let mut found = Some(None);
        for cell in cells {
            let ranks = Rc::clone(&ranks);
            found = hunt.part(Box::new(move |(group, member)| ranks[group][member] == Some(cell)))?;
            if !matches!(found, Some(None)) {
                break;
            }
        }
        let alternative = Alternative {
            name: self.name.to_owned(),
            source: Some(self.source.to_owned()),
            ..Alternative::default()
        };
        told(hunt.space, best, alternative, found)
    }
}

impl Settings {
    /// True if copies of the model, which may share their states, are on one GPU each.
    fn is_unsplit(&self) -> bool {
        [self.tensor, self.stages, self.context] == [1; 3]
    }

    /// Settings of the plans of a group; what no axis says is as in `base`.
    fn of_group(space: &Space<'_>, base: &Scenario, group: usize) -> impl Iterator<Item = Self> {
        let values = space.values((group, 0));
        let text = |path: &str| values.get(path).map(String::as_str);
        let written = |path: &str| text(path)?.parse().ok();
        let [tensor, context] = [base.parallelism.tensor, base.parallelism.context];
        let tensor = written("parallelism.tensor").unwrap_or(tensor.map_or(1, Count::get));
        let context = written("parallelism.context").unwrap_or(context.map_or(1, Count::get));
        let gpus_per_node = plans::machine::of(base).map_or(1, |machine| machine.gpus_per_node().into());
        let shares_sequences = tensor == 1 || text("parallelism.sequence_parallel") != Some("false");
        let shards_gradients = matches!(text("parallelism.sharding"), Some("gradients" | "parameters"));
        let recompute = match text(RECOMPUTE) {
            None | Some("none") => 0,
            Some(text) if text.contains("selective") => 1,
            Some(_) => 2,
        };
        let technique = |path: &str| path.starts_with("techniques.") && path != RECOMPUTE;
        let moves = values.iter().any(|(path, value)| technique(path) && value != "none");
        let stages_of_base = base.stages() as u64;
        let splits = &space.groups[group].splits;
        splits.iter().map(move |split| Self {
            gpus_per_node,
            tensor,
            stages: split.stages.unwrap_or(stages_of_base),
            context,
            shares_sequences,
            shards_gradients,
            recompute,
            moves,
        })
    }
}
