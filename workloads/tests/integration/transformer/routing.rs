//! What routers deal out: rows of experts, what is dropped and what travels.

use hw_models::settings::Share;
use workloads::model::transformer::{
    Capacity, Collective, CollectiveKind, DrawnLoad, Experts, Group, Load, Operator, Routing, Split,
    Transformer, Work,
};

use super::{flash, preset, shard};

const TOKENS: u64 = 4_096;
const BILLION: u64 = 1_000_000_000;

fn share(share: f64) -> Share {
    Share::parse(&share.to_string()).expect("a share")
}

fn drawn(concentration: f64, seed: u64) -> Load {
    Load::Drawn(DrawnLoad { concentration: share(concentration), seed })
}

/// Mixtral 8x7B: two of eight experts.
fn mixtral(routing: Routing) -> Transformer {
    let model = preset("mixtral-8x7b");
    let experts = Experts { routing, ..model.experts.clone().expect("experts") };
    Transformer { experts: Some(experts), ..model }
}

fn layer(routing: Routing, expert: u32) -> Vec<Operator> {
    let execution = flash(1, TOKENS as u32, Split { expert, ..Split::NONE });
    let block = shard(&mixtral(routing), &execution).expert_layer();
    [block.forward, block.backward].concat()
}

fn deal(routing: Routing) -> (Vec<u64>, u64) {
    let dealt = mixtral(routing).experts.expect("experts").deal(TOKENS);
    (dealt.rows, dealt.dropped)
}

fn exchanged(operators: &[Operator]) -> Vec<u64> {
    let bytes = operators.iter().filter_map(|op| match op.work {
        Work::Collective(Collective {
            kind: CollectiveKind::AllToAll, group: Group::Expert, bytes, ..
        }) => Some(bytes),
        _ => None,
    });
    bytes.collect()
}

/// A quarter of 8,192 rows go to one of eight experts; with a factor of 1.25 it takes 1,280 of its 2,048.
#[test]
fn rows_beyond_the_capacity_are_dropped() {
    let busy = Routing { load: Load::Busiest(share(0.25)), ..Routing::default() };
    let (others, capacity) = (878, Capacity { factor: BILLION * 5 / 4, pad: false });
    assert_eq!(deal(busy.clone()), ([vec![2_048], vec![others; 7]].concat(), 0));
    let dropping = Routing { capacity: Some(capacity), ..busy.clone() };
    assert_eq!(deal(dropping), ([vec![1_280], vec![others; 7]].concat(), 768));
    let padding = Routing { capacity: Some(Capacity { pad: true, ..capacity }), ..busy };
    assert_eq!(deal(padding), (vec![1_280; 8], 768));
}

/// The rank with the busy expert gets its 1,280 rows and 878 for the other, from each of four; both ways, forward and
/// backward; a weight of each row twice.
#[test]
fn the_busiest_rank_decides_what_travels() {
    let load = Load::Busiest(share(0.25));
    let capacity = Some(Capacity { factor: BILLION * 5 / 4, pad: false });
    let operators = layer(Routing { load, capacity, ..Routing::default() }, 4);
    let rows = 4 * (1_280 + 878);
    let (tokens, weights) = (2 * rows * 4_096, 4 * rows);
    assert_eq!(exchanged(&operators), [tokens, weights, tokens, tokens, tokens, weights]);
    let grouped = operators.iter().filter_map(|op| match op.work {
        Work::Grouped(grouped) => Some((grouped.groups.batch, grouped.groups.m)),
        _ => None,
    });
    assert_eq!(grouped.clone().next(), Some((2, rows / 2)), "of two experts the mean");
}

/// Room for all, and all experts alike: every operator is as without either.
#[test]
fn without_limit_and_imbalance_nothing_changes() {
    for expert in [1, 4] {
        let plain = layer(Routing::default(), expert);
        let load = Load::Busiest(share(0.125));
        assert_eq!(layer(Routing { load, ..Routing::default() }, expert), plain);
        // Four times the even share is a row of every token.
        let capacity = Some(Capacity { factor: 4 * BILLION, pad: false });
        assert_eq!(layer(Routing { capacity, ..Routing::default() }, expert), plain);
    }
}

