//! Mixtures of experts in lists of layers.

use hw_models::catalogue::Catalogue;
use hw_models::collectives::{COLLECTIVES, CollectiveCatalogue};
use hw_models::copies::COPIES;
use hw_models::framework::{FRAMEWORKS, Framework};
use hw_models::host::{HOST, HostCosts, OpClass};
use hw_models::kernels::{KERNELS, KernelCatalogue, Libraries};
use hw_models::machine::{Machine, Parts};
use indexmap::IndexMap;
use sim_core::time::Time;
use sim_core::{Options, simulate};
use workloads::graph::block::Block;
use workloads::graph::operator::TensorId;
use workloads::hardware::{Hardware, kernel};
use workloads::model::layered::{LayerList, LayeredExecution, LayeredModel};
use workloads::model::reuse::{Reuse, reused};
use workloads::model::transformer::{Layout, Operator, Step, Work};
use workloads::plan::{Launch, PlanError, build_layered_on};

use crate::machine::launches::eager;

use super::memory::plan;
use super::{execution, preset, read, yaml};

/// Four experts behind an embedding, 8 tokens of 16 in two samples.
fn model(experts: &str, step: Step) -> LayeredModel {
    LayeredModel::new(&list(experts), &LayeredExecution { step, ..execution(2) }).unwrap()
}

fn list(experts: &str) -> LayerList {
    yaml(&format!(
        "input: {{ tokens: 8 }}
list: [{{ embedding: {{ vocabulary: 10, width: 16 }} }},
       {{ experts: {{ count: 4, width: 64, bias: false, jitter: true, {experts} }} }}, cross_entropy]"
    ))
}

fn operators(model: &LayeredModel, backward: bool) -> impl Iterator<Item = &Operator> {
    let block = &model.blocks()[1].block;
    if backward { &block.backward } else { &block.forward }.iter()
}

fn products(model: &LayeredModel, backward: bool, of: Layout) -> Vec<[u64; 3]> {
    let shapes = operators(model, backward).filter_map(|op| match op.work {
        Work::Gemm(gemm) if gemm.layout == of => Some([gemm.m, gemm.n, gemm.k]),
        _ => None,
    });
    shapes.collect()
}

/// 16 tokens of two samples go to 4, 2 and 1 of the experts, with room for 3 tokens of a sample.
#[test]
fn experts_multiply_the_tokens_that_they_take() {
    for (settings, chosen, taken) in
        [("", 4, 4), ("chosen: 2", 2, 8), ("capacity: 3", 4, 4), ("chosen: 2, capacity: 3", 2, 6)]
    {
        let model = model(settings, Step::Whole);
        let mut forward = vec![[16, 4, 16]];
        let expert = [[taken, 64, 16], [taken, 16, 64]];
        forward.extend([expert; 4][..chosen].concat());
        assert_eq!(products(&model, false, Layout::Forward), forward, "{settings}");
        // Those of the router, too.
        assert_eq!(products(&model, true, Layout::WeightGradient).len(), 1 + 2 * chosen, "{settings}");
        assert_eq!(model.parameters(), 10 * 16 + 16 * 4 + 4 * 2 * 16 * 64, "{settings}");
    }
}

/// Every parameter has a gradient that is added to its sum: read, added, written.
#[test]
fn experts_without_tokens_have_gradients_of_zeros() {
    for settings in ["", "chosen: 1"] {
        let model = model(settings, Step::Whole);
        let sums = operators(&model, true).filter(|op| op.name.starts_with("accumulate"));
        let bytes: u64 = sums
            .map(|op| match op.work {
                Work::Stream(stream) => stream.bytes_read + stream.bytes_written,
                _ => 0,
            })
            .sum();
        assert_eq!(bytes, 3 * 4 * (16 * 4 + 4 * 2 * 16 * 64), "{settings}");
    }
}

/// PyTorch counts the tokens of a mask wherever one is used: to take them, to put them back, for the gradient of what was put
/// back, for that of the rest, and for that of what was taken.
#[test]
fn the_host_waits_for_every_mask() {
    let model = model("chosen: 3", Step::Whole);
    let waits = |backward| operators(&model, backward).filter(|op| op.awaited).count();
    assert_eq!([waits(false), waits(true)], [2 * 4, 3 * 4]);
    assert!(model.makes_host_wait());
    let without = LayeredModel::new(&preset("t5-small"), &execution(1)).unwrap();
    assert!(!without.makes_host_wait());
}

#[test]
fn forward_steps_drop_nothing_and_need_no_loss() {
    let evaluated = model("", Step::Forward);
    let dropped = |model: &LayeredModel| operators(model, false).any(|op| op.name.contains("dropout"));
    let noisy = |model: &LayeredModel| operators(model, false).any(|op| op.name.contains("noise"));
    assert!(operators(&evaluated, true).next().is_none() && !dropped(&evaluated) && !noisy(&evaluated));
    let trained = model("", Step::Gradients);
    assert!(dropped(&trained) && noisy(&trained));
    let mut list = list("");
    list.list.pop();
    let read = |step| LayeredModel::new(&list, &LayeredExecution { step, ..execution(1) });
    assert!(read(Step::Forward).is_ok() && read(Step::Gradients).is_err());
}

