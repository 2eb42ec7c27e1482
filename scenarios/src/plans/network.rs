//! The plan of a graph network: its layers on all of a graph or on what is sampled, and the way of
//! its mini-batches to the GPU.

use graphs::Graph;
use graphs::cache::{Policy, Reads};
use graphs::sampling::{self, Hop, expected};
use hw_models::catalogue::WARP;
use reports::summary::{Epoch, EpochParts};
use workloads::diagnostic::Diagnostic;
use workloads::feed::{Access, Around, Batch, BatchHop, Cache, Features, FeedPlan, Home, Kept, Sampling};
use workloads::model::layered::LayeredModel;
use workloads::model::network::{LayerShape, Network, Subgraph};
use workloads::plan::{LayeredPlan, PlanError};

use super::{layered, machine};
use crate::schema::{AnyLayer, CachePolicy, Count, GraphNetwork, Scenario, Share};

/// The plan of a checked scenario whose model is `settings`.
///
/// # Errors
/// Faults that the check of the scenario would have found.
pub(crate) fn plan(scenario: &Scenario, settings: &GraphNetwork) -> Result<LayeredPlan, PlanError> {
    let model = read(scenario, settings).ok_or_else(|| {
        PlanError::Invalid(vec![Diagnostic::sentence("model.graph", "the graph is not known")])
    })?;
    let feed = feed(scenario, settings)?;
    Ok(LayeredPlan { feed, ..layered::plan_of(scenario, model) })
}

/// The network of a scenario. `None`: its graph is not known.
pub(crate) fn read(scenario: &Scenario, settings: &GraphNetwork) -> Option<LayeredModel> {
    let graph = settings.graph.as_deref()?;
    let layers = settings.network.layers();
    let inputs = inputs(scenario, settings)?;
    let complete = settings.network.alike().filter(|(_, alike)| alike.complete);
    // Around its layers a complete network has linear ones, which change widths.
    let ends = complete.map(|(_, alike)| [inputs, alike.outputs.unwrap_or(alike.hidden).get()]);
    let mut read = ends.map_or(inputs, |_| layers.first().map_or(inputs, |first| first.width));
    let mut shapes = Vec::new();
    for (at, &AnyLayer { kind, width, heads }) in layers.iter().enumerate() {
        let is_last = at + 1 == layers.len();
        let (inputs, outputs, gated) = (read, width, ends.is_some());
        shapes.push((kind, LayerShape { inputs, outputs, heads, is_last, gated }));
        read = width;
    }
    let network = Network { layers: shapes, ends, system: settings.system };
    let parts = match &settings.sampling {
        None => vec![Subgraph::whole(graph); layers.len()],
        Some(sampling) => {
            let fan_out = fan_out(sampling);
            Subgraph::sampled(graph, &hops(graph, sampling), &fan_out, sampling.ids.bytes())
        }
    };
    Some(network.model(&parts, &layered::execution(scenario)))
}

/// Width of the features that the first layer reads.
pub(crate) fn inputs(scenario: &Scenario, settings: &GraphNetwork) -> Option<u64> {
    let of_features = scenario.features.as_ref().and_then(|features| features.width).map(Count::get);
    let of_graph = || settings.graph.as_ref()?.feature_width;
    settings.network.inputs().or(of_features).or_else(of_graph)
}

/// The way of mini-batches; none where a step takes the whole graph.
fn feed(scenario: &Scenario, settings: &GraphNetwork) -> Result<Option<FeedPlan>, PlanError> {
    let Some((sampling, graph)) = settings.sampling.as_ref().zip(settings.graph.as_deref()) else {
        return Ok(None);
    };
    let features = scenario.features.clone().unwrap_or_default();
    let batch = batch(scenario, settings, (&features, sampling), graph);
    let machine = machine::of(scenario)?;
    let gpu = machine::gpus(&machine, scenario).first().map(|(_, gpu)| (*gpu).clone());
    let around = Around {
        multiprocessors: gpu.as_ref().map_or(1, |gpu| gpu.sms),
        sharing: machine.gpus_per_node().min(super::ranks(scenario) as u32),
        ranks: super::ranks(scenario) as u32,
        arrays_of_driver: settings.system.arrays_of_driver(),
        memory: gpu.map_or(0, |gpu| (gpu.memory_gib * f64::from(1 << 30)) as u64),
    };
    Ok(Some(FeedPlan::of(&features, sampling, &batch, around)))
}

