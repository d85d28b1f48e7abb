//! The costs of each scenario of a run against the first: an answer to each question of an operator, and five rows for a slide.

use crate::answers::sum;
use crate::cells::{Cell, Run, State};
use crate::compare::{MANY_TIMES, size_text, times_text};
use crate::format;
use crate::scenarios::{Scenarios, is_shown, param, server, title};
use measure::metrics::{self, Scope};
use measure::{Definition, params, units};
use results::TrialRecord;
use results::compare::{self, Change, ComparedFigure, Verdict};
use serde::Serialize;

/// One scenario against the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Decision {
    /// The scenario's name.
    pub scenario: String,
    /// How its zone was made.
    pub made: String,
    /// Each question with its answer, of all servers.
    pub answers: Vec<Answer>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    /// `Capacity`.
    pub topic: String,
    /// `bind 41 % lower (36 to 46 %); nsd no difference shown (-3 to +4 %).`
    pub text: String,
}

/// The topics that are a figure each, in the order in which an operator asks.
const TOPICS: [(&str, &[Definition]); 9] = [
    ("Capacity", &[metrics::CAPACITY_QPS]),
    ("Median latency", &[metrics::CALM_LATENCY_P50, metrics::LATENCY.p50]),
    ("CPU time a query", &[metrics::CALM_SERVER_CPU_PER_QUERY, metrics::SERVER_CPU_PER_QUERY]),
    ("Memory", &[metrics::SERVER_PSS]),
    ("Memory at the peak of a reload", &[metrics::RELOADING_PEAK_PSS]),
    ("Start", &[metrics::SERVER_READY]),
    ("Reload", &[metrics::RELOAD_SECONDS]),
    ("Octets of a whole transfer", &[metrics::TRANSFER_TCP_BYTES]),
    ("Lag of secondaries", &[metrics::LAG_MEAN, metrics::LAG.p50]),
];

/// The rows of a slide.
const SLIDE: [usize; 5] = [0, 1, 3, 5, 6];

/// Every scenario but the first.
pub(crate) fn decisions(run: &Run, all: &Scenarios<'_>) -> Vec<Decision> {
    all.compared.iter().map(|(name, comparison)| decision(run, all.first, name, comparison)).collect()
}

fn decision(run: &Run, first: &str, name: &str, c: &compare::Comparison) -> Decision {
    let mut answers = Vec::new();
    for (topic, figures) in TOPICS {
        let mut titles: Vec<(String, Vec<(String, String)>)> = Vec::new();
        let of_topic = |(cell, figure): &(&compare::Cell, &ComparedFigure)| {
            figures.contains(&figure.figure().metric) && is_shown(c, cell, figure)
        };
        for (cell, figure) in c.findings().filter(of_topic) {
            let title = title(cell, figure);
            let words = (server(cell), change(figure));
            match titles.iter_mut().find(|(known, _)| *known == title) {
                Some((_, all)) => all.push(words),
                None => titles.push((title, vec![words])),
            }
        }
        for (title, mut all) in titles {
            for server in &run.servers {
                if all.iter().all(|(known, _)| known != server) {
                    all.push((server.clone(), "not known (no valid trials of both zones)".into()));
                }
            }
            let texts: Vec<String> = all.iter().map(|(server, words)| format!("{server} {words}")).collect();
            let load = title.split_once(" at ").map_or_else(String::new, |(_, load)| format!(" at {load}"));
            let load =
                if topic == "Median latency" || topic == "CPU time a query" { load } else { String::new() };
            answers.push(Answer { topic: format!("{topic}{load}"), text: format!("{}.", texts.join("; ")) });
        }
    }
    let more = [
        signing(run, name),
        lost(run, first, name),
        truncated(run, first, name),
        sent_out(run, first, name),
        keeps_up(run, name),
    ];
    answers.extend(more.into_iter().flatten());
    let made = run.dir.trials().iter().find(|t| t.param(params::FAMILY) == Some(name));
    let made = made.and_then(|t| t.param(params::ZONE_MADE)).unwrap_or_default().to_owned();
    Decision { scenario: name.to_owned(), made, answers }
}

/// A difference in words, with what it is in the figure's unit where that is an amount.
fn change(figure: &ComparedFigure) -> String {
    let span = |c: &Change| crate::compare::span_text(c);
    match (figure.verdict, figure.change) {
        (Verdict::Worse | Verdict::Better, Some(change)) => {
            let amount = figure.b.median - figure.a.median;
            let sign = if amount < 0.0 { "−" } else { "+" };
            let amount = match figure.unit {
                "B" | "s" => format!(", {sign}{}", format::value(amount.abs(), figure.unit)),
                _ => String::new(),
            };
            format!("{}{amount}", size_text(&change))
        }
        // By itself its interval shows one; among so many figures some do by chance.
        (_, Some(change)) if change.low > 0.0 || change.high < 0.0 => {
            format!("perhaps {}, which may be chance among so many figures", size_text(&change))
        }
        (_, Some(change)) => format!("no difference shown ({})", span(&change)),
        (_, None) => "not known (too few valid repeats)".into(),
    }
}

