//! Results of several generators that started at one instant, added into one.

use crate::counts;
use crate::{AnswerSizes, Histograms, Latency, LoadResult, PacingError};
use measure::{Named, Nanos, Reason, Validity};

/// Durations of generators that differ by more than this share give a warning.
const DURATION_LIMIT: f64 = 0.001;

/// The sum so far, with those parts that cannot be added field by field.
#[derive(Default)]
struct Sum {
    all: LoadResult,
    /// Each generator's name and duration in seconds.
    durations: Vec<(String, f64)>,
    /// Warnings and reasons, each with the generators that have it.
    warnings: Vec<(Reason, Vec<String>)>,
    reasons: Vec<(Reason, Vec<String>)>,
    findings: Vec<(Reason, Vec<String>)>,
}

impl LoadResult {
    /// The result of all `parts` together, each named after the generator that it is of; they started at one instant
    /// and are on different hosts. Counts, octets, drops and distributions add exactly; percentiles are those of the
    /// added distributions. Rates are the counts over the longest duration: where the durations differ, a warning says
    /// so, as a generator that ended earlier offered nothing for the rest. The whole is valid where every part is, and
    /// each reason says whose it is.
    ///
    /// No part at all gives an empty result.
    pub fn merge(mut parts: Vec<Named<Self>>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0).value;
        }
        let mut sum = Sum::default();
        sum.all.recv_buffer = u64::MAX;
        for Named { name, value } in parts {
            sum.add(&name, value);
        }
        sum.finish()
    }
}

