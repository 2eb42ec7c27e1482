//! Operators read what is there.

use std::collections::BTreeSet;

use hw_models::settings::Share;
use workloads::graph::operator::{Label, Tensor, TensorId};
use workloads::model::transformer::{
    AddedTo, AttentionKernel, Bias, Block, Capacity, ContextExchange, CrossEntropy, DrawnLoad, Dtype,
    Execution, Experts, Fp8, Fusion, LatentAttention, Load, Mlp, Norm, Operator, Parts, Phase, Positions,
    Routing, Scaling, ShardedTransformer, SoftmaxFusion, Split, States, Transformer, Work, beside,
};
use workloads::passes::fusion::fused;
use workloads::passes::recompute::{Mode, recomputed};

use super::configurations::{self, config};
use super::{flash, materialised, preset, ranks, shard};

/// Models and ways to execute them that differ in every choice.
fn cases() -> Vec<(Transformer, Execution)> {
    let mut cases = Vec::new();
    let models =
        ["megatron-22b", "llama-65b", "llama-3-8b", "mpt-7b", "qwen2-7b", "gpt-neox-20b"].map(preset);
    let unfused = Fusion {
        softmax: SoftmaxFusion::Off,
        activation: false,
        residual: false,
        gradient_accumulation: AddedTo::Nothing,
        bias: true,
        strided_heads: false,
        gelu: false,
        optimizer: false,
        cross_entropy: CrossEntropy::Fused,
        loss_metrics: 1,
        ..Fusion::TORCHTITAN
    };
    let in_operators = Fusion { cross_entropy: CrossEntropy::Operators, ..unfused };
    for model in models {
        for split in [ranks(1, false), ranks(4, false), ranks(4, true)] {
            for fusion in [Fusion::ALL, unfused, in_operators] {
                // Inputs that are gathered are kept.
                let gathers_again = fusion.query_key_value;
                for (dtype, attention, states) in [
                    (Dtype::Fp16, AttentionKernel::Materialised, States::CopiedGradients),
                    (Dtype::Bf16, AttentionKernel::Flash, States::FullGradients),
                    (Dtype::Fp32, AttentionKernel::Materialised, States::Full),
                ] {
                    cases.push((
                        model.clone(),
                        Execution {
                            dtype,
                            attention,
                            states,
                            fusion,
                            gathers_again,
                            ..materialised(2, 512, split.clone())
                        },
                    ));
                }
            }
        }
    }
    for name in ["bert-base", "roberta-base"] {
        for split in [ranks(1, false), ranks(4, true)] {
            for fusion in [Fusion::ALL, unfused, in_operators] {
                for micro_batch in [1, 2] {
                    let execution = Execution { fusion, ..materialised(micro_batch, 512, split.clone()) };
                    cases.push((preset(name), execution.clone()));
                    cases.push((Transformer { classes: Some(2), ..preset(name) }, execution.clone()));
                    cases.push((Transformer { dropout: false, ..preset(name) }, execution));
                }
            }
        }
    }
    // Experts, latent vectors, parts of sequences.
    for (name, context, expert) in
        [("mixtral-8x7b", 1, 1), ("mixtral-8x7b", 2, 4), ("deepseek-v2", 1, 8), ("llama-3-8b", 2, 1)]
    {
        for split in [ranks(1, false), ranks(4, true)] {
            for fusion in [Fusion::ALL, unfused] {
                let split = Split { context, expert, ..split.clone() };
                let states = States::HalfGradients;
                cases.push((preset(name), Execution { fusion, ..flash(2, 512, split.clone()) }));
                cases.push((preset(name), Execution { fusion, states, ..flash(2, 512, split) }));
            }
        }
    }
    // Linear layers in 8 bits.
    for scaling in [Scaling::Tensorwise, Scaling::Rowwise, Scaling::Delayed] {
        for gathers in [false, scaling == Scaling::Tensorwise] {
            for split in [ranks(1, false), ranks(4, false), ranks(4, true)] {
                for (fusion, gathers_again, parts) in
                    [(Fusion::ALL, true, Parts::OneByOne), (Fusion::TORCHTITAN, false, Parts::InPasses)]
                {
                    let fp8 = Some(Fp8 { scaling, gathers });
                    let common = flash(2, 512, split.clone());
                    for in_pieces in [false, split.sequence_parallel] {
                        let execution =
                            Execution { fusion, gathers_again, parts, fp8, in_pieces, ..common.clone() };
                        cases.push((preset("llama-3-8b"), execution));
                    }
                }
            }
        }
    }
    for exchange in [ContextExchange::Ring, ContextExchange::AllGather, ContextExchange::GatheredRing] {
        for name in ["llama-3-8b", "deepseek-v2", "bert-base"] {
            for context in [2, 4] {
                let split = Split { context, context_exchange: exchange, ..ranks(2, true) };
                cases.push((preset(name), flash(2, 512, split)));
            }
        }
    }
    // Experts that are not chosen alike, with rooms and all losses.
    let load = Load::Drawn(DrawnLoad { concentration: Share::parse("1").unwrap(), seed: 1 });
    let capacity = Some(Capacity { factor: 1_100_000_000, pad: false });
    let routing = Routing { load, capacity, balance_loss: true, z_loss: true };
    let experts = Experts { routing, ..preset("mixtral-8x7b").experts.unwrap() };
    let model = Transformer { experts: Some(experts), ..preset("mixtral-8x7b") };
    cases.push((model, flash(2, 512, Split { expert: 4, ..ranks(2, true) })));
    // Windows, norms of heads and behind branches, caps, sinks, biases of experts.
    for text in [
        config!("qwen3-30b-a3b"),
        config!("gemma-2-9b"),
        config!("gemma-3-1b"),
        config!("gpt-oss-20b"),
        config!("llama-4-scout"),
    ] {
        let of_file = configurations::model(text);
        let divisible = Transformer { kv_heads: of_file.kv_heads.max(4), ..of_file };
        for split in [ranks(1, false), ranks(4, true), Split { context: 2, ..ranks(2, true) }] {
            for fusion in [Fusion::ALL, Fusion::TORCHTITAN, in_operators] {
                let flash = Execution { fusion, ..flash(2, 16_384, split.clone()) };
                if split.context == 1 {
                    let materialised = Execution { fusion, ..materialised(2, 512, split.clone()) };
                    cases.push((divisible.clone(), materialised));
                }
                cases.push((divisible.clone(), flash));
            }
        }
    }
    // With scores in memory.
    cases.push((preset("deepseek-v3"), materialised(2, 512, ranks(4, true))));
    let direct = LatentAttention { query_rank: None, ..preset("deepseek-v2").latent.unwrap() };
    let alone = Experts { shared_ffn: None, ..preset("deepseek-v2").experts.unwrap() };
    let model =
        Transformer { latent: Some(direct), experts: Some(alone), mlp: Mlp::Gelu, ..preset("deepseek-v2") };
    cases.push((model, flash(2, 512, Split { expert: 160, ..ranks(2, true) })));
    cases
}

