//! What slots of a lane's blocks stand for, as seen from a rank.

use std::collections::BTreeMap;

use sim_core::id::GroupId;

use super::cohorts::Cohorts;
use super::trips::Trips;
use super::{Groups, RankIds};
use crate::site::Site;
use crate::transfer::Medium;

/// An object of the engine that a slot stands for, as seen from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Signal(u32),
    /// The cells of a storage that departs.
    Course(u32),
    /// The memory, and what counts residents, of the same replica of a stage.
    Memory(u32),
    Resident(u32),
    Hbm,
    Sms,
    /// The way from one stage to another.
    Way(u32, u32),
    /// Memory of a tier beside a rank, and the ways there and back.
    Tier(Medium),
    To(Medium),
    From(Medium),
    /// What its processors read and write.
    Processors,
    /// The way of what a host exchanges with its GPU or its drives, from one medium to another.
    Between(Medium, Medium),
    /// A way of rows of features.
    Rows(u32),
    /// A channel, and the class of the lane that joins.
    Channel(u32, u8),
    /// Where all ranks of a stage meet.
    Meeting(u32),
}

/// Finds the objects of a rank.
pub(super) struct Objects<'a> {
    pub(super) site: &'a Site,
    pub(super) ranks: &'a [RankIds],
    pub(super) groups: &'a Groups,
    pub(super) trips: &'a Trips,
    pub(super) meetings: &'a BTreeMap<u32, GroupId>,
    pub(super) cohorts: &'a Cohorts<'a>,
}

impl Objects<'_> {
    pub(super) fn id(&self, object: Object, stage: u32, replica: u32) -> u32 {
        let rank = |stage| self.site.rank(stage, replica);
        let own = &self.site.ranks[rank(stage)];
        let host = || own.host.expect("a rank whose host works has one");
        let tier =
            |medium| own.tiers.get(&medium).expect("what leaves a rank goes to a tier that it reaches");
        match object {
            Object::Tier(medium) => tier(medium).store.0,
            Object::To(medium) => tier(medium).out.0,
            Object::From(medium) => tier(medium).back.0,
            Object::Processors => host().processors.0,
            Object::Rows(way) => own.ways_of_rows[way as usize].0,
            Object::Between(from, to) => own.ways[&(from, to)].0,
            Object::Signal(signal) => self.cohorts.counter(signal, replica),
            Object::Course(storage) => self.trips.cell(storage, replica),
            Object::Meeting(stage) => self.meetings[&stage].0,
            Object::Memory(stage) => self.ranks[rank(stage)].memory.0,
            Object::Resident(stage) => self.ranks[rank(stage)].resident.0,
            Object::Hbm => own.hbm.expect("a rank with kernels has HBM").0,
            Object::Sms => own.sms.expect("a rank with kernels has SMs").0,
            Object::Way(from, to) => self.site.ranks[rank(from)].to[&to].0,
            Object::Channel(channel, class) => {
                let group = self.site.channels[channel as usize].of_rank[rank(stage)];
                let group = group.and_then(|group| self.groups[&(channel, class)][group as usize]);
                group.expect("it is in the channel").0
            }
        }
    }
}
