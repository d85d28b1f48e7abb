//! The view as pictures of characters; the screen as a terminal sees it; the text for Prometheus.

use super::canvas::{Canvas, Colour, Line};
use super::render::render;
use super::*;
use measure::clock::SECOND;
use measure::{Coarse, Cumulative, Event, Metric, Outcome, Reason, Validity};
use serde_json::json;

const START: u64 = 1_790_000_000 * SECOND;

fn about() -> About {
    About {
        title: "load run".into(),
        targets: vec!["127.0.0.1:5300".into()],
        pace: "open loop, 50,000/s".into(),
        duration: Some(60 * SECOND),
        count: None,
        generator: vec![1],
        limits: Limits { unsent: 0.001, pacing: 100_000, stall: 50_000_000, steal: 0.01 },
        paced: true,
        search: false,
    }
}

/// `seconds` of a load of 50,000/s whose server grows slower, a machine of `cores` cores beside it.
fn running(seconds: u64, cores: usize) -> Live {
    let mut live = Live::new(about());
    live.event(&Event::Ready);
    live.event(&Event::Started { at: START });
    for second in 1..=seconds {
        let answered = 50_000 - second * second * 4;
        live.event(&Event::Progress {
            second,
            values: json!({
                "offered_qps": 50_000, "sent_qps": 50_000, "answered_qps": answered, "unsent": 0,
                "lost": 50_000 - answered, "in_flight": 1234, "truncated": 3, "wrong": 0, "drops": 0, "stall_max": 90,
                "open": 0, "latency_p50": 40 + second, "latency_p99": 150 + second * 5,
                "latency_max": 900 + 300 * (second % 7), "pacing_error_p99": 12.5,
            }),
        });
    }
    let core = |core| CoreUse { core, user: 12.0, system: 30.0, softirq: 41.0 - core as f64, steal: 0.4 };
    live.machine(Machine {
        cores: (0..cores).map(core).collect(),
        drops: vec![("receive_backlog", 0), ("receive_buffers", 0)],
    });
    live
}

fn drawn(live: &Live, now: u64, width: usize, height: usize) -> String {
    let canvas = render(live, now, width, height);
    assert!(canvas.rows.len() <= height, "{width}x{height}");
    assert!(canvas.rows.iter().all(|row| row.len() == width), "{width}x{height}");
    canvas.text()
}

#[test]
fn the_usual_terminal() {
    insta::assert_snapshot!(drawn(&running(42, 2), START + 42 * SECOND + SECOND / 10, 80, 24));
}

#[test]
fn a_large_terminal_has_plots() {
    insta::assert_snapshot!(drawn(&running(75, 2), START + 42 * SECOND + SECOND / 10, 120, 40));
}

#[test]
fn a_narrow_one_keeps_the_figures_and_a_low_one_the_most_important() {
    insta::assert_snapshot!(drawn(&running(42, 2), START + 42 * SECOND + SECOND / 10, 46, 20));
    insta::assert_snapshot!(drawn(&running(42, 2), START + 42 * SECOND + SECOND / 10, 80, 8));
}

#[test]
fn of_many_cores_the_generators_and_the_busiest_are_shown() {
    let picture = drawn(&running(3, 64), START + 3 * SECOND, 80, 40);
    assert!(picture.contains("1 generator") && picture.contains("57 more"), "{picture}");
}

#[test]
fn before_the_first_second_and_after_the_last() {
    let mut live = Live::new(about());
    assert!(drawn(&live, START, 80, 24).contains("preparing"));
    live.event(&Event::Started { at: START });
    assert!(drawn(&live, START - 5 * SECOND / 2, 80, 24).contains("warming up, 3 s left"));
    let picture = drawn(&live, START + SECOND / 2, 80, 24);
    assert!(picture.contains("0 s of 1 min 00 s") && picture.contains("no second is over yet"), "{picture}");
    assert!(drawn(&live, START + 61 * SECOND, 80, 24).contains("waiting for the last answers"));
    let mut validity = Validity::default();
    validity.reject(Reason::new("generator_stalled", "the generator stood still for 200 ms"));
    live.end(&Outcome { validity, ..Outcome::default() });
    let picture = drawn(&live, START + 65 * SECOND, 80, 24);
    assert!(picture.contains("ended") && picture.contains("INVALID: the generator stood still"), "{picture}");
    assert!(!picture.contains("valid so far"), "{picture}");
}

