//! A primary and its secondaries: their servers, the paths between them, and the zone that changes there.

pub mod core_waits;
pub mod fleet;
pub mod outage;
pub mod paths;
pub mod running_updates;
mod steps;
mod versions;
