//! Mixtures of experts, latent attention and parts of sequences: what they hold, execute and exchange.

use workloads::model::transformer::{
    Collective, CollectiveKind, DataParallel, Group, Layers, Operator, Sharding, Split, Work,
};

use super::{flash, preset, ranks, shard};

/// Parameters of the published checkpoints, and billions that a token meets; their authors state 12.9, 39, 21 and 37. Of DeepSeek-V3
/// without multi-token prediction and the 256 numbers by which each router is kept in balance.
#[test]
fn counts_equal_those_of_published_checkpoints() {
    for (name, all, active) in [
        ("mixtral-8x7b", 46_702_792_704, "12.9"),
        ("mixtral-8x22b", 140_620_634_112, "39.2"),
        ("deepseek-v2", 235_741_434_880, "21.4"),
        ("deepseek-v3", 671_026_404_352, "37.6"),
    ] {
        let model = preset(name);
        assert_eq!(model.parameters(), all, "{name}");
        assert_eq!(format!("{:.1}", model.active_parameters() as f64 / 1e9), active, "{name}");
    }
}

/// Over all expert and tensor ranks every weight is there once, but for what tensor ranks all hold.
#[test]
fn ranks_share_what_the_model_has() {
    for (name, tensor, expert) in [("mixtral-8x7b", 1, 4), ("mixtral-8x7b", 2, 8), ("deepseek-v2", 4, 8)] {
        let model = preset(name);
        let split = Split { expert, ..ranks(tensor, true) };
        let sharded = shard(&model, &flash(1, 4_096, split));
        let layers: Layers = (0..model.layers).map(|layer| model.layer_kind(layer)).collect();
        let of_rank = sharded.parameters(layers, true, true);
        let experts = u64::from(expert * tensor) * of_rank.experts;
        let others = u64::from(tensor) * (of_rank.total() - of_rank.experts);
        let again = u64::from(tensor - 1) * of_rank.replicated;
        let padding = model.padded_vocabulary(128 * u64::from(tensor)) - u64::from(model.vocabulary);
        let padding = 2 * padding * u64::from(model.hidden);
        assert_eq!(experts + others - again - padding, model.parameters(), "{name} over {tensor} x {expert}");
    }
}

/// Three times two operations for every weight that a token meets and attention, which flash attention halves and whose
/// backward pass makes the scores again.
#[test]
fn operators_execute_the_model_flops() {
    for (name, tensor, expert) in [("mixtral-8x7b", 1, 1), ("mixtral-8x7b", 2, 8), ("deepseek-v3", 1, 64)] {
        let model = preset(name);
        let sharded = shard(&model, &flash(1, 4_096, Split { expert, ..ranks(tensor, true) }));
        let linear = |op: &&Operator| !matches!(op.work, Work::Attention(_));
        let flops = |operators: &[Operator]| -> f64 {
            operators.iter().filter(linear).map(|op| op.work.flops()).sum()
        };
        let layers: Layers = (0..model.layers).map(|layer| model.layer_kind(layer)).collect();
        let of = |block: workloads::model::transformer::Block| flops(&block.forward) + flops(&block.backward);
        let executed = f64::from(layers.dense) * of(sharded.layer())
            + f64::from(layers.experts) * of(sharded.expert_layer())
            + of(sharded.head());
        let words = u64::from(model.vocabulary) * u64::from(model.hidden);
        let formula = 6.0 * (model.active_parameters() - words) as f64 * 4_096.0;
        let ours = f64::from(tensor) * executed;
        // Padding of the vocabulary, the router on every tensor rank's own tokens, norms that multiply nothing.
        assert!((ours / formula - 1.0).abs() < 2e-3, "{name}: {ours} against {formula}");
        let attention = 12.0 * 4_096.0_f64.powi(2) * f64::from(model.layers) / 2.0
            * (model.attention_width() + model.context_width()) as f64;
        let model_flops = 3.0 * model.forward_flops(1, 4_096);
        assert!((model_flops / (formula + attention) - 1.0).abs() < 2e-3, "{name}: {model_flops}");
    }
}