#[test]
fn experts_that_cannot_be_are_told() {
    let told = |list: &str| {
        let model = format!(
            "input: {{ tokens: 8 }}\nlist: [{{ embedding: {{ vocabulary: 10, width: 16 }} }}, {list}, cross_entropy]"
        );
        read(&model).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            "{ experts: { count: 0, width: 8 } }",
            "{ experts: { count: 100, width: 8 } }",
            "{ experts: { count: 4, width: 8, chosen: 5 } }",
            "{ experts: { count: 4, width: 8, capacity: 0 } }",
            "{ experts: { count: 4, width: 0 } }",
            "to_signal, { experts: { count: 4, width: 8 } }",
        ]
        .map(told)
        .join("\n"),
        @r"
    list.1: `experts` of a list are between 1 and 24, not 0: each has operators of its own; for more, and for several experts a token, use a transformer (`model: { transformer: { experts: ... } }`)
    list.1: `experts` of a list are between 1 and 24, not 100: each has operators of its own; for more, and for several experts a token, use a transformer (`model: { transformer: { experts: ... } }`)
    list.1: of 4 experts 1 to 4 are chosen, not 5
    list.1: an expert has room for at least 1 token: write a larger `capacity`, or leave it out
    list.1: experts must have at least 1 of everything
    list.2: `experts` take tokens, not a signal of 16 x 8
    "
    );
}

/// Operator by operator: each starts when it is issued and the one before has ended, and the host issues nothing until it
/// knows of the end of what it waits for.
#[test]
fn a_step_ends_as_if_the_host_waited_for_each_mask() {
    fn parse<T: serde::de::DeserializeOwned>(text: &str) -> T {
        serde_yaml::from_str(text).unwrap()
    }
    let catalogue = Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap();
    let gpus = [("gpu".to_owned(), "a100-sxm4-80gb".into())].into();
    let machine = Machine::from_parts(&catalogue, &Parts { gpus, ..Parts::default() }).unwrap();
    let (kernels, collectives): (KernelCatalogue, CollectiveCatalogue) = (parse(KERNELS), parse(COLLECTIVES));
    let mut host: HostCosts = parse(HOST);
    let frameworks: IndexMap<String, Framework> = parse(FRAMEWORKS);
    let framework = &frameworks["pytorch-2"];
    for synchronise in [0.0, 5.0, 500.0] {
        host.synchronise.us = synchronise;
        let hardware = Hardware {
            machine: &machine,
            catalogue: &catalogue,
            kernels: &kernels,
            collectives: &collectives,
            host: &host,
            framework,
            copies: &parse(COPIES),
            libraries: Libraries::default(),
            differ: None,
            measured: &[],
            memo: None,
        };
        let on = LayeredExecution { step: Step::Gradients, ..execution(8) };
        let mut plan = plan(&preset("switch-base-8"), &on, 1, None);
        plan.deployment.launch = Launch::Eager;
        let model = hardware.kernel_model(hardware.gpu().unwrap(), 1.0).unwrap();
        let gap = host.gap_in_stream.time();
        let blocks = plan.model.blocks();
        let blocks = blocks.iter().map(|block| &block.block);
        let forward = blocks.clone().map(|block| (&block.forward, block, Some(block.input)));
        let backward = blocks.rev().map(|block| (&block.backward, block, block.output_gradient));
        type Pass<'a> = (&'a Vec<Operator>, &'a Block, Option<TensorId>);
        let list = |(pass, block, before): Pass<'_>| -> Vec<(Operator, Vec<Reuse>)> {
            pass.iter().cloned().zip(reused(pass, &block.tensors, before.as_slice())).collect()
        };
        let (mut issued, mut ended, mut count) = (Time::ZERO, Time::ZERO, 0);
        for (op, reused) in forward.chain(backward).flat_map(list) {
            let class = match op.work {
                Work::Gemm(_) => OpClass::MatrixProduct,
                Work::Stream(stream) if stream.class.normalises() => OpClass::Normalisation,
                _ => OpClass::Pointwise,
            };
            issued += eager(&hardware, class, &op);
            ended = issued.max(ended) + gap + kernel(&model, &op.work, &reused).unwrap().unwrap().alone();
            if op.awaited {
                issued = issued.max(ended) + host.synchronise.time();
            }
            count += 1;
        }
        let built = build_layered_on(&plan, &hardware).unwrap().lowered;
        let run = simulate(&built.platform, &built.program, &built.start, &Options::default()).unwrap();
        assert!(run.time.0.abs_diff(ended.0) <= count, "{:?}, {ended:?}", run.time);
        plan.deployment.launch = Launch::Graph;
        let Err(PlanError::Invalid(found)) = build_layered_on(&plan, &hardware) else { panic!() };
        assert_eq!(found[0].path, "launch");
    }
}
