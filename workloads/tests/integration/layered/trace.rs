//! Kernels of ResNet-50 beside a trace of it.

use std::collections::BTreeMap;

use hw_models::catalogue::Catalogue;
use hw_models::kernels::{ConvolutionPass, GpuFacts, KERNELS, KernelCatalogue, KernelModel};
use workloads::hardware::kernel;
use workloads::model::layered::LayeredModel;
use workloads::model::transformer::{Operator, Work};

use super::{execution, preset};

/// Time of the kernels of a step by what they do (ms): ResNet-50 of torchvision, 32 images, fp32, on a V100 of a DGX
/// Station. Source: github.com/pytorch/kineto @ 041e7ce, tb_plugin/samples/resnet50_num_workers_0, step 7; licence
/// BSD-3-Clause.
const MEASURED: [(&str, f64); 9] = [
    ("convolution forward", 21.03),
    ("convolution input gradient", 21.89),
    ("convolution weight gradient", 23.75),
    ("batch norm forward", 5.72),
    ("batch norm backward", 10.34),
    ("activation forward", 2.98),
    ("activation backward", 4.55),
    ("addition", 5.0),
    ("pooling", 0.91),
];

fn what(operator: &Operator) -> &'static str {
    let name = &operator.name;
    match operator.work {
        Work::Convolution(convolution) => match convolution.pass {
            ConvolutionPass::Forward => "convolution forward",
            ConvolutionPass::InputGradient => "convolution input gradient",
            ConvolutionPass::WeightGradient => "convolution weight gradient",
        },
        _ if name.starts_with("batch norm") && name.ends_with("input gradient") => "batch norm backward",
        _ if name.starts_with("accumulate") => "accumulation",
        _ if name.ends_with("count") => "counts",
        _ if name.starts_with("batch norm") => "batch norm forward",
        _ if name.starts_with("relu") && name.ends_with("gradient") => "activation backward",
        _ if name.starts_with("relu") => "activation forward",
        _ if name.starts_with("addition") || name.starts_with("gradient sum") => "addition",
        _ if name.contains("pool") => "pooling",
        _ => "others",
    }
}

/// Nothing was fitted to the trace. Its convolutions are those that cuDNN's heuristics choose, not the fastest: products
/// without precomputed places (`implicit_convolve_sgemm`, 28 of 53 forward) take 1.42 of what is simulated, Winograd's in one
/// kernel 1.00, between passes 0.78. Batch normalisation has one block a channel, at a rate from a trace of A100.
#[test]
fn kernels_of_resnet_take_what_a_trace_shows() {
    let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap();
    let kernels: KernelCatalogue = serde_yaml::from_str(KERNELS).unwrap();
    let gpu = "v100-sxm2-32gb";
    let model = KernelModel::new(
        GpuFacts::of(&catalogue.gpus[gpu], 1.0),
        kernels.parameters(gpu, &catalogue.gpus[gpu].architecture).unwrap(),
    );
    let resnet = LayeredModel::new(&preset("resnet-50"), &execution(32)).unwrap();
    let mut ours: BTreeMap<&str, f64> = BTreeMap::new();
    for block in resnet.blocks() {
        for op in block.block.forward.iter().chain(&block.block.backward) {
            let cost = kernel(&model, &op.work, &[]).unwrap().unwrap();
            *ours.entry(what(op)).or_default() += cost.alone().as_secs() * 1e3;
        }
    }
    let of_kinds = MEASURED.map(|(kind, measured)| ours[kind] / measured);
    let told = MEASURED.iter().zip(of_kinds).map(|((kind, _), ratio)| format!("{kind} {ratio:.2}"));
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
    convolution forward 0.86
    convolution input gradient 0.96
    convolution weight gradient 0.97
    batch norm forward 1.02
    batch norm backward 0.96
    activation forward 1.04
    activation backward 1.01
    addition 1.05
    pooling 1.09
    ");
    let all: f64 = MEASURED.iter().map(|(_, measured)| measured).sum();
    let sum: f64 = MEASURED.iter().map(|(kind, _)| ours[kind]).sum();
    assert!((sum / all - 1.0).abs() < 0.05, "{sum} ms for {all} ms");
}