/// The valid cells of latency trials on a zone, of a server.
fn latency_cells<'a>(run: &'a Run<'a>, zone: &'a str, server: &'a str) -> impl Iterator<Item = &'a Cell<'a>> {
    run.cells.iter().filter(move |c| {
        c.key.is("latency") && c.key.family == zone && c.key.server == server && c.state() == State::Valid
    })
}

/// The values of a metric, added up over all trials of these cells that are used.
fn sum_of<'a>(cells: impl Iterator<Item = &'a Cell<'a>>, which: Definition) -> Option<f64> {
    cells.filter_map(|cell| sum(cell, which)).reduce(|a, b| a + b)
}

/// Each server's words about two zones, joined.
fn each(run: &Run, topic: &str, of: impl Fn(&str) -> Option<String>) -> Option<Answer> {
    let all: Vec<String> = run.servers.iter().filter_map(|s| Some(format!("{s} {}", of(s)?))).collect();
    (!all.is_empty()).then(|| Answer { topic: topic.into(), text: format!("{}.", all.join("; ")) })
}

/// How long it took to sign the zone.
fn signing(run: &Run, name: &str) -> Option<Answer> {
    let of_zone = |t: &&TrialRecord| t.param(params::FAMILY) == Some(name);
    let seconds = run
        .dir
        .trials()
        .iter()
        .filter(of_zone)
        .find_map(|t| t.outcome.metric(metrics::ZONE_SIGNING_SECONDS))?;
    let text = format!(
        "{} with dnsrack's signer on this machine, with reading and writing.",
        format::seconds(seconds)
    );
    Some(Answer { topic: "Signing the zone".into(), text })
}

/// Queries without an answer in time, at the fixed rates.
fn lost(run: &Run, first: &str, name: &str) -> Option<Answer> {
    let share = |zone: &str, server: &str| {
        let (lost, sent) = (
            sum_of(latency_cells(run, zone, server), metrics::LOST)?,
            sum_of(latency_cells(run, zone, server), metrics::SENT).filter(|n| *n > 0.0)?,
        );
        Some((lost, sent))
    };
    each(run, "Queries lost at the fixed rates", |server| {
        let ((before, of_before), (after, of_after)) = (share(first, server)?, share(name, server)?);
        let words = |lost: f64, sent: f64| match lost {
            0.0 => format!("none of {}", units::grouped(sent as u64)),
            lost => format!("{} of {}", units::grouped(lost as u64), units::grouped(sent as u64)),
        };
        Some(format!("{} ({first}: {})", words(after, of_after), words(before, of_before)))
    })
}

/// The lowest fixed rate, which is that of today's traffic.
fn lowest<'a>(run: &'a Run<'a>, zone: &'a str, server: &'a str) -> Option<&'a Cell<'a>> {
    let rate = |c: &&Cell| c.key.rate.as_ref().and_then(|r| r.parse::<f64>().ok()).unwrap_or(f64::INFINITY);
    latency_cells(run, zone, server).min_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// Seconds that the measured parts of a cell's trials took together.
fn seconds(cell: &Cell) -> Option<f64> {
    let trials = cell.used();
    let each = trials.iter().filter_map(|t| crate::cells::duration(t, params::DURATION));
    let all = each.map(|ns| ns as f64 / 1e9).sum::<f64>();
    (all > 0.0).then_some(all)
}

/// Truncated answers, and the TCP connections that they cost.
fn truncated(run: &Run, first: &str, name: &str) -> Option<Answer> {
    let words = |zone: &str, server: &str| {
        let cell = lowest(run, zone, server)?;
        let of_cell = |which| sum(cell, which);
        let share = 100.0 * of_cell(metrics::TRUNCATED)? / of_cell(metrics::ANSWERED).filter(|n| *n > 0.0)?;
        let tcp = of_cell(metrics::TCP_BEGUN).zip(seconds(cell)).filter(|(n, _)| *n > 0.0);
        let tcp = tcp.map_or_else(String::new, |(n, seconds)| {
            format!(", {} TCP connections a second", format::significant(n / seconds))
        });
        Some(format!("{}{tcp}", format::percent(share)))
    };
    each(run, "Answers truncated at today's rate", |server| {
        Some(format!("{} ({first}: {})", words(name, server)?, words(first, server)?))
    })
}

