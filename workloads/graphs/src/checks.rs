//! Faults of statistics that are written.

use std::collections::BTreeMap;

use crate::settings::{
    DegreeSettings, EstimatedRelations, LARGEST, MOST_TYPES, Problem, RelationSettings, Statistics, places,
};

/// All that is wrong with statistics.
pub(crate) fn problems(statistics: &Statistics) -> Vec<Problem> {
    let mut found = Vec::new();
    nodes(statistics, &mut found);
    if !found.is_empty() {
        // Relations are judged by the nodes that they connect.
        return found;
    }
    relations(statistics, &mut found);
    let nodes: u64 = statistics.types().iter().map(|of| of.nodes).sum();
    if statistics.training_nodes.is_some_and(|training| training == 0 || training > nodes) {
        found.push(Problem::new(
            "training_nodes",
            format!("must be from 1 to the {nodes} nodes"),
            format!("write `training_nodes: {nodes}` to train on all"),
        ));
    }
    if statistics.features.is_some_and(|width| width == 0 || width > 1_000_000) {
        found.push(Problem::new(
            "features",
            "must be from 1 to 1000000",
            "write features of a node, such as `features: 128`",
        ));
    }
    if statistics.reach.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        found.push(Problem::new(
            "reach",
            "must be a share above 0, up to 1",
            "leave it out, or write `reach: 0.1`",
        ));
    }
    found
}

fn nodes(statistics: &Statistics, found: &mut Vec<Problem>) {
    let counts: Vec<(String, u64)> = match (&statistics.nodes, &statistics.node_types) {
        (Some(nodes), None) => vec![("nodes".to_owned(), *nodes)],
        (None, Some(types)) => {
            types.iter().map(|(name, nodes)| (format!("node_types.{name}"), *nodes)).collect()
        }
        (Some(_), Some(_)) => {
            found.push(Problem::new("nodes", "stands beside `node_types`", "remove one of them"));
            return;
        }
        (None, None) => Vec::new(),
    };
    if counts.is_empty() || counts.len() > MOST_TYPES {
        found.push(Problem::new(
            "nodes",
            format!("must be given, for at most {MOST_TYPES} types"),
            "write `nodes: 1000`, or `node_types: { paper: 1000, author: 200 }`",
        ));
    }
    for (setting, nodes) in counts {
        if nodes == 0 || nodes > LARGEST {
            found.push(Problem::new(
                setting,
                format!("must be from 1 to {LARGEST}, not {nodes}"),
                "write the number of nodes, or remove the type",
            ));
        }
    }
    let most = statistics.nodes.unwrap_or_default().min(MOST_TYPES as u64);
    if let Some(count) = statistics.estimated_node_types
        && (count == 0 || count > most || statistics.node_types.is_some())
    {
        found.push(Problem::new(
            "estimated_node_types",
            "must be from 1 to `nodes`, and stand without `node_types`",
            "write `estimated_node_types: 1`, or remove it",
        ));
    }
}