#[test]
fn what_speaks_against_the_load_is_said_while_it_runs() {
    let second = |values| {
        let mut live = running(4, 2);
        live.event(&Event::Progress { second: 5, values });
        let v = live.validity();
        let codes = |r: &[Reason]| r.iter().map(|r| r.code.clone()).collect::<Vec<_>>();
        assert_eq!(v.valid, v.reasons.is_empty());
        (codes(&v.reasons).join(" "), codes(&v.warnings).join(" "))
    };
    let none = String::new;
    assert_eq!(second(json!({"sent_qps": 50_000})), (none(), none()));
    // The server's doing is no reason.
    assert_eq!(second(json!({"sent_qps": 50_000, "lost": 49_000, "wrong": 9})), (none(), none()));
    assert_eq!(second(json!({"sent_qps": 49_000, "unsent": 1000})), ("unsent".into(), none()));
    assert_eq!(second(json!({"sent_qps": 50_000, "drops": 1})), ("socket_buffer_too_small".into(), none()));
    assert_eq!(
        second(json!({"sent_qps": 50_000, "stall_max": 50_001})),
        ("generator_stalled".into(), none())
    );
    assert_eq!(second(json!({"sent_qps": 50_000, "pacing_error_p99": 101})), (none(), "pacing_error".into()));

    let mut late = running(1, 2);
    late.event(&Event::Progress { second: 2, values: json!({"pacing_error_p99": 101}) });
    late.event(&Event::Progress { second: 3, values: json!({"pacing_error_p99": 2000}) });
    assert_eq!(late.validity().reasons[0].code, "pacing_error");
    assert!(late.validity().reasons[0].text.contains("in 2 of 3 seconds"), "{:?}", late.validity());

    let mut stolen = running(1, 2);
    let cores =
        vec![CoreUse { steal: 90.0, ..CoreUse::default() }, CoreUse { core: 1, ..CoreUse::default() }];
    stolen.machine(Machine { cores, drops: Vec::new() });
    assert!(stolen.validity().warnings.is_empty(), "core 0 is not ours");
    let cores = vec![CoreUse { core: 1, steal: 9.0, ..CoreUse::default() }];
    stolen.machine(Machine { cores, drops: Vec::new() });
    assert_eq!(stolen.validity().warnings[0].code, "steal");
}

/// A search after three trials, the second of which was invalid.
fn search() -> Live {
    let mut live = Live::new(About {
        title: "load search".into(),
        pace: "at most 0.1 % lost".into(),
        search: true,
        ..about()
    });
    for (number, rate, lost) in [(1, 20_000.0, 0.0), (2, 80_000.0, 400.0), (3, 80_000.0, 4000.0)] {
        let metrics = [
            ("offered_qps", rate),
            ("sent_qps", rate),
            ("answered_qps", rate - lost),
            ("sent", rate * 2.0),
            ("lost", lost * 2.0),
            ("loss_ratio", lost / rate),
            ("latency_p50", 35.0),
            ("latency_p99", 120.0),
            ("latency_max", 2400.0),
        ];
        let mut outcome = Outcome {
            metrics: metrics.map(|(name, value)| Metric::new(name, "1", value)).into(),
            ..Outcome::default()
        };
        if number == 2 {
            outcome.validity.reject(Reason::new("unsent", "some"));
        }
        let upper = (number == 3).then_some(80_000.0);
        live.trial(&Trial { number, rate, duration: 2 * SECOND, outcome }, (Some(20_000.0), upper));
    }
    live.machine(running(1, 2).machine);
    live
}

#[test]
fn a_search_shows_its_trials_and_bounds() {
    insta::assert_snapshot!(drawn(&search(), START, 80, 24));
    assert_eq!(search().validity(), Validity::default(), "the trials have verdicts of their own");
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let lives = [Live::new(about()), running(1, 1), running(70, 64), search()];
    for live in &lives {
        for width in [0, 1, 5, 40, 41, 53, 75, 76, 80, 300] {
            for height in [0, 1, 2, 7, 24, 100] {
                drawn(live, START, width, height);
            }
        }
    }
}

#[test]
fn figures_of_any_kind_are_drawn() {
    let mut live = Live::new(about());
    live.event(&Event::Started { at: START });
    for values in [
        json!(null),
        json!({}),
        json!({"sent_qps": 1e300, "latency_max": 1e300, "latency_p50": 1e-9}),
        json!([1]),
    ] {
        live.event(&Event::Progress { second: 1, values });
        drawn(&live, START, 120, 40);
        exposition(&live, START, Format::Text);
    }
}