/// The octets of DNS that the server sends at today's rate, and how long its answers are.
fn sent_out(run: &Run, first: &str, name: &str) -> Option<Answer> {
    let words = |zone: &str, server: &str| {
        let cell = lowest(run, zone, server)?;
        let octets = |which| sum(cell, which);
        // Answers over TCP to what was truncated come on top.
        let retries = octets(metrics::BYTES_RECEIVED.within(Scope::TcpRetries)).unwrap_or(0.0);
        let octets = (octets(metrics::BYTES_RECEIVED)? + retries) / seconds(cell)?;
        let size = |which| Some(units::grouped(cell.metric(which)?.value as u64));
        let sizes = size(metrics::ANSWER_SIZE_P50).zip(size(metrics::ANSWER_SIZE_P99));
        let sizes = sizes
            .map_or_else(String::new, |(p50, p99)| format!(", median {p50} and 99 % at most {p99} octets"));
        Some(format!("{} kbit/s{sizes}", format::significant(octets * 8.0 / 1e3)))
    };
    each(run, "DNS sent at today's rate", |server| {
        Some(format!("{} ({first}: {})", words(name, server)?, words(first, server)?))
    })
}

/// Whether secondaries serve every update.
fn keeps_up(run: &Run, name: &str) -> Option<Answer> {
    each(run, "Updates at the secondaries", |server| {
        let of_server = |c: &&Cell| {
            c.key.is("lag") && c.key.family == name && c.key.server == server && c.state() == State::Valid
        };
        let cells = || run.cells.iter().filter(of_server);
        let all = |which| sum_of(cells(), which);
        let seen = all(metrics::MARKERS_SEEN)?;
        // Updates that had not appeared when the trial ended were not served either.
        let lost = [metrics::MARKERS_LOST, metrics::MARKERS_CUT_OFF].into_iter().filter_map(all).sum::<f64>();
        let slow = cells().filter_map(|c| c.metric(metrics::LAG.p99)).map(|f| f.value).fold(0.0, f64::max);
        Some(match lost {
            0.0 => {
                format!("all {seen:.0} marked ones were served, 99 % within {}", format::latency(slow * 1e3))
            }
            lost => format!("{lost:.0} of {:.0} marked ones were not served in time", seen + lost),
        })
    })
}

/// Five rows with the most important figures: a line for each server in each cell.
#[derive(Debug, Serialize)]
pub(crate) struct Slide {
    /// The scenarios.
    pub columns: Vec<String>,
    /// A figure, and each scenario's lines.
    pub rows: Vec<(String, Vec<Vec<String>>)>,
}

/// The rows of the slide for which there are figures.
pub(crate) fn slide(all: &Scenarios<'_>) -> Slide {
    let mut columns = vec![all.first.to_owned()];
    columns.extend(all.compared.iter().map(|(name, _)| (*name).to_owned()));
    let row = |topic: usize| {
        let (name, figures) = TOPICS[topic];
        let mut cells: Vec<Vec<String>> = vec![Vec::new(); columns.len()];
        for (n, (_, c)) in all.compared.iter().enumerate() {
            let mut servers: Vec<String> = Vec::new();
            for (cell, figure) in c.findings() {
                // Of several rates the first.
                if !figures.contains(&figure.figure().metric)
                    || !is_shown(c, cell, figure)
                    || servers.contains(&server(cell))
                {
                    continue;
                }
                servers.push(server(cell));
                let value = |v: f64| format!("{} {}", server(cell), format::value(v, figure.unit));
                if n == 0 {
                    cells[0].push(value(figure.a.median));
                }
                let by = figure.change.map_or_else(String::new, |change| match figure.verdict {
                    Verdict::Worse | Verdict::Better if change.value > MANY_TIMES => {
                        format!(" ({})", times_text(change.value))
                    }
                    Verdict::Worse | Verdict::Better => {
                        format!(" ({} %)", crate::compare::signed(change.value))
                    }
                    _ => " (no difference shown)".into(),
                });
                cells[n + 1].push(format!("{}{by}", value(figure.b.median)));
            }
        }
        let at = all
            .compared
            .iter()
            .flat_map(|(_, c)| c.findings())
            .find(|(_, f)| figures.contains(&f.figure().metric));
        let rate = at.map(|(cell, _)| param(cell, params::RATE)).and_then(|rate| rate.parse::<f64>().ok());
        let rate =
            rate.filter(|_| topic == 1).map_or_else(String::new, |r| format!(" at {}", format::rate(r)));
        cells.iter().any(|c| !c.is_empty()).then(|| (format!("{name}{rate}"), cells))
    };
    Slide { rows: SLIDE.into_iter().filter_map(row).collect(), columns }
}
