//! What PyTorch runs is what is simulated: operators, sizes of products, and bytes kept, layer by layer. They are counted on a CPU.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use calibration::devices::{Greeting, Workloads as PyTorch};
use calibration::measure::{DeviceError, Found};
use serde::Deserialize;
use serde_json::json;
use workloads::graph::cut::LayerPlace;
use workloads::model::transformer::{Block, Operator, ShardedTransformer, Work};
use workloads::passes::recompute::{Mode, recomputed};

use super::simulation::{Checked, FILE};
use super::*;
use crate::plans;
use crate::schema::{Model, Scenario};

/// A tiny GPT of two layers, and what every row of the sets says.
const TINY: &str = "
name: tiny
machine: { parts: { gpus: { gpu: h200-sxm5-141gb } } }
model: { transformer: { layers: 2, hidden: 64, heads: 4, vocabulary: 512, max_positions: 64, tied_embedding: false, dropout: false } }
training: { precision: bf16-mixed, micro_batch: 1, sequence: 32, accumulate: 1 }
memory: { bytes_per_parameter: 20 }
software: { layers: hugging-face, fused_softmax: off, cross_entropy: operators, gradients: added, optimizer: operators }
";

/// The operators of a block by what they are: passes over memory, attention, and products with their sizes, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Operators {
    passes: i64,
    attention: i64,
    products: BTreeMap<[u64; 4], i64>,
}

/// What PyTorch says of a step.
#[derive(Deserialize)]
struct Step {
    operators: Vec<(String, Vec<Vec<u64>>)>,
    kept_bytes: u64,
}

#[test]
fn a_layer_of_pytorch_has_the_operators_that_are_simulated() {
    let Some(mut pytorch) = pytorch() else { return };
    for settings in LAYERS {
        let Some([two, three]) = layers(&mut pytorch, settings) else { continue };
        let mut found = operators(&three.operators);
        found.subtract(&operators(&two.operators));
        let layer = layer(settings);
        let simulated = simulated_operators(layer.forward.iter().chain(&layer.backward));
        assert_eq!(found, simulated, "{settings:?}");
    }
}

#[test]
fn a_layer_of_pytorch_keeps_the_bytes_that_are_simulated() {
    let Some(mut pytorch) = pytorch() else { return };
    for settings in LAYERS {
        let Some([two, three]) = layers(&mut pytorch, settings) else { continue };
        let simulated = layer(settings).saved_bytes();
        // On a CPU statistics of norms are in the type of their input: 4 bytes a token and norm less than on a GPU.
        let recomputed = settings.iter().any(|setting| setting.contains("full"));
        let statistics = if recomputed { 0 } else { 2 * 4 * tokens(settings) };
        assert_eq!(three.kept_bytes - two.kept_bytes, simulated - statistics, "{settings:?}");
    }
}

#[test]
fn what_is_around_the_layers_has_the_operators_that_are_simulated() {
    let Some(mut pytorch) = pytorch() else { return };
    // The seed of the backward pass is filled in; the gradient of positions is summed over sequences, where there are several.
    for (settings, more) in [(&[][..], 1), (&["training.micro_batch=2"], 2)] {
        let Some([two, three]) = layers(&mut pytorch, settings) else { continue };
        let mut found = operators(&two.operators);
        let mut of_layer = operators(&three.operators);
        of_layer.subtract(&found);
        found.subtract(&of_layer);
        found.subtract(&of_layer);
        let model = model(settings);
        let blocks = [model.embedding(), model.head()];
        let all = blocks.iter().flat_map(|block| block.forward.iter().chain(&block.backward));
        let mut simulated = simulated_operators(all);
        simulated.passes += more;
        assert_eq!(found, simulated, "{settings:?}");
    }
}

