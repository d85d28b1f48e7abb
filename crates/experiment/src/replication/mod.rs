//! A primary and its secondaries: their servers, the paths between them, and the zone that changes there.

pub mod away;
pub mod changes;
pub mod fleet;
pub mod paths;
mod steps;
mod versions;
