//! Tables of latency at a fixed rate.

use crate::cells::{self, Cell, Figure, Key, Run};
use crate::format;
use crate::grid::{Grid, Shown, beside, grid, repeats, software};
use measure::{metrics, units};
use results::published;

/// The tables of one rate: the median, the slowest 1 %, and the share answered in time.
pub(crate) fn grids(run: &Run, rate: &str) -> Vec<Grid> {
    let deadline = run.deadline;
    let limit = format::duration(deadline);
    let qps = rate.parse::<f64>().map_or_else(|_| rate.to_owned(), |r| units::grouped(r as u64));
    let keep = |c: &Cell| c.key.is("latency") && c.key.rate.as_deref() == Some(rate);
    let of_rate = run.dir.trials().iter().filter(|t| t.param("rate") == Some(rate));
    let time = of_rate.filter_map(|t| cells::duration(t, "duration")).next();
    let time = time.map_or_else(String::new, |ns| format!(" for {}", format::duration(ns)));
    let how = format!("{qps} queries/s{time}, open loop; {}", repeats(run, "latency"));
    // The paper's rate is the condition for its cells to stand beside.
    let same_rate = rate.parse::<f64>() == Ok(5000.0);
    let table = |id: &str| published::find(id).filter(|_| same_rate && run.wants(id));
    let heading = |k: &Key| {
        Some(vec![software(&k.kind)?.to_owned(), if k.signed { "signed" } else { "unsigned" }.to_owned()])
    };
    let latency_text = |f: &Figure| {
        if f.value > deadline as f64 { format!(">{limit}") } else { format::latency(f.value) }
    };
    let range = |low: f64, high: f64| {
        if high > deadline as f64 {
            format!("{} to >{limit}", format::latency(low))
        } else {
            format::latency_range(low, high)
        }
    };
    let quantile = |q: f64| {
        move |c: &Cell| {
            let f = c.latency(q, deadline)?;
            let details = f.interval_text(&latency_text(&f), range).into_iter().collect();
            let compare = (f.value <= deadline as f64).then_some(f.value);
            Some(Shown { text: latency_text(&f), details, compare })
        }
    };
    let medians = table("rzaia-3.1");
    let shares = table("rzaia-3.2").filter(|_| deadline == 4_000_000_000);
    let mut all = Vec::new();
    all.extend(grid(
        run,
        (
            &format!("median-{rate}"),
            format!("Median latency at {qps} queries/s"),
            format!("{how}. From the intended time of sending, over all queries: one without an answer within {limit} counts as slower."),
        ),
        keep,
        |k, m| beside(medians, k, heading, m, "ns"),
        quantile(0.5),
    ));
    all.extend(grid(
        run,
        (
            &format!("p99-{rate}"),
            format!("Latency of the slowest 1 % at {qps} queries/s"),
            format!("{how}. 99 % of all queries had their answer within this time."),
        ),
        keep,
        |_, _| None,
        quantile(0.99),
    ));
    all.extend(grid(
        run,
        (
            &format!("share-{rate}"),
            format!("Queries answered within {limit} at {qps} queries/s"),
            format!("{how}. Late answers count as lost."),
        ),
        keep,
        |k, m| beside(shares, k, heading, m, "%"),
        |c| {
            let f = c.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)?;
            let text = format::percent(f.value);
            let ends = |a: f64, b: f64| {
                if a == b {
                    format::percent(a)
                } else {
                    format!("{} to {}", format::percent(a), format::percent(b))
                }
            };
            let details = f.interval_text(&text, ends);
            Some(Shown { text, details: details.into_iter().collect(), compare: Some(f.value) })
        },
    ));
    all
}