/// The rule that decides in the script what leaves decides what is simulated: as many tensors of as many bytes. Whether they are
/// away changes nothing that is computed.
#[test]
fn what_leaves_in_pytorch_is_what_is_simulated_to_leave() {
    let Some(mut pytorch) = pytorch() else { return };
    let software = |of| ["materialised", "flash"].map(|attention| (attention, of));
    for (of, accumulate) in software(1).into_iter().chain(software(2)) {
        let mut losses = Vec::new();
        let rows = [(1_000_000_000, 1, true), (100_000, 1, true), (100_000, 0, true), (0, 1_000, true)];
        for (keep, prefetch, pinned) in rows.into_iter().chain([(100_000, 1, false), (0, 4, false)]) {
            let offload = format!(
                "techniques.activation_offload={{ smallest: 2000 B, keep: {{ bytes: {keep} B }}, prefetch: {prefetch}, forwarding: false, \
                 pinned: {pinned} }}"
            );
            let attention = format!("software.attention={of}");
            let accumulate = format!("training.accumulate={accumulate}");
            let swap = swap(&[&attention, &offload, &accumulate]);
            let asks = swap.asks().unwrap_or_else(|wrong| panic!("{wrong}"));
            let mut reply = match pytorch.run::<Reply>(&on_cpu(&asks)) {
                Ok(reply) => reply,
                Err(DeviceError::Unable { why, .. }) if why.contains("needs PyTorch") => return,
                Err(error) => panic!("{error}"),
            };
            let traffic = swap.run().unwrap().communication;
            for (way, bytes) in
                [("offload to host memory", "out_bytes"), ("load from host memory", "back_bytes")]
            {
                let simulated = traffic.iter().find(|traffic| traffic.kind == way);
                let simulated = simulated.map_or((0.0, 0.0), |t| (t.bytes as f64, t.count as f64));
                let found = (reply.figures[bytes][0], reply.figures["moved"][0]);
                assert_eq!(found, simulated, "{of}, {offload}, {way}");
            }
            assert!(keep > 1_000_000 || reply.figures["moved"][0] > 10.0, "{:?}", reply.figures);
            losses.push(reply.figures.swap_remove("loss"));
        }
        assert!(losses.windows(2).all(|pair| pair[0] == pair[1]), "{losses:?}");
    }
}

#[test]
fn steps_are_timed() {
    let Some(mut pytorch) = pytorch() else { return };
    let asks = Asks::Step { model: built(&[]) };
    let reply: Reply = pytorch.run(&on_cpu(&asks)).unwrap_or_else(|error| panic!("{error}"));
    assert!(reply.figures["step_s"].len() == 4 && reply.figures["step_s"].iter().all(|&time| time > 0.0));
}

/// How a program is executed changes nothing that it computes. A step that is traced or captured is a step, too.
#[test]
fn a_program_computes_the_same_in_every_execution_mode() {
    let Some(mut pytorch) = pytorch() else { return };
    let decided = "{ branch: { name: is a number, by: loss, probability: 100 %, then: [{ run: [backward, update] }] } }";
    for iteration in [
        "[{ run: [forward, backward, update] }]".to_owned(),
        "[{ run: [forward, backward, update] }, { fetch: { tensor: loss } }]".to_owned(),
        format!(
            "[{{ run: forward 0..2 }}, {{ third_party: {{ time: 1 us }} }}, {{ run: forward 2..4 }}, {decided}]"
        ),
    ] {
        let mut losses = Vec::new();
        for (execution, warm_up) in [
            ("eager", 2),
            ("cuda-graphs", 2),
            ("compiled", 2),
            ("{ co-execution: { launch: graph, kernels: library } }", 1),
        ] {
            let program = read(&programmed(&iteration, execution), &[]);
            let mut asks = on_cpu(&Asks::Program(scripted(&program.scenario).unwrap()));
            asks["warm_up"] = json!(warm_up);
            match pytorch.run::<Reply>(&asks) {
                Ok(reply) => {
                    let samples = &reply.figures["step_s"];
                    assert!(samples.len() == 4 && samples.iter().all(|&time| time > 0.0), "{samples:?}");
                    losses.push(reply.figures["loss"][0]);
                }
                Err(DeviceError::Unable { why, .. }) if why.contains("needs PyTorch") => {}
                Err(error) => panic!("{iteration}, {execution}: {error}"),
            }
        }
        assert!(losses.len() > 2 && losses.iter().all(|loss| *loss == losses[0]), "{iteration}: {losses:?}");
    }
}

