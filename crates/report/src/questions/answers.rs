//! RZAIA, chapter 6 and section 3.3: truncated answers, TCP, and floods.

use super::{Question, distinct, each_server, question, span};
use crate::cells::{Cell, Run, State};
use crate::format;
use measure::metrics::{self, Definition, Scope};
use measure::{params, units};

/// Where none of n was seen, the true share is less than this, over n (95 %).
const NONE_OF: f64 = 3.0;

/// The share of good queries, in per cent, that must be answered for them to have survived.
const SURVIVED: f64 = 99.0;

pub(super) fn questions(run: &Run) -> Vec<Question> {
    let mut all = Vec::new();
    if run.dir.trials().iter().any(|t| t.param(params::TRANSPORT) == Some("udp+tcp")) {
        all.extend(truncated(run));
        all.extend(over_tcp(run));
    }
    all.extend(flood(run));
    all.extend(right(run));
    all
}

/// Whether the answers that were compared with the zone were right.
fn right(run: &Run) -> Option<Question> {
    let of_server = |server: &str| {
        let trials = || {
            let mine = run.cells.iter().filter(|c| c.key.server == server);
            mine.flat_map(Cell::used)
        };
        let sum = |metric| trials().filter_map(|t| t.outcome.metric(metric)).sum::<f64>();
        let (checked, wrong) = (sum(metrics::CHECKED), sum(metrics::CHECKED_WRONG));
        let lacking = sum(metrics::CHECKED_LACKING_GLUE);
        let lacking = match lacking > 0.0 {
            true => {
                format!("; {} lacked glue, without TC (RFC 9471)", format::percent(100.0 * lacking / checked))
            }
            false => String::new(),
        };
        let count = units::grouped(checked as u64);
        if checked == 0.0 {
            None
        } else if wrong == 0.0 {
            // None in n: at most 3 in n at 95 %.
            let most = format::percent(100.0 * NONE_OF / checked);
            Some(format!("{server} all {count} (at most {most} of its answers are wrong, at 95 %{lacking})"))
        } else {
            Some(format!("{server} {} of {count} WRONG{lacking}", units::grouped(wrong as u64)))
        }
    };
    let all = each_server(run, of_server)?;
    let answers = vec![format!(
        "Answers drawn at random and compared with the zone in full (records, referrals, denials, signatures), right: {all}."
    )];
    question("Were the answers right?", answers)
}

fn valid<'a>(run: &'a Run<'a>) -> impl Iterator<Item = &'a Cell<'a>> {
    run.cells.iter().filter(|c| c.key.is("latency") && c.state() == State::Valid)
}

fn value(cell: &Cell, metric: Definition) -> Option<f64> {
    cell.metric(metric).map(|f| f.value)
}

/// The least and the greatest, in per cent.
fn range((low, high): (f64, f64)) -> String {
    let (low, high) = (format::percent(low), format::percent(high));
    if low == high { low } else { format!("{low} to {high}") }
}

fn truncated(run: &Run) -> Option<Question> {
    let share = |c: &Cell| {
        Some(100.0 * value(c, metrics::TRUNCATED)? / value(c, metrics::ANSWERED).filter(|n| *n > 0.0)?)
    };
    let rows = distinct(valid(run), |c| c.key.row());
    let sentence = |row: &String| {
        Some(format!("{row} {}", range(span(valid(run).filter(|c| c.key.row() == *row), share)?)))
    };
    let all: Vec<String> = rows.iter().filter_map(sentence).collect();
    let mut answers = Vec::new();
    if !all.is_empty() {
        answers.push(format!("Of the answers over UDP, over servers and sizes: {}.", all.join("; ")));
    }
    if let Some(table) = run.published_table("rzaia-text-truncated") {
        let cell = |column: &str| {
            Some(table.cell(&["Executive summary", "root servers", "answers over UDP"], column)?.text.clone())
        };
        let seed = cell("least").zip(cell("most"));
        answers.extend(seed.map(|(least, most)| {
            format!("{}: {least} to {most} % of the answers of a signed root.", table.short_source())
        }));
    }
    question("How many answers get truncated?", answers)
}

