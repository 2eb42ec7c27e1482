//! What operators read and keep.

use std::collections::BTreeSet;

use workloads::graph::block::Block;
use workloads::graph::operator::{Label, TensorId};
use workloads::model::layered::{LayeredExecution, LayeredModel, ModelBlock};
use workloads::model::transformer::{AttentionKernel, Dtype, Operator, States};
use workloads::passes::recompute::{Mode, recomputed};

use super::{execution, names, preset, read, yaml};

/// The elements of the tensors that a model keeps from the forward to the backward pass, block by block.
fn kept(model: &LayeredModel) -> Vec<u64> {
    model.blocks().iter().map(|block| block.block.saved_bytes() / 4).collect()
}

#[test]
fn a_convolution_with_norm_and_activation_keeps_three_tensors() {
    let model = read(
        "input: { channels: 3, height: 8, width: 8 }
list: [{ conv2d: { channels: 4, kernel: 3, padding: 1 } }, batch_norm, relu, { conv2d: { channels: 2, kernel: 1 } },
       global_average_pool, { linear: { outputs: 5 } }, cross_entropy]",
    );
    // The image, what the filters made, two statistics of each channel, and the result for the sign of the activation: it
    // is in place of the output of the norm. The next block keeps that again as its input.
    let (image, made) = (3 * 64, 4 * 64);
    // The mean keeps nothing, the linear layer what it takes, the loss its logarithms.
    assert_eq!(kept(&model.unwrap()), [image + made + 2 * 4 + made, made, 2 + 5]);
}

/// Everything an operator reads was written before it, in its block or the one before.
#[test]
fn operators_read_what_was_made() {
    let made_before = ["input", "output gradient", "encoder output", "decoder tokens"];
    let half = LayeredExecution {
        dtype: Dtype::Fp16,
        attention: AttentionKernel::Flash,
        states: States::FullGradients,
        ..execution(2)
    };
    let written = LayeredExecution { in_operators: true, gelu: false, ..half.clone() };
    for name in names() {
        for on in [&execution(2), &half, &written] {
            let model = LayeredModel::new(&preset(&name), on).unwrap();
            let blocks = model.blocks().iter().map(|block| &block.block);
            for block in blocks.flat_map(|block| [block.clone(), recomputed(block, Mode::Full)]) {
                let mut made: BTreeSet<TensorId> = BTreeSet::new();
                for Operator { name: operator, reads, writes, .. } in
                    block.forward.iter().chain(&block.backward)
                {
                    let absent = reads.iter().filter(|read| !made.contains(read));
                    let mut absent = absent.map(|&read| &block.tensor(read).name);
                    let made_before = |name: &Label| made_before.contains(&&**name);
                    assert!(absent.all(made_before), "{name}: {operator} reads what nobody made");
                    made.extend(writes);
                }
            }
        }
    }
}

/// Eight operators forward, and eleven backward: two products, hyperbolic tangent, two scales,
/// three for the cube, the half, and two sums of the three gradients.
#[test]
fn gelu_in_operators_is_eight_and_eleven() {
    let list = "{ input: { tokens: 4 }, list: [{ embedding: { vocabulary: 8, width: 4 } }, gelu, { linear: { outputs: 2 } }, cross_entropy] }";
    let counts = |gelu| {
        let model = LayeredModel::new(&yaml(list), &LayeredExecution { gelu, ..execution(2) }).unwrap();
        let count = |of: fn(&Block) -> &[Operator]| {
            model.blocks().iter().map(|block| of(&block.block).len()).sum::<usize>()
        };
        [count(|block| &block.forward), count(|block| &block.backward)]
    };
    let ([forward, backward], [one, one_back]) = (counts(false), counts(true));
    assert_eq!([forward - one, backward - one_back], [7, 10]);
}

