//! The setting `machine` of an import.

use hw_models::catalogue;
use serde_json::{Value as Json, json};

use super::Options;
use super::command::Launched;
use super::tree::Said;
use crate::text::problem::Problem;
use crate::text::source::{SourceId, Sources};
use crate::text::yaml;

pub(super) const MACHINE: &str = "machine";

/// The setting as it is given, with as many nodes as the `ranks` of a plan need, or else a launcher
/// starts. `None`: another option says it.
pub(super) fn machine(
    options: &Options<'_>,
    ranks: Option<u64>,
    launched: Launched,
    source: SourceId,
    sources: &mut Sources,
) -> Result<Option<Said>, Vec<Problem>> {
    let Some(written) = options.machine else {
        let is_set = options.set.iter().any(|change| change.starts_with(MACHINE));
        let help = "add `--machine dgx-a100-80g`, or the setting as YAML: \
                    `--machine '{ cluster: { node: dgx-a100-80g, count: 4 } }'`";
        let missing = || Problem::new(source.start(), "the arguments do not say on which machine").help(help);
        return if is_set { Ok(None) } else { Err(vec![missing()]) };
    };
    let mut problems = Vec::new();
    let option = sources.add("--machine", written);
    let Some(node) = yaml::parse(sources, option, &mut problems) else { return Err(problems) };
    let said = |value| Ok(Some(Said { value, mark: option.start(), by: Some("--machine".to_owned()) }));
    let Some(name) = node.as_text() else { return said(serde_yaml::from_str(written).unwrap_or_default()) };
    let per_node = gpus_of_node(name);
    let processes = launched.per_node.or(per_node).unwrap_or(1);
    let gpus = ranks.unwrap_or_else(|| processes.saturating_mul(launched.nodes.unwrap_or(1)));
    let count = gpus.div_ceil(per_node.unwrap_or(gpus).max(1));
    said(if count > 1 {
        json!({ "cluster": { "node": name, "count": count } })
    } else {
        json!({ "node": name })
    })
}

/// GPUs of the machine that is given, as far as it is a node of the catalogue or nodes of one kind.
pub(super) fn gpus(options: &Options<'_>) -> Option<u64> {
    let machine: Json = serde_yaml::from_str(options.machine?).ok()?;
    let named = |node: &Json| node.as_str().or_else(|| node.get("name")?.as_str()).and_then(gpus_of_node);
    let Some(cluster) = machine.get("cluster") else {
        return named(machine.get("node").unwrap_or(&machine));
    };
    named(cluster.get("node")?)?.checked_mul(cluster.get("count")?.as_u64()?)
}

fn gpus_of_node(name: &str) -> Option<u64> {
    crate::catalogue::devices().nodes.get(name).map(catalogue::Node::gpus)
}
