//! All tables of a report.

use crate::cells::Run;
use crate::grid::Grid;
use crate::{answers, capacity, costs, durable, hardware, latency, peak, replication, throughput};

/// All tables of a run, in the order in which they are shown.
pub(crate) fn of(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    for rate in run.distinct("latency", |k| k.rate.clone()) {
        all.extend(latency::grids(run, rate.as_deref().unwrap_or_default()));
    }
    all.extend(throughput::throughput_grid(run));
    all.extend(peak::capacity_grid(run));
    all.extend(peak::knee_grid(run));
    all.extend(replication::grids(run));
    all.extend(durable::grids(run));
    all.extend(answers::grids(run));
    all.extend(capacity::grid(run));
    all.extend(costs::grids(run));
    all.extend(hardware::grids(run));
    all
}