impl Sum {
    fn add(&mut self, name: &str, part: LoadResult) {
        // Every field by name: a new one must find its place here.
        let LoadResult {
            counts,
            mismatched,
            duplicates,
            unexpected,
            icmp,
            latency_us: _, // from the distributions, at the end
            service_latency_us: _,
            latency_with_lost_us: _,
            pacing_error_us: _,
            answer_size: _,
            drops,
            validity,
            findings,
            signs,
            duration_s,
            deadline_s,
            burst,
            group,
            spin_us,
            flows,
            workers,
            transport,
            backend,
            backend_note,
            tcp,
            background,
            tcp_retries,
            checked,
            recv_buffer,
            table_bytes,
            transport_bytes,
            cut_short,
            histograms,
            worker_busy,
            timeline,
        } = part;
        let all = &mut self.all;
        all.counts.merge(counts);
        for (to, from) in [
            (&mut all.mismatched, mismatched),
            (&mut all.duplicates, duplicates),
            (&mut all.unexpected, unexpected),
            (&mut all.icmp, icmp),
            (&mut all.table_bytes, table_bytes),
            (&mut all.transport_bytes, transport_bytes),
        ] {
            *to += from;
        }
        counts::add(&mut all.drops, drops);
        if let Some(note) = backend_note {
            let notes = all.backend_note.get_or_insert_default();
            *notes += &format!("{}{name}: {note}", if notes.is_empty() { "" } else { "; " });
        }
        if let Some(tcp) = tcp {
            all.tcp.get_or_insert_default().merge(tcp);
        }
        for (to, from) in [(&mut all.background, background), (&mut all.tcp_retries, tcp_retries)] {
            if let Some(part) = from {
                to.get_or_insert_default().merge(part);
            }
        }
        if let Some(checked) = checked {
            all.checked.get_or_insert_default().merge(&checked);
        }
        all.flows += flows;
        all.workers += workers;
        all.burst = all.burst.max(burst);
        all.group = all.group.max(group);
        all.spin_us = all.spin_us.max(spin_us);
        all.recv_buffer = all.recv_buffer.min(recv_buffer);
        all.duration_s = all.duration_s.max(duration_s);
        all.deadline_s = all.deadline_s.max(deadline_s);
        all.cut_short |= cut_short;
        for (to, from) in [(&mut all.backend, backend), (&mut all.transport, transport)] {
            if !to.split(", ").any(|known| known == from) {
                let comma = if to.is_empty() { "" } else { ", " };
                *to = format!("{to}{comma}{from}");
            }
        }
        let Histograms { latency, service_latency, pacing_error, answer_size } = histograms;
        all.histograms.latency.merge(&latency);
        all.histograms.service_latency.merge(&service_latency);
        all.histograms.pacing_error.merge(&pacing_error);
        all.histograms.answer_size.merge(&answer_size);
        all.worker_busy = all.worker_busy.max(worker_busy);
        all.timeline.merge(timeline);
        self.durations.push((name.into(), duration_s));
        let Validity { valid: _, warnings, reasons } = validity; // valid where no reason is left
        all.signs.merge(signs);
        for (to, from) in
            [(&mut self.warnings, warnings), (&mut self.reasons, reasons), (&mut self.findings, findings)]
        {
            for reason in from {
                match to.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, whose)) => whose.push(name.into()),
                    None => to.push((reason, vec![name.into()])),
                }
            }
        }
    }

    fn finish(self) -> LoadResult {
        let Self { mut all, durations, warnings, reasons, findings } = self;
        if durations.is_empty() {
            return LoadResult::default();
        }
        let beside = [&mut all.background, &mut all.tcp_retries].into_iter().flatten();
        for counts in beside.map(|part| &mut part.counts).chain([&mut all.counts]) {
            counts.set_rates(all.duration_s);
        }
        all.latency_us = Latency::of(&all.histograms.latency);
        all.service_latency_us = Latency::of(&all.histograms.service_latency);
        let deadline = (all.deadline_s * 1e9) as Nanos;
        all.latency_with_lost_us = Latency::of_sent(&all.histograms.latency, all.counts.lost, deadline);
        all.pacing_error_us = PacingError::of(&all.histograms.pacing_error);
        all.answer_size = AnswerSizes::of(&all.histograms.answer_size);
        let count = durations.len();
        let whose = |(reason, whose): (Reason, Vec<String>)| {
            let who = if whose.len() == count { "every generator".into() } else { whose.join(", ") };
            Reason::new(&reason.code, format!("{who}: {}", reason.text))
        };
        warnings.into_iter().map(whose).for_each(|w| all.validity.warn(w));
        reasons.into_iter().map(whose).for_each(|r| all.validity.reject(r));
        all.findings = findings.into_iter().map(whose).collect();
        let shortest = durations.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("one at least");
        if shortest.1 < all.duration_s * (1.0 - DURATION_LIMIT) {
            all.validity.warn(Reason::new(
                "durations_differ",
                format!(
                    "the generators' measured parts are of different lengths, {:.3} s on {} to {:.3} s: rates are over \
                     the longest, so they are lower than while all were sending",
                    shortest.1, shortest.0, all.duration_s
                ),
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tally, TcpResult};
    use measure::Histogram;
    use measure::clock::SECOND;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Part {
        answered: Vec<u64>,
        lost: u64,
        unsent: u64,
        deadline: u64,
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let one = (prop::collection::vec(1u64..5_000_000, 0..50), 0u64..50, 0u64..50, 1u64..5).prop_map(
            |(answered, lost, unsent, deadline)| Part { answered, lost, unsent, deadline: deadline * SECOND },
        );
        prop::collection::vec(one, 1..5)
    }

    fn tally(part: &Part) -> Tally {
        let answered = part.answered.len() as u64;
        let mut t = Tally {
            sent: answered + part.lost,
            answered,
            lost: part.lost,
            late: part.lost / 2,
            unsent_overdue: part.unsent,
            mismatched: part.lost + 1,
            bytes_sent: 40 * (answered + part.lost),
            bytes_received: 80 * answered,
            ..Tally::default()
        };
        for ns in &part.answered {
            t.latency.record(*ns);
            t.service_latency.record(ns / 2);
            t.pacing_error.record(ns / 100);
            t.answer_size.record(ns % 1_200);
            t.rcodes[if ns % 3 == 0 { 3 } else { 0 }] += 1;
        }
        t
    }

    fn result(part: &Part, duration: Nanos) -> LoadResult {
        let t = tally(part);
        let offered = t.sent + t.unsent();
        let mut r = LoadResult::new(t, offered, duration, part.deadline);
        (r.flows, r.workers, r.burst, r.recv_buffer) = (16, 1, 8, 1000 + part.lost);
        r.drops.insert("socket".into(), part.unsent);
        // The same traffic once more as what is beside it: those sums must hold as well.
        r.background = Some(crate::Part::new(&tally(part), offered, duration));
        r.tcp = (part.lost > 0).then(|| {
            let c = net::transport::Connections { begun: part.lost, open_max: 3, ..Default::default() };
            TcpResult::new(c, tally(part).service_latency)
        });
        r
    }

    fn named(results: Vec<LoadResult>) -> Vec<Named<LoadResult>> {
        results.into_iter().enumerate().map(|(n, r)| Named::new(format!("g{n}"), r)).collect()
    }

    proptest! {
        /// Generators apart give what one that did all of it would give.
        #[test]
        fn parts_are_the_whole(mut parts in parts()) {
            parts.iter_mut().for_each(|p| p.deadline = 2 * SECOND);
            let merged = LoadResult::merge(named(parts.iter().map(|p| result(p, SECOND)).collect()));
            let mut all = Tally::default();
            parts.iter().for_each(|p| all.merge(&tally(p)));
            let offered = all.sent + all.unsent();
            let background = Some(crate::Part::new(&all, offered, SECOND));
            let with_tcp: Vec<_> = parts.iter().filter(|p| p.lost > 0).collect();
            let mut handshakes = Histogram::default();
            with_tcp.iter().for_each(|p| handshakes.merge(&tally(p).service_latency));
            let c = net::transport::Connections {
                begun: with_tcp.iter().map(|p| p.lost).sum(),
                open_max: 3 * with_tcp.len() as u64,
                ..Default::default()
            };
            let tcp = (!with_tcp.is_empty()).then(|| TcpResult::new(c, handshakes));
            let whole = LoadResult::new(all, offered, SECOND, 2 * SECOND);
            let expected = LoadResult {
                flows: 16 * parts.len() as u32,
                workers: parts.len() as u32,
                burst: 8,
                recv_buffer: 1000 + parts.iter().map(|p| p.lost).min().unwrap_or(0),
                background,
                tcp,
                drops: [("socket".to_owned(), parts.iter().map(|p| p.unsent).sum())].into(),
                ..whole
            };
            prop_assert_eq!(merged, expected);
        }

        /// The order of the generators changes nothing but the order of names, and so does adding in two steps.
        #[test]
        fn order_does_not_matter(parts in parts()) {
            let all: Vec<_> = parts.iter().map(|p| result(p, SECOND)).collect();
            let forth = LoadResult::merge(named(all.clone()));
            let back = LoadResult::merge(named(all.into_iter().rev().collect()));
            prop_assert_eq!(&forth.latency_with_lost_us, &back.latency_with_lost_us);
            prop_assert_eq!(&forth, &back);
            let c = forth.counts;
            prop_assert_eq!(c.sent + c.unsent, c.offered);
            prop_assert_eq!(c.sent, c.answered + c.lost + c.in_flight);
        }
    }

    #[test]
    fn different_durations_are_told_of() {
        let part = Part { answered: vec![1000; 100], lost: 0, unsent: 0, deadline: SECOND };
        let both = LoadResult::merge(named(vec![result(&part, SECOND), result(&part, 2 * SECOND)]));
        assert_eq!((both.counts.answered, both.counts.answered_qps, both.duration_s), (200, 100.0, 2.0));
        let warning = &both.validity.warnings[0];
        assert_eq!(warning.code, "durations_differ");
        assert!(both.validity.valid && warning.text.contains("1.000 s on g0"), "{warning}");
        // Rounding errors of durations are not reported.
        let both = LoadResult::merge(named(vec![result(&part, SECOND), result(&part, SECOND + 1000)]));
        assert_eq!(both.validity, Validity::default());
    }

    #[test]
    fn reasons_say_whose_they_are() {
        let part = Part { answered: vec![1000; 100], lost: 0, unsent: 0, deadline: SECOND };
        let mut parts: Vec<_> = (0..3).map(|_| result(&part, SECOND)).collect();
        parts[1].validity.reject(Reason::new("generator_stalled", "for 70 ms"));
        for p in &mut parts {
            p.validity.warn(Reason::new("steal", "took 2 %"));
        }
        parts[2].cut_short = true;
        parts[0].backend = "socket".into();
        parts[1].backend = "socket".into();
        parts[2].backend = "xdp-native".into();
        let all = LoadResult::merge(named(parts));
        assert!(!all.validity.valid && all.cut_short);
        assert_eq!(all.validity.reasons, [Reason::new("generator_stalled", "g1: for 70 ms")]);
        assert_eq!(all.validity.warnings, [Reason::new("steal", "every generator: took 2 %")]);
        assert_eq!(all.backend, "socket, xdp-native");
    }

    #[test]
    fn one_is_itself_and_none_is_empty() {
        let part = Part { answered: vec![5], lost: 1, unsent: 2, deadline: SECOND };
        let one = result(&part, SECOND);
        assert_eq!(LoadResult::merge(named(vec![one.clone()])), one);
        assert_eq!(LoadResult::merge(Vec::new()), LoadResult::default());
    }
}