#[test]
fn what_python_cannot_do_to_a_program_is_refused() {
    let trains = "[{ run: [forward, backward, update] }]";
    for (iteration, execution, expected) in [
        ("[{ run: [forward, backward] }, { mutate: counter }]", "eager", "`third_party`"),
        (trains, "co-execution", "launch: graph"),
        (trains, "lazy", "`eager`"),
    ] {
        let program = read(&programmed(iteration, execution), &[]);
        let refused = scripted(&program.scenario).unwrap_err();
        assert!(refused.contains(expected), "{iteration}, {execution}: {refused}");
    }
}

/// Threads copy meanwhile where there is no GPU. Where they had ended before a step had, the row is refused.
#[test]
fn steps_are_timed_alone_and_beside_other_work_in_turns() {
    let Some(mut pytorch) = pytorch() else { return };
    let asks = |beside: &str| {
        let (beside, _) = Background::taken(&[format!("beside={beside}")]).unwrap();
        on_cpu(&Asks::Beside { model: built(&[]), beside })
    };
    for beside in ["{}", "{ to_host: true }"] {
        match pytorch.run::<Reply>(&asks(beside)) {
            Ok(reply) => {
                for figure in ["step_s", "alone_s", "between_events_s"] {
                    let samples = &reply.figures[figure];
                    assert!(samples.len() == 4 && samples.iter().all(|&time| time > 0.0), "{samples:?}");
                }
            }
            Err(error) => assert!(
                beside != "{}" && error.to_string().contains("the other work ended before a step"),
                "{beside}: {error}"
            ),
        }
    }
    let refused = pytorch.run::<Reply>(&asks("{ sms: 8 }")).unwrap_err().to_string();
    assert_eq!(refused, "PyTorch cannot do this: there are no SMs of a CPU");
}

/// The script replays the order of each stage on a clock of its own where there is no GPU.
#[test]
fn pipelines_take_as_long_as_a_replay_of_their_stages_says() {
    let Some(mut pytorch) = pytorch() else { return };
    let machine = OnMachine { gpu: "h200-sxm5-141gb".to_owned(), calibrations: Vec::new() };
    for question in questions(&["pipelines".to_owned()], &machine, false).unwrap() {
        let reply: Reply = pytorch.run(&on_cpu(&question.asks)).unwrap_or_else(|error| panic!("{error}"));
        let replayed = reply.figure("span_s").unwrap();
        let simulated = question.predicted().unwrap().step_time_s.unwrap();
        assert!((simulated / replayed - 1.0).abs() < 1e-9, "{:?}: {simulated}, not {replayed}", question.row);
        assert_eq!(reply.figure("forward_s"), Ok(0.001));
    }
}

/// Threads of this machine prepare batches, a step sleeps: it never takes less, and no more is prepared than there is room for.
#[test]
fn steps_take_batches_that_threads_prepare() {
    let Some(mut pytorch) = pytorch() else { return };
    let machine = OnMachine { gpu: "h200-sxm5-141gb".to_owned(), calibrations: Vec::new() };
    for question in questions(&["loaders".to_owned()], &machine, false).unwrap() {
        let mut asked = on_cpu(&question.asks);
        for (name, seconds) in [("step_s", 1e-3), ("batch_s", 2e-4)] {
            asked["loader"][name] = json!(seconds);
        }
        let reply: Reply = pytorch.run(&asked).unwrap_or_else(|error| panic!("{error}"));
        assert!(reply.figures["step_s"].iter().all(|&step| step >= 1e-3), "{:?}", reply.figures);
        assert!(reply.figures["step_alone_s"].iter().all(|&step| step >= 1e-3), "{:?}", reply.figures);
        let [threads, prefetch] = ["threads", "prefetch"].map(|name| asked["loader"][name].as_f64().unwrap());
        let ahead = reply.figures["batches_ahead"][0];
        assert!(0.0 <= ahead && ahead <= threads + prefetch, "{ahead} of {threads} + {prefetch}");
        assert!(
            reply.figures["cores"].iter().all(|&cores| cores > 0.0)
                && reply.figures["batch_alone_s"].len() == 4
        );
    }
}

