//! RZAIA's sentence as a table: for every x TLDs, y hosts of server z for q queries a second.

use crate::cells::{Cell, Run};
use crate::format;
use crate::grid::{self, Grid, Shown};
use measure::units;

/// The demands, in queries per second, each from a paper: RZAIA's stream, as many as one server of a root sees (section 3.1);
/// what A-root's node had in 2009, as three queries a second over TCP were 0.025 % of all (section 6.1.1); what ISC's rack of
/// thirteen could answer (ISC-TN-2008-1, section 6.3.1).
const DEMANDS: [f64; 3] = [5_000.0, 12_000.0, 1_000_000.0];

/// The table, in runs of the experiment of that name.
pub(crate) fn grid(run: &Run) -> Option<Grid> {
    if run.planned("name")? != "capacity" {
        return None;
    }
    let cores =
        run.dir.environment().get("server_cpus").and_then(|c| c.as_array()).map_or(1, Vec::len).max(1);
    let demands: Vec<String> = DEMANDS.iter().map(|&q| units::short(q as u64)).collect();
    let about = format!(
        "Hosts of {cores} core{} such as this one that answer {} queries/s together, each at half of the least \
         capacity that was measured: the other half is for the day when a host, or a site, is gone. Estimated from what was measured \
         here, with the generator on the same machine.",
        if cores == 1 { "" } else { "s" },
        format::list(&demands)
    );
    let show = |c: &Cell| {
        let capacity = crate::peak::Capacity::of(c);
        let at_least = capacity.is_none_or(|c| c.at_least);
        let peak = capacity.map(|c| c.range.0).or(crate::peak::Knee::of(c).low)?;
        let hosts = |q: f64| (q / (peak / 2.0)).ceil() as u64;
        // Of a capacity that is known from below alone, the hosts are known from above alone.
        let most = if at_least { "at most " } else { "" };
        let text: Vec<String> =
            DEMANDS.iter().map(|&q| format!("{most}{}", units::grouped(hosts(q)))).collect();
        let details = vec![format!("{} a core", format::rate(peak / cores as f64))];
        Some(Shown { text: text.join(" / "), details, compare: None })
    };
    let title = format!("Hosts for {} queries/s", demands.join(" / "));
    grid::grid(run, ("capacity", title, about), |c| c.key.is("peak"), |_, _| None, show)
}
