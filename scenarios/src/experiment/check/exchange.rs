//! What copies of a model share, and when they exchange it.

use workloads::plan::{GATHERED, check_groups, check_overlap};

use super::Check;
use crate::plans::transformer::{self, execution};
use crate::schema::{Bytes, Count, Gather, Parallelism, Scenario, Sharding};

const SHARDING: &str = "parallelism.sharding";
const DISTRIBUTED: &str = "parallelism.distributed_optimizer";
const BUCKET: &str = "parallelism.overlap_gradient_reduce.bucket";
const GATHER: &str = "parallelism.overlap_parameter_gather";

/// Gradients of a bucket, at least (Megatron-LM, `DistributedDataParallel`: 40 million, or a million for each copy).
const BUCKET_GRADIENTS: u64 = 40_000_000;
const BUCKET_GRADIENTS_PER_COPY: u64 = 1_000_000;

impl Check<'_> {
    /// Fills in what copies share and exchange, and checks that it goes together.
    pub(super) fn exchange(&mut self, scenario: &mut Scenario) {
        let sharding = self.sharing(&mut scenario.parallelism);
        self.groups(&scenario.parallelism);
        self.fill_bucket(scenario, sharding);
        if sharding == Sharding::Parameters && scenario.parallelism.overlap_parameter_gather.is_none() {
            scenario.parallelism.overlap_parameter_gather = Some(Gather::default());
            self.derived.insert(GATHER.into(), GATHERED.to_owned());
        }
        let data = transformer::data_parallel(scenario);
        let deployment = transformer::deployment(scenario);
        let one_at_a_time = deployment.one_at_a_time(scenario.stages() as u32);
        self.diagnostics(|mut wrong| check_overlap(&data, one_at_a_time, deployment.launch, &mut wrong));
    }

    /// Groups of copies that share: hybrid sharding.
    fn groups(&mut self, parallelism: &Parallelism) {
        let (Some(group), Some(data)) = (parallelism.sharding_group, parallelism.data) else { return };
        let copies = data.get() * parallelism.context.map_or(1, Count::get);
        let expert = parallelism.expert.map_or(1, Count::get) as u32;
        let (of, sharding) = ((copies as u32, group.get() as u32), parallelism.sharding.unwrap_or_default());
        self.diagnostics(|mut wrong| check_groups(of, sharding, expert, &mut wrong));
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

    /// Fills in how large buckets of gradients are.
    fn fill_bucket(&mut self, scenario: &mut Scenario, sharding: Sharding) {
        let each = execution(scenario).states.gradient_bytes();
        let Parallelism { overlap_gradient_reduce, data, .. } = &mut scenario.parallelism;
        let Some(overlap) = overlap_gradient_reduce else { return };
        if overlap.bucket.is_none() && sharding < Sharding::Gradients {
            if scenario.model.layers().is_some() {
                overlap.bucket = Bytes::parse("25 MiB").ok();
                self.derived.insert(BUCKET.into(), "as in PyTorch's DistributedDataParallel".to_owned());
                return;
            }
            let copies = data.map_or(1, Count::get);
            let gradients = BUCKET_GRADIENTS.max(BUCKET_GRADIENTS_PER_COPY * copies);
            overlap.bucket = Bytes::parse(&format!("{} MB", gradients * each / 1_000_000)).ok();
            let millions = gradients / 1_000_000;
            self.derived.insert(
                BUCKET.into(),
                format!("{millions} million gradients of {each} B, as in Megatron-LM"),
            );
        }
    }
}
