//! Facts of zones.

use crate::generate::zone_of;
use crate::support::{root_zones, unxz};
use zone::{Family, Info, info};

fn info_of(text: &[u8]) -> Info {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut heard = 0;
    let info = info(file.path(), &mut |octets| heard = octets).unwrap();
    assert_eq!((heard, info.bytes), (text.len() as u64, text.len() as u64));
    info
}

#[test]
fn the_counts_are_those_that_were_written() {
    for family in Family::RZAIA {
        let (text, made) = zone_of(family, 3000, 8);
        let info = info_of(&text);
        assert_eq!((info.origin.as_str(), info.serial, info.signed), (".", 2_009_091_700, false));
        assert_eq!((info.delegations, info.records), (made.delegations, made.records));
        let counts = ["NS", "A", "AAAA", "DS"].map(|t| info.count(t));
        assert_eq!(counts, [made.ns, made.a, made.aaaa, made.ds]);
        assert_eq!(
            (info.glue.a, info.glue.aaaa, info.glue.names),
            (made.a, made.aaaa, made.a),
            "all is glue"
        );
        assert_eq!(info.ns_per_delegation.iter().map(|(&k, &n)| u64::from(k) * n).sum::<u64>(), made.ns - 13);
        assert_eq!(info.label_length.values().sum::<u64>(), 3000);
        assert_eq!(info.ds_share, made.ds as f64 / 2.0 / 3000.0);
        let most = |tld: &str| info.glue.most[tld];
        assert!(most("com.") > most("net.") && most("net.") + most("org.") > made.a / 3, "{:?}", info.glue);
    }
}

#[test]
fn a_small_zone_to_the_octet() {
    let text = "$TTL 1\na. SOA . . 9 2 3 4 5\n NS b.a.\nb.a. A 192.0.2.1\ncde.a. NS x.cde.a.\n DS 1 8 2 00\n RRSIG DS 13 2 1 1 1 1 a. 00==\nx.cde.a. A 192.0.2.1\n AAAA ::1\n";
    let info = info_of(text.as_bytes());
    let shown = serde_json::to_value(&info).unwrap();
    // Owners 3*2 + 5 + 7*3 + 9*2; 10 a record; data 22 + 5 + 4 + 9 + 5 + 22 + 4 + 16.
    let expected = serde_json::json!({
        "origin": "a.", "serial": 9, "delegations": 1, "records": 8,
        "types": {"SOA": 1, "NS": 2, "A": 2, "AAAA": 1, "DS": 1, "RRSIG": 1},
        "bytes": text.len(), "wire_bytes": 50 + 80 + 87,
        "label_length": {"3": 1}, "idn_label_length": {}, "idn_share": 0.0,
        "ns_per_delegation": {"1": 1},
        "servers": {"inside": 1, "in_zone": 0, "out_of_zone": 0, "sharing": {
            "exact": true, "sampled": 1, "servers": 1, "standard_error": 0.0,
            "delegations_per_server": {"1": 1}, "elsewhere": {}, "under": {},
            "largest": {"x.cde.a.": 1}, "largest_error": 0,
        }},
        "glue": {"names": 1, "names_with_a": 1, "names_with_aaaa": 1, "a": 1, "aaaa": 1, "most": {"cde.a.": 1}},
        "ds_share": 1.0, "ds_per_delegation": {"1": 1}, "ds_algorithms": {"8": 1}, "ds_digests": {"2": 1},
        "ttl": {"SOA": {"1": 1}, "NS": {"1": 2}, "A": {"1": 2}, "AAAA": {"1": 1}, "DS": {"1": 1}, "RRSIG": {"1": 1}},
        "apex": {"primary": ".", "mailbox": ".", "timers": [2, 3, 4, 5], "soa_ttl": 1, "ns_ttl": 1, "servers": ["b.a."]},
        "signed": false, "algorithms": {"ECDSAP256SHA256": 1}, "denial": "none", "in_order": true,
    });
    assert_eq!(shown, expected);
}

#[test]
fn a_real_root_zone_has_the_known_shape() {
    let Some(path) = root_zones().pop() else { return };
    let info = info_of(&unxz(&path));
    assert!(info.signed && (1400..1500).contains(&info.delegations), "{info:?}");
    assert!((0.9..0.99).contains(&info.ds_share));
    assert_eq!(info.label_length.keys().next_back(), Some(&24));
    assert_eq!(info.algorithms.keys().collect::<Vec<_>>(), ["RSASHA256"]);
}