/// Checks that `operators` of a block read what is in `there` or was written before, and write nothing twice, by name.
fn run(block: &Block, operators: &[Operator], there: impl IntoIterator<Item = TensorId>) {
    let mut there: BTreeSet<TensorId> = there.into_iter().collect();
    let mut named: BTreeSet<&str> = there.iter().map(|&id| &*block.tensor(id).name).collect();
    for op in operators {
        for id in &op.reads {
            let name = &block.tensor(*id).name;
            assert!(there.contains(id), "{} reads {name}, which nobody wrote", op.name);
        }
        for &id in &op.writes {
            let Tensor { name, bytes } = block.tensor(id);
            assert!(there.insert(id) && named.insert(name), "{} writes {name} again", op.name);
            assert!(*bytes > 0, "{} writes an empty {name}", op.name);
        }
    }
}

/// What the backward pass starts from.
fn saved(block: &Block) -> impl Iterator<Item = TensorId> {
    block.saved().into_iter().chain(block.output_gradient)
}

#[test]
fn every_tensor_is_written_once_and_before_it_is_read() {
    for (model, execution) in cases() {
        let sharded = shard(&model, &execution);
        let recomputes = [Mode::None, Mode::Selective, Mode::Full, Mode::FullEarlyStop, Mode::Operators];
        let layers = recomputes.map(|recompute| recomputed(&sharded.layer(), recompute));
        let mixtures = recomputes.map(|recompute| recomputed(&sharded.expert_layer(), recompute));
        let last = recomputes.map(|recompute| recomputed(&sharded.layer_at(model.layers - 1), recompute));
        let blocks =
            layers.into_iter().chain(mixtures).chain(last).chain([sharded.embedding(), sharded.head()]);
        for block in &blocks.flat_map(|block| [fused(&block), block]).collect::<Vec<_>>() {
            run(block, &block.forward, [block.input]);
            run(block, &block.backward, saved(block));
            // Apart, weight gradients find what they keep and nothing else.
            run(block, &block.backward_input(), saved(block));
            let kept = block.kept_for_weight().into_iter().chain(block.output_gradient);
            run(block, &block.backward_weight(), kept);
        }
    }
}

