//! FLOPs summed over operators, against the published formulas.

use workloads::model::transformer::{Execution, Operator, Phase, Transformer};
use workloads::passes::recompute::{Mode, recomputed};

use super::{flash, materialised, preset, ranks, shard};

/// FLOPs of a step of one micro-batch, summed over the operators of all tensor ranks.
fn executed(model: &Transformer, execution: &Execution, recompute: Mode) -> f64 {
    let sharded = shard(model, execution);
    let sum = |operators: &[Operator]| operators.iter().map(|op| op.work.flops()).sum::<f64>();
    let (layer, head) = (recomputed(&sharded.layer(), recompute), sharded.head());
    let layers = f64::from(model.layers) * (sum(&layer.forward) + sum(&layer.backward));
    f64::from(execution.split.tensor) * (layers + sum(&head.forward) + sum(&head.backward))
}

/// `s b L h^2`, and the terms `s/h` and `V/(L h)` of the formulas.
fn terms(model: &Transformer, execution: &Execution) -> (f64, f64, f64) {
    let [s, b, l, h, v] =
        [execution.sequence, execution.micro_batch, model.layers, model.hidden, model.vocabulary]
            .map(f64::from);
    (s * b * l * h * h, s / h, v / (l * h))
}

fn assert_close(ours: f64, formula: f64) {
    assert!((ours / formula - 1.0).abs() < 1e-3, "{ours} against {formula}");
}

const GPTS: [(&str, u32, u32); 4] =
    [("megatron-22b", 4, 8), ("megatron-175b", 1, 8), ("megatron-1t", 1, 8), ("megatron-1.7b", 16, 1)];

/// 72 B L s h^2 (1 + s/(6h) + V/(12 h L)), Korthikanti et al. 2023, appendix A.
#[test]
fn operators_execute_the_model_flops() {
    for (name, micro_batch, tensor) in GPTS {
        let (model, execution) = (preset(name), materialised(micro_batch, 2_048, ranks(tensor, true)));
        let (base, s, v) = terms(&model, &execution);
        let formula = 72.0 * base * (1.0 + s / 6.0 + v / 12.0);
        assert_close(executed(&model, &execution, Mode::None), formula);
        assert_close(3.0 * model.forward_flops(u64::from(micro_batch), 2_048), formula);
    }
}

/// 96 B s L h^2 (1 + s/(6h) + V/(16 L h)), Narayanan et al. 2021, equation 3.
#[test]
fn full_recomputation_executes_a_forward_pass_more() {
    for (name, micro_batch, tensor) in GPTS {
        let (model, execution) = (preset(name), materialised(micro_batch, 2_048, ranks(tensor, false)));
        let (base, s, v) = terms(&model, &execution);
        let formula = 96.0 * base * (1.0 + s / 6.0 + v / 16.0);
        assert_close(executed(&model, &execution, Mode::Full), formula);
    }
}

/// Selective recomputation repeats two products, 4 b s^2 h a layer (Korthikanti et al. 2023, section 5). The paper's
/// formula of hardware FLOPs, 72 B L s h^2 (1 + s/(3h) + V/(12 h L)), counts 12: three times as many.
#[test]
fn selective_recomputation_executes_two_products_more() {
    for (name, micro_batch, tensor) in GPTS {
        let (model, execution) = (preset(name), materialised(micro_batch, 2_048, ranks(tensor, true)));
        let (base, s, v) = terms(&model, &execution);
        let ours = executed(&model, &execution, Mode::Selective);
        assert_close(ours, 72.0 * base * (1.0 + s / 6.0 + v / 12.0) + 4.0 * base * s);
        let published = 72.0 * base * (1.0 + s / 3.0 + v / 12.0);
        assert_close(published - ours, 8.0 * base * s);
    }
}

#[test]
fn grouped_queries_and_gated_mlps_are_counted() {
    let (model, execution) = (preset("llama-3-8b"), materialised(1, 8_192, ranks(4, true)));
    assert_close(executed(&model, &execution, Mode::None), 3.0 * model.forward_flops(1, 8_192));
    // Six times the weights and tokens (the word embedding multiplies nothing), and attention.
    let weights = (model.parameters() - u64::from(model.vocabulary) * u64::from(model.hidden)) as f64;
    assert_close(
        3.0 * model.forward_flops(1, 8_192),
        6.0 * weights * 8_192.0 + 12.0 * 32.0 * 4_096.0 * 8_192_f64.powi(2),
    );
}

/// Causal flash attention skips the masked half of every product, and its backward pass makes the scores again: 14
/// halves where materialised attention makes 12 wholes.
#[test]
fn flash_attention_skips_what_is_masked() {
    let model = preset("megatron-22b");
    let attention = |execution: &Execution| {
        let layer = shard(&model, execution).layer();
        let is_linear = |op: &&Operator| {
            op.name.contains("qkv") || op.name.contains("mlp") || op.name.contains("projection")
        };
        let all = layer.forward.iter().chain(&layer.backward);
        all.filter(|op| !is_linear(op)).map(|op| op.work.flops()).sum::<f64>()
    };
    let split = ranks(8, true);
    let (flash, materialised) =
        (attention(&flash(4, 2_048, split.clone())), attention(&materialised(4, 2_048, split)));
    assert_close(flash / materialised, 7.0 / 12.0);
}

#[test]
fn what_is_recomputed_says_so() {
    let gpt = shard(&preset("megatron-22b"), &materialised(4, 2_048, ranks(8, true)));
    let recomputed = |recompute| {
        let layer = recomputed(&gpt.layer(), recompute);
        let again: Vec<_> = layer.backward.into_iter().filter(|op| op.phase == Phase::Recompute).collect();
        (again, layer.forward)
    };
    assert!(recomputed(Mode::None).0.is_empty());
    let (again, forward) = recomputed(Mode::Full);
    assert!(again.iter().map(|op| (&op.name, op.work)).eq(forward.iter().map(|op| (&op.name, op.work))));
    let names: Vec<_> = recomputed(Mode::Selective).0.into_iter().map(|op| op.name).collect();
    assert_eq!(
        names,
        [
            "query key product",
            "scale, mask and softmax",
            "softmax dropout",
            "value product",
            "transpose context"
        ]
    );
}
