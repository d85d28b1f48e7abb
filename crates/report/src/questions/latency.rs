//! RZAIA, chapter 3: do queries take longer, and are they lost?

use super::{Change, Question, distinct, each_server, question, span, verdict};
use crate::cells::{Cell, Key, Run, Sample, State};
use crate::format;
use measure::metrics::{self, Scope};
use measure::units;

/// The relative error of a median by the histogram's rounding.
const NOISE: f64 = 0.005;

/// The variables of the chapter that the run has.
pub(super) fn questions(run: &Run) -> Vec<Question> {
    let mut all: Vec<Question> = Vec::new();
    all.extend(by_size(run));
    let signed = |k: &Key| !k.family.contains('+') && k.signed;
    let unsigned = |k: &Key| !k.family.contains('+') && !k.signed;
    all.extend(by_family(run, "Do they take longer when the zone is signed?", unsigned, signed));
    for (what, from, to) in [
        ("Do they take longer with IPv6 glue for all name servers?", "U-4-DS0", "U-6-DS0"),
        ("Do they take longer with DS records for all delegations?", "S-6-DS10", "S-6-DS100"),
    ] {
        all.extend(by_family(run, what, |k| k.family == from, |k| k.family == to));
    }
    all.extend(by_variant(run));
    if let Some(first) = all.first_mut() {
        first.question = first.question.replace("Do they take", "Do queries take");
    } else {
        all.extend(medians(run));
    }
    all.extend(low_rate(run));
    all.extend(losses(run));
    all
}

/// A median at the lowest rate that is this many times that at the highest wants an explanation.
const SLOWER: f64 = 1.15;

/// A sleep before a wake-up, and the median time of the wake-up; both in microseconds.
type WakeUp = (f64, f64);

/// Why the latency is higher where queries are fewer: what of it is a sleeping server that wakes up.
fn low_rate(run: &Run) -> Option<Question> {
    let wake_ups = run.dir.environment().get("wake_ups")?.as_array()?;
    let wake_ups: Vec<WakeUp> = wake_ups
        .iter()
        .filter_map(|w| Some((w.get("slept_us")?.as_f64()?, w.get("p50_us")?.as_f64()?)))
        .collect();
    let rate = |c: &Cell| c.key.rate.as_deref()?.parse::<f64>().ok();
    let median = |c: &Cell| c.latency(0.5, run.deadline).map(|f| f.value / 1e3);
    let cpu = |c: &Cell| c.metric(metrics::CALM_SERVER_CPU_PER_QUERY).map_or(0.0, |f| f.value);
    let mut lines = Vec::new();
    for (server, zone) in distinct(cells(run), |c| (c.key.server.clone(), c.key.zone())) {
        let mine = || {
            let here = cells(run).filter(|c| c.key.server == server && c.key.zone() == zone);
            here.filter(|c| c.state() == State::Valid).filter_map(|c| Some((rate(c)?, median(c)?, cpu(c))))
        };
        let (Some(low), Some(high)) =
            (mine().min_by(|a, b| a.0.total_cmp(&b.0)), mine().max_by(|a, b| a.0.total_cmp(&b.0)))
        else {
            continue;
        };
        // What a server that is woken for each query waits for, by the time between two queries.
        let (Some(slow), Some(quick)) =
            (after_sleep(&wake_ups, 1e6 / low.0), after_sleep(&wake_ups, 1e6 / high.0))
        else {
            continue;
        };
        if low.1 < SLOWER * high.1 || low.0 >= high.0 {
            continue;
        }
        let us = |us: f64| format::latency(us * 1e3);
        lines.push(format!(
            "{server} on {zone}: {} at {} against {} at {}, a difference of {}. Waking up takes {} more of it, and the server's own \
             CPU time a query is {} instead of {}.",
            us(low.1),
            format::rate(low.0),
            us(high.1),
            format::rate(high.0),
            us(low.1 - high.1),
            us((slow - quick).max(0.0)),
            us(low.2),
            us(high.2)
        ));
    }
    if lines.is_empty() {
        return None;
    }
    let measured: Vec<String> = wake_ups
        .iter()
        .map(|(slept, took)| {
            format!("{} after {}", format::latency(took * 1e3), format::latency(slept * 1e3))
        })
        .collect();
    lines.insert(
        0,
        format!(
            "A server sleeps between queries that are far apart, and each query wakes it. On this machine a thread that sleeps runs so long \
             after it is woken from the generator's core, at the median: {}. Where the same work takes more CPU time as well, caches that \
             others have used meanwhile and a slower clock are likely causes; neither was measured.",
            format::list(&measured)
        ),
    );
    question("Why is the latency higher at a lower rate?", lines)
}

