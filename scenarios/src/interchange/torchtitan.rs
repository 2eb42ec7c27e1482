//! Torchtitan: its table, and conversions between words and settings.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::conversions::{count, one, positions, preset, read_only, setting};
use super::rules::{Conversion, Lookup, Table};
use super::{Form, Target};

/// The TOML file of a job.
pub(super) const TORCHTITAN: Target = Target { name: "torchtitan", form: Form::Toml, table, conversions };

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        serde_yaml::from_str(include_str!("torchtitan.yaml")).expect("the embedded table is valid")
    });
    &TABLE
}

/// Samples of a rank's step by default (`local_batch_size`).
const LOCAL_BATCH: u64 = 8;
/// Chunks of a stage by default, where a schedule has several.
const CHUNKS: u64 = 2;
/// Most chunks of a model.
const PARTS_MAX: u64 = 65_536;
/// Most layers that an export says a stage has less than the others.
const LESS_MAX: u64 = 64;

fn conversions(name: &str) -> Option<Conversion> {
    Some(match name {
        "positions" => read_only(positions),
        "micro" => read_only(|_, settings| micro(settings).map(Json::from)),
        "global" => read_only(|words, _| {
            let known = count(words).map(Json::from);
            known.or_else(|| (words.first() == Some(&"-1")).then_some(Json::Null))
        }),
        "accumulate" => read_only(accumulate),
        "local" => Conversion { words: local_word, value: |_, _| None },
        "chunks" => read_only(|_, settings| chunks(settings, false).map(Json::from)),
        "stages" => read_only(|_, settings| stages(settings)),
        "split" => read_only(split),
        "first" => Conversion { words: |layers, _| one(&less(layers)?.0), value: |_, _| None },
        "last" => Conversion { words: |layers, _| one(&less(layers)?.1), value: |_, _| None },
        "per_stage" => Conversion { words: per_stage_word, value: |_, _| None },
        "replicate" => Conversion { words: |_, settings| one(&copies(settings)?.0), value: data },
        "shard" => Conversion { words: shard_word, value: data },
        "sharding" => read_only(|_, settings| Some(Json::from(sharding(settings)))),
        "group" => read_only(group),
        "anything" => read_only(|_, _| Some(Json::Null)),
        _ => return None,
    })
}

fn degree(settings: Lookup<'_>, path: &str) -> u64 {
    setting(settings, path).unwrap_or(1).max(1)
}

/// Layers of the model: those of its preset where they are not said.
fn layers(settings: Lookup<'_>) -> Option<u64> {
    let said = setting(settings, "model.transformer.layers");
    said.or_else(|| preset(settings).map(|model| u64::from(model.layers)))
}

/// Samples of a micro-batch: those of the step of a rank, in pipelines parts of them.
fn micro(settings: Lookup<'_>) -> Option<u64> {
    let local = local(settings)?;
    if degree(settings, "parallelism.pipeline") == 1 {
        return Some(local);
    }
    if settings("@release").is_some_and(|release| release == "0.0") {
        let said = settings("@experimental.pipeline_parallel_microbatches");
        let all_stages = || {
            degree(settings, "parallelism.pipeline").checked_mul(chunks(settings, has_one_chunk(settings))?)
        };
        let pieces = said.map_or_else(all_stages, |count| count.as_u64()).filter(|pieces| *pieces > 0)?;
        return local.is_multiple_of(pieces).then(|| local / pieces);
    }
    settings("@parallelism.pipeline_parallel_microbatch_size").map_or(Some(1), |size| size.as_u64())
}

fn local(settings: Lookup<'_>) -> Option<u64> {
    settings("@training.local_batch_size").map_or(Some(LOCAL_BATCH), |size| size.as_u64())
}

/// Micro-batches of a copy: those of one run of a pipeline, and without a global batch one.
fn accumulate(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    if degree(settings, "parallelism.pipeline") > 1 {
        let (local, micro) = (local(settings)?, micro(settings).filter(|samples| *samples > 0)?);
        return local.is_multiple_of(micro).then(|| Json::from(local / micro));
    }
    let global = setting(settings, "@training.global_batch_size");
    Some(if global.is_some() { Json::Null } else { Json::from(1) })
}

fn local_word(accumulate: &Json, settings: Lookup<'_>) -> Option<Vec<String>> {
    one(&accumulate.as_u64()?.checked_mul(setting(settings, "training.micro_batch")?)?)
}

/// True for schedules whose stages have one chunk each.
fn has_one_chunk(settings: Lookup<'_>) -> bool {
    settings("parallelism.schedule").is_none_or(|schedule| schedule == "1f1b" || schedule == "gpipe")
}