#[test]
fn every_tensor_is_read_but_results() {
    for (model, execution) in cases() {
        let sharded = shard(&model, &execution);
        let layers = [0, 3, model.layers - 1].map(|layer| sharded.layer_at(layer));
        let layers = layers.into_iter().chain([sharded.layer(), sharded.expert_layer()]);
        let blocks = layers.chain([sharded.embedding(), sharded.head()]);
        for block in blocks.flat_map(|block| [fused(&block), block]) {
            let all = || block.forward.iter().chain(&block.backward);
            let read: BTreeSet<_> = all().flat_map(|op| &op.reads).copied().collect();
            let unread = all().flat_map(|op| &op.writes).filter(|tensor| !read.contains(tensor));
            let unread: Vec<&Tensor> = unread.map(|&tensor| block.tensor(tensor)).collect();
            assert!(unread.len() <= 2, "{unread:?}");
            for tensor in unread {
                let result = [
                    "mlp residual",
                    "mlp norm output",
                    "input gradient",
                    "embedding",
                    "word embedding",
                    "scaled word embedding",
                    "final norm input gradient",
                    "head dense input gradient",
                    "sequence gradient",
                    "log-softmax of metric",
                ];
                let is_result = result.iter().any(|name| tensor.name.starts_with(name));
                assert!(is_result, "nobody reads {}", tensor.name);
            }
        }
    }
}

/// Without dropout at its end a layer needs nothing from its last product again; with dropout it needs the mask.
#[test]
fn recomputation_that_stops_early_leaves_out_the_last_product() {
    let products = |dropout, recompute| {
        let model = Transformer { dropout, ..preset("mpt-7b") };
        let execution = Execution::new(1, 2_048, ranks(1, false), Dtype::Bf16, AttentionKernel::Flash);
        let block = recomputed(&shard(&model, &execution).layer(), recompute);
        let again = block.backward.iter().filter(|op| op.phase == Phase::Recompute);
        again.filter(|op| matches!(op.work, Work::Gemm(_))).count()
    };
    assert_eq!(products(false, Mode::Full), 4);
    assert_eq!(products(false, Mode::FullEarlyStop), 3);
    assert_eq!(products(true, Mode::FullEarlyStop), 4);
}

#[test]
fn operators_have_names_of_their_own() {
    for (model, execution) in cases().into_iter().filter(|(_, execution)| !execution.in_pieces) {
        let layer = shard(&model, &execution).expert_layer();
        let names: BTreeSet<_> = layer.forward.iter().chain(&layer.backward).map(|op| &op.name).collect();
        assert_eq!(names.len(), layer.forward.len() + layer.backward.len());
    }
}

#[test]
fn input_and_weight_gradients_together_are_the_backward_pass() {
    for (model, execution) in cases() {
        let layer = recomputed(&shard(&model, &execution).expert_layer(), Mode::Selective);
        let (input, weight) = (layer.backward_input(), layer.backward_weight());
        assert_eq!(input.len() + weight.len(), layer.backward.len());
        assert!(weight.iter().filter(|op| op.name.ends_with("weight gradient")).count() >= 4);
        assert!(
            (0..weight.len()).all(|n| beside(&weight[n..]) == 0),
            "nothing is left to run beside a gather"
        );
    }
}

#[test]
fn the_choices_of_a_model_show_in_its_operators() {
    let names = |model: &Transformer| -> BTreeSet<Label> {
        let layer = shard(model, &materialised(1, 512, ranks(1, false))).layer();
        layer.forward.into_iter().map(|op| op.name).collect()
    };
    let gpt = Transformer::gpt(2, 1_024, 16, 51_200, 1_024);
    let all = names(&gpt);
    let without = |change: fn(&mut Transformer), expected: &[&str]| {
        let mut model = gpt.clone();
        change(&mut model);
        let difference: Vec<_> =
            all.symmetric_difference(&names(&model)).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        assert_eq!(difference, expected);
    };
    without(|model| model.dropout = false, &["softmax dropout"]);
    without(|model| model.bias = Bias::None, &["qkv bias"]);
    without(|model| model.mlp = Mlp::Swiglu, &["mlp gelu", "mlp swiglu"]);
    without(|model| model.positions = Positions::Rotary, &["rotary positions"]);
    without(|model| model.positions = Positions::Alibi, &["position bias"]);
    without(|model| model.norm = Norm::Rms, &[]);
}

/// A technique or a model that knew times could invent them.
#[test]
fn nothing_here_knows_a_time() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/transformer");
    let mut files = 0;
    let entries =
        |folder| std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, here): (Vec<_>, Vec<_>) = entries(folder).partition(|path| path.is_dir());
    for path in here.into_iter().chain(folders.into_iter().flat_map(entries)) {
        let text = std::fs::read_to_string(path).expect("UTF-8");
        files += 1;
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            for word in [
                "time::",
                "Time",
                "Rate",
                "second",
                "_ms",
                "_us",
                "per_s",
                "efficiency",
                "bandwidth",
                "latency",
            ] {
                assert!(!line.contains(word), "`{word}` in `{}`", line.trim());
            }
        }
    }
    assert!(files > 15, "the sources are there");
}