/// The median wake-up after a sleep that is nearest to this one, by ratio. Below the shortest sleep measured a server may not sleep at all.
fn after_sleep(wake_ups: &[WakeUp], slept: f64) -> Option<f64> {
    let shortest = wake_ups.iter().map(|w| w.0).reduce(f64::min)?;
    if slept < shortest {
        return Some(0.0);
    }
    let apart = |w: &&WakeUp| (w.0 / slept).ln().abs();
    wake_ups.iter().min_by(|a, b| apart(a).total_cmp(&apart(b))).map(|w| w.1)
}

fn cells<'a>(run: &'a Run<'a>) -> impl Iterator<Item = &'a Cell<'a>> {
    run.cells.iter().filter(|c| c.key.is("latency"))
}

/// A rate, as the beginning of a sentence about it; nothing where the run has but one.
fn at_rate(run: &Run, rate: &Option<String>) -> String {
    let several = run.distinct("latency", |k| k.rate.clone()).len() > 1;
    let qps = rate.as_deref().and_then(|r| r.parse::<f64>().ok()).filter(|_| several);
    qps.map_or_else(String::new, |r| format!(", {}", format::rate(r)))
}

/// The change of the median between two cells; none where either has none within the deadline.
fn change(run: &Run, from: &Cell, to: &Cell) -> Option<Change> {
    let deadline = run.deadline;
    let change = Change::between(from, to, NOISE, |t| Sample::of(t)?.quantile(0.5, deadline))?;
    let within = |v: f64| v <= deadline as f64;
    (within(change.from.value) && within(change.to.value)).then_some(change)
}