/// Without a GPU memory is copied to memory: what is written to files is read again, and every row of the sets can be timed.
#[test]
fn copies_and_files_are_timed() {
    let Some(mut pytorch) = pytorch() else { return };
    let machine = OnMachine { gpu: "h200-sxm5-141gb".to_owned(), calibrations: Vec::new() };
    for question in questions(&["duplex".to_owned(), "disk".to_owned()], &machine, false).unwrap() {
        let mut asked = on_cpu(&question.asks);
        asked["transfer"]["bytes"] = json!(4 << 20);
        match pytorch.run::<Reply>(&asked) {
            Ok(reply) => {
                let samples = &reply.figures["transfer_s"];
                assert!(samples.len() == 4 && samples.iter().all(|&time| time > 0.0), "{samples:?}");
            }
            Err(error) => {
                let past_the_cache = error.to_string().contains("past the page cache");
                assert!(past_the_cache && question.name().contains("direct"), "{}: {error}", question.name());
            }
        }
    }
}

#[test]
fn every_row_of_every_set_can_be_built_and_is_judged() {
    for name in names() {
        let set = embedded::workload(name).unwrap();
        let workloads = of(&set);
        for pair in &workloads.pairs {
            assert!(workloads.figures.iter().any(|figure| figure.figure == pair.figure), "{name}");
            let compared = workloads.cases().iter().filter(|case| pair.other(&case.inputs).is_some()).count();
            assert!(compared > 0, "{name}: no two rows are a pair of `{}`", pair.part);
        }
        let (all, quick) = (workloads.cases().len(), workloads.quick().len());
        assert!(all > quick && quick > 0, "{name}: {quick} of {all} rows are quick");
        for gpu in ["h200-sxm5-141gb", "a100-sxm4-80gb", "l4"] {
            let machine = OnMachine { gpu: gpu.to_owned(), calibrations: Vec::new() };
            let asked =
                questions(&[name.to_owned()], &machine, false).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            assert_eq!(asked.len(), all);
        }
    }
}

#[test]
fn what_the_script_has_no_part_for_is_refused_with_the_reason() {
    let refusals = [
        ("software.layers=megatron-lm", "layers: hugging-face"),
        ("software.cross_entropy=fused", "cross_entropy: operators"),
        ("software.gradients=released", "gradients: added"),
        ("model.transformer.tied_embedding=true", "tied_embedding: false"),
        ("training.precision=fp16-mixed", "bf16-mixed"),
        ("memory.bytes_per_parameter=16", "bytes_per_parameter"),
        ("software.launch=free", "eager or graph"),
        ("techniques.recompute={ mode: full, every: 2 }", "the first layers recompute"),
        ("techniques.recompute={ mode: operators }", "`selective` or `full`"),
        ("training.step=forward", "a step is `full`"),
        ("techniques.activation_offload={}", "nothing leaves the GPU"),
        ("memory.pinned.size=1 GiB", "remove `memory.pinned`"),
    ];
    for (setting, expected) in refusals {
        let refused = build(&resolved(&[HOST, setting])).expect_err(setting);
        assert!(refused.contains(expected), "{setting}: {refused}");
    }
}

