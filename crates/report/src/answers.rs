//! Tables of answers: truncated ones, their sizes, those to a flood; and the view of others than the generator.

use crate::cells::{Cell, Run};
use crate::format;
use crate::grid::{Beside, Further, Grid, Shown, grid, of_cell, software};
use measure::metrics::{self, Definition, Scope};
use measure::{params, units};
use results::published;

/// The grids that a run has figures for, beyond latency.
pub(crate) fn grids(run: &Run) -> Vec<Grid> {
    let mut all = Vec::new();
    if over_tcp(run) {
        all.extend(truncated(run));
    }
    if sizes_matter(run) {
        all.extend(sizes(run));
        all.extend(packets(run));
        all.extend(referrals(run));
    }
    all.extend(flood(run));
    all.extend(cpu(run));
    all.extend(counted(run));
    all.extend(witness(run));
    all
}

fn over_tcp(run: &Run) -> bool {
    run.dir.trials().iter().any(|t| t.param(params::TRANSPORT) == Some("udp+tcp"))
}

/// Whether the run is about the sizes of answers: truncation, several kinds of traffic or of one zone, or published sizes.
pub(crate) fn sizes_matter(run: &Run) -> bool {
    let published =
        run.published().iter().any(|id| matches!(id.as_str(), "rzaia-text-referrals" | "isc-3.3-bytes"));
    over_tcp(run) || run.cells.iter().any(|c| c.key.variant.is_some() || c.key.scenario) || published
}

fn share(part: f64, of: f64) -> Option<f64> {
    (of > 0.0).then_some(100.0 * part / of)
}