fn relations(statistics: &Statistics, found: &mut Vec<Problem>) {
    let forms = [
        statistics.edges.is_some(),
        statistics.relations.is_some(),
        statistics.estimated_relations.is_some(),
    ];
    if forms.iter().filter(|given| **given).count() != 1 {
        found.push(Problem::new(
            "edges",
            "must stand alone: one of `edges`, `relations` and `estimated_relations`",
            "keep one of them, such as `edges: 5000`",
        ));
        return;
    }
    let homogeneous = statistics.in_degrees.is_some()
        || statistics.out_degrees.is_some()
        || statistics.symmetric
        || statistics.reciprocal.is_some()
        || statistics.both_ways;
    if !forms[0] && homogeneous {
        found.push(Problem::new(
            "in_degrees",
            "(or `out_degrees`, `symmetric`, `reciprocal`, `both_ways`) is of graphs with one type of edges",
            "write it within `relations`",
        ));
    }
    if let (Some(isolated), true) = (statistics.isolated, forms[0]) {
        let (of, nodes) = (statistics.homogeneous(), statistics.nodes.unwrap_or_default());
        let without = |degrees: &Option<DegreeSettings>| {
            degrees.as_ref().map_or(nodes.saturating_sub(of.edges), |of| {
                nodes - of.connected(nodes, statistics.edges.unwrap_or_default()).min(nodes)
            })
        };
        let [into, out] = [without(&of.in_degrees), without(&of.out_degrees)];
        let (least, most) = ((into + out).saturating_sub(nodes), into.min(out));
        if !(least..=most).contains(&isolated) {
            found.push(Problem::new(
                "isolated",
                format!("must be from {least} to {most}, as {into} nodes have no edge in and {out} none out"),
                "leave it out, or change `connected` of the degrees",
            ));
        }
    }
    if statistics.isolated.is_some() && !forms[0] {
        found.push(Problem::new("isolated", "is of graphs with one type of edges", "remove it"));
    }
    if statistics.symmetric && statistics.both_ways {
        found.push(Problem::new("both_ways", "adds what `symmetric` says is there", "remove one of them"));
    }
    if let Some(share) = statistics.reciprocal {
        if !(0.0..=1.0).contains(&share) {
            let remedy = "write `reciprocal: 0.36` for 36 % of the edges";
            found.push(Problem::new(
                "reciprocal",
                format!("must be a share from 0 to 1, not {share}"),
                remedy,
            ));
        }
        if statistics.symmetric || statistics.both_ways {
            let fault = "says how many edges have a reverse, as `symmetric` and `both_ways` do";
            found.push(Problem::new("reciprocal", fault, "keep one of them"));
        }
    }
    let types = statistics.types();
    let types = places(&types);
    if forms[0] {
        if types.len() > 1 {
            let remedy = "write `relations: [{ name: cites, from: paper, to: paper, edges: 5000 }]`";
            found.push(Problem::new("edges", "does not say which of the node types they connect", remedy));
        } else {
            relation(&types, &statistics.homogeneous(), "", found);
        }
    }
    if let Some(relations) = &statistics.relations {
        if relations.is_empty() || relations.len() > MOST_TYPES {
            found.push(Problem::new(
                "relations",
                format!("must be from 1 to {MOST_TYPES} types of edges"),
                "write `relations: [{ name: cites, from: node, to: node, edges: 5000 }]`",
            ));
        }
        for (place, of) in relations.iter().enumerate() {
            relation(&types, of, &format!("relations[{place}]."), found);
        }
    }
    if let Some(estimated) = &statistics.estimated_relations {
        estimates(statistics, estimated, found);
    }
}

fn relation(
    types: &BTreeMap<&str, (usize, u64)>,
    of: &RelationSettings,
    path: &str,
    found: &mut Vec<Problem>,
) {
    let nodes = |key: &str, name: &str, found: &mut Vec<Problem>| {
        let known = types.get(name).map(|&(_, nodes)| nodes);
        if known.is_none() {
            let names: Vec<&str> = types.keys().copied().take(8).collect();
            let fault = format!("`{name}` is no node type");
            let remedy = format!("write one of {}", names.join(", "));
            found.push(Problem::new(format!("{path}{key}"), fault, remedy));
        }
        known
    };
    let (from, to) = (nodes("from", &of.from, found), nodes("to", &of.to, found));
    if of.edges == 0 || of.edges > LARGEST {
        found.push(Problem::new(
            format!("{path}edges"),
            format!("must be from 1 to {LARGEST}, not {}", of.edges),
            "write the number of edges, or remove the type",
        ));
        return;
    }
    if of.symmetric && of.from != of.to {
        found.push(Problem::new(
            format!("{path}symmetric"),
            format!("connects `{}` with `{}`", of.from, of.to),
            "write a relation for each direction",
        ));
    }
    let [Some(from), Some(to)] = [from, to] else { return };
    for (key, settings, nodes) in [("in_degrees", &of.in_degrees, to), ("out_degrees", &of.out_degrees, from)]
    {
        if let Some(settings) = settings {
            degrees(settings, nodes, of.edges, &format!("{path}{key}"), found);
        }
    }
}