/// Every product has two in the backward pass.
#[test]
fn backward_passes_multiply_twice_as_often() {
    for name in names() {
        let model = LayeredModel::new(&preset(&name), &execution(1)).unwrap();
        let flops = |operators: &[Operator]| operators.iter().map(|op| op.work.flops()).sum::<f64>();
        let backward: f64 = model.blocks().iter().map(|block| flops(&block.block.backward)).sum();
        // An image has no gradient, entries of a vocabulary are in no product, and encodings of distances are no parameters.
        let operators = || model.blocks().iter().flat_map(|block| &block.block.forward);
        let of_images = operators().take(1).map(|op| op.work.flops());
        let encodings = operators().filter(|op| op.name.ends_with("distance encodings"));
        let without: f64 = of_images.chain(encodings.map(|op| op.work.flops())).sum();
        assert_eq!(backward, 2.0 * model.forward_flops() - without, "{name}");
    }
}

#[test]
fn recomputed_blocks_keep_their_input() {
    let model = LayeredModel::new(&preset("resnet-50"), &execution(4)).unwrap();
    for ModelBlock { block, input_bytes, .. } in model.blocks() {
        for mode in [Mode::Full, Mode::FullEarlyStop] {
            assert_eq!(recomputed(block, mode).saved_bytes(), *input_bytes);
        }
    }
}

#[test]
fn a_layer_that_does_not_fit_is_told_with_its_place() {
    let told = |list: &str| {
        let model = format!("input: {{ channels: 3, height: 8, width: 8 }}\nlist: {list}");
        read(&model).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            "[relu]",
            "[{ linear: { outputs: 10 } }, cross_entropy]",
            "[{ conv2d: { channels: 4, kernel: 9 } }, cross_entropy]",
            "[{ conv2d: { channels: 4, kernel: 3, groups: 2 } }, cross_entropy]",
            "[{ repeat: { count: 2, layers: [{ residual: { body: [{ conv2d: { channels: 4, kernel: 1 } }] } }] } },
              flatten, cross_entropy]",
            "[flatten, { attention: { heads: 4 } }, cross_entropy]",
            "[{ concat: { branches: [[], [{ conv2d: { channels: 4, kernel: 3 } }]] } }, flatten, cross_entropy]",
            "[{ repeat: { count: 4000000000, layers: [relu] } }]",
            "[{ repeat: { count: 4000000000, layers: [{ repeat: { count: 4000000000, layers: [] } }] } }, cross_entropy]",
            "[{ repeat: { count: 60000, layers: [relu] } }, flatten, cross_entropy]",
            "[{ conv2d: { channels: 4294967295, kernel: 1, padding: 4294967295 } }, flatten, cross_entropy]",
            "[flatten, { linear: { outputs: 4294967295 } }, { linear: { outputs: 4294967295 } }, cross_entropy]",
            "[{ max_pool: { kernel: 2, stride: 0 } }, flatten, cross_entropy]",
        ]
        .map(told)
        .join("\n"),
        @r"
    list: a list ends with a loss: add `cross_entropy`
    list.1: `cross_entropy` takes a vector or tokens, not an image of 10 x 8 x 8
    list.0: a filter that reaches over 9 places does not fit 8, padding included
    list.0: 2 groups do not divide 3 channels of the input and 4 of the output
    list.0.repeat.layers.0: a sum takes equal shapes: the body makes an image of 4 x 8 x 8, the shortcut an image of 3 x 8 x 8
    list.1: `attention` takes tokens, not a vector of 192
    list.0: branches differ by more than their channels: an image of 3 x 8 x 8 and an image of 4 x 6 x 6
    list: there are more than 65536 layers
    list: there are more than 65536 layers
    list.0.repeat.layers.0: a block has more than 8192 operators: have a layer with a matrix product begin another, or fewer layers in one `residual` or `concat`
    list.0: what a convolution makes would have 316912650425992231899906441180 elements, more than 1099511627776
    list.2: the matrix of a linear layer would have 18446744065119617025 elements, more than 1099511627776
    list.0: a window must have at least 1 of everything
    "
    );
}