/// Chunks of each stage: as many as layers of a stage ask for, or two where a schedule has several.
fn chunks(settings: Lookup<'_>, is_single: bool) -> Option<u64> {
    let per_stage = settings("@parallelism.pipeline_parallel_layers_per_stage");
    let Some(per_stage) = per_stage else { return Some(if is_single { 1 } else { CHUNKS }) };
    let per_stage = per_stage.as_u64().filter(|layers| *layers > 0)?;
    let (first, last) = weights(settings)?;
    let parts = layers(settings)?.checked_add(first)?.checked_add(last)?.div_ceil(per_stage);
    let stages = degree(settings, "parallelism.pipeline");
    (parts.is_multiple_of(stages)).then(|| parts / stages).filter(|count| is_single == (*count == 1))
}

/// Layers that the embedding and the head count for.
fn weights(settings: Lookup<'_>) -> Option<(u64, u64)> {
    let of = |end: &str| {
        let said = settings(&format!("@parallelism.pipeline_parallel_{end}_stage_less_layers"));
        said.map_or(Some(1), |layers| layers.as_u64())
    };
    Some((of("first")?, of("last")?))
}

/// Layers of all chunks; null where they are alike.
fn stages(settings: Lookup<'_>) -> Option<Json> {
    let pipeline = degree(settings, "parallelism.pipeline");
    if pipeline == 1 {
        return Some(Json::Null);
    }
    let parts = pipeline.checked_mul(chunks(settings, has_one_chunk(settings))?)?;
    // A model that is not known is reported by itself.
    let Some(layers) = layers(settings) else { return Some(Json::Null) };
    let dealt = if settings("@release").is_some_and(|release| release == "0.0") {
        dealt_before(layers, parts)?
    } else {
        let (first, last) = weights(settings)?;
        dealt(layers, parts, first, last)?
    };
    Some(unless_alike(dealt))
}

fn unless_alike(dealt: Vec<u64>) -> Json {
    let is_alike = dealt.windows(2).all(|pair| pair[0] == pair[1]);
    if is_alike { Json::Null } else { Json::from(dealt) }
}

/// Layers of parts of a model whose embedding and head count for some: the first parts have one
/// more where they are not even.
fn dealt(layers: u64, parts: u64, first: u64, last: u64) -> Option<Vec<u64>> {
    let all = layers.checked_add(first)?.checked_add(last)?;
    if parts > all.min(PARTS_MAX) || parts == 0 {
        return None;
    }
    let (each, more) = (all / parts, all % parts);
    if first.max(last) > each {
        return None;
    }
    let part = |at: u64| {
        let weight = if at == 0 { first } else { 0 } + if at + 1 == parts { last } else { 0 };
        (each + u64::from(at < more)).checked_sub(weight)
    };
    (0..parts).map(part).collect()
}

/// Releases before 0.1: parts behind the first have one more.
fn dealt_before(layers: u64, parts: u64) -> Option<Vec<u64>> {
    if parts > layers.min(PARTS_MAX) || parts == 0 {
        return None;
    }
    let (each, more) = (layers / parts, layers % parts);
    let middle = |at: u64| each + u64::from(at > 0 && at <= more);
    let mut dealt: Vec<u64> = (0..parts - 1).map(middle).collect();
    dealt.push(layers - dealt.iter().sum::<u64>());
    Some(dealt)
}

/// Layers between split points, `layers.8`. Without any: as without the key.
fn split(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    if words.is_empty() {
        return stages(settings);
    }
    let mut before = 0;
    let mut dealt = Vec::new();
    let points = words.iter().map(|word| word.strip_prefix("layers.")?.parse().ok());
    for point in points.chain(std::iter::once(layers(settings))) {
        dealt.push(point?.checked_sub(before)?);
        before = point?;
    }
    Some(unless_alike(dealt))
}

/// Layers that the first and the last stage have less, where that gives all.
fn less(layers: &Json) -> Option<(u64, u64)> {
    let wanted: Vec<u64> = layers.as_array()?.iter().map(Json::as_u64).collect::<Option<_>>()?;
    let (all, parts) = (wanted.iter().sum(), wanted.len() as u64);
    let pairs = (0..LESS_MAX).flat_map(|sum| (0..=sum).map(move |first| (first, sum - first)));
    pairs.into_iter().find(|(first, last)| dealt(all, parts, *first, *last).as_ref() == Some(&wanted))
}

/// Layers of each chunk, for as many chunks.
fn per_stage_word(chunks: &Json, settings: Lookup<'_>) -> Option<Vec<String>> {
    let parts = chunks.as_u64()?.checked_mul(degree(settings, "parallelism.pipeline"))?;
    let (first, last) = match settings("parallelism.stage_layers") {
        Some(layers) => less(&layers)?,
        None => (0, 0),
    };
    let all = layers(settings)?.checked_add(first + last)?;
    let each = all.div_ceil(parts.max(1));
    (each > 0 && all.div_ceil(each) == parts).then(|| vec![each.to_string()])
}