/// The screen of a terminal of `width` columns: carriage return, line feed, cursor up, erase; colours are left out.
fn terminal(text: &str, width: usize) -> Vec<String> {
    let (mut rows, mut x, mut y) = (vec![vec![' '; width]], 0, 0);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => x = 0,
            '\n' => {
                y += 1;
                if y == rows.len() {
                    rows.push(vec![' '; width]);
                }
            }
            '\x1b' => {
                assert_eq!(chars.next(), Some('['));
                let mut number = String::new();
                let end = loop {
                    match chars.next().unwrap() {
                        c if c.is_ascii_alphabetic() => break c,
                        c => number.push(c),
                    }
                };
                match end {
                    'A' => y -= number.parse::<usize>().unwrap(),
                    'K' => rows[y][x..].fill(' '),
                    'J' => {
                        rows.truncate(y + 1);
                        rows[y][x..].fill(' ');
                    }
                    'm' => {}
                    other => panic!("no sequence {other:?} is meant to be used"),
                }
            }
            c => {
                rows[y][x] = c;
                x += 1;
            }
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_owned()).collect()
}

/// Red lines.
fn picture(width: usize, lines: &[&str]) -> Canvas {
    let mut canvas = Canvas::new(width);
    lines.iter().for_each(|text| canvas.line(&Line::coloured(*text, Colour::Red)));
    canvas
}

#[test]
fn frames_replace_each_other_and_leave_the_last() {
    let mut out = b"$ dnsrack\r\n".to_vec();
    let mut screen = Screen::new(&mut out, true);
    for lines in [&["one", "two", "three"][..], &["0123456789", "2"], &["a", "", "c", "d"], &["the", "end"]] {
        screen.draw(&picture(10, lines)).unwrap();
    }
    drop(screen);
    out.extend(b"result");
    let text = String::from_utf8(out).unwrap();
    assert_eq!(terminal(&text, 10), ["$ dnsrack", "the", "end", "result"]);
    assert!(text.contains("\x1b[0;31mthe\x1b[0m"), "{text:?}");
}

#[test]
fn no_colour_means_no_colour() {
    let mut out = Vec::new();
    Screen::new(&mut out, false).draw(&picture(5, &["red"])).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "red\x1b[K\r\n\x1b[J");
}

#[test]
fn a_terminal_made_narrower_is_cleared_as_far_as_its_lines_were_broken() {
    let mut out = Vec::new();
    let mut screen = Screen::new(&mut out, false);
    screen.draw(&picture(10, &["0123456789", ""])).unwrap();
    screen.draw(&picture(4, &["", ""])).unwrap();
    drop(screen);
    // Ten columns are three rows of four, the empty one is one.
    assert!(String::from_utf8(out).unwrap().contains("\r\x1b[4A"));
}

#[test]
fn prometheus_reads_the_figures() {
    let mut live = running(42, 2);
    live.event(&Event::Progress { second: 43, values: json!({"sent_qps": 40_000, "unsent": 10_000}) });
    let mut answers = Coarse::default();
    [20_000, 120_000, 120_000, 3_000_000_000].into_iter().for_each(|ns| answers.record(ns));
    let values = json!({"sent_qps": 4, (Cumulative::NAME): answers.cumulative()});
    live.event(&Event::Progress { second: 44, values: values.clone() });
    live.event(&Event::Progress { second: 45, values });
    insta::assert_snapshot!(exposition(&live, START + 43 * SECOND, Format::Text));
    let open = exposition(&live, START + 43 * SECOND, Format::OpenMetrics);
    assert!(open.ends_with("dnsrack_load_answer_latency_seconds_count 8\n# EOF\n"), "{open}");
    assert!(
        open.contains("# TYPE dnsrack_load_sent_queries counter\ndnsrack_load_sent_queries_total "),
        "{open}"
    );
    let text = exposition(&search(), START, Format::Text);
    assert!(text.contains("\ndnsrack_search_lower_bound_queries_per_second 20000\n"), "{text}");
    assert!(text.contains("\ndnsrack_search_trials_total 3\n"), "{text}");
}

#[test]
fn the_dashboard_asks_for_figures_that_there_are() {
    let mut live = running(42, 2);
    live.event(&Event::Progress {
        second: 43,
        values: json!({"sent_qps": 4, "stall_max": 1.0, (Cumulative::NAME): Coarse::default().cumulative()}),
    });
    let page = exposition(&live, START + 43 * SECOND, Format::Text);
    let text = include_str!("../../../../docs/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let names = expressions.iter().flat_map(|text| text.split(|c| !is_name(c)));
    let names: Vec<&str> = names.filter(|word| word.starts_with("dnsrack_")).collect();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let is_there =
            page.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(is_there, "{name} in {page}");
    }
}

#[test]
fn labels_are_quoted() {
    let live = Live::new(About { pace: "a \"b\" \\ \n".into(), ..about() });
    assert!(exposition(&live, START, Format::Text).contains(r#"pace="a \"b\" \\ \n""#));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    assert_eq!(picture(5, &["a\x1b[2J"]).text(), "a?[2J\n");
}
