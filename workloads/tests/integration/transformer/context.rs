//! Parts of sequences: what ranks send each other for attention, by the formulas of those who proposed it.

use workloads::model::transformer::{
    Block, Collective, CollectiveKind, ContextExchange, Execution, Fusion, Group, Operator,
    ShardedTransformer, Split, Work, beside,
};

use super::{flash, preset, shard};

const SEQUENCE: u32 = 8_192;
const RANKS: u32 = 4;
/// Keys and values of a rank of Llama 3 8B: 1,024 columns each, two bytes an element.
const PAIR: u64 = 2 * (SEQUENCE / RANKS) as u64 * 2_048;
const EXCHANGES: [ContextExchange; 4] = [
    ContextExchange::AllToAll,
    ContextExchange::Ring,
    ContextExchange::AllGather,
    ContextExchange::GatheredRing,
];

fn split(context: u32, context_exchange: ContextExchange) -> Split {
    Split { context, context_exchange, ..Split::NONE }
}

fn layer(name: &str, sequence: u32, split: Split) -> Block {
    shard(&preset(name), &flash(1, sequence, split)).layer()
}

fn llama(exchange: ContextExchange) -> Block {
    layer("llama-3-8b", SEQUENCE, split(RANKS, exchange))
}

fn exchanged(operators: &[Operator], of: CollectiveKind) -> Vec<u64> {
    let bytes = operators.iter().filter_map(|op| match op.work {
        Work::Collective(Collective { kind, group: Group::Context, bytes, .. }) if kind == of => Some(bytes),
        _ => None,
    });
    bytes.collect()
}

/// Each rank meets as many pairs of queries and keys as any other, and all together those of one that has everything: to the
/// last pair on the diagonal.
#[test]
fn ranks_compute_the_attention_of_one() {
    let flops = |operators: &[Operator]| operators.iter().map(|op| op.work.flops()).sum::<f64>();
    for (name, sequence) in [("llama-3-8b", SEQUENCE), ("deepseek-v3", 4_096), ("bert-base", 512)] {
        let whole = layer(name, sequence, Split::NONE);
        for ranks in [2, 4] {
            for exchange in EXCHANGES {
                let part = layer(name, sequence, split(ranks, exchange));
                for (whole, part) in [(&whole.forward, &part.forward), (&whole.backward, &part.backward)] {
                    let (ours, theirs) = (f64::from(ranks) * flops(part), flops(whole));
                    assert!((ours / theirs - 1.0).abs() < 1e-12, "{name}, {exchange:?}: {ours} and {theirs}");
                }
            }
        }
    }
}

/// Liu et al. 2023: keys and values pass c - 1 times, in the backward pass with their gradients one step behind.
#[test]
fn keys_and_values_go_round_the_ring() {
    let ring = llama(ContextExchange::Ring);
    assert_eq!(exchanged(&ring.forward, CollectiveKind::SendReceive), [PAIR; 3]);
    assert_eq!(
        exchanged(&ring.backward, CollectiveKind::SendReceive),
        [PAIR, 2 * PAIR, 2 * PAIR, PAIR],
        "keys and values three times, their gradients three times"
    );
}

/// While a part is on its way, attention to the one that is there is computed.
#[test]
fn the_ring_turns_beside_attention() {
    let ring = llama(ContextExchange::Ring);
    for operators in [&ring.forward, &ring.backward] {
        let mut sends = 0;
        for (at, op) in operators.iter().enumerate() {
            if matches!(op.work, Work::Collective(Collective { kind: CollectiveKind::SendReceive, .. })) {
                let beside = &operators[at + 1..][..beside(&operators[at..])];
                let attends = beside.iter().filter(|op| matches!(op.work, Work::Attention(_))).count();
                assert_eq!(attends, 1, "beside {}", op.name);
                sends += 1;
            }
        }
        assert!(sends >= RANKS - 1);
    }
}

/// Llama Team 2024, section 3.3.2: whole keys and values before attention, and before its gradient; their gradients reduced.
#[test]
fn keys_and_values_are_gathered_or_their_gradients_reduced() {
    let gathering = llama(ContextExchange::AllGather);
    let of_sequence = u64::from(RANKS) * PAIR / 2;
    for operators in [&gathering.forward, &gathering.backward] {
        assert_eq!(exchanged(operators, CollectiveKind::AllGather), [of_sequence; 2]);
    }
    assert_eq!(exchanged(&gathering.backward, CollectiveKind::ReduceScatter), [of_sequence; 2]);
}