/// Copies that hold the same, and copies that share.
fn copies(settings: Lookup<'_>) -> Option<(u64, u64)> {
    let copies = degree(settings, "parallelism.data");
    if settings("parallelism.sharding").is_none_or(|sharding| sharding == "none") {
        return Some((copies, 1));
    }
    let Some(group) = setting(settings, "parallelism.sharding_group") else { return Some((1, copies)) };
    let share = group / degree(settings, "parallelism.context");
    (share > 0 && copies.is_multiple_of(share)).then(|| (copies / share, share))
}

/// Copies that share; of one copy those that are left, since 1 says that none share.
fn shard_word(_: &Json, settings: Lookup<'_>) -> Option<Vec<String>> {
    let (_, shards) = copies(settings)?;
    let is_shared = settings("parallelism.sharding").is_some_and(|sharding| sharding != "none");
    let is_alone = shards == 1 && is_shared && degree(settings, "parallelism.context") == 1;
    if is_alone { one(&"-1") } else { one(&shards) }
}

/// Copies of the model; null where they are those that the machine holds.
fn data(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let (replicas, shards) = degrees(settings)?;
    let all = shards.map_or(Some(Json::Null), |shards| replicas.checked_mul(shards).map(Json::from));
    all.filter(|all| *all != 0)
}

/// Degrees of data parallelism, by replicas and by shards. Shards of `None`: ranks that are left.
fn degrees(settings: Lookup<'_>) -> Option<(u64, Option<u64>)> {
    let of = |name: &str| settings(&format!("@parallelism.data_parallel_{name}_degree"));
    let replicas = of("replicate").map_or(Some(1), |count| count.as_u64())?;
    match of("shard") {
        None => Some((replicas, None)),
        Some(left) if left == -1 => Some((replicas, None)),
        Some(count) => Some((replicas, Some(count.as_u64()?))),
    }
}

fn sharding(settings: Lookup<'_>) -> &'static str {
    let shares = degrees(settings).is_none_or(|(_, shards)| shards != Some(1));
    let always = settings("@parallelism.fsdp_reshard_after_forward").is_some_and(|when| when == "always");
    if !shares && degree(settings, "parallelism.context") == 1 {
        "none"
    } else if degree(settings, "parallelism.pipeline") > 1 && !always {
        "optimizer"
    } else {
        "parameters"
    }
}

/// Copies that share, where others hold the same; null where all share.
fn group(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let (replicas, shards) = degrees(settings)?;
    if replicas <= 1 || sharding(settings) == "none" {
        return Some(Json::Null);
    }
    let context = degree(settings, "parallelism.context");
    let left = || {
        let others = ["parallelism.tensor", "parallelism.pipeline"].map(|path| degree(settings, path));
        let others = others.into_iter().fold(replicas, u64::saturating_mul);
        setting(settings, "@gpus")?.checked_div(others)
    };
    let group = shards.map_or_else(left, |shards| shards.checked_mul(context))?;
    Some(if group > 1 { Json::from(group) } else { Json::Null })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_are_dealt_as_by_torchtitan() {
        // Llama 3 405B has 14 chunks of 8 between two of 7 on 8 stages.
        assert_eq!(dealt(32, 4, 1, 1), Some(vec![8, 9, 8, 7]));
        let of_405b = dealt(126, 16, 1, 1).expect("16 parts");
        assert_eq!((of_405b[0], of_405b[1], of_405b[15]), (7, 8, 7));
        assert_eq!(dealt_before(10, 4), Some(vec![2, 3, 3, 2]));
        assert_eq!(dealt(4, 8, 1, 1), None);
    }

    #[test]
    fn weights_are_found_again() {
        for (first, last) in [(0, 0), (1, 1), (0, 2), (3, 1)] {
            let layers = dealt(64, 8, first, last).expect("8 parts");
            let (first, last) = less(&json!(layers)).expect("weights");
            assert_eq!(dealt(64, 8, first, last), Some(layers));
        }
        assert_eq!(less(&json!([1, 30, 2, 9])), None);
    }

    #[test]
    fn split_points_say_layers() {
        let model = |path: &str| (path == "model.transformer.layers").then(|| json!(32));
        assert_eq!(split(&["layers.7", "layers.20"], &model), Some(json!([7, 13, 12])));
        assert_eq!(split(&["layers.16"], &model), Some(Json::Null));
        assert_eq!(split(&["layers.20", "layers.7"], &model), None);
    }
}
