//! Parts by name: `node[3].gpu[2]`, `fabric.rail[5]`, or as spelled out.

use crate::catalogue::nearest::{closest, remedy};

use super::error::UnknownPart;
use super::part::{DirectedLink, PartId};
use super::{Machine, MachineError};

impl Machine {
    /// The part called `name`.
    ///
    /// # Errors
    /// If there is none; the error proposes the nearest name.
    pub fn part_named(&self, name: &str) -> Result<PartId, UnknownPart> {
        let unknown = |remedy: String| UnknownPart { name: name.to_owned(), remedy };
        if !self.numbered_nodes {
            let node = self.node(0);
            let names: Vec<&str> = node.graph.parts.iter().map(|part| part.name.as_str()).collect();
            return match node.graph.by_name.get(name) {
                Some(&part) => Ok(node.part(part)),
                None => Err(unknown(remedy(name, &names, "part"))),
            };
        }
        if name.starts_with("fabric.") {
            let parts = self.fabric.as_ref().map_or(0, super::fabric::FabricPlan::parts);
            let base = self.groups.parts();
            return (base..base + parts)
                .map(PartId)
                .find(|&part| self.part(part).name == name)
                .ok_or_else(|| unknown(self.fabric_remedy()));
        }
        let Some((node, local)) = name.strip_prefix("node[").and_then(|rest| rest.split_once("].")) else {
            return Err(unknown("write `node[0].gpu[0]`, or `fabric.spine`".to_owned()));
        };
        let Some(node) = node.parse::<u32>().ok().and_then(|node| self.groups.node(node)) else {
            return Err(unknown(format!("its nodes are `node[0]` to `node[{}]`", self.nodes() - 1)));
        };
        let Some(&part) = node.graph.by_name.get(local) else {
            let names = node.graph.parts.iter().map(|part| part.name.as_str());
            let number = node.number;
            return Err(unknown(match closest(local, names) {
                Some(near) => format!("did you mean `node[{number}].{near}`?"),
                None => {
                    format!("its GPUs are `node[{number}].gpu[0]` to `gpu[{}]`", node.graph.gpus.len() - 1)
                }
            }));
        };
        Ok(node.part(part))
    }

    /// The direction of a link written as `FROM -> TO`.
    ///
    /// # Errors
    /// If there is none; the error names the neighbours of `FROM`.
    pub fn link_named(&self, name: &str) -> Result<DirectedLink, MachineError> {
        let unknown = |remedy: String| {
            let text = format!("`{name}` is no link of this machine: write `FROM -> TO`{remedy}");
            MachineError::of(name, text)
        };
        let Some((from, to)) = name.split_once("->") else {
            let example = self.links().next().map(|link| self.link_name(link));
            return Err(unknown(example.map_or(String::new(), |name| format!(", for example `{name}`"))));
        };
        let (from, to) = (self.part_named(from.trim())?, self.part_named(to.trim())?);
        self.link_between(from, to).ok_or_else(|| {
            let neighbours: Vec<String> = self
                .links_from(from)
                .take(NEIGHBOURS_SHOWN)
                .map(|link| format!("`{}`", self.part(self.link(link).to).name))
                .collect();
            unknown(format!("; `{}` is linked to {}", self.part(from).name, neighbours.join(", ")))
        })
    }

    /// The name of a direction of a link, `FROM -> TO`.
    ///
    /// # Panics
    /// If the number is not of this machine.
    pub fn link_name(&self, link: DirectedLink) -> String {
        let link = self.link(link);
        format!("{} -> {}", self.part(link.from).name, self.part(link.to).name)
    }

    fn fabric_remedy(&self) -> String {
        match &self.fabric {
            None => "a machine of one node has no fabric".to_owned(),
            Some(fabric) if fabric.inner == 0 => "the only part of this fabric is `fabric.spine`".to_owned(),
            Some(fabric) => format!(
                "the parts of this fabric are `{}` to `{}` and `fabric.spine`",
                fabric.name(0),
                fabric.name(fabric.inner - 1)
            ),
        }
    }
}

/// How many neighbours an error names.
const NEIGHBOURS_SHOWN: usize = 8;