/// The values of a metric, added up over all trials that are used.
pub(crate) fn sum(cell: &Cell, which: Definition) -> Option<f64> {
    let values: Vec<f64> = cell.used().iter().filter_map(|t| t.outcome.metric(which)).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

fn truncated(run: &Run) -> Option<Grid> {
    let about = "Of the answers over UDP, those with TC; below, the connections that retries and recorded queries over TCP made, \
                 the most that were open at once, and how many retries were answered.";
    grid(
        run,
        ("truncated", "Truncated answers".into(), about.into()),
        |c| c.key.is("latency"),
        |_, _| None,
        |c| {
            let all = share(sum(c, metrics::TRUNCATED)?, sum(c, metrics::ANSWERED)?)?;
            let mut details = Vec::new();
            if let Some(begun) = sum(c, metrics::TCP_BEGUN).filter(|n| *n > 0.0) {
                let open = c.metric(metrics::TCP_OPEN_MAX).map_or(0.0, |f| f.value);
                details.push(format!("{begun:.0} connections, {open:.0} at once"));
            }
            if let (Some(sent), Some(answered)) = (
                sum(c, metrics::SENT.within(Scope::TcpRetries)),
                sum(c, metrics::ANSWERED.within(Scope::TcpRetries)),
            ) && sent > 0.0
            {
                details.push(format!("{answered:.0} of {sent:.0} retries answered"));
            }
            Some(Shown { text: format::percent(all), details, compare: None })
        },
    )
}

fn sizes(run: &Run) -> Option<Grid> {
    let about = "Octets of DNS messages received over answers in time, of whatever code; below, how long the answers were.";
    grid(
        run,
        ("sizes", "Mean size of answers".into(), about.into()),
        |c| c.metric(metrics::BYTES_RECEIVED).is_some(),
        |_, _| None,
        |c| {
            let mean = sum(c, metrics::BYTES_RECEIVED)? / sum(c, metrics::ANSWERED).filter(|n| *n > 0.0)?;
            let octets = |which: Definition| c.metric(which).map(|f| units::grouped(f.value as u64));
            let details = (|| {
                let [p50, p99, max] =
                    [metrics::ANSWER_SIZE_P50, metrics::ANSWER_SIZE_P99, metrics::ANSWER_SIZE_MAX]
                        .map(octets);
                Some(format!("median {}, 99 % at most {}, longest {} B", p50?, p99?, max?))
            })();
            Some(Shown {
                text: format!("{mean:.0} B"),
                details: details.into_iter().collect(),
                compare: None,
            })
        },
    )
}

/// Octets of the IPv4 and the UDP header of a packet.
const HEADERS: f64 = 28.0;

/// ISC 3.3 prints the mean size of packets and the octets of all of them, for the zone of a TLD, and for the same zone signed, with an OPT
/// record in each query.
fn packets(run: &Run) -> Option<Grid> {
    let tables = run.published_table("isc-3.3-packets");
    let (means, sums) = (tables?, published::find("isc-3.3-bytes")?);
    let about = "Mean size of the packets that carry answers, with an IPv4 and a UDP header (28 octets); below, that of the queries, and the \
                 octets of all queries and of all answers of a load.";
    grid(
        run,
        ("packets", "Mean size of answers as packets".into(), about.into()),
        |c| c.key.is("throughput") && Packets::of(c).is_some(),
        |key, measured| {
            let zone = match (key.family.as_str(), key.variant.as_deref()) {
                ("COM", Some("as it is")) => "unsigned",
                ("COM+signed", Some("one more OPT")) => "signed",
                _ => return None,
            };
            let cell = run.cells.iter().find(|c| c.key == *key)?;
            let packets = Packets::of(cell)?;
            let of = |table: &'static published::Table, column| table.cell(&[zone], column);
            let first = of_cell(means, &[zone], of(means, "replies")?, measured, "B")?;
            let more = [
                (means, "requests", packets.query),
                (sums, "requests", packets.queries / 1e6),
                (sums, "replies", packets.answers / 1e6),
            ];
            let more = more.into_iter().filter_map(|(table, column, measured)| {
                Some(Further { table, cell: of(table, column)?, measured: Some(measured) })
            });
            Some(Beside { more: more.collect(), ..first })
        },
        |c| {
            let packets = Packets::of(c)?;
            let megabytes = |octets: f64| format!("{:.1} MB", octets / 1e6);
            let all = format!(
                "queries {:.1} B; {} and {} in all",
                packets.query,
                megabytes(packets.queries),
                megabytes(packets.answers)
            );
            let text = format!("{:.1} B", packets.answer);
            Some(Shown {
                text,
                details: vec![all],
                compare: Some(c.metric(metrics::BYTES_RECEIVED)?.and(packets.answer)),
            })
        },
    )
}

/// The octets of a cell's packets, over all trials that are used.
struct Packets {
    /// Of a query, in the mean.
    query: f64,
    /// Of an answer, in the mean.
    answer: f64,
    /// Of all queries of a trial, in the mean.
    queries: f64,
    /// Of all answers of a trial, in the mean.
    answers: f64,
}

impl Packets {
    fn of(cell: &Cell) -> Option<Self> {
        let all = |bytes, packets| {
            let packets = sum(cell, packets).filter(|n| *n > 0.0)?;
            Some((sum(cell, bytes)? + HEADERS * packets, packets))
        };
        let (queries, sent) = all(metrics::BYTES_SENT, metrics::SENT)?;
        let (answers, answered) = all(metrics::BYTES_RECEIVED, metrics::ANSWERED)?;
        let trials = cell.used().len() as f64;
        Some(Self {
            query: queries / sent,
            answer: answers / answered,
            queries: queries / trials,
            answers: answers / trials,
        })
    }
}

/// RZAIA 3.2.2 prints means for the 1K and the 1M zone, at 5,000 queries a second, of BIND and NSD alike.
fn referrals(run: &Run) -> Option<Grid> {
    let about = "Octets of the answers that refer to other servers: no error, no AA, nothing in the answer section, and records in the \
                 authority section. Truncated ones are among them. Below, their share of the answers.";
    let table = run.published_table("rzaia-text-referrals");
    grid(
        run,
        ("referrals", "Mean size of referrals".into(), about.into()),
        |c| c.metric(metrics::REFERRAL_SIZE_MEAN).is_some(),
        |key, measured| {
            let table =
                table.filter(|_| key.rate.as_deref() == Some("5000") && software(&key.kind).is_some())?;
            let column = match key.family.as_str() {
                "U-4-DS0" => "sparse",
                "U-6-DS0" => "full",
                _ => return None,
            };
            let row = units::short(key.size?);
            of_cell(table, &[row.as_str()], table.cell(&[row.as_str()], column)?, measured, "B")
        },
        |c| {
            let f = c.metric(metrics::REFERRAL_SIZE_MEAN)?;
            let text = format!("{:.1} B", f.value);
            let range = |a, b| format!("{a:.1} to {b:.1} B");
            let mut details: Vec<String> = f.interval_text(&text, range).into_iter().collect();
            let part = share(sum(c, metrics::REFERRALS)?, sum(c, metrics::ANSWERED)?)?;
            details.push(format!("{} of the answers", format::percent(part)));
            Some(Shown { text, details, compare: Some(f) })
        },
    )
}

fn flood(run: &Run) -> Option<Grid> {
    let about = "Of the queries of the flood, those that were answered in time: what a server spends on them it does not have for \
                 others.";
    grid(
        run,
        ("flood", "Queries of the flood that were answered".into(), about.into()),
        |c| sum(c, metrics::SENT.within(Scope::Background)).is_some_and(|n| n > 0.0),
        |_, _| None,
        |c| {
            let (sent, answered) = (
                sum(c, metrics::SENT.within(Scope::Background))?,
                sum(c, metrics::ANSWERED.within(Scope::Background))?,
            );
            let part = share(answered, sent)?;
            let details = vec![format!("{} sent", measure::units::short(sent as u64))];
            Some(Shown { text: format::percent(part), details, compare: None })
        },
    )
}

fn cpu(run: &Run) -> Option<Grid> {
    let about = "CPU time of the server's processes while the load lasted, over queries sent; the kernel's work on packets is on \
                 nobody's account, and not in it.";
    grid(
        run,
        ("cpu", "CPU time of the server a query".into(), about.into()),
        |c| c.key.is("latency") && c.metric(metrics::SERVER_CPU_PER_QUERY).is_some(),
        |_, _| None,
        |c| {
            let f = c.metric(metrics::SERVER_CPU_PER_QUERY)?;
            Some(Shown { text: format!("{:.1} µs", f.value), details: Vec::new(), compare: None })
        },
    )
}

/// The monitor host's view (RZAIA 3.2.1).
fn witness(run: &Run) -> Option<Grid> {
    let about = "From a capture at the server's end of the link: the median from each query's arrival there to its answer's \
                 departure, of which the generator knows nothing; below, what the generator waited from sending on, and the \
                 queries that the one sent and the other saw.";
    grid(
        run,
        ("witness", "Median latency at the server's end of the link".into(), about.into()),
        |c| c.metric(metrics::WITNESS_LATENCY.p50).is_some(),
        |_, _| None,
        |c| {
            let there = c.metric(metrics::WITNESS_LATENCY.p50)?.value;
            let mut details = Vec::new();
            if let Some(here) = c.metric(metrics::SERVICE_LATENCY.p50) {
                details.push(format!("{} at the generator", format::latency(here.value * 1e3)));
            }
            let count = |n: f64| units::grouped(n as u64);
            if let (Some(sent), Some(seen)) = (sum(c, metrics::SENT), sum(c, metrics::WITNESS_QUERIES)) {
                details.push(format!("{} of {} seen", count(seen), count(sent)));
            }
            Some(Shown { text: format::latency(there * 1e3), details, compare: None })
        },
    )
}

/// The server's own counters beside those of the generator.
fn counted(run: &Run) -> Option<Grid> {
    let warmup =
        run.planned("latency.warmup").and_then(|t| units::duration(&t).ok()).unwrap_or(0) as f64 / 1e9;
    let about = "Queries that the server's own counters have, added up over trials; below, what the generator sent it, with \
                 warm-up and flood, and how many more the server counted: probes until it was ready, and the validation of \
                 answers in a cell's first trial, come from elsewhere. Where truncated answers are asked again, these are the \
                 ones over UDP, and those over TCP stand apart: retries that found no connection never reached it. Then what \
                 else it tells, beside what the generator received in the measured part.";
    let count = |n: f64| units::grouped(n.max(0.0) as u64);
    grid(
        run,
        ("counted", "What the server counted".into(), about.into()),
        |c| c.key.is("latency") && c.metric(metrics::SERVER_COUNTED_QUERIES).is_some(),
        |_, _| None,
        |c| {
            let retries = sum(c, metrics::SENT.within(Scope::TcpRetries));
            let counted =
                if retries.is_some() { metrics::SERVER_COUNTED_UDP } else { metrics::SERVER_COUNTED_QUERIES };
            let queries = sum(c, counted)?;
            let trials = c
                .used()
                .iter()
                .filter(|t| t.outcome.metric(metrics::SERVER_COUNTED_QUERIES).is_some())
                .count();
            // A recorded stream is replayed from its beginning, without a warm-up.
            let rate = c.key.rate.as_deref().and_then(|r| r.parse::<f64>().ok()).unwrap_or(0.0);
            let sent = [metrics::SENT, metrics::SENT.within(Scope::Background)]
                .into_iter()
                .filter_map(|m| sum(c, m))
                .sum::<f64>();
            let sent = sent + (rate * warmup).round() * trials as f64;
            let more = if queries < sent {
                format!("{} fewer than", count(sent - queries))
            } else {
                format!("{} more than", count(queries - sent))
            };
            let mut details = vec![format!("{more} the {} sent", count(sent))];
            if let (Some(counted_by_server), Some(sent)) = (sum(c, metrics::SERVER_COUNTED_TCP), retries) {
                details.push(format!("{} over TCP, {} retries sent", count(counted_by_server), count(sent)));
            }
            details.extend(sum(c, metrics::SERVER_COUNTED_ANSWERS).map(|n| format!("{} answers", count(n))));
            if let (Some(counted_by_server), Some(seen)) =
                (sum(c, metrics::SERVER_COUNTED_TRUNCATED), sum(c, metrics::TRUNCATED))
            {
                details.push(format!("{} truncated, {} received", count(counted_by_server), count(seen)));
            }
            details.extend(
                sum(c, metrics::SERVER_COUNTED_DROPPED)
                    .filter(|n| *n > 0.0)
                    .map(|n| format!("{} dropped", count(n))),
            );
            Some(Shown { text: count(queries), details, compare: None })
        },
    )
}
