//! A layer is attention, then MLP; its backward pass is that of the MLP, then that of attention.

use workloads::model::transformer::Operator;
use workloads::passes::fusion::fused;
use workloads::passes::recompute::{Mode, recomputed};

use super::{flash, preset, ranks, shard};

/// What operators of attention and of the MLP have in their names, and those of nobody else.
const ATTENTION: [&str; 3] = ["qkv", "query", "projection"];
const MLP: [&str; 4] = ["mlp up", "mlp gate", "mlp down", "fc"];

fn has<'a>(list: &'a [Operator], words: &[&str]) -> Vec<&'a str> {
    let named = list.iter().map(|op| &*op.name).filter(|name| words.iter().any(|word| name.contains(word)));
    named.collect()
}

#[test]
fn operators_of_attention_and_of_the_mlp_are_apart() {
    for name in ["megatron-22b", "bert-large", "llama-2-7b"] {
        for recompute in [Mode::None, Mode::Selective, Mode::Full] {
            let layer = recomputed(&shard(&preset(name), &flash(1, 512, ranks(1, false))).layer(), recompute);
            let [middle, middle_back] = layer.halves().expect("a layer has two halves").map(|at| at as usize);
            let (attention, mlp) = layer.forward.split_at(middle);
            let (mlp_back, attention_back) = layer.backward.split_at(middle_back);
            assert_eq!(has(attention, &MLP), [""; 0], "{name}");
            assert_eq!(has(mlp, &ATTENTION), [""; 0], "{name}");
            assert!(!has(attention, &ATTENTION).is_empty() && !has(mlp, &MLP).is_empty());
            let gradients = |list: &[Operator]| {
                list.iter()
                    .filter(|op| op.phase != workloads::graph::Phase::Recompute)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(has(&gradients(mlp_back), &ATTENTION), [""; 0], "{name}");
            assert_eq!(has(&gradients(attention_back), &MLP), [""; 0], "{name}");
        }
    }
}

#[test]
fn layers_have_halves_however_they_are_executed() {
    for name in ["megatron-22b", "bert-large", "mixtral-8x7b", "gpt-neox-20b"] {
        let model = preset(name);
        let sharded = shard(&model, &flash(1, 512, ranks(2, true)));
        for layer in [sharded.layer(), recomputed(&sharded.expert_layer(), Mode::Full)] {
            assert!(layer.halves().is_some() && fused(&layer).halves().is_some(), "{name}");
        }
        assert_eq!(sharded.head().halves(), None);
        assert_eq!(sharded.embedding().halves(), None);
    }
}
