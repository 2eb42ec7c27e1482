//! DeepSpeed: its table, and conversions between words and settings.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::conversions::{GRADIENTS, SHARE, bucket, count, one, read_only, setting};
use super::rules::{Conversion, Lookup, Table};
use super::{Form, Target};

/// Its JSON configuration.
pub(super) const DEEPSPEED: Target = Target { name: "DeepSpeed", form: Form::Json, table, conversions };

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        serde_yaml::from_str(include_str!("deepspeed.yaml")).expect("the embedded table is valid")
    });
    &TABLE
}

/// Gradients of a bucket by default (`reduce_bucket_size`).
const BUCKET: u64 = 500_000_000;
/// Groups of states in host memory by default, where they are read ahead (`buffer_count`).
const BUFFERS: u64 = 4;

fn conversions(name: &str) -> Option<Conversion> {
    Some(match name {
        "share" => SHARE,
        "gradients" => GRADIENTS,
        "bucket" => read_only(|_, settings| bucket(BUCKET, settings)),
        "copies" => read_only(copies),
        "buffers" => Conversion {
            words: |buffers, _| buffers.as_u64().filter(|count| *count > 1).and_then(|count| one(&count)),
            value: |words, settings| {
                if words.is_empty() { buffers(settings) } else { count(words).map(Json::from) }
            },
        },
        _ => return None,
    })
}

/// Copies of the model: samples of a step over those of a copy.
fn copies(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let sizes = ["training.global_batch", "training.micro_batch", "training.accumulate"];
    let [Some(all), Some(one), Some(times)] = sizes.map(|path| setting(settings, path)) else {
        return Some(Json::Null);
    };
    let each = one.checked_mul(times).filter(|each| *each > 0 && all.is_multiple_of(*each));
    Some(each.map_or(Json::Null, |each| Json::from(all / each)))
}

/// Groups of states in host memory at a time; one where nothing is read or written ahead.
fn buffers(settings: Lookup<'_>) -> Option<Json> {
    let of = |key: &str| settings(&format!("@zero_optimization.offload_optimizer.{key}"));
    let is_ahead = ["pipeline_read", "pipeline_write"].iter().any(|key| of(key) == Some("true".into()));
    settings("techniques.zero_infinity.states")
        .filter(|_| is_ahead)
        .map_or(Some(Json::Null), |_| Some(of("buffer_count").unwrap_or_else(|| Json::from(BUFFERS))))
}
