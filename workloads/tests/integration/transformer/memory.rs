//! What is held between the passes, against Korthikanti et al. 2023, table 2 and section 4.3.

use proptest::prelude::*;
use workloads::model::transformer::{Block, Fusion, Sharding, SoftmaxFusion, States, Tensor, Transformer};
use workloads::passes::recompute::{Mode, recomputed};

use super::{alive, flash, materialised, preset, ranks, shard};

/// A layer of the GPT family.
#[derive(Clone, Copy)]
struct Sizes {
    sequence: u32,
    micro_batch: u32,
    heads: u32,
    head_dim: u32,
}

impl Sizes {
    fn model(&self) -> Transformer {
        Transformer::gpt(2, self.heads * self.head_dim, self.heads, 51_200, self.sequence)
    }

    fn sbh(&self) -> f64 {
        f64::from(self.sequence) * f64::from(self.micro_batch) * f64::from(self.heads * self.head_dim)
    }

    /// `a s / h`; the published bytes of scores are 5 of these, in units of s b h.
    fn scores(&self) -> f64 {
        f64::from(self.sequence) / f64::from(self.head_dim)
    }

    /// Bytes our layer saves; scale, mask and softmax are one kernel, as in the published counts.
    fn saved(&self, tensor: u32, sequence_parallel: bool, recompute: Mode) -> f64 {
        let mut execution = materialised(self.micro_batch, self.sequence, ranks(tensor, sequence_parallel));
        execution.fusion = Fusion { softmax: SoftmaxFusion::On, ..Fusion::ALL };
        recomputed(&shard(&self.model(), &execution).layer(), recompute).saved_bytes() as f64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn layers_save_the_published_bytes(
        sequence in (1..=16_u32).prop_map(|n| 256 * n),
        micro_batch in 1..=16_u32,
        (tensor, heads) in (0..=4_u32, 1..=8_u32).prop_map(|(log, n)| (1 << log, n << log)),
        head_dim in prop::sample::select(vec![64, 80, 96, 128, 160]),
    ) {
        // The published counts leave out the statistics of norms, 16 bytes a token: 0.5 % of narrow layers.
        prop_assume!(heads * head_dim >= 512);
        let sizes = Sizes { sequence, micro_batch, heads, head_dim };
        let (t, scores) = (f64::from(tensor), 5.0 * sizes.scores());
        let rows = [
            ("none", 1, false, Mode::None, 34.0 + scores),
            ("TP", tensor, false, Mode::None, 10.0 + 24.0 / t + scores / t),
            ("TP + SP", tensor, true, Mode::None, 34.0 / t + scores / t),
            ("TP + selective", tensor, false, Mode::Selective, 10.0 + 24.0 / t),
            ("TP + SP + selective", tensor, true, Mode::Selective, 34.0 / t),
            ("full", tensor, false, Mode::Full, 2.0),
            ("full + SP", tensor, true, Mode::Full, 2.0 / t),
        ];
        for (what, tensor, sequence_parallel, recompute, published) in rows {
            let ours = sizes.saved(tensor, sequence_parallel, recompute) / sizes.sbh();
            prop_assert!((ours / published - 1.0).abs() < 0.005, "{what}: {ours} s b h, published {published}");
        }
    }
}

#[test]
fn flash_attention_saves_a_number_a_row_instead_of_scores() {
    let (model, split) = (preset("gpt3-96b"), ranks(4, true));
    let ours = shard(&model, &flash(2, 2_048, split)).layer().saved_bytes();
    let tokens = 2 * 2_048;
    assert_eq!(ours, tokens * (34 * 9_984 / 4 + 2 * 8 / 4 + 4 * 104 / 4));
}

#[test]
fn an_unfused_softmax_keeps_its_output_in_fp32() {
    let model = preset("megatron-22b");
    let layer = |softmax| {
        let mut execution = materialised(4, 2_048, ranks(8, true));
        execution.fusion.softmax = softmax;
        shard(&model, &execution).layer().saved_bytes()
    };
    let scores = 4 * (64 / 8) * 2_048 * 2_048;
    assert_eq!(layer(SoftmaxFusion::Off) - layer(SoftmaxFusion::On), 2 * scores);
}

/// Norm inputs and outputs 8, queries and context 4, keys and values `4 k/a`, the two branches of the MLP and their
/// product `6 f/h`; SiLU's output `2 f/h` more where it is a kernel of its own. For LLaMA-65B 32.1 and 37.5 s b h.
#[test]
fn llama_layers_save_their_own_tensors() {
    for (name, fused, coefficient) in
        [("llama-65b", true, 32.125), ("llama-65b", false, 37.5), ("llama-2-70b", true, 33.5)]
    {
        let mut execution = flash(1, 2_048, ranks(8, true));
        execution.fusion.activation = fused;
        let saved = shard(&preset(name), &execution).layer().saved_bytes();
        let (tokens, extras) = (2_048.0, 2.0 * 4.0 + 4.0 * 64.0);
        assert_eq!(saved as f64, tokens * (coefficient * 8_192.0 + extras) / 8.0, "{name}");
    }
}

/// Section 4.3 of the paper: embedding dropout s b h p/t; final norm, logits and their fp32 copy 4 s b h/t (1 + V/h).
#[test]
fn embedding_and_head_save_the_published_bytes() {
    let model = preset("megatron-22b");
    let gpt = shard(&model, &materialised(4, 2_048, ranks(8, true)));
    let (tokens, hidden, vocabulary) = (4 * 2_048, 6_144, 51_200);
    let mask = Tensor { name: "embedding dropout mask".into(), bytes: tokens * hidden / 8 };
    let token_ids = Tensor { name: "tokens".into(), bytes: 8 * tokens };
    let embedding = gpt.embedding();
    let saved: Vec<&Tensor> = embedding.saved().into_iter().map(|id| embedding.tensor(id)).collect();
    assert_eq!(saved, [&mask, &token_ids]);
    let statistics = 8 * tokens / 8;
    assert_eq!(gpt.head().saved_bytes(), 4 * tokens * (hidden + vocabulary) / 8 + statistics);
}

/// Qi et al. 2024, section 3.2: between input and weight gradients a layer keeps 32 s b h, the inputs and the output
/// gradients of its linear layers.
#[test]
fn weight_gradients_need_32_sbh() {
    let model = preset("megatron-22b");
    for recompute in [Mode::None, Mode::Selective, Mode::Full] {
        let layer = recomputed(&shard(&model, &materialised(1, 1_024, ranks(1, false))).layer(), recompute);
        let kept: u64 = layer.kept_for_weight().into_iter().map(|id| layer.tensor(id).bytes).sum();
        assert_eq!(kept, 32 * 1_024 * 6_144, "{recompute:?}");
    }
}

#[test]
fn recomputed_tensors_live_while_the_backward_pass_needs_them() {
    let gpt = shard(&preset("megatron-22b"), &materialised(4, 2_048, ranks(8, true)));
    let [none, selective, full] =
        [Mode::None, Mode::Selective, Mode::Full].map(|recompute| recomputed(&gpt.layer(), recompute));
    let scores = 4 * (64 / 8) * 2_048 * 2_048;
    assert_eq!(none.saved_bytes() - selective.saved_bytes(), 5 * scores);
    // Probabilities, mask and dropped probabilities, 5 bytes a score, and a gradient of 2.
    assert!(alive::in_backward(&selective) >= 7 * scores);
    // Without recomputation two gradients of 2.
    assert!(alive::in_backward(&none) >= 4 * scores);
    let held = |layer: &Block| layer.saved_bytes() + alive::in_backward(layer);
    assert!(held(&selective) <= held(&none));
    assert!(held(&full) >= none.saved_bytes(), "all that a layer saves is there again");
    assert!(alive::in_forward(&full) >= none.saved_bytes() / 4, "the forward pass frees as it goes");
    assert!(alive::in_forward(&full) < none.saved_bytes());
}

/// Bytes per parameter: Megatron-LM's README of 2022 (20, 18, 16; 4 + 16/d, 6 + 12/d, 8 + 8/d with the distributed
/// optimizer) and Rajbhandari et al. 2020, figure 1 (16, 4 + 12/d, 2 + 14/d, 16/d).
#[test]
fn states_take_the_published_bytes() {
    let (n, d) = (1 << 20, 8);
    let total = |states: States, sharding| states.bytes(n, sharding, d as u32).total();
    for (states, whole, held, shared) in [
        (States::CopiedGradients, 20, 4, 16),
        (States::FullGradients, 18, 6, 12),
        (States::Full, 16, 8, 8),
        (States::HalfGradients, 16, 4, 12),
    ] {
        assert_eq!(total(states, Sharding::None), whole * n, "{states:?}");
        assert_eq!(total(states, Sharding::Optimizer), held * n + shared * n / d, "{states:?}");
    }
    assert_eq!(total(States::HalfGradients, Sharding::Gradients), 2 * n + 14 * n / d);
    assert_eq!(total(States::HalfGradients, Sharding::Parameters), 16 * n / d);
}
