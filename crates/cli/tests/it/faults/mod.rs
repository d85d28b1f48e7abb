//! Faults of server, way, generator and machine, each made for real, and each named by a finding or a reason of its own.
//!
//! The tests make each fault once. `table` (run by `scripts/faults.sh`) makes each many times, and prints how often it was
//! named, and how often trials without a fault were.

pub mod bench;
mod proxy;

use crate::has;
use bench::{Bench, Disturbance, Served, Setting};
use proxy::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// One at a time: some of them take whole cores.
static ALONE: Mutex<()> = Mutex::new(());

/// A fault, how it is made, and the code that must name it.
struct Fault {
    name: &'static str,
    how: &'static str,
    code: &'static str,
    setting: Setting,
}

const CLEAN: Setting = Setting {
    served: Served::Zone,
    proxy: None,
    path: None,
    on_server: &[],
    disturbance: Disturbance::None,
    flags: &[],
};

/// Nothing is wrong, for five seconds. A pause of the generator's core for ten milliseconds, as machines that others share have them
/// every few seconds, is a hundredth of one second: a trial of that length is then invalid for good reason.
const FAULTLESS: Setting = Setting { flags: &["--duration", "5s"], ..CLEAN };

const fn through(kind: Kind) -> Setting {
    Setting { proxy: Some(kind), ..CLEAN }
}

const fn over(path: &'static str) -> Setting {
    Setting { path: Some(path), ..CLEAN }
}

const fn disturbed(disturbance: Disturbance, flags: &'static [&'static str]) -> Setting {
    Setting { disturbance, flags, ..CLEAN }
}

/// The second address of the server's host.
const OTHER_ADDRESS: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 53, 0, 201)), 53);

const FAULTS: &[Fault] = &[
    Fault {
        name: "server too slow",
        how: "a proxy before the server spends a millisecond on each of 2,000 queries/s",
        code: "server_too_slow",
        setting: Setting { flags: &["--rate", "2000", "--deadline", "1s"], ..through(Kind::Slow) },
    },
    Fault {
        name: "server paused 50 ms",
        how: "SIGSTOP to all its processes, SIGCONT after 50 ms",
        code: "server_stopped_answering",
        setting: disturbed(Disturbance::Pause, &[]),
    },
    Fault {
        name: "server restarted in mid-trial",
        how: "killed and started again",
        code: "server_restarted",
        setting: disturbed(Disturbance::Restart, &["--duration", "2s"]),
    },
    Fault {
        name: "server drops",
        how: "a proxy before the server drops one query of 20",
        code: "server_drops",
        setting: through(Kind::Drop),
    },
    Fault {
        name: "server lies",
        how: "a proxy turns a bit of the record data in one answer of 20",
        code: "wrong_rdata",
        setting: through(Kind::Lie),
    },
    Fault {
        name: "server answers late",
        how: "a proxy holds one answer of 20 back for 400 ms, where the deadline is 300 ms",
        code: "late_answers",
        setting: Setting { flags: &["--duration", "2s"], ..through(Kind::Late(400)) },
    },
    Fault {
        name: "server answers twice",
        how: "a proxy sends one answer of 20 twice",
        code: "duplicate_answers",
        setting: through(Kind::Twice),
    },
    Fault {
        name: "server serves a stale serial",
        how: "its zone file has the serial before the one that is checked against",
        code: "stale_serial",
        setting: Setting { served: Served::Stale, ..CLEAN },
    },
    Fault {
        name: "server serves another zone",
        how: "it is configured with another zone",
        code: "other_zone",
        setting: Setting { served: Served::Other, ..CLEAN },
    },
    Fault {
        name: "server answers from another address",
        how: "a proxy sends one answer of 20 from a second address of the host",
        code: "other_address",
        setting: Setting {
            on_server: &["ip addr add 10.53.0.201/32 dev lo"],
            ..through(Kind::Address(OTHER_ADDRESS))
        },
    },
    Fault {
        name: "server answers another question",
        how: "a proxy turns a bit of the question's name in one answer of 20",
        code: "other_question",
        setting: through(Kind::Question),
    },
    Fault {
        name: "ICMP unreachable",
        how: "nothing listens at the server's port",
        code: "icmp_unreachable",
        setting: Setting { served: Served::Nothing, ..CLEAN },
    },
    Fault {
        name: "packets lost",
        how: "the path loses 5 % in both directions",
        code: "packets_lost",
        setting: over("loss = 0.05"),
    },
    Fault {
        name: "packets reordered",
        how: "the path takes 20 ms, and 5 % of the packets overtake",
        code: "answers_reordered",
        setting: over("delay = \"20ms\"\nreorder = 0.05"),
    },
    Fault {
        name: "packets corrupted",
        how: "the path turns a bit in 5 % of the packets",
        code: "packets_corrupted",
        setting: over("corrupt = 0.05"),
    },
    Fault {
        name: "packets too large for the link",
        how: "answers of 1,000 octets over a link with an MTU of 600",
        code: "too_large_for_link",
        setting: Setting {
            on_server: &["ip link set dev DEVICE mtu 600"],
            flags: &["--queries", "LARGE", "--edns", "1232"],
            ..CLEAN
        },
    },
    Fault {
        name: "generator starved of CPU",
        how: "two other programs compute on its core",
        code: "generator_preempted",
        setting: disturbed(Disturbance::StarveGenerator, &["--rate", "5000"]),
    },
    Fault {
        name: "generator's receive buffer too small",
        how: "the smallest that the kernel gives, and 100 queries due at a time",
        code: "socket_buffer_too_small",
        setting: Setting {
            flags: &["--recv-buffer", "1", "--flows", "1", "--group", "100", "--rate", "5000"],
            ..CLEAN
        },
    },
    Fault {
        name: "wall clock stepped",
        how: "the generator's clock and receive stamps are set forward by 50 ms",
        code: "clock_stepped",
        setting: disturbed(Disturbance::Clock, &[]),
    },
    Fault {
        name: "another program on the server's core",
        how: "two programs compute there",
        code: "server_core_shared",
        setting: disturbed(Disturbance::ShareServerCore, &["--rate", "10000"]),
    },
    Fault {
        name: "memory pressure",
        how: "programs in a control group read a file larger than its memory over and over",
        code: "memory_pressure",
        setting: disturbed(Disturbance::Memory, &[]),
    },
];

