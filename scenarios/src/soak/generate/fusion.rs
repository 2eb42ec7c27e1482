//! Groups of operators as one kernel.

use serde_json::json;

use super::super::draw::{Draw, Settings};

/// Writes a policy into some scenarios whose operators are known, unless they are compiled anyway.
pub(super) fn fill(draw: &mut Draw, settings: &mut Settings) {
    const FUSION: &str = "techniques.fusion";
    let policies = ["none", "passes", "epilogues", "inductor", "xla", "searched", "searched"];
    let is_compiled = settings.get("software.compile").is_some_and(|compile| *compile == json!(true));
    if is_compiled || !draw.chance(10) {
        return;
    }
    let policy = draw.one(&policies);
    settings.set(FUSION, json!({ "policy": policy }));
    settings.some(draw, 20, FUSION, &json!({ "fold": [true, false], "fast_math": [true, false] }));
    if policy == "searched" {
        settings.some(draw, 30, FUSION, &json!({ "prune": ["5 %", "30 %"] }));
    }
}
