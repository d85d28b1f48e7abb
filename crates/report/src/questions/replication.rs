//! RZAIA, chapter 5: what carries a day's changes, how soon they are served, and what the way costs.

use super::{Question, distinct, each_server, question};
use crate::cells::{Cell, Run, State};
use crate::{format, paths};
use measure::metrics::{self, Definition};

/// All that the run can answer of zones that are carried.
pub(super) fn questions(run: &Run) -> Vec<Question> {
    let mut all = Vec::new();
    all.extend(carried(run));
    all.extend(soon(run));
    all.extend(far(run));
    all
}

fn valid<'a>(run: &'a Run<'a>, measure: &'static str, server: &str) -> Vec<&'a Cell<'a>> {
    let fits = |c: &&Cell| c.key.is(measure) && c.key.server == server && c.state() == State::Valid;
    run.cells.iter().filter(fits).collect()
}

fn value(cell: &Cell, metric: Definition) -> Option<f64> {
    cell.metric(metric).map(|f| f.value)
}

/// Are changes carried as differences?
fn carried(run: &Run) -> Option<Question> {
    let took_whole = |server: &&String| {
        valid(run, "batches", server)
            .iter()
            .any(|c| value(c, metrics::AXFR_TRANSFERS).is_some_and(|n| n > 0.0))
    };
    let whole: Vec<String> = run.servers.iter().filter(took_whole).cloned().collect();
    let all = each_server(run, |server| {
        let cells = valid(run, "batches", server);
        let sum = |metric: Definition| cells.iter().filter_map(|c| value(c, metric)).sum::<f64>();
        let (differences, zones, cut) =
            (sum(metrics::IXFR_TRANSFERS), sum(metrics::AXFR_TRANSFERS), sum(metrics::TRANSFERS_BROKEN));
        if differences + zones == 0.0 {
            return None;
        }
        let cut = if cut > 0.0 { format!(", {cut:.0} cut half way") } else { String::new() };
        // Where not all changes were served, the octets are not known.
        let known =
            |c: &&Cell| Some((value(c, metrics::BATCHES_BYTES)?, value(c, metrics::BATCHES_RECORDS)?));
        let (octets, records) =
            cells.iter().filter_map(known).fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let each = if records > 0.0 {
            format!(", {} for each record changed", format::memory(octets / records))
        } else {
            String::new()
        };
        Some(format!("{server} {differences:.0} IXFR, {zones:.0} AXFR{cut}{each}"))
    })?;
    let verdict = match whole.as_slice() {
        [] => "Yes, all of them.".to_owned(),
        some => format!("Not all: {} also took whole zones.", format::list(some)),
    };
    question("Are changes carried as differences?", vec![verdict, format!("All batches together: {all}.")])
}

/// How soon is a batch served, and how much of that is waiting?
fn soon(run: &Run) -> Option<Question> {
    let all = each_server(run, |server| {
        let cells = valid(run, "batches", server);
        let timers = distinct(cells.iter().copied(), |c| c.key.carried.timers.clone());
        let sentence = |timers: &Option<String>| {
            let mine = cells.iter().filter(|c| c.key.carried.timers == *timers);
            let times: Vec<f64> = mine.filter_map(|c| value(c, metrics::BATCH.p50)).collect();
            let (low, high) =
                (times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?);
            let word = timers.as_deref().unwrap_or("default");
            Some(format!("{} with {word} timers", format::latency_range(low * 1e3, high * 1e3)))
        };
        let parts: Vec<String> = timers.iter().filter_map(sentence).collect();
        (!parts.is_empty()).then(|| format!("{server} {}", format::list(&parts)))
    })?;
    let answer =
        format!("At the median, over all zones and paths: {all}. What tuned timers take away was waiting.");
    question("How soon does a secondary serve a batch?", vec![answer])
}

/// The cost of delay and loss on the path.
fn far(run: &Run) -> Option<Question> {
    let by_delay = each_server(run, |server| {
        let rate = |c: &&Cell| {
            let rtt = c.key.carried.rtt_ms.as_ref().filter(|_| c.key.carried.lost() == Some(0.0))?;
            let tuned = c.key.carried.timers.as_deref() == Some("tuned");
            tuned.then_some(())?;
            Some(format!("{} Mbit/s at {rtt} ms", format::significant(value(c, metrics::TRANSFER_RATE)?)))
        };
        let rates: Vec<String> = valid(run, "transfer", server).iter().filter_map(rate).collect();
        (!rates.is_empty()).then(|| format!("{server} {}", format::list(&rates)))
    });
    let by_loss = each_server(run, |server| {
        let times = |c: &&Cell| {
            let (rtt, lost) = (c.key.carried.rtt_ms.as_ref()?, c.key.carried.lost()?);
            let longer = paths::longer(run, c).filter(|_| lost > 0.0)?;
            Some(format!("{} at {rtt} ms and {} loss", format::factor(longer), format::percent(100.0 * lost)))
        };
        let times: Vec<String> = valid(run, "transfer", server).iter().filter_map(times).collect();
        (!times.is_empty()).then(|| format!("{server} {}", format::list(&times)))
    });
    let mut answers = Vec::new();
    answers.extend(by_delay.map(|text| format!("A whole transfer by the round trip: {text}.")));
    answers
        .extend(by_loss.map(|text| format!("The time of a whole transfer over that without loss: {text}.")));
    question("What do delay and loss of the path cost?", answers)
}
