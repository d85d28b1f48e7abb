//! RZAIA's sentence as a table: for every x TLDs, y hosts of server z for q queries a second.

use crate::cells::{Cell, Run};
use crate::format;
use crate::grid::{self, Grid, Shown};
use measure::units;

/// The demands, in queries per second: RZAIA's replays, its peaks of root servers, and a large operator's today.
const DEMANDS: [f64; 3] = [50_000.0, 500_000.0, 5_000_000.0];

/// The table, in runs of the experiment of that name.
pub(crate) fn grid(run: &Run) -> Option<Grid> {
    if run.planned("name")? != "capacity" {
        return None;
    }
    let cores =
        run.dir.environment().get("server_cpus").and_then(|c| c.as_array()).map_or(1, Vec::len).max(1);
    let demands: Vec<String> = DEMANDS.iter().map(|&q| units::short(q as u64)).collect();
    let about = format!(
        "Hosts of {cores} core{} such as this one that answer {} queries/s together, each at half of the lower bound of its \
         peak: the other half is for the day when a host, or a site, is gone. Reckoned from peaks measured here, with the \
         generator on the same machine.",
        if cores == 1 { "" } else { "s" },
        format::list(&demands)
    );
    let show = |c: &Cell| {
        let peak = crate::peak::bounds(c).map_or(c.metric("peak_qps")?.value, |(low, _)| low);
        let hosts = |q: f64| (q / (peak / 2.0)).ceil() as u64;
        let text: Vec<String> = DEMANDS.iter().map(|&q| units::grouped(hosts(q))).collect();
        let details = vec![format!("{} a core", format::rate(peak / cores as f64))];
        Some(Shown { text: text.join(" / "), details, compare: None })
    };
    let title = format!("Hosts for {} queries/s", demands.join(" / "));
    grid::grid(run, ("capacity", title, about), |c| c.key.is("peak"), |_, _| None, show)
}