fn degrees(settings: &DegreeSettings, nodes: u64, edges: u64, path: &str, found: &mut Vec<Problem>) {
    if let DegreeSettings::Histogram(counts) = settings {
        let sum = |of: &dyn Fn(&[u64; 2]) -> u128| counts.iter().map(of).sum::<u128>();
        let (have, ends) = (sum(&|pair| pair[1].into()), sum(&|[a, b]| u128::from(*a) * u128::from(*b)));
        if have != u128::from(nodes) || ends != u128::from(edges) {
            found.push(Problem::new(
                format!("{path}.histogram"),
                format!("has {have} nodes and {ends} edges, the graph {nodes} and {edges}"),
                "write pairs of a degree and its nodes, degree 0 included",
            ));
        }
        return;
    }
    let connected = settings.connected(nodes, edges);
    if connected == 0 || connected > nodes.min(edges) {
        found.push(Problem::new(
            format!("{path}.connected"),
            format!("must be from 1 to {}, nodes or edges", nodes.min(edges)),
            "write the nodes that have an edge, or leave it out",
        ));
        return;
    }
    let DegreeSettings::PowerLaw(law) = settings else { return };
    if law.exponent.is_some_and(|exponent| !(exponent > 1.0 && exponent <= 20.0)) {
        let remedy = "leave it out, or write `exponent: 2.5`";
        found.push(Problem::new(format!("{path}.exponent"), "must be above 1, up to 20", remedy));
    }
    let mean = edges.div_ceil(connected);
    if law.largest.is_some_and(|largest| largest < mean || largest > edges) {
        found.push(Problem::new(
            format!("{path}.largest"),
            format!("must be from the mean degree, {mean}, to the {edges} edges"),
            "write the largest degree of a node, or leave it out",
        ));
    }
}

fn estimates(statistics: &Statistics, estimated: &EstimatedRelations, found: &mut Vec<Problem>) {
    let path = "estimated_relations";
    let (types, edges) = match (&estimated.edges_each, estimated.count, estimated.edges) {
        (Some(each), None, None) => {
            let fits = each.iter().all(|edges| (1..=LARGEST).contains(edges));
            if each.is_empty() || each.len() > MOST_TYPES || !fits {
                found.push(Problem::new(
                    format!("{path}.edges_each"),
                    format!("must list 1 to {MOST_TYPES} numbers from 1 to {LARGEST}"),
                    "write edges of each type, such as `edges_each: [500, 200]`",
                ));
                return;
            }
            (each.len() as u64, each.iter().sum::<u64>())
        }
        (None, Some(count), Some(edges)) => {
            if count == 0 || count > MOST_TYPES as u64 || edges < count || edges > LARGEST {
                found.push(Problem::new(
                    format!("{path}.count"),
                    format!("must be from 1 to {MOST_TYPES} types with an edge each"),
                    "write `count: 104` and `edges: 48810`",
                ));
                return;
            }
            (count, edges)
        }
        _ => {
            found.push(Problem::new(
                path,
                "must have `count` and `edges`, or `edges_each`",
                "write `estimated_relations: { count: 104, edges: 48810 }`",
            ));
            return;
        }
    };
    let nodes: u64 = statistics.types().iter().map(|of| of.nodes).sum();
    let most = u128::from(edges).min(u128::from(nodes) * u128::from(types));
    let wrong = |pairs: u64| pairs < types || u128::from(pairs) > most;
    if estimated.distinct_pairs.is_some_and(wrong) {
        found.push(Problem::new(
            format!("{path}.distinct_pairs"),
            format!("must be from the {types} types to {most}"),
            "write distinct pairs of a source and a type, or leave it out",
        ));
    }
}
