//! What copies of a model share, and when they exchange it.

use super::Check;
use crate::plans::transformer::execution;
use crate::schema::{Bytes, Count, Model, OverlapParameterGather, Parallelism, Scenario, Schedule, Sharding};

const SHARDING: &str = "parallelism.sharding";
const DISTRIBUTED: &str = "parallelism.distributed_optimizer";
const BUCKET: &str = "parallelism.overlap_gradient_reduce.bucket";
const GATHER: &str = "parallelism.overlap_parameter_gather";
const RESHARD: &str = "parallelism.overlap_parameter_gather.reshard_after_forward";

/// Gradients of a bucket, at least (Megatron-LM, `DistributedDataParallel`: 40 million, or a million for each copy).
const BUCKET_GRADIENTS: u64 = 40_000_000;
const BUCKET_GRADIENTS_PER_COPY: u64 = 1_000_000;

impl Check<'_> {
    /// Fills in what copies share and exchange, and checks that it goes together.
    pub(super) fn exchange(&mut self, scenario: &mut Scenario) {
        let sharding = self.sharing(&mut scenario.parallelism);
        self.buckets(scenario, sharding);
        let one_at_a_time = one_at_a_time(scenario);
        let overlap = &mut scenario.parallelism.overlap_parameter_gather;
        if overlap.is_some() && sharding == Sharding::None {
            let message = format!("`{GATHER}` gathers what every copy has");
            let help = "remove it, or let the copies share something: `sharding: optimizer`";
            self.report_with(GATHER, &[SHARDING, DISTRIBUTED], message, help);
        }
        if sharding == Sharding::Parameters {
            let gather = overlap.get_or_insert_with(|| {
                self.derived
                    .insert(GATHER, "parameters that are shared are gathered for every pass".to_owned());
                OverlapParameterGather::default()
            });
            if !gather.reshard_after_forward && !one_at_a_time {
                let message = format!(
                    "`{RESHARD}` is false, but a stage has several micro-batches under way, each of which would keep \
                     parameters of its own"
                );
                let parts = ["parallelism.pipeline", "parallelism.schedule", "training.accumulate"];
                let help = "remove it, or write `sharding: gradients`, with which all have the same ones";
                self.report_with(RESHARD, &parts, message, help);
            }
        }
    }

    /// What copies share, which is said in one of two ways.
    fn sharing(&mut self, parallelism: &mut Parallelism) -> Sharding {
        let said = parallelism.distributed_optimizer;
        let implied = if said == Some(true) { Sharding::Optimizer } else { Sharding::None };
        let sharding = *parallelism.sharding.get_or_insert(implied);
        let distributed = sharding >= Sharding::Optimizer;
        if said.is_some_and(|said| said != distributed) {
            let both = [(SHARDING, String::new()), (DISTRIBUTED, "says otherwise".to_owned())];
            let message = "two settings disagree on whether copies share the optimizer states";
            self.report(&both, message, "remove `distributed_optimizer`");
        }
        parallelism.distributed_optimizer = Some(distributed);
        sharding
    }

    fn buckets(&mut self, scenario: &mut Scenario, sharding: Sharding) {
        let each = execution(scenario).states.gradient_bytes();
        let Parallelism { overlap_gradient_reduce, data, .. } = &mut scenario.parallelism;
        let Some(overlap) = overlap_gradient_reduce else { return };
        if overlap.bucket.is_some_and(|bucket| bucket.bytes() == 0) {
            let help = "write for example `25 MiB`";
            self.report(&[(BUCKET, String::new())], format!("`{BUCKET}` is never filled"), help);
        }
        if overlap.bucket.is_none() && sharding < Sharding::Gradients {
            if matches!(scenario.model, Model::Layers(_)) {
                overlap.bucket = Bytes::parse("25 MiB").ok();
                self.derived.insert(BUCKET, "as in PyTorch's DistributedDataParallel".to_owned());
                return;
            }
            let copies = data.map_or(1, Count::get);
            let gradients = BUCKET_GRADIENTS.max(BUCKET_GRADIENTS_PER_COPY * copies);
            overlap.bucket = Bytes::parse(&format!("{} MB", gradients * each / 1_000_000)).ok();
            let millions = gradients / 1_000_000;
            self.derived
                .insert(BUCKET, format!("{millions} million gradients of {each} B, as in Megatron-LM"));
        }
    }
}

/// Whether a stage ends the backward pass of a micro-batch before it begins the forward pass of the next.
fn one_at_a_time(scenario: &Scenario) -> bool {
    let alone = scenario.stages() == 1 && scenario.parallelism.schedule == Schedule::OneForwardOneBackward;
    alone || scenario.training.micro_batches() == 1
}