/// Each server's change from its cell among some to its cell among others, in a line; the changes themselves go into `into`.
fn line<'a>(
    run: &Run,
    from: impl Iterator<Item = &'a Cell<'a>>,
    to: impl Iterator<Item = &'a Cell<'a>>,
    into: &mut Vec<Change>,
) -> Option<String> {
    let (from, to): (Vec<_>, Vec<_>) = (from.collect(), to.collect());
    let mut found = Vec::new();
    let mut texts = Vec::new();
    for server in &run.servers {
        let mine = |all: &[&'a Cell<'a>]| all.iter().find(|c| c.key.server == *server).copied();
        let Some((from, to)) = mine(&from).zip(mine(&to)) else { continue };
        match change(run, from, to) {
            Some(change) => {
                texts.push(format!("{server} {}", change.text(format::latency)));
                found.push(change);
            }
            None if from.state() == State::Valid && to.state() == State::Valid => {
                texts.push(format!("{server} has no median within {}", format::duration(run.deadline)));
            }
            None => {}
        }
    }
    into.extend(found);
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// From the smallest to the largest size of each type of zone.
fn by_size(run: &Run) -> Option<Question> {
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    for (row, rate) in distinct(cells(run), |c| (c.key.row(), c.key.rate.clone())) {
        let here = || cells(run).filter(|c| c.key.row() == row && c.key.rate == rate);
        let mut sizes: Vec<u64> = here().filter_map(|c| c.key.size).collect();
        sizes.sort_unstable();
        let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else { continue };
        if first == last {
            continue;
        }
        let at = |size: u64| here().filter(move |c| c.key.size == Some(size));
        let text = line(run, at(first), at(last), &mut changes);
        let (first, last) = (units::short(first), units::short(last));
        let place = format!("{row}{}, {first} to {last}", at_rate(run, &rate));
        // A scenario's row has no name of its own.
        let place = place.trim_start_matches(", ");
        lines.extend(text.map(|t| format!("{place}: {t}.")));
    }
    let answers = verdict(&changes, "slower", "faster").into_iter().chain(lines).collect();
    question("Do they take longer when the zone grows?", answers)
}

/// From one type of zone to another, at each size and rate.
fn by_family(
    run: &Run,
    what: &str,
    from: impl Fn(&Key) -> bool,
    to: impl Fn(&Key) -> bool,
) -> Option<Question> {
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    for (size, rate, variant) in
        distinct(cells(run), |c| (c.key.size, c.key.rate.clone(), c.key.variant.clone()))
    {
        let here =
            || cells(run).filter(|c| c.key.size == size && c.key.rate == rate && c.key.variant == variant);
        // The last unsigned family has the same glue as the signed ones; the last signed one has all DS.
        let (Some(a), Some(b)) =
            (here().filter(|c| from(&c.key)).last(), here().filter(|c| to(&c.key)).last())
        else {
            continue;
        };
        let cells_of = |family: &str| here().filter(|c| c.key.family == family).collect::<Vec<_>>();
        let text =
            line(run, cells_of(&a.key.family).into_iter(), cells_of(&b.key.family).into_iter(), &mut changes);
        let size = size.map_or_else(String::new, |n| format!(", {}", units::short(n)));
        let variant = variant.map_or_else(String::new, |v| format!(", {v}"));
        lines.extend(text.map(|t| {
            format!("{} to {}{size}{variant}{}: {t}.", a.key.family, b.key.family, at_rate(run, &rate))
        }));
    }
    let answers = verdict(&changes, "slower", "faster").into_iter().chain(lines).collect();
    question(what, answers)
}

/// From the first variant of the traffic to the last, where the rate stays.
fn by_variant(run: &Run) -> Option<Question> {
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    let mut named = None;
    for (family, size, rate) in
        distinct(cells(run), |c| (c.key.family.clone(), c.key.size, c.key.rate.clone()))
    {
        let here =
            || cells(run).filter(|c| c.key.family == family && c.key.size == size && c.key.rate == rate);
        let variants: Vec<String> =
            distinct(here(), |c| c.key.variant.clone()).into_iter().flatten().collect();
        let [first, .., last] = variants.as_slice() else { continue };
        let of =
            |variant: &str| here().filter(|c| c.key.variant.as_deref() == Some(variant)).collect::<Vec<_>>();
        let text = line(run, of(first).into_iter(), of(last).into_iter(), &mut changes);
        let size = size.map_or_else(String::new, |n| format!(", {}", units::short(n)));
        lines.extend(text.map(|t| format!("{family}{size}{}: {t}.", at_rate(run, &rate))));
        named = Some((first.clone(), last.clone()));
    }
    let (first, last) = named?;
    let answers = verdict(&changes, "slower", "faster").into_iter().chain(lines).collect();
    question(format!("Do they take longer with {last} than with {first}?"), answers)
}

/// The medians alone, where nothing varies that they could be compared by.
fn medians(run: &Run) -> Option<Question> {
    let deadline = run.deadline;
    let text = |ns: f64| match ns > deadline as f64 {
        true => format!(">{}", format::duration(deadline)),
        false => format::latency(ns),
    };
    let lines = run.distinct("latency", |k| k.rate.clone()).into_iter().filter_map(|rate| {
        let all = each_server(run, |server| {
            let here = || cells(run).filter(|c| c.key.server == server && c.key.rate == rate);
            let quantile = |q: f64| span(here(), |c| Some(c.latency(q, deadline)?.value));
            let ((low, high), (_, slow)) = (quantile(0.5)?, quantile(0.99)?);
            let median = if low == high { text(low) } else { format!("{} to {}", text(low), text(high)) };
            Some(format!("{server} {median} (99 % within {})", text(slow)))
        })?;
        let qps = rate.as_deref().unwrap_or_default();
        let qps = qps.parse::<f64>().map_or_else(|_| qps.to_owned(), format::rate);
        Some(format!("Median at {qps}: {all}."))
    });
    question("How long do queries take?", lines.collect())
}

fn losses(run: &Run) -> Option<Question> {
    // Under a flood it is another question.
    let flooded = |c: &Cell| c.metric(metrics::SENT.within(Scope::Background)).is_some_and(|f| f.value > 0.0);
    let valid = || cells(run).filter(|c| c.state() == State::Valid && !flooded(c));
    let loss = |c: &Cell| Some(100.0 - c.metric(metrics::ANSWERED_IN_DEADLINE_SHARE)?.value);
    valid().find(|c| loss(c).is_some())?;
    let worst = each_server(run, |server| {
        let mine = valid().filter(|c| c.key.server == *server);
        let (most, cell) = mine.filter_map(|c| Some((loss(c)?, c))).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (most > 0.0).then(|| {
            format!(
                "{server} {} ({}{})",
                format::percent(most),
                cell.key.zone(),
                at_rate(run, &cell.key.rate)
            )
        })
    });
    let answer = match worst {
        None => "No: at these rates all were answered in time, in every valid trial.".to_owned(),
        Some(worst) => format!("Some were, or answered late; the most of each server: {worst}."),
    };
    let asked = match cells(run).any(flooded) {
        true => "Are queries lost at a fixed rate, where there is no flood?",
        false => "Are queries lost at a fixed rate?",
    };
    question(asked, vec![answer])
}