/// Tokens travel to experts and back, forward and backward: four times the tokens a token has experts, as bytes of
/// bfloat16, and a weight of each twice.
#[test]
fn tokens_travel_to_experts_and_back() {
    let model = preset("mixtral-8x7b");
    let exchanged = |split| {
        let layer = shard(&model, &flash(1, 4_096, split)).expert_layer();
        let exchange = |op: &Operator| match op.work {
            Work::Collective(Collective { kind: CollectiveKind::AllToAll, group, bytes, .. }) => {
                assert_eq!(group, Group::Expert);
                Some(bytes)
            }
            _ => None,
        };
        layer.forward.iter().chain(&layer.backward).filter_map(exchange).collect::<Vec<_>>()
    };
    assert!(exchanged(Split::NONE).is_empty());
    let (tokens, weights) = (2 * 4_096 * 2 * 4_096, 4 * 4_096 * 2);
    assert_eq!(
        exchanged(Split { expert: 4, ..Split::NONE }),
        [tokens, weights, tokens, tokens, tokens, weights]
    );
    let half = exchanged(Split { expert: 4, ..ranks(2, true) });
    assert_eq!(half, [tokens, weights, tokens, tokens, tokens, weights].map(|bytes| bytes / 2));
}

/// Fewer ranks hold the same experts: those are exchanged among `data / expert`, everything else among all.
#[test]
fn gradients_of_experts_are_summed_over_fewer_ranks() {
    let model = preset("mixtral-8x7b");
    let sharded = shard(&model, &flash(1, 4_096, Split { expert: 4, ..Split::NONE }));
    let parameters = sharded.parameters(Layers { dense: 0, experts: 32 }, true, true);
    let exchanged = |ranks| {
        let data = DataParallel { expert: 4, ..DataParallel::new(ranks, Sharding::Optimizer) };
        let update = sharded.update(&parameters, &data);
        let collective = |op: &Operator| match op.work {
            Work::Collective(Collective { kind, group, bytes, .. }) => Some((kind, group, bytes)),
            _ => None,
        };
        update.operators.iter().filter_map(collective).collect::<Vec<_>>()
    };
    use CollectiveKind::{AllGather, ReduceScatter};
    let others = parameters.total() - parameters.experts;
    let all = [(ReduceScatter, Group::Data, 4 * others), (AllGather, Group::Data, 2 * others)];
    assert_eq!(exchanged(4), all);
    let experts = parameters.experts;
    assert_eq!(
        exchanged(8),
        [
            all[0],
            (ReduceScatter, Group::ExpertData, 4 * experts),
            all[1],
            (AllGather, Group::ExpertData, 2 * experts)
        ]
    );
    let states = |ranks| {
        let data = DataParallel { expert: 4, ..DataParallel::new(ranks, Sharding::Optimizer) };
        sharded.state_bytes(&parameters, &data).optimizer
    };
    assert_eq!(states(8), 12 * others.div_ceil(8) + 12 * experts / 2);
}

/// A part of the tokens and all heads become all tokens and a part of the heads, and attention executes the same in all.
#[test]
fn parts_of_sequences_are_exchanged_for_heads() {
    let model = preset("llama-3-8b");
    let layer = |context| shard(&model, &flash(1, 8_192, Split { context, ..Split::NONE })).layer();
    let flops = |operators: &[Operator]| operators.iter().map(|op| op.work.flops()).sum::<f64>();
    let (whole, part) = (layer(1), layer(4));
    for (whole, part) in [(&whole.forward, &part.forward), (&whole.backward, &part.backward)] {
        assert!((4.0 * flops(part) / flops(whole) - 1.0).abs() < 1e-12);
    }
    let exchanged = |operators: &[Operator]| {
        let bytes = operators.iter().filter_map(|op| match op.work {
            Work::Collective(collective) => Some((collective.kind, collective.group, collective.bytes)),
            _ => None,
        });
        bytes.collect::<Vec<_>>()
    };
    let tokens = 2 * 8_192 / 4;
    let [query, key] = [4_096, 1_024].map(|width| (CollectiveKind::AllToAll, Group::Context, tokens * width));
    assert_eq!(exchanged(&part.forward), [query, key, key, query]);
    assert_eq!(exchanged(&part.backward), [query, query, key, key]);
}
