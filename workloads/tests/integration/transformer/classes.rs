//! The head of an encoder that tells sequences apart.

use workloads::model::transformer::{Transformer, Work};

use super::{materialised, preset, ranks, shard};

/// `BertForSequenceClassification` of Hugging Face Transformers with two labels: 109,483,778 parameters in 12 layers.
#[test]
fn a_bert_of_classes_has_the_parameters_of_hugging_face() {
    let bert = Transformer { classes: Some(2), ..preset("bert-base") };
    assert_eq!(bert.parameters(), 109_483_778);
    let sharded = shard(&bert, &materialised(8, 512, ranks(1, false)));
    let padding = (bert.padded_vocabulary(128) - u64::from(bert.vocabulary)) * u64::from(bert.hidden);
    assert_eq!(sharded.parameters(12, true, true).total(), 109_483_778 + padding);
    assert_eq!(sharded.parameters(6, false, true).shared, 0, "the words are of the first stage alone");
}

/// It sees a token of each sequence: 8 rows, not 4,096.
#[test]
fn it_sees_the_first_tokens_only() {
    let bert = Transformer { classes: Some(2), ..preset("bert-base") };
    let head = shard(&bert, &materialised(8, 512, ranks(1, false))).head();
    let products = head.forward.iter().filter_map(|op| match op.work {
        Work::Gemm(gemm) => Some((gemm.m, gemm.n, gemm.k)),
        _ => None,
    });
    assert_eq!(products.collect::<Vec<_>>(), [(8, 768, 768), (8, 2, 768)]);
    let gradient = head.input_gradient.expect("a gradient");
    let bytes = head.tensor(gradient).bytes;
    assert_eq!(bytes, head.tensor(head.input).bytes, "of all tokens, zero but for the first");
    let layers = shard(&bert, &materialised(8, 512, ranks(1, false))).layer();
    assert_eq!(layers.output.map(|output| layers.tensor(output).bytes), Some(bytes));
}

#[test]
fn only_encoders_have_classes() {
    let problems =
        Transformer { classes: Some(2), ..preset("gpt2") }.validate().expect_err("no such decoder");
    assert_eq!(problems[0].path, "classes");
    let none = Transformer { classes: Some(0), ..preset("bert-base") }.validate().expect_err("no class");
    assert!(none[0].message.contains("not between 1 and"), "{none:?}");
}