/// The codes that a result has.
fn codes(result: &Value) -> Vec<String> {
    let lists = [&result["validity"]["reasons"], &result["findings"]];
    let all = lists.into_iter().filter_map(Value::as_array).flatten();
    all.map(|reason| reason["code"].as_str().expect("a code").to_owned()).collect()
}

/// Makes a fault; twice where a machine that is busy with other things hides it the first time.
fn named(name: &str) {
    if !has("nsd") || !has("taskset") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let fault = FAULTS.iter().find(|fault| fault.name == name).expect("it is in the list");
    let Some(mut bench) = Bench::up(fault.setting) else { return };
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut result = bench.trial();
        let codes = codes(&result);
        if codes.iter().any(|code| code == fault.code) {
            return;
        }
        result["histograms"] = Value::Null;
        said.push(format!("{codes:?}: {result}"));
    }
    panic!("'{}' is not named {}:\n{}", fault.name, fault.code, said.join("\n"));
}

macro_rules! faults {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            named($name);
        })*

        #[test]
        fn each_fault_has_a_test() {
            let tested = [$($name),*];
            assert!(FAULTS.iter().all(|fault| tested.contains(&fault.name)) && tested.len() == FAULTS.len());
        }
    };
}

faults! {
    a_server_that_is_too_slow_is_named: "server too slow",
    a_pause_of_50_ms_is_named: "server paused 50 ms",
    a_restart_is_named: "server restarted in mid-trial",
    a_server_that_drops_is_named: "server drops",
    a_server_that_lies_is_named: "server lies",
    late_answers_are_named: "server answers late",
    second_answers_are_named: "server answers twice",
    a_stale_serial_is_named: "server serves a stale serial",
    another_zone_is_named: "server serves another zone",
    another_address_is_named: "server answers from another address",
    another_question_is_named: "server answers another question",
    icmp_errors_are_named: "ICMP unreachable",
    lost_packets_are_named: "packets lost",
    reordered_packets_are_named: "packets reordered",
    corrupted_packets_are_named: "packets corrupted",
    packets_too_large_for_the_link_are_named: "packets too large for the link",
    a_starved_generator_is_named: "generator starved of CPU",
    a_small_receive_buffer_is_named: "generator's receive buffer too small",
    a_stepped_clock_is_named: "wall clock stepped",
    a_program_on_the_servers_core_is_named: "another program on the server's core",
    memory_pressure_is_named: "memory pressure",
}