#[test]
fn servers_are_told_by_where_they_lie_and_who_shares_them() {
    let text = "$ORIGIN zone.\n$TTL 1h\n@ SOA ns host 1 2 3 4 5\n NS ns.elsewhere.\n\
        a NS ns.a\n NS NS1.Host.test.\n NS ns.b\nns.a A 192.0.2.1\n\
        b 1d NS ns.b\n NS ns1.host.TEST.\nns.b AAAA ::1\n A 192.0.2.1\nn2.b A 192.0.2.2\n\
        xn--bcher-kva NS ns1.host.test.\n NS ns.co.uk.\n NS x.y.c\n\
        c NS d.\n";
    let info = info_of(text.as_bytes());
    let map = |pairs: &[(&str, u64)]| pairs.iter().map(|&(k, n)| (k.to_owned(), n)).collect();
    let s = &info.servers;
    assert_eq!((s.inside, s.in_zone, s.out_of_zone), (2, 2, 5));
    // 'ns.b' lies inside b and serves a too; ns1.host.test. serves three, in any case.
    assert_eq!(s.sharing.delegations_per_server, [(1, 4), (2, 1), (3, 1)].into());
    assert_eq!(s.sharing.elsewhere, [(1, 3), (3, 1)].into());
    assert_eq!(s.sharing.under, map(&[("test.", 1), ("uk.", 1), ("c.zone.", 1), ("d.", 1)]));
    assert_eq!(s.sharing.largest["NS1.Host.test."], 3);
    assert_eq!((info.idn_share, info.idn_label_length.clone()), (0.25, [(13, 1)].into()));
    let g = &info.glue;
    assert_eq!((g.names, g.names_with_a, g.names_with_aaaa, g.a, g.aaaa), (3, 3, 1, 3, 1));
    assert_eq!(info.ttl["NS"], map(&[("3600", 9), ("86400", 1)]));
    assert_eq!(info.apex.servers, ["ns.elsewhere."]);
    assert!(!info.in_order, "xn-- comes before c");
    let sorted = text.replace("c NS d.", "y NS d.");
    assert!(info_of(sorted.as_bytes()).in_order);
}

#[test]
fn a_zone_without_delegations_has_facts_too() {
    let mut text = "$ORIGIN zone.\n@ 60 SOA ns host 1 2 3 4 5\n NS ns\n NSEC3PARAM 1 0 0 -\n".to_owned();
    for i in 0..40 {
        text += &format!("h{i} {} A 192.0.2.{i}\n", 100 + i);
    }
    text += "2t7b4g4vsa5smi47k61mv5bv1a22bojr 5 NSEC3 1 1 0 - 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG\n";
    let info = info_of(text.as_bytes());
    assert_eq!((info.delegations, info.ds_share, info.denial.as_str()), (0, 0.0, "NSEC3"));
    assert_eq!((info.glue.names, info.servers.sharing.servers), (0, 0));
    assert_eq!(info.ttl["A"]["other"], 24, "sixteen TTLs are told apart");
    assert_eq!(zone::fit(&info), None);
}

/// More servers than are kept: shares within five standard errors, the busiest within the error told.
#[test]
fn many_servers_are_sampled() {
    let mut text = b"$ORIGIN z.\n$TTL 1\n@ SOA ns host 1 2 3 4 5\n".to_vec();
    let (mut draw, n) = (measure::Seed(7).draw("test", 0), 300_000u64);
    let (mut pairs, mut big) = (0, 0);
    for i in 0..n {
        let line = match draw.below(100) {
            0..30 => {
                pairs += 1;
                format!("d{i:07} NS p{}.test.\n", pairs / 2)
            }
            30..35 => {
                big += 1;
                format!("d{i:07} NS big.test.\n")
            }
            _ => format!("d{i:07} NS own{i}.example.\n"),
        };
        text.extend_from_slice(line.as_bytes());
    }
    let sharing = info_of(&text).servers.sharing;
    let servers = (n - pairs - big + pairs / 2 + 1) as f64;
    assert!(!sharing.exact && (32_000..=65_536).contains(&sharing.sampled), "{sharing:?}");
    assert!((sharing.servers as f64 / servers - 1.0).abs() < 5.0 * sharing.standard_error, "{sharing:?}");
    let twos = sharing.delegations_per_server[&2] as f64;
    assert!((twos / (pairs as f64 / 2.0) - 1.0).abs() < 0.05, "{twos} of {}", pairs / 2);
    assert!((sharing.under["test."] as f64 / (pairs as f64 / 2.0) - 1.0).abs() < 0.05);
    let found = sharing.largest["big.test."];
    assert!((big - sharing.largest_error..=big).contains(&found), "{found} of {big}: {sharing:?}");
    assert!(sharing.largest_error < 100);
}