/// PyTorch: one gather each way, beside the attention to what is there; gradients go round in fp32, home in as many sends as
/// ranks.
#[test]
fn a_gathered_ring_sends_gradients_round() {
    let ring = llama(ContextExchange::GatheredRing);
    let of_sequence = u64::from(RANKS) * PAIR;
    for operators in [&ring.forward, &ring.backward] {
        assert_eq!(exchanged(operators, CollectiveKind::AllGather), [of_sequence]);
        let at = operators.iter().position(|op| op.name.starts_with("gather keys and values")).unwrap();
        assert!(operators[at + 1].name.starts_with("flash attention") && beside(&operators[at..]) >= 1);
    }
    assert!(exchanged(&ring.forward, CollectiveKind::SendReceive).is_empty());
    assert_eq!(exchanged(&ring.backward, CollectiveKind::SendReceive), [2 * PAIR; RANKS as usize]);
}

/// What torchtitan's layers give attention are keys and values for each of 32 queries, not for 8; compiled, attention waits.
#[test]
fn torchtitan_exchanges_repeated_keys_and_waits_when_compiled() {
    let split = split(RANKS, ContextExchange::GatheredRing);
    let common = flash(1, SEQUENCE, split);
    let execution = Execution { fusion: Fusion::TORCHTITAN, exchanges_beside: false, ..common };
    let layer = shard(&preset("llama-3-8b"), &execution).layer();
    assert_eq!(exchanged(&layer.forward, CollectiveKind::AllGather), [4 * u64::from(RANKS) * PAIR]);
    assert_eq!(exchanged(&layer.backward, CollectiveKind::SendReceive), [8 * PAIR; RANKS as usize]);
    for operators in [&layer.forward, &layer.backward] {
        assert!((0..operators.len()).all(|at| beside(&operators[at..]) == 0));
    }
}

/// A ring keeps the keys and values that came last, gathering the results of its pieces; else a rank keeps its part of all.
#[test]
fn ranks_keep_their_part_and_what_is_under_way() {
    let whole = layer("llama-3-8b", SEQUENCE, Split::NONE).saved_bytes();
    let part = whole / u64::from(RANKS);
    let context = 2 * u64::from(SEQUENCE / RANKS) * 4_096;
    assert_eq!(llama(ContextExchange::Ring).saved_bytes(), part + PAIR);
    assert_eq!(llama(ContextExchange::AllGather).saved_bytes(), part + context);
    assert_eq!(llama(ContextExchange::GatheredRing).saved_bytes(), part);
}

/// Only all-to-all deals out heads; only a ring has a step for each rank.
#[test]
fn what_cannot_be_exchanged_is_refused() {
    let refused = |split, sequence| {
        let execution: Execution = flash(1, sequence, split);
        let problems = ShardedTransformer::new(&preset("llama-3-8b"), &execution).err().unwrap_or_default();
        problems.into_iter().map(|invalid| (invalid.path, invalid.to_string())).collect::<Vec<_>>()
    };
    for (ranks, exchange, said) in [
        (
            16,
            ContextExchange::AllToAll,
            Some("8 heads of keys and values of a tensor rank cannot be dealt out"),
        ),
        (16, ContextExchange::Ring, None),
        (16, ContextExchange::AllGather, None),
        (2_048, ContextExchange::Ring, Some("a ring of 2048 ranks has more steps than 1024")),
        (2_048, ContextExchange::AllGather, None),
        (2_048, ContextExchange::GatheredRing, Some("a ring of 2048 ranks has more steps than 1024")),
    ] {
        let found = refused(split(ranks, exchange), 1 << 17);
        assert_eq!(found.is_empty(), said.is_none(), "{ranks} {exchange:?}: {found:?}");
        if let Some(said) = said {
            assert!(found[0].0 == "context" && found[0].1.contains(said), "{found:?}");
        }
    }
    let uneven = refused(split(4, ContextExchange::Ring), 4_100);
    assert!(
        uneven[0].1.contains("4100 tokens cannot be cut into two pieces for each of 4 ranks"),
        "{uneven:?}"
    );
}