/// Megatron-LM until September 2021: what follows waits for the sums of input gradients, which are the same.
#[test]
fn sums_of_input_gradients_wait_where_they_are_not_beside() {
    let sums = |reduces_beside| {
        let execution = Execution { reduces_beside, ..materialised(1, 2_048, ranks(8, false)) };
        let gpt = shard(&preset("gpt3-175b"), &execution);
        let layer = gpt.layer();
        let sum = |operator: &Operator| match operator.work {
            Work::Collective(sum) => Some((sum.bytes, sum.overlaps_next)),
            _ => None,
        };
        layer.backward.iter().filter_map(sum).collect::<Vec<_>>()
    };
    // 2048 x 12288 in fp16, after attention and after the MLP.
    assert_eq!(sums(true), [(50_331_648, true); 2]);
    assert_eq!(sums(false), [(50_331_648, false); 2]);
}

/// Layers of 2019 read and write scores in 16 bits for scale, softmax and two passes that mask;
/// biases, dropout and additions are passes, too. Nothing is cast.
#[test]
fn layers_of_2019_pass_over_scores_in_half_precision() {
    let execution = Execution { fusion: Fusion::MEGATRON_2019, ..materialised(2, 1_024, ranks(1, false)) };
    let layer = shard(&preset("gpt2"), &execution).layer();
    let scores = 2 * 12 * 1_024 * 1_024 * 2;
    let over_scores = |name: &str| {
        let passes = layer.forward.iter().chain(&layer.backward).filter(|op| op.name == name);
        let traffic = passes.filter_map(|op| match &op.work {
            Work::Stream(stream) => Some((stream.bytes_read, stream.bytes_written)),
            _ => None,
        });
        traffic.collect::<Vec<_>>()
    };
    for name in ["scale", "mask", "lower what is masked", "softmax", "mask gradient", "scale gradient"] {
        assert_eq!(over_scores(name), [(scores, scores)], "{name}");
    }
    let has = |name: &str| layer.forward.iter().any(|op| op.name == name);
    assert!(
        has("qkv bias") && has("mlp up bias") && has("heads of key") && has("attention residual addition")
    );
    assert!(!has("cast scores") && !has("scale, mask and softmax") && !has("attention to residual"));
}

/// BERT's norms come after the sums, its mask is added and its flash attention skips nothing.
#[test]
fn encoders_attend_to_all_of_the_sequence_and_norm_after_the_sums() {
    let layer = |model: &Transformer, execution: &Execution| shard(model, execution).layer();
    let fusion = Fusion { softmax: SoftmaxFusion::Off, ..Fusion::ALL };
    let unfused = Execution { fusion, ..materialised(1, 512, ranks(1, false)) };
    let bert = layer(&preset("bert-base"), &unfused);
    let place = |name| bert.forward.iter().position(|op| op.name == name);
    assert_eq!(place("qkv"), Some(0));
    assert!(
        place("attention to residual") < place("attention norm") && place("attention norm") < place("mlp up")
    );
    assert_eq!(place("mlp norm"), Some(bert.forward.len() - 1));
    assert!(place("mask").is_some() && bert.backward.iter().all(|op| op.name != "mask gradient"));
    let causal = |model: &Transformer| {
        let operators = layer(model, &flash(1, 512, ranks(1, false))).forward;
        operators.into_iter().find_map(|op| match op.work {
            Work::Attention(attention) => Some(attention.causal),
            _ => None,
        })
    };
    assert_eq!(causal(&preset("bert-base")), Some(false));
    assert_eq!(causal(&preset("gpt2")), Some(true));
}

/// A row of positions too many for RoBERTa, which counts them from 2.
#[test]
fn roberta_has_two_positions_that_no_token_has() {
    let longest = |name, sequence| {
        ShardedTransformer::new(&preset(name), &materialised(1, sequence, ranks(1, false))).is_ok()
    };
    assert!(longest("roberta-base", 512) && !longest("roberta-base", 513));
    assert!(longest("bert-base", 512) && !longest("bert-base", 513));
}

#[test]
fn encoders_are_those_of_bert() {
    let bert = preset("bert-base");
    for model in [
        Transformer { norm: Norm::Rms, ..bert.clone() },
        Transformer { mlp: Mlp::Swiglu, ..bert.clone() },
        Transformer { bias: Bias::None, ..bert.clone() },
        Transformer { positions: Positions::Rotary, ..bert.clone() },
        Transformer { parallel_residual: true, ..bert.clone() },
        Transformer { window: Some(128), ..bert.clone() },
    ] {
        let problems = model.validate().expect_err("no such encoder");
        assert_eq!(problems.iter().map(|problem| problem.path).collect::<Vec<_>>(), ["encoder"]);
    }
}
