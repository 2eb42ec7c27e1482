//! What copies of a model share, and when they exchange it.

use workloads::model::transformer::DataParallel;

use super::Check;
use super::machine::message_and_help;
use crate::plans;
use crate::plans::transformer::execution;
use crate::schema::{Bytes, Count, Gather, GatherLimit, Launch, Parallelism, Scenario, Schedule, Sharding};

const PER_PARAMETER: &str = "parallelism.overlap_parameter_gather.per_parameter";
const SHARDING: &str = "parallelism.sharding";
const DISTRIBUTED: &str = "parallelism.distributed_optimizer";
const BUCKET: &str = "parallelism.overlap_gradient_reduce.bucket";
const GATHER: &str = "parallelism.overlap_parameter_gather";
const LIMIT: &str = "parallelism.overlap_parameter_gather.limit";
const RESHARD: &str = "parallelism.overlap_parameter_gather.reshard_after_forward";

/// Gradients of a bucket, at least (Megatron-LM, `DistributedDataParallel`: 40 million, or a million for each copy).
const BUCKET_GRADIENTS: u64 = 40_000_000;
const BUCKET_GRADIENTS_PER_COPY: u64 = 1_000_000;

impl Check<'_> {
    /// Fills in what copies share and exchange, and checks that it goes together.
    pub(super) fn exchange(&mut self, scenario: &mut Scenario) {
        let sharding = self.sharing(&mut scenario.parallelism);
        self.groups(&scenario.parallelism);
        self.hosts(scenario, sharding);
        self.buckets(scenario, sharding);
        self.gather_limit(scenario, sharding);
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
                Gather::default()
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

    /// Whether hosts can update what copies share.
    fn hosts(&mut self, scenario: &Scenario, sharding: Sharding) {
        let Parallelism { data, context, sharding_group, .. } = &scenario.parallelism;
        let ranks = [data, context].map(|count| count.map_or(1, Count::get) as u32).iter().product();
        let data = DataParallel {
            sharing: sharding_group.map_or(ranks, |group| group.get() as u32),
            ..DataParallel::new(ranks, sharding)
        };
        let step = execution(scenario).step;
        let mut found = Vec::new();
        let stages = scenario.stages() as u32;
        plans::pipelining(scenario)
            .techniques
            .check_hosts(stages, &data, step, &mut |invalid| found.push(invalid));
        for invalid in found {
            let (message, help) = message_and_help(&invalid.problem);
            let path = format!("techniques.{}", invalid.field);
            let parts = [SHARDING, "parallelism.pipeline", "training.step", "techniques.zero_offload"];
            self.report_with(&path, &parts, message, help);
        }
    }

    /// Whether a host takes memory for gathers that are limited by it.
    fn gather_limit(&mut self, scenario: &Scenario, sharding: Sharding) {
        let Some(overlap) = &scenario.parallelism.overlap_parameter_gather else { return };
        if overlap.limit == GatherLimit::Device {
            return;
        }
        let launch = scenario.software.as_ref().map_or(Launch::Eager, |software| software.launch);
        if launch != Launch::Eager {
            let message = format!(
                "`{LIMIT}` is about what a host issues operator by operator, which this one does not"
            );
            let help = "write `launch: eager`, or `limit: device`";
            self.report_with(LIMIT, &["software.launch"], message, help);
        }
        if sharding < Sharding::Parameters || overlap.per_parameter {
            let message = format!(
                "`{LIMIT}` is about memory that the host takes for parameters which copies share, block by block as one flat tensor"
            );
            let help = "write `sharding: parameters` without `per_parameter`, or `limit: device`";
            self.report_with(LIMIT, &[SHARDING, PER_PARAMETER], message, help);
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

    /// Groups of copies that share: hybrid sharding.
    fn groups(&mut self, parallelism: &Parallelism) {
        const GROUP: &str = "parallelism.sharding_group";
        let (Some(group), Some(data)) = (parallelism.sharding_group, parallelism.data) else { return };
        let (group, copies) = (group.get(), data.get() * parallelism.context.map_or(1, Count::get));
        if !copies.is_multiple_of(group) {
            let message = format!("{copies} copies cannot share by groups of {group}");
            let help = format!("use a divisor of {copies}, or leave it out so that all share");
            self.report_with(GROUP, &["parallelism.data", "parallelism.context", "machine"], message, help);
        }
        if parallelism.sharding == Some(Sharding::None) {
            let message = format!("`{GROUP}` is for copies that share something");
            let help = "remove it, or write `sharding: parameters`";
            self.report_with(GROUP, &["parallelism.sharding"], message, help);
        }
        if parallelism.expert.map_or(1, Count::get) > 1 {
            let message =
                format!("`{GROUP}` does not go with ranks that share experts, which are groups of their own");
            self.report_with(GROUP, &["parallelism.expert"], message, "remove one of the two");
        }
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
            if scenario.model.layers().is_some() {
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
    let alone = scenario.stages() == 1 && scenario.parallelism.schedule == Schedule::OneFOneB;
    alone || scenario.training.micro_batches() == 1
}