#[test]
fn what_leaves_where_autograd_does_not_ask_is_refused() {
    let offload = "techniques.activation_offload={}";
    for (settings, expected) in [
        (&[][..], "`techniques.activation_offload`"),
        (&[offload, "software.launch=graph"], "nothing is recomputed"),
        (&[offload, "techniques.recompute.mode=full"], "nothing is recomputed"),
        (&[offload], "forwarding: false"),
        (&["techniques.activation_offload={ forwarding: false, store: last-use }"], "store: produced"),
    ] {
        let refused = swap(settings).asks().expect_err(expected);
        assert!(refused.contains(expected), "{settings:?}: {refused}");
    }
}

/// A GPU with a host.
const HOST: &str = "machine={ parts: { gpus: { gpu: h200-sxm5-141gb }, sockets: [host], \
                    memories: { memory: { socket: host, memory: 1 TiB, rate: 200 GB/s } }, \
                    links: [{ between: [gpu, host], class: pcie5, lanes: 16 }] } }";

/// The tiny GPT on a GPU with a host.
fn swap(settings: &[&str]) -> Simulation {
    let checked = Box::new(checked(&[&[HOST], settings].concat()));
    Simulation::Alone(checked, |scenario| swapping(scenario).map(Asks::Swap))
}

/// What the script is asked where there is no GPU.
fn on_cpu(asks: &Asks) -> serde_json::Value {
    let mut question = serde_json::to_value(asks).unwrap();
    for (name, value) in [
        ("device", json!("cpu")),
        ("samples", json!(4)),
        ("steps", json!(4)),
        ("stretch_s", json!(0)),
        ("warm_up", json!(1)),
    ] {
        question[name] = value;
    }
    question
}

/// Layers that are compared.
const LAYERS: [&[&str]; 8] = [
    &[],
    &["training.micro_batch=2"],
    &["software.attention=flash"],
    &["software.gelu=operators"],
    &["techniques.recompute.mode=selective"],
    &["techniques.recompute.mode=full"],
    &["techniques.recompute={ mode: full, early_stop: true }"],
    &["techniques.recompute={ mode: full, early_stop: true }", "training.micro_batch=2"],
];

/// What a step of a model of two layers and of one of three consists of; none where this PyTorch is too old for it.
fn layers(pytorch: &mut PyTorch, settings: &[&str]) -> Option<[Step; 2]> {
    let mut step = |layers: u32| {
        let all: Vec<String> = [format!("model.transformer.layers={layers}")]
            .into_iter()
            .chain(settings.iter().map(|&setting| setting.to_owned()))
            .collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        match pytorch.run(&json!({ "workload": "operators", "model": built(&all) })) {
            Ok(step) => Some(step),
            Err(DeviceError::Unable { why, .. }) if why.contains("needs PyTorch") => None,
            Err(error) => panic!("{settings:?}: {error}"),
        }
    };
    Some([step(2)?, step(3)?])
}

/// The tiny GPT in a program on a GPU with a host.
fn programmed(iteration: &str, execution: &str) -> String {
    let head = TINY.replace("model: { transformer:", "model: { program: { base: { transformer:");
    let program =
        head.replace("dropout: false } }", &format!("dropout: false }} }}, iteration: {iteration} }} }}"));
    let host = HOST.replacen('=', ": ", 1);
    let executed = program.replace("software: {", &format!("software: {{ execution: {execution},"));
    executed.replace("machine: { parts: { gpus: { gpu: h200-sxm5-141gb } } }", &host)
}

fn checked(settings: &[&str]) -> Checked {
    read(TINY, settings)
}