fn over_tcp(run: &Run) -> Option<Question> {
    let back = each_server(run, |server| {
        let sum = |metric: Definition| {
            let values: Vec<f64> =
                valid(run).filter(|c| c.key.server == server).filter_map(|c| value(c, metric)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>())
        };
        let (sent, answered) = (
            sum(metrics::SENT.within(Scope::TcpRetries))?,
            sum(metrics::ANSWERED.within(Scope::TcpRetries))?,
        );
        let truncated = sum(metrics::TRUNCATED).unwrap_or(sent).max(sent);
        let mut text = match sent > 0.0 {
            true => format!(
                "{server} {} of {}, and {} of these were answered",
                units::grouped(sent as u64),
                units::grouped(truncated as u64),
                format::percent(100.0 * answered / sent)
            ),
            false => format!("{server} none of {}", units::grouped(truncated as u64)),
        };
        let mine = || valid(run).filter(|c| c.key.server == server);
        if let Some((_, open)) = span(mine(), |c| value(c, metrics::TCP_OPEN_MAX)).filter(|s| s.1 > 0.0) {
            text += &format!(", {open:.0} connections at once at most");
        }
        if let Some((_, slow)) =
            span(mine(), |c| value(c, metrics::LATENCY.p99.within(Scope::TcpRetries))).filter(|s| s.1 > 0.0)
        {
            text += &format!(", 99 % within {}", format::latency(slow * 1e3));
        }
        Some(text)
    });
    let back = back.map(|b| format!("Truncated answers that were asked again over TCP: {b}."));
    question("What comes back over TCP?", back.into_iter().collect())
}

/// The good queries beside the greatest flood, and without one.
fn flood(run: &Run) -> Option<Question> {
    let flood = |c: &Cell| value(c, metrics::SENT.within(Scope::Background)).filter(|n| *n > 0.0);
    valid(run).find(|c| flood(c).is_some())?;
    let rate = |c: &Cell| c.key.rate.as_deref().and_then(|r| r.parse::<f64>().ok()).unwrap_or(0.0);
    let p99 = |c: &Cell| Some(format::latency(c.latency(0.99, run.deadline)?.value.min(run.deadline as f64)));
    let (mut answers, mut hurt) = (Vec::new(), Vec::new());
    for (family, size) in distinct(valid(run), |c| (c.key.family.clone(), c.key.size)) {
        let mut texts = Vec::new();
        for server in &run.servers {
            let mine = || {
                let here = valid(run).filter(|c| c.key.family == family && c.key.size == size);
                here.filter(|c| c.key.server == *server)
            };
            let worst = mine().filter(|c| flood(c).is_some()).max_by(|a, b| rate(a).total_cmp(&rate(b)));
            let Some(worst) = worst else { continue };
            let Some(good) = value(worst, metrics::ANSWERED_IN_DEADLINE_SHARE) else { continue };
            if good < SURVIVED && !hurt.contains(server) {
                hurt.push(server.clone());
            }
            let alone = mine().find(|c| flood(c).is_none()).and_then(p99);
            texts.push(format!(
                "{server} {} of the good queries answered, 99 % within {}{} ({})",
                format::percent(good),
                p99(worst).unwrap_or_default(),
                alone.map_or_else(String::new, |t| format!(", without it {t}")),
                worst.key.variant.as_deref().unwrap_or("the flood"),
            ));
        }
        if !texts.is_empty() {
            let size = size.map_or_else(String::new, |n| format!(", {}", measure::units::short(n)));
            answers.push(format!("{family}{size}: {}.", texts.join("; ")));
        }
    }
    let verdict = match hurt.as_slice() {
        [] => format!("Yes: every server answered at least {SURVIVED} % of it under the greatest flood."),
        hurt => format!(
            "Not with {}: less than {SURVIVED} % of it was answered under the greatest flood.",
            format::list(hurt)
        ),
    };
    answers.insert(0, verdict);
    question("Does good traffic survive a flood?", answers)
}
