//! Layers settings: what is said later wins, map by map and key by key.

use crate::schema::shape::Shape;
use crate::text::node::{Entry, Node, Value};

/// Changes `base` by what `patch` says. `shape` describes the place of both.
///
/// Maps merge key by key, a bare name as the map that it is short for; scalars and lists replace. Where the schema has a choice, another tag replaces the whole
/// choice, the same tag merges.
pub(super) fn merge(base: &mut Node, patch: Node, shape: Option<Shape<'_>>) {
    if let (Value::Text(_), Value::Map(_), Some(key)) =
        (&base.value, &patch.value, shape.and_then(Shape::short_for))
    {
        *base = Node::nest(&[key], base.clone());
    }
    let (Value::Map(into), Value::Map(from)) = (&mut base.value, &patch.value) else {
        *base = patch;
        return;
    };
    let other_choice = shape.is_some_and(Shape::is_choice) && !into.keys().eq(from.keys());
    if other_choice {
        *base = patch;
        return;
    }
    let Value::Map(from) = patch.value else { return };
    for (key, entry) in from {
        match into.get_mut(&key) {
            Some(inherited) => {
                merge(&mut inherited.node, entry.node, shape.and_then(|shape| shape.field(&key)));
                inherited.key = entry.key;
            }
            None => {
                into.insert(key, entry);
            }
        }
    }
}

/// Merges maps of named things: variants by their settings, everything else by name.
pub(super) fn merge_entries(base: &mut Entry, patch: Entry, settings: bool) {
    match (&mut base.node.value, patch.node.value) {
        (Value::Map(into), Value::Map(from)) => {
            for (key, entry) in from {
                match into.get_mut(&key).filter(|_| settings) {
                    Some(inherited) => merge(&mut inherited.node, entry.node, Some(Shape::scenario())),
                    None => {
                        into.insert(key, entry);
                    }
                }
            }
        }
        (into, other) => *into = other,
    }
}

/// Removes the entries that say `none`: what the schema lets be absent and what has no choice of that name.
pub(super) fn remove_nones(node: &mut Node, shape: Shape<'_>) {
    // Few settings say `none`; the schema need not be asked about the others.
    if !node.any(&Node::is_none_word) {
        return;
    }
    let Value::Map(map) = &mut node.value else { return };
    map.retain(|key, entry| {
        let field = shape.field(key);
        let removes = |field: Shape<'_>| shape.is_optional(key) && !field.names().contains(&"none");
        !(entry.node.is_none_word() && field.is_some_and(removes))
    });
    for (key, entry) in map {
        if let Some(field) = shape.field(key) {
            remove_nones(&mut entry.node, field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::source::Sources;
    use crate::text::yaml;

    fn tree(text: &str) -> Node {
        let mut sources = Sources::default();
        let source = sources.add("test", text);
        yaml::parse(&sources, source, &mut Vec::new()).expect("valid YAML")
    }

    fn merged(base: &str, patch: &str) -> String {
        let mut base = tree(base);
        merge(&mut base, tree(patch), Some(Shape::scenario()));
        remove_nones(&mut base, Shape::scenario());
        base.value.plain()
    }

    #[test]
    fn maps_merge_and_lists_replace() {
        assert_eq!(
            merged("training: { micro_batch: 1, micro_batches: 8 }", "training: { micro_batch: 2 }"),
            "{training: {micro_batch: 2, micro_batches: 8}}"
        );
        assert_eq!(
            merged(
                "techniques: { recompute: { stages: [0, 1] } }",
                "techniques: { recompute: { stages: [2] } }"
            ),
            "{techniques: {recompute: {stages: [2]}}}"
        );
    }

    #[test]
    fn another_tag_replaces_the_choice_and_the_same_tag_merges() {
        let interleaved = "parallelism: { schedule: { interleaved: { chunks: 3 } } }";
        assert_eq!(
            merged(interleaved, "parallelism: { schedule: { zb-auto: { memory_limit: 8 } } }"),
            "{parallelism: {schedule: {zb-auto: {memory_limit: 8}}}}"
        );
        assert_eq!(merged(interleaved, "parallelism: { schedule: 1f1b }"), "{parallelism: {schedule: 1f1b}}");
        assert_eq!(
            merged(interleaved, "parallelism: { schedule: { interleaved: { chunks: 2 } } }"),
            "{parallelism: {schedule: {interleaved: {chunks: 2}}}}"
        );
    }

    #[test]
    fn none_removes_what_may_be_absent() {
        assert_eq!(merged("techniques: { bpipe: {} }", "techniques: { bpipe: none }"), "{techniques: {}}");
        assert_eq!(merged("run: { noise: { device: 2 % } }", "run: { noise: none }"), "{run: {}}");
        assert_eq!(merged("model: { profiled_pipeline: { stages: 8 } }", "model: none"), "{model: none}");
    }
}