fn read(text: &str, settings: &[&str]) -> Checked {
    let files = BTreeMap::from([(FILE.to_owned(), text.as_bytes().to_vec())]);
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    Checked::read(&files, &settings).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn resolved(settings: &[&str]) -> Scenario {
    checked(settings).scenario
}

fn built(settings: &[&str]) -> Build {
    build(&resolved(settings)).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn tokens(settings: &[&str]) -> u64 {
    let training = resolved(settings).training;
    training.micro_batch.unwrap().get() * training.sequence.unwrap().get()
}

fn model(settings: &[&str]) -> ShardedTransformer {
    let scenario = resolved(settings);
    let Model::Transformer(model) = &scenario.model else { panic!("it is a transformer") };
    let plan = plans::transformer::plan(&scenario, model);
    ShardedTransformer::new(&plan.model, &plan.execution).unwrap()
}

fn layer(settings: &[&str]) -> Block {
    let recompute = resolved(settings).techniques.recompute;
    recomputed(
        &model(settings).layer(),
        recompute.map_or(Mode::None, |recompute| recompute.mode(LayerPlace::default())),
    )
}

impl Operators {
    fn product(&mut self, mut sizes: [u64; 4]) {
        sizes.sort_unstable();
        *self.products.entry(sizes).or_default() += 1;
    }

    fn subtract(&mut self, other: &Self) {
        self.passes -= other.passes;
        self.attention -= other.attention;
        for (sizes, count) in &other.products {
            *self.products.entry(*sizes).or_default() -= count;
        }
        self.products.retain(|_, count| *count != 0);
    }
}

fn simulated_operators<'a>(all: impl Iterator<Item = &'a Operator>) -> Operators {
    let mut found = Operators::default();
    for op in all {
        match op.work {
            Work::Gemm(gemm) => found.product([gemm.batch, gemm.m, gemm.n, gemm.k]),
            Work::Attention(_) => found.attention += 1,
            _ => found.passes += 1,
        }
    }
    found
}

/// What each operator of PyTorch is on a GPU.
fn operators(all: &[(String, Vec<Vec<u64>>)]) -> Operators {
    let mut found = Operators::default();
    for (name, sizes) in all {
        let name = name.trim_start_matches("aten.");
        match name {
            "addmm" => found.product([1, sizes[1][0], sizes[1][1], sizes[2][1]]),
            "mm" => found.product([1, sizes[0][0], sizes[0][1], sizes[1][1]]),
            "bmm" => found.product([sizes[0][0], sizes[0][1], sizes[0][2], sizes[1][2]]),
            "_scaled_dot_product_flash_attention_for_cpu"
            | "_scaled_dot_product_flash_attention_for_cpu_backward" => found.attention += 1,
            "view" | "_unsafe_view" | "_reshape_alias" | "as_strided" | "t" | "transpose" | "permute"
            | "unbind" | "slice" | "select" | "unsqueeze" | "squeeze" | "expand" | "is_same_size"
            | "detach" | "alias" | "empty" | "empty_like" => {}
            // Gradients of weights and of the input; the product with the output, and what is left of the rows.
            "native_layer_norm_backward" | "_softmax_backward_data" => found.passes += 2,
            // Zeros, and what is written among them.
            "embedding_dense_backward" | "slice_backward" => found.passes += 2,
            "ones_like"
            | "add"
            | "add_"
            | "mul"
            | "pow"
            | "tanh"
            | "tanh_backward"
            | "gelu"
            | "gelu_backward"
            | "_to_copy"
            | "clone"
            | "masked_fill"
            | "masked_fill_"
            | "_softmax"
            | "native_layer_norm"
            | "sum"
            | "stack"
            | "embedding"
            | "_log_softmax"
            | "_log_softmax_backward_data"
            | "nll_loss_forward"
            | "nll_loss_backward" => found.passes += 1,
            other => panic!("what is `{other}` on a GPU?"),
        }
    }
    found
}

/// A Python with PyTorch: a test that needs it says so and ends where there is none, unless all tools have to be there.
/// `FORETRAIN_PYTHON` names another than Debian's.
fn pytorch() -> Option<PyTorch> {
    let program = std::env::var_os("FORETRAIN_PYTHON").unwrap_or_else(|| "/usr/bin/python3".into());
    let missing = match PyTorch::start(Path::new(&program)) {
        Ok((pytorch, Greeting { torch: Found::Present(_), .. })) => return Some(pytorch),
        Ok((_, greeting)) => format!("{:?}", greeting.torch),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("FORETRAIN_REQUIRE_TOOLS").is_none(), "{missing}");
    // Who runs tests should know what was not tested.
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    None
}