/// A mini-batch in numbers.
fn batch(
    scenario: &Scenario,
    settings: &GraphNetwork,
    (features, sampling): (&Features, &Sampling),
    graph: &Graph,
) -> Batch {
    let hops = hops(graph, sampling);
    let whole = |number: f64| number.round() as u64;
    let element_bytes = features.dtype.bytes();
    let row_bytes = inputs(scenario, settings).unwrap_or(0) * element_bytes;
    let table_rows = graph.nodes();
    let kept = |cache: &Cache| {
        let rows = match (cache.share, cache.size) {
            (Some(share), _) => whole(table_rows as f64 * share.as_f64()),
            (None, Some(size)) => size.bytes() / row_bytes.max(1),
            (None, None) => 0,
        };
        rows.min(table_rows)
    };
    let share = |rows: u64| rows as f64 / table_rows.max(1) as f64;
    let on_gpu = features.cache.as_ref().map_or_else(Kept::default, |cache| {
        let rows = kept(cache);
        let found = || hits(graph, sampling, cache.policy, share(rows));
        Kept { rows, hits: cache.hits.map_or_else(found, Share::as_f64) }
    });
    let before_drives = features.drives.as_ref().filter(|_| features.home == Home::Drives);
    let on_host = before_drives.and_then(|drives| Some((drives, drives.cache.as_ref()?)));
    let on_host = on_host.map_or_else(Kept::default, |(drives, cache)| {
        let rows = kept(cache);
        let page = if features.access == Access::GpuDirect { row_bytes } else { drives.page() };
        let chosen = chosen(share(rows), page as f64 / row_bytes.max(1) as f64);
        // Rows that the GPU has do not come by here.
        let of_both = hits(graph, sampling, cache.policy, (share(on_gpu.rows) + chosen).min(1.0));
        let best = (of_both - on_gpu.hits).max(0.0);
        let others = (1.0 - on_gpu.hits - best).max(0.0) * (share(rows) - chosen) / (1.0 - chosen).max(1e-9);
        Kept { rows, hits: cache.hits.map_or(best + others, Share::as_f64) }
    });
    Batch {
        hops: hops
            .iter()
            .zip(&sampling.fan_out)
            .map(|(hop, fan_out)| BatchHop {
                destinations: whole(hop.destinations.iter().sum()),
                sources: whole(hop.rows()),
                edges: whole(hop.sampled()),
                fan_out: fan_out.get(),
                rounds: whole(rounds(hop, fan_out.get())),
                longest: hop.longest(),
            })
            .collect(),
        rows: hops.last().map_or(0, |hop| whole(hop.rows())),
        table_rows,
        graph_edges: graph.edges(),
        row_bytes,
        element_bytes,
        on_gpu,
        on_host,
    }
}

/// Rounds in which the threads of warps pass over what lists have more than is drawn of them.
fn rounds(hop: &Hop, fan_out: u64) -> f64 {
    let beyond = |degree: u64| degree.saturating_sub(fan_out).div_ceil(WARP.into());
    let of = |&(degree, nodes): &(u64, f64)| nodes * beyond(degree) as f64;
    hop.lists.iter().flatten().map(of).sum()
}

/// Share of the rows that a cache of a share of all pages keeps by choice. A page comes with all its
/// rows, of which the others are any.
fn chosen(share: f64, rows_on_page: f64) -> f64 {
    -((-share.min(1.0)).ln_1p() / rows_on_page.max(1.0)).exp_m1()
}

/// Share of the rows of a mini-batch that a cache has.
fn hits(graph: &Graph, sampling: &Sampling, policy: CachePolicy, share: f64) -> f64 {
    let policy = match policy {
        CachePolicy::Random => Policy::Random,
        CachePolicy::Degree => Policy::Degree,
        CachePolicy::Presample => Policy::Presample { epochs: 1 },
    };
    let fan_out = fan_out(sampling);
    Reads::of(graph, drawn(sampling, &fan_out)).map_or(share, |reads| reads.hit_rate(policy, share))
}

/// Neighbours drawn by hop, from the seeds outwards.
fn fan_out(sampling: &Sampling) -> Vec<u64> {
    sampling.fan_out.iter().map(|count| count.get()).collect()
}

fn drawn<'a>(sampling: &Sampling, fan_out: &'a [u64]) -> sampling::Batch<'a> {
    sampling::Batch { seeds: sampling.batch.get(), seed_type: 0, fan_out }
}

fn hops(graph: &Graph, sampling: &Sampling) -> Vec<Hop> {
    expected(graph, drawn(sampling, &fan_out(sampling)))
}

/// The epoch that a step of so long (s) is a mini-batch of, from its parts by the number of its
/// mini-batches; where it is simulated from its begin, the first batch comes after `first_s`. `None`:
/// a step takes the whole graph.
pub(crate) fn epoch(
    scenario: &Scenario,
    step_time_s: f64,
    first_s: f64,
    parts: impl Fn(u64) -> EpochParts,
) -> Option<Epoch> {
    let settings = scenario.model.graph()?;
    let (sampling, graph) = settings.sampling.as_ref().zip(settings.graph.as_deref())?;
    let batches = batches(scenario)?;
    let features = scenario.features.clone().unwrap_or_default();
    let batch = batch(scenario, settings, (&features, sampling), graph);
    let filled_s = if scenario.training.epoch == Some(true) { first_s } else { 0.0 };
    Some(Epoch {
        batches,
        epoch_time_s: Some(batches as f64 * step_time_s + filled_s),
        rows_per_batch: batch.rows,
        bytes_per_batch: batch.rows * batch.row_bytes,
        hit_rate: batch.on_gpu.hits,
        host_hit_rate: batch.on_host.hits,
        parts: parts(batches),
    })
}

/// Mini-batches of an epoch on each copy of the model: every node that is trained on is a seed
/// once, every node where they are not known. `None`: a step takes the whole graph.
pub(crate) fn batches(scenario: &Scenario) -> Option<u64> {
    let settings = scenario.model.graph()?;
    let (sampling, graph) = settings.sampling.as_ref().zip(settings.graph.as_deref())?;
    let seeds = graph.training_nodes.unwrap_or_else(|| graph.nodes());
    let copies = scenario.parallelism.data.map_or(1, Count::get);
    Some(seeds.div_ceil(sampling.batch.get() * copies))
}
