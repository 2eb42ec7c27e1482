//! What a transformer on a machine must satisfy.

use hw_models::allocator::{Fault, Settings};
use hw_models::catalogue::Gpu;
use hw_models::machine::Machine;
use workloads::model::transformer::{Dtype, Execution, Step};
use workloads::passes::ModelKind;
use workloads::passes::fusion::Fusion;
use workloads::placement::Extent;

use super::{Check, batches};
use crate::plans::transformer::dtype;
use crate::schema::{
    self, Accumulate, AddedTo, Attention, BytesPerParameter, Count, Idle, LayersOf, Parallelism, Precision,
    Scenario, Software,
};

/// Settings that are about other models.
const FOREIGN: [(&str, &str); 3] = [
    batches::OF_PIPELINES,
    ("training.optimizer", "transformers are trained with Adam; remove it"),
    ("software.image_layers", "it has no layers over images; remove it"),
];

impl Check<'_> {
    pub(super) fn transformer(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a transformer");
        // As Megatron-LM does.
        scenario.parallelism.scatter_gather.get_or_insert(true);
        let layers = self.vocabulary(scenario.software.get_or_insert_default());
        scenario
            .parallelism
            .overlap_tensor_reduce
            .get_or_insert(!matches!(layers, LayersOf::Torchtitan | LayersOf::MegatronLm2019));
        scenario.training.step.get_or_insert_default();
        scenario.techniques.fill(ModelKind::Transformer);
        let Some(model) = scenario.model.transformer_mut() else { return };
        let sized = self.dimensions(model);
        if scenario.training.sequence.is_none() {
            let message = "`training` does not say how long a sample is";
            self.report(&[("training", String::new())], message, "add `sequence: 2048`: tokens of a sample");
        }
        self.on_machine(scenario, "model.transformer", "a transformer");
        self.allocator(scenario);
        self.without_backward(scenario);
        self.sums(layers, scenario.software.get_or_insert_default().products_add_to);
        let shared = scenario.parallelism.sharding == Some(schema::Sharding::Parameters);
        if scenario.training.fp8.is_some_and(|fp8| fp8.gathers) && !shared {
            let message = "`training.fp8.gather_parameters` is for parameters that copies of the model share";
            let help = "remove it, or write `parallelism: { sharding: parameters }`";
            self.report_with("training.fp8.gather_parameters", &["parallelism.sharding"], message, help);
        }
        self.capped(scenario);
        if sized {
            self.sharding(scenario);
        }
    }

    /// Derives the multiple that the framework pads the vocabulary to; gives the framework.
    fn vocabulary(&mut self, software: &mut Software) -> LayersOf {
        if software.vocabulary_multiple.is_none() {
            let (multiple, reason) = match software.layers {
                LayersOf::MegatronLm | LayersOf::MegatronLm2019 => {
                    (Execution::MEGATRON_VOCABULARY_MULTIPLE, "Megatron-LM's `make_vocab_size_divisible_by`")
                }
                LayersOf::HuggingFace => (1, "Hugging Face Transformers do not pad the vocabulary"),
                LayersOf::Torchtitan => (1, "torchtitan does not pad the vocabulary"),
            };
            software.vocabulary_multiple = Count::new(multiple.into());
            self.derived.insert("software.vocabulary_multiple".into(), reason.to_owned());
        }
        software.layers
    }

    /// Kernels of flash attention that know no soft cap on scores.
    fn capped(&mut self, scenario: &Scenario) {
        const CAP: &str = "model.transformer.score_cap";
        const ATTENTION: &str = "software.attention";
        let Some(software) = &scenario.software else { return };
        let kernel = match software.attention {
            Attention::FlashTriton => "the kernel in Triton",
            Attention::Cudnn => "cuDNN's kernel",
            Attention::Materialised | Attention::Flash | Attention::Flash3 => return,
        };
        if scenario.model.transformer().is_some_and(|model| model.score_cap == Some(true)) {
            let message = format!("{kernel} of flash attention takes no cap on scores, which the model has");
            let help = "write `software: { attention: flash }` or `flash3`, whose kernels take it, or `materialised`";
            self.report_with(ATTENTION, &[CAP], message, help);
        }
    }

    /// Products that add to sums are those of Megatron-LM's layers; those of 2019 have no fused
    /// softmax either.
    fn sums(&mut self, layers: LayersOf, added: AddedTo) {
        const ADDED: &str = "software.products_add_to";
        const FUSED: &str = "software.fused_softmax";
        if layers == LayersOf::MegatronLm2019 && self.tree.at(&self.keys(FUSED)).is_some() {
            let message = "Megatron-LM's layers of 2019 have no fused softmax";
            let help = "remove it, or write `layers: megatron-lm`";
            self.report_with(FUSED, &["software.layers"], message, help);
        }
        let by_products = added != AddedTo::Nothing && self.tree.at(&self.keys(ADDED)).is_some();
        if layers != LayersOf::MegatronLm && by_products {
            let message = "products that add to sums of gradients are those of Megatron-LM's layers";
            self.report_with(ADDED, &["software.layers"], message, "write `none`, or `layers: megatron-lm`");
        }
    }

    /// Steps without a backward pass gather nothing.
    pub(super) fn without_backward(&mut self, scenario: &Scenario) {
        let shared = scenario.parallelism.sharding == Some(schema::Sharding::Parameters);
        if scenario.training.step == Some(schema::Step::Forward) && shared {
            let message = "steps without a backward pass do not gather parameters that are shared";
            let help = "let every rank hold them (`sharding: none`), or split the model over tensor ranks and stages";
            self.report_with("parallelism.sharding", &["training.step"], message, help);
        }
    }

    /// Copies of the model on the GPUs of the machine; whether they fit on it.
    pub(super) fn copies(&mut self, parallelism: &mut Parallelism, machine: &Machine) -> bool {
        let (tensor, stages) = (number(parallelism.tensor), number(parallelism.pipeline));
        let context = number(parallelism.context);
        let (gpus, each) = (u64::from(machine.gpus()), tensor * stages * context);
        let data = parallelism.data.map_or((gpus / each).max(1), Count::get);
        let extent = Extent {
            tensor: tensor as u32,
            context: context as u32,
            data: data as u32,
            stages: stages as u32,
            expert: 1,
            sharing: 1,
        };
        let parts = if context > 1 { format!(" x context {context}") } else { String::new() };
        if let Err(invalid) = extent.fits(machine.gpus()) {
            self.misplaced(gpus, invalid.message, &invalid.remedy);
            return false;
        }
        let (ranks, over) = (extent.ranks(), gpus - extent.ranks());
        if over > 0 && parallelism.idle != Some(Idle::Allow) {
            let message = format!(
                "tensor {tensor} x pipeline {stages}{parts} x data {data} are {ranks} GPUs, which leaves {over} of the machine's \
                 {gpus} over"
            );
            let all = if gpus.is_multiple_of(each) {
                format!("`data: {}` uses them all", gpus / each)
            } else {
                "split the model or size the machine so that they divide".to_owned()
            };
            self.misplaced(gpus, message, &format!("{all}, or write `parallelism: {{ idle: allow }}`"));
            return false;
        }
        if parallelism.data.is_none() {
            parallelism.data = Count::new(data);
            let of_context = if context > 1 { format!(" x {context}") } else { String::new() };
            self.derived.insert(
                "parallelism.data".into(),
                format!("{gpus} GPUs / ({tensor} x {stages}{of_context})"),
            );
        }
        if let Err(invalid) =
            extent.placed(&parallelism.placement.clone().unwrap_or_default(), machine.gpus())
        {
            self.report_with("parallelism.placement", &["machine"], invalid.message, invalid.remedy);
            return false;
        }
        true
    }

    /// Reports a number of ranks that the machine is not made for.
    fn misplaced(&mut self, gpus: u64, message: String, help: &str) {
        let sizes = ["parallelism.tensor", "parallelism.pipeline", "parallelism.context", "parallelism.data"];
        let written = sizes.iter().filter(|path| self.tree.at(&self.keys(path)).is_some());
        let mut about: Vec<(&str, String)> = written.map(|path| (*path, String::new())).collect();
        about.push(("machine", format!("{gpus} GPUs")));
        self.report(&about, message, help);
    }

    /// Bytes of a parameter go with the precision.
    pub(super) fn states(&mut self, scenario: &mut Scenario) {
        let single = scenario.training.precision == Some(Precision::Fp32);
        let usual = if single { BytesPerParameter::Sixteen } else { BytesPerParameter::Eighteen };
        let bytes = *scenario.memory.bytes_per_parameter.get_or_insert(usual);
        if single && bytes != BytesPerParameter::Sixteen {
            let message = format!("parameters in fp32 take 16 bytes, not {}", bytes.bytes());
            let path = "memory.bytes_per_parameter";
            self.report_with(path, &["training.precision"], message, "remove it, or use a mixed precision");
        }
    }

    /// A limit of memory is no more than the largest GPU has.
    pub(super) fn limit(&mut self, scenario: &Scenario, gpus: &[(&str, &Gpu)]) {
        let largest = gpus.iter().map(|(_, gpu)| gpu.memory_gib).max_by(f64::total_cmp);
        let (Some(limit), Some(largest)) = (scenario.memory.limit, largest) else { return };
        if limit.bytes() as f64 > largest * f64::from(1 << 30) {
            let message = format!("`memory.limit` is {limit}, but the GPU has {largest} GiB");
            let help = match scenario.machine {
                Some(schema::Machine::Parts(_)) | None => "lower it, or take GPUs with more".to_owned(),
                _ => format!("lower it, or write `set: {{ gpu: {{ memory: {limit} }} }}` in the machine"),
            };
            self.report_with("memory.limit", &["machine"], message, help);
        }
    }

    /// The allocator can be set so.
    pub(super) fn allocator(&mut self, scenario: &Scenario) {
        for fault in scenario.memory.allocator.iter().flat_map(Settings::faults) {
            let (path, help) = match fault {
                Fault::MaxSplitSize(_) => ("max_split_size", "write `max_split_size: 128 MiB`, or remove it"),
                _ => ("roundup_power2_divisions", "write 1, 2, 4, 8, 16, 32 or 64, or remove it"),
            };
            let path = format!("memory.allocator.{path}");
            self.report(&[(&path, String::new())], fault.to_string(), help);
        }
    }

    /// Copies between tensor ranks that go in pieces reach the memory of their GPUs directly.
    fn pieces(&mut self, scenario: &Scenario, machine: &Machine) {
        let (tensor, node) = (number(scenario.parallelism.tensor), u64::from(machine.gpus_per_node()));
        if scenario.parallelism.asynchronous_tensor == Some(true) && tensor > node {
            let message = format!(
                "copies go to GPUs of the same node, which has {node}, not to all {tensor} tensor ranks"
            );
            let help = format!("use at most {node} tensor ranks, or remove it");
            let parts = ["parallelism.tensor", "machine"];
            self.report_with("parallelism.asynchronous_tensor", &parts, message, help);
        }
    }

    /// The GPUs compute in the precision.
    pub(super) fn kernels(&mut self, scenario: &Scenario, machine: &Machine, gpus: &[(&str, &Gpu)]) {
        self.pieces(scenario, machine);
        let there = |gpu: &Gpu| match dtype(scenario) {
            Dtype::Fp16 => ("fp16", gpu.peak_tflops.fp16.is_some()),
            Dtype::Bf16 => ("bf16", gpu.peak_tflops.bf16.is_some()),
            _ => ("fp32", true),
        };
        if let Some((model, gpu)) = gpus.iter().find(|(_, gpu)| !there(gpu).1) {
            let (name, _) = there(gpu);
            let all_half = gpus.iter().all(|(_, gpu)| gpu.peak_tflops.fp16.is_some());
            let other = if all_half { "fp16-mixed" } else { "fp32" };
            let message = format!("the GPU `{model}` does not compute in {name}");
            let help = format!("write `training: {{ precision: {other} }}`, or take another machine");
            self.report_with("training.precision", &["machine"], message, help);
        }
        let training = scenario.training.step != Some(Step::Forward);
        if let Some(precision) = scenario.training.precision.filter(|it| it.is_of_inference() && training) {
            let name = precision.dtype();
            let message = format!(
                "weights in {name} alone cannot be updated: what an update changes is lost in rounding"
            );
            let help = format!("write `precision: {name}-mixed`, or `step: forward` for inference");
            self.report_with("training.precision", &["training.step"], message, help);
        }
        let products = scenario.software.as_ref().and_then(|software| software.products);
        if products.is_some_and(|products| products.accumulate == Accumulate::Fp16) {
            self.half_sums(scenario, gpus);
        }
        let compiles = scenario.software.as_ref().is_some_and(|software| software.compile);
        if compiles && scenario.techniques.fusion.is_some() {
            let message = "`compile: true` is fusion by `policy: passes`, and another is asked for";
            let parts = ["software.compile"];
            self.report_with("techniques.fusion", &parts, message.to_owned(), "remove one of the two");
        }
        let fuses = scenario.techniques.fusion.as_ref().is_some_and(Fusion::needs_limits);
        if let Some((model, _)) = gpus.iter().find(|(_, gpu)| fuses && gpu.multiprocessor.is_none()) {
            let message = format!("registers and shared memory of an SM of `{model}` are not known");
            let help = "use `policy: inductor`, which leaves products alone, or describe the GPU as \
                        `like: a100-sxm4-80gb`, the nearest one whose limits are";
            self.report_with("techniques.fusion.policy", &["machine"], message, help);
        }
        let without = gpus.iter().find(|(_, gpu)| gpu.peak_tflops.fp8.is_none());
        if let Some((model, _)) = without.filter(|_| scenario.training.fp8.is_some()) {
            let message = format!("the GPU `{model}` does not compute in fp8");
            let help = "remove it, or take GPUs that do, such as those of `dgx-h100`";
            self.report_with("training.fp8", &["machine"], message, help);
        }
    }
}

impl Check<'_> {
    /// Products may sum in fp16 what they multiply in fp16.
    fn half_sums(&mut self, scenario: &Scenario, gpus: &[(&str, &Gpu)]) {
        let setting = "software.products.accumulate";
        if dtype(scenario) != Dtype::Fp16 {
            let message = format!("products in {} are summed in fp32", dtype(scenario));
            self.report_with(
                setting,
                &["training.precision"],
                message,
                "write `training: { precision: fp16 }`, or remove it",
            );
        }
        if let Some((model, _)) = gpus.iter().find(|(_, gpu)| gpu.peak_tflops.fp16.is_none()) {
            let message = format!("the GPU `{model}` has no products that sum in fp16");
            self.report_with(setting, &["machine"], message, "remove it, or take a GPU with tensor cores");
        }
    }
}

fn number<const MIN: u64, const MAX: u64>(count: Option<Count<MIN, MAX>>) -> u64 {
    count.map_or(1, Count::get)
}
