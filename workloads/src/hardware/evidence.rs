//! What kind of evidence the times of operators and messages rest on: where several constants decide, the weakest.

use hw_models::catalogue::Gpu;
use hw_models::collectives::PathKind;
use hw_models::machine::{Machine, Route};
use hw_models::provenance::Origin;

use super::{CostModels, Hardware, HardwareError, path};
use crate::account::{Account, Circumstance, Communication, Load, TimeModel};
use crate::cost::OpCost;
use crate::graph::module::Module;
use crate::graph::operator::{Medium, RowWork, TierCopy};
use crate::model::transformer::{Collective, CollectiveKind, Operator, Work};

impl CostModels<'_> {
    /// Account of an operator on a kind of GPU.
    pub(crate) fn account(
        &mut self,
        kind: usize,
        operator: &Operator,
        hardware: &Hardware<'_>,
    ) -> Result<Account, HardwareError> {
        if let Work::Collective(collective) = &operator.work {
            return self.account_of_collective(kind, collective, hardware);
        }
        match operator.work {
            Work::Transfer(transfer) => {
                let (_, gpu) = self.kinds.gpu(self.job.machine, kind);
                return Ok(account_of_transfer(transfer, gpu, hardware));
            }
            // What processors take rests on the host's memory, which nobody has measured.
            Work::Host(_) | Work::Rows(_) => {
                let of_drives = matches!(operator.work, Work::Rows(RowWork::Pages { .. }));
                let communication = of_drives.then_some(Communication::ReadRows);
                let model = TimeModel::Host;
                let (shape, circumstance) = (0, None);
                return Ok(Account { communication, model, shape, circumstance, origin: Origin::Estimate });
            }
            _ => {}
        }
        let device = self.gpus[kind].devices.first().ok_or(HardwareError::NoGpu)?;
        let cost = device.cost(&operator.work, &[])?.ok_or(HardwareError::NoGpu)?;
        let origin = match device.measured(&operator.work) {
            Some(_) => Origin::MeasuredHere,
            None => device.model.provenance(cost.class)?.origin,
        };
        let (communication, model) = (None, TimeModel::Kernel(cost.class));
        let circumstance = operator.is_of(Module::Recurrent).then_some(Circumstance::Recurrent);
        Ok(Account { communication, model, shape: 0, circumstance, origin })
    }

    /// Demand on its board of an operator that costs so much.
    pub(crate) fn load(
        &self,
        kind: usize,
        operator: &Operator,
        cost: &OpCost,
    ) -> Result<Load, HardwareError> {
        let &OpCost::Kernel { bytes, .. } = cost else { return Ok(Load::default()) };
        let device = self.gpus[kind].devices.first().ok_or(HardwareError::NoGpu)?;
        let kernel = device.cost(&operator.work, &[])?.ok_or(HardwareError::NoGpu)?;
        Ok(Load { bytes, at_peak: device.model.at_peak(&kernel)? })
    }

    /// A measured table speaks for itself; the tuner's estimate rests on its constants and on the links of a ring, messages to
    /// the next rank on theirs.
    fn account_of_collective(
        &mut self,
        kind: usize,
        collective: &Collective,
        hardware: &Hardware<'_>,
    ) -> Result<Account, HardwareError> {
        let scope = self.scope(kind, collective.group);
        let (model, origin) = match self.planned(kind, collective)?.measured {
            Some(table) => (TimeModel::CollectiveTable, hardware.collectives.tables[table].provenance.origin),
            None if collective.kind == CollectiveKind::SendReceive => {
                let machine = self.job.machine;
                let of_hop = |route: &Route| {
                    let constants = hardware.collectives.point_to_point.of(path(route)).provenance.origin;
                    origin_of(machine, route).max(constants)
                };
                let hops = self.hops_of(scope, collective.group)?.iter().map(of_hop);
                (TimeModel::Transfer, hops.fold(Origin::MeasuredHere, Origin::max))
            }
            None => {
                let constants = hardware.collectives.tuner.provenance.origin;
                let machine = self.job.machine;
                let hops = self.hops_of(scope, collective.group)?.iter();
                let hops = hops.map(|route| origin_of(machine, route));
                (TimeModel::CollectiveFormula, hops.fold(constants, Origin::max))
            }
        };
        let communication = Some(Communication::Collective(collective.group, collective.kind));
        let crosses = self.hops_of(scope, collective.group)?.iter().any(is_between_nodes);
        let circumstance = crosses.then_some(Circumstance::BetweenNodes);
        Ok(Account { communication, model, shape: 0, circumstance, origin })
    }

    /// Account of messages from a stage to another.
    pub(crate) fn account_of_message(
        &mut self,
        from: u32,
        to: u32,
        hardware: &Hardware<'_>,
    ) -> Result<Account, HardwareError> {
        let origin = self.message_origin(from, to, hardware)?;
        let crosses = from != to && is_between_nodes(&self.way(from, to)?);
        let circumstance = crosses.then_some(Circumstance::BetweenNodes);
        let communication = Some(Communication::Message);
        Ok(Account { communication, model: TimeModel::Transfer, shape: 0, circumstance, origin })
    }

    /// What the time of a message from a stage to another rests on.
    pub(crate) fn message_origin(
        &mut self,
        from: u32,
        to: u32,
        hardware: &Hardware<'_>,
    ) -> Result<Origin, HardwareError> {
        // Nothing crosses a boundary of a single stage.
        if from == to {
            return Ok(Origin::MeasuredHere);
        }
        let (machine, route) = (self.job.machine, self.way(from, to)?);
        let constants = hardware.collectives.point_to_point.of(path(&route)).provenance.origin;
        Ok(origin_of(machine, &route).max(constants))
    }
}

fn is_between_nodes(route: &Route) -> bool {
    path(route) == PathKind::Network
}

fn origin_of(machine: &Machine, route: &Route) -> Origin {
    let links = route.links.iter().map(|&link| machine.link(link).provenance.origin);
    links.max().unwrap_or(Origin::MeasuredHere)
}

/// Copies between GPUs and hosts rest on what those of activations do, others on data sheets of drives.
fn account_of_transfer(
    TierCopy { role, from, to, .. }: TierCopy,
    gpu: &Gpu,
    hardware: &Hardware<'_>,
) -> Account {
    let on_drives = [from, to].contains(&Medium::DRIVES);
    let origin = if on_drives { Origin::DataSheet } else { hardware.host_copies_origin(gpu) };
    let communication = Some(Communication::of_transfer(role, from, to));
    Account { communication, model: TimeModel::Transfer, shape: 0, circumstance: None, origin }
}

impl Hardware<'_> {
    /// The weakest evidence for copies between a GPU and its host.
    pub(crate) fn host_copies_origin(&self, gpu: &Gpu) -> Origin {
        let of_class = || {
            // Copies over a class that is described are as those of the class that it is like.
            let own = if gpu.pcie.like.is_some() { Origin::Estimate } else { Origin::MeasuredHere };
            let class = gpu.pcie.of_copies();
            let starts = self.copies.get(class)?.provenance.origin;
            Some(self.catalogue.links.get(class)?.sources.of("copies").origin.max(starts).max(own))
        };
        of_class().unwrap_or(Origin::Estimate)
    }
}