#[test]
fn a_clean_trial_names_nothing() {
    if !has("nsd") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(mut bench) = Bench::up(CLEAN) else { return };
    let (mut said, mut taken) = (Vec::new(), 0);
    // A machine that others share is sometimes not quiet for many seconds: one quiet second is enough.
    for _ in 0..25 {
        let result = bench.trial();
        assert!(result["checked"]["right"].as_u64() > Some(0), "{result}");
        let codes = codes(&result);
        if codes.is_empty() {
            return;
        }
        said.push(codes);
        taken += usize::from(bench.generator_core_is_taken());
    }
    let late = ["pacing_error", "unsent", "generator_preempted", "generator_stalled"];
    if said.iter().flatten().all(|code| late.contains(&code.as_str())) && 2 * taken > said.len() {
        eprintln!(
            "SKIPPED: the generator's core was taken from it in {taken} of {} other seconds",
            said.len()
        );
        return;
    }
    panic!("all clean trials are flagged: {said:?}; the core was taken in {taken} other seconds");
}

/// A number from the environment, or the usual one.
fn repeats(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().map_or(usual, |n| n.parse().expect("a number"))
}

/// Codes with their counts, the most frequent first.
fn counted(codes: &BTreeMap<String, usize>) -> String {
    let mut all: Vec<_> = codes.iter().collect();
    all.sort_by_key(|(code, n)| (std::cmp::Reverse(**n), code.to_owned()));
    let text: Vec<String> = all.iter().map(|(code, n)| format!("`{code}` {n}")).collect();
    if text.is_empty() { "-".into() } else { text.join(", ") }
}

/// Not a test: each fault many times, as a table in Markdown (`scripts/faults.sh`). `DNSRACK_FAULT_REPEATS` (20) and
/// `DNSRACK_FAULT_CLEAN` (100) say how often, `DNSRACK_FAULT_ONLY` a part of the names of the faults that are wanted.
#[test]
#[ignore = "a program of half an hour: scripts/faults.sh runs it"]
fn table() {
    let (times, clean) = (repeats("DNSRACK_FAULT_REPEATS", 20), repeats("DNSRACK_FAULT_CLEAN", 100));
    let only = std::env::var("DNSRACK_FAULT_ONLY").unwrap_or_default();
    println!("\n| fault | how it is made | named by | in | also named |\n|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for fault in FAULTS.iter().filter(|fault| fault.name.contains(&only)) {
        let Some(mut bench) = Bench::up(fault.setting) else {
            println!("| {} | {} | `{}` | not run here | |", fault.name, fault.how, fault.code);
            wrong.push(fault.name);
            continue;
        };
        let (mut hits, mut others) = (0, BTreeMap::new());
        for _ in 0..times {
            let mut codes = codes(&bench.trial());
            codes.sort();
            codes.dedup();
            hits += usize::from(codes.iter().any(|code| code == fault.code));
            codes
                .into_iter()
                .filter(|code| code != fault.code)
                .for_each(|code| *others.entry(code).or_default() += 1);
        }
        println!(
            "| {} | {} | `{}` | {hits} of {times} | {} |",
            fault.name,
            fault.how,
            fault.code,
            counted(&others)
        );
        if 20 * hits < 19 * times {
            wrong.push(fault.name);
        }
    }
    if clean > 0 {
        let mut bench = Bench::up(FAULTLESS).expect("server and generator");
        let (mut flagged, mut others) = (0, BTreeMap::new());
        for _ in 0..clean {
            let codes = codes(&bench.trial());
            flagged += usize::from(!codes.is_empty());
            codes.into_iter().for_each(|code| *others.entry(code).or_default() += 1);
        }
        println!(
            "| none | five seconds instead of one | nothing | {} of {clean} | {} |",
            clean - flagged,
            counted(&others)
        );
        if 20 * flagged > clean {
            wrong.push("none");
        }
    }
    assert!(wrong.is_empty(), "not as aimed at: {}", wrong.join(", "));
}
