//! Paths to settings, as `sweep`, `where` and `--set` write them: `training.micro_batch`.

use hw_models::catalogue::nearest;

use crate::schema::shape::Shape;
use crate::text::node::{Node, shorten};
use crate::text::problem::Problem;
use crate::text::source::Mark;

/// The keys of a path.
pub(super) fn keys(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

/// True if `path` is `place` or stands below it.
pub(crate) fn leads_to(place: &str, path: &str) -> bool {
    path == place || is_below(place, path)
}

/// True if `path` stands below `place`.
pub(crate) fn is_below(place: &str, path: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether the schema has a setting at `path`, which is written at `mark`.
pub(crate) fn check(path: &str, mark: Mark) -> Result<(), Problem> {
    let mut shape = Shape::scenario();
    let mut walked = String::new();
    for key in keys(path) {
        let Some(next) = shape.field(key) else {
            let names = shape.names();
            let place = if walked.is_empty() {
                "there is no setting".to_owned()
            } else {
                format!("`{walked}` has no setting")
            };
            return Err(Problem::new(mark, format!("{place} `{}`", shorten(key))).help(
                match names.is_empty() {
                    true => format!("write `{walked}`"),
                    false => nearest::remedy(key, &names, "setting"),
                },
            ));
        };
        walked = if walked.is_empty() { key.to_owned() } else { format!("{walked}.{key}") };
        shape = next;
    }
    Ok(())
}

/// Whether a swept path concerns these settings: options of a technique or of a choice that is not taken do not.
///
/// So one axis over `techniques.bpipe.transfer.rate` leaves the variants without `bpipe` as they are.
pub(super) fn leads_through(keys: &[&str], settings: &Node) -> bool {
    let (mut shape, mut here) = (Shape::scenario(), Some(settings));
    for (depth, key) in keys.iter().enumerate() {
        let below = here.and_then(|node| node.child(key));
        let taken = match here {
            Some(_) if shape.is_choice() => below.is_some(),
            None if shape.is_choice() => true,
            _ => depth != 1 || keys[0] != "techniques" || keys.len() == 2 || below.is_some(),
        };
        match shape.field(key) {
            Some(next) if taken => (shape, here) = (next, below),
            _ => return false,
        }
    }
    true
}
