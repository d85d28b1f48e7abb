//! Who sends in captures that we write, and their floods, as tshark finds them.

use crate::{capture, fields};
use std::collections::{BTreeMap, BTreeSet};
use traffic::Port;
use traffic::{Profile, Under};

/// Within six standard deviations of a share of `all`, and a rounding.
fn near(count: usize, share: f64, all: usize) -> bool {
    let n = all as f64;
    (count as f64 - n * share).abs() <= 6.0 * (n * share * (1.0 - share)).sqrt() + 1.0
}

#[test]
fn tshark_finds_clients_ports_and_flood() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("senders.pcap");
    let mut profile = Profile::load("rzaia").unwrap();
    let class = &mut profile.classes[0];
    (class.clients, class.zipf, class.ipv6) = (400, 1.0, 0.0);
    profile.ports = [(Port::Random, 2.0), (Port::Own, 1.0), (Port::Number(53), 1.0)].into();
    (profile.background.share, profile.background.under) = (10.0 / 11.0, Under::Names);
    let tally = capture(&path, &profile);
    let names =
        ["ip.src", "udp.srcport", "dns.qry.name", "dns.qry.name.len", "dns.count.labels", "dns.qry.type"];
    let Some(rows) = fields(&path, &names) else { return };
    assert!(near(tally.background as usize, 10.0 / 11.0, rows.len()), "{tally:?}");

    // Each address has one port, 53 or its own, or many.
    let mut clients: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for row in &rows {
        let client = clients.entry(&row[0]).or_default();
        client.0 += 1;
        client.1.insert(&row[1]);
    }
    assert!(clients.len() <= 400, "{}", clients.len());
    let often = clients.values().filter(|c| c.0 > 4);
    let kinds = often.clone().filter(|c| c.1.contains("53")).count();
    assert!(near(kinds, 0.25, often.clone().count()), "{kinds} of {} from port 53", often.clone().count());
    assert!(often.clone().all(|c| !c.1.contains("53") || c.1.len() == 1));
    let one = often.clone().filter(|c| c.1.len() == 1).count();
    assert!(near(one, 0.5, often.clone().count()), "{one} of {} from one port", often.count());
    // Client n sends 1/n as often as the first.
    let mut counts: Vec<usize> = clients.values().map(|c| c.0).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let sum: f64 = (1..=400).map(|n| 1.0 / f64::from(n)).sum();
    for n in [1, 2, 3] {
        assert!(near(counts[n - 1], 1.0 / n as f64 / sum, rows.len()), "client {n}: {}", counts[n - 1]);
    }

    // The flood is below com, net and org, twelve octets, each name once; at a good query's place two labels may be
    // made too, but not so many.
    let mut flood: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        if let Some((label, tld)) = row[2].split_once('.')
            && label.len() == 12
            && matches!(tld, "com" | "net" | "org")
            && row[5] == "1"
        {
            *flood.entry(tld).or_default() += 1;
            assert!(seen.insert(&row[2][..]), "{} twice", row[2]);
            assert_eq!((&row[3][..], &row[4][..]), ("16", "2"));
        }
    }
    let all: usize = flood.values().sum();
    let good = rows.len() - tally.background as usize;
    assert!(
        all >= tally.background as usize && all <= tally.background as usize + good / 20,
        "{all} {tally:?}"
    );
    assert!(flood.len() == 3 && flood.values().all(|n| near(*n, 1.0 / 3.0, all)), "{flood:?}");
}