/// The largest of eight shares that are all equally likely is (1 + 1/2 + ... + 1/8) / 8 on average: 0.3397.
#[test]
fn shares_are_drawn_from_a_dirichlet_distribution() {
    let model = preset("deepseek-v3");
    let largest = |concentration: f64, seed: u64| {
        let routing = Routing { load: drawn(concentration, seed), ..Routing::default() };
        let experts = Experts { count: 8, top_k: 1, routing, ..model.experts.clone().expect("experts") };
        let rows = experts.deal(1 << 20).rows;
        let all: u64 = rows.iter().sum();
        assert!(((1 << 20)..(1 << 20) + 8).contains(&all), "{rows:?}");
        rows.into_iter().max().unwrap_or(0) as f64 / all as f64
    };
    let mean = |concentration| (0..100).map(|seed| largest(concentration, seed)).sum::<f64>() / 100.0;
    let uniform: f64 = (1..=8).map(|n| 1.0 / f64::from(n)).sum::<f64>() / 8.0;
    // A standard deviation of the largest share is 0.09, of the mean of a hundred 0.009.
    assert!((mean(1.0) - uniform).abs() < 0.027, "{} and {uniform}", mean(1.0));
    assert!(mean(1_000.0) < 0.135, "{}", mean(1_000.0));
    assert!((largest(1.0, 1) - largest(1.0, 1)).abs() < f64::EPSILON);
    assert!((largest(1.0, 1) - largest(1.0, 2)).abs() > f64::EPSILON);
}

/// A token goes to an expert once: what a draw gives one beyond that goes to the others.
#[test]
fn no_expert_gets_a_token_twice() {
    let routing = Routing { load: drawn(0.01, 3), ..Routing::default() };
    let (rows, dropped) = deal(routing);
    assert!(rows.iter().all(|&rows| rows <= TOKENS) && dropped == 0, "{rows:?}");
    assert!((2 * TOKENS..2 * TOKENS + 8).contains(&rows.iter().sum()), "{rows:?}");
}

/// `compute_routing_scores_for_aux_loss` and `switch_load_balancing_loss_func` of Megatron-LM
/// launch 16 kernels, their gradients 7; `apply_router_token_dropping` 7, one less where experts
/// are padded, and 1. The loss of logits is one pass each way.
#[test]
fn losses_and_limits_of_a_router_are_the_kernels_that_are_launched() {
    let passes = |routing: Routing| layer(routing, 1).len();
    let no_loss = || Routing { balance_loss: false, ..Routing::default() };
    let none = passes(no_loss());
    let limit = |pad| Some(Capacity { factor: BILLION, pad });
    assert_eq!(passes(Routing::default()), none + 16 + 7);
    assert_eq!(passes(Routing { z_loss: true, ..no_loss() }), none + 2);
    assert_eq!(passes(Routing { capacity: limit(false), ..no_loss() }), none + 7 + 1);
    assert_eq!(passes(Routing { capacity: limit(true), ..no_loss() }), none + 6 + 1);
}

#[test]
fn what_cannot_be_dealt_is_refused() {
    let said = |routing| {
        let problems = mixtral(routing).validate().expect_err("refused");
        problems.into_iter().map(|invalid| (invalid.path, invalid.to_string())).collect::<Vec<_>>()
    };
    for busiest in [0.1, 0.75] {
        let found = said(Routing { load: Load::Busiest(share(busiest)), ..Routing::default() });
        assert_eq!(found[0].0, "experts.busiest");
        assert!(found[0].1.contains("use 12.5000 to 50.0000 %"), "{found:?}");
    }
    assert_eq!(said(Routing { load: drawn(0.0, 1), ..Routing::default() })[0].0, "experts.drawn");
    let capacity = Some(Capacity { factor: 0, pad: true });
    assert_eq!(said(Routing { capacity, ..Routing::default() })[0].0, "experts.capacity_factor");
}
