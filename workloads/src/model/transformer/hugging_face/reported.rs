//! Keys of a `config.json` that change the computation and are not modelled, and keys that are known
//! to change nothing of it.

use serde_json::Value;

use super::fields::Fields;

/// A key that changes the computation, for which values it does, and what that leaves out.
struct Reported {
    key: &'static str,
    matters: fn(&Value) -> bool,
    what: &'static str,
}

const REPORTED: [Reported; 13] = [
    Reported {
        key: "num_nextn_predict_layers",
        matters: is_above_zero,
        what: "multi-token prediction is left out: each of these layers adds parameters, a layer's time and a loss over the vocabulary",
    },
    Reported {
        key: "quantization_config",
        matters: |value| value.is_object(),
        what: "weights of this form are for inference: the step trains in `training.precision` (8 bits: `training: { fp8: {} }`)",
    },
    Reported {
        key: "vision_config",
        matters: |value| value.is_object(),
        what: "the vision tower is left out: sequences are texts",
    },
    Reported {
        key: "partial_rotary_factor",
        matters: is_below_one,
        what: "positions rotate all of each head here: passes over queries and keys move more bytes than they would",
    },
    Reported {
        key: "rotary_pct",
        matters: is_below_one,
        what: "positions rotate all of each head here: passes over queries and keys move more bytes than they would",
    },
    Reported {
        key: "attn_temperature_tuning",
        matters: |value| value.as_bool() == Some(true) || is_above_zero(value),
        what: "layers without positions scale their queries by a pass of their own, which is left out",
    },
    Reported {
        key: "swiglu_limit",
        matters: is_above_zero,
        what: "the gate is clamped in the kernel of the activation, which adds no traffic; in operators it would be two more passes",
    },
    Reported {
        key: "n_group",
        matters: |value| value.as_f64().is_some_and(|count| count > 1.0),
        what: "experts are chosen of all, not of the best groups: two small passes a layer are left out (`experts.load` says who gets most)",
    },
    Reported {
        key: "pretraining_tp",
        matters: |value| value.as_f64().is_some_and(|count| count > 1.0),
        what: "products are not cut into slices as they were in pretraining: use `parallelism.tensor`",
    },
    Reported {
        key: "router_jitter_noise",
        matters: is_above_zero,
        what: "a pass that adds noise to the router's input is left out",
    },
    Reported {
        key: "ep_size",
        matters: |value| value.as_f64().is_some_and(|count| count > 1.0),
        what: "experts are shared as `parallelism.expert` says",
    },
    Reported {
        key: "add_cross_attention",
        matters: |value| value.as_bool() == Some(true),
        what: "attention to another sequence is left out",
    },
    Reported {
        key: "reorder_and_upcast_attn",
        matters: |value| value.as_bool() == Some(true),
        what: "attention scores are computed in `training.precision`, not in fp32",
    },
];

/// Keys that change neither the operators of a training step nor their sizes: names and dates,
/// tokens, initial values, constants in kernels that are there anyway, choices of experts that move
/// nothing more, inference, images.
const HARMLESS: [&str; 70] = [
    "activation_function",
    "architectures",
    "attn_scale",
    "attn_implementation",
    "auto_map",
    "aux_loss_alpha",
    "boi_token_id",
    "boi_token_index",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "dtype",
    "emb_init_std",
    "embed_dim",
    "eoi_token_id",
    "eoi_token_index",
    "eos_token_id",
    "floor_scale",
    "finetuning_task",
    "for_llm_compressor",
    "gradient_checkpointing",
    "id2label",
    "image_token_id",
    "image_token_index",
    "init_config",
    "init_device",
    "initial_context_length",
    "initializer_range",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "logit_scale",
    "max_position_embeddings",
    "mm_tokens_per_image",
    "model_type",
    "n_ctx",
    "norm_topk_prob",
    "original_max_position_embeddings",
    "output_past",
    "output_router_logits",
    "pad_token_id",
    "problem_type",
    "query_pre_attn_scalar",
    "rms_norm_eps",
    "rope_interleaved",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "routed_scaling_factor",
    "router_aux_loss_coef",
    "scale_attn_weights",
    "scoring_func",
    "seq_aux",
    "sliding_window_size",
    "seq_length",
    "sep_token_id",
    "swiglu_alpha",
    "task_specific_params",
    "tokenizer_class",
    "topk_group",
    "topk_method",
    "torch_dtype",
    "transformers_version",
    "unsloth_fixed",
    "use_cache",
    "use_return_dict",
    "verbose",
];

/// Parts of a file that are not modelled, a sentence each: keys with what they change, and one for
/// all that are unknown.
pub(super) fn not_modelled(fields: &Fields) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut unknown = Vec::new();
    for (name, value) in fields.unread() {
        let known = REPORTED.iter().find(|reported| reported.key == name);
        match known {
            Some(reported) if (reported.matters)(value) => {
                sentences.push(format!("`{name}` of the config.json is not modelled: {}", reported.what));
            }
            Some(_) => {}
            None if is_harmless(name, value) => {}
            None => unknown.push(format!("`{name}`")),
        }
    }
    sentences.sort();
    unknown.sort();
    if !unknown.is_empty() {
        sentences.push(format!(
            "keys of the config.json that are not known, and change nothing here: {}",
            unknown.join(", ")
        ));
    }
    sentences
}

/// Whether a key changes nothing; none that is null does.
fn is_harmless(name: &str, value: &Value) -> bool {
    // Heads that sum up a sequence, which GPT-2 has for other tasks.
    let sums_up = name.starts_with("summary_");
    value.is_null() || name.starts_with('_') || sums_up || HARMLESS.contains(&name)
}

fn is_above_zero(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

fn is_below_one(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number < 1.0)
}
