//! Passes that turn an order and the decisions of techniques into a schedule: [`visits`] lays out the plain step, the
//! others each realise one kind of decision. None of them decides anything.

mod aligned;
pub mod collectives;
pub mod exchanges;
pub mod feed;
pub mod host_update;
pub mod launches;
pub mod messages;
mod room;
pub mod transfers;
pub mod visits;
