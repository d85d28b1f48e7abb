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
        "label_length": {"3": 1}, "ns_per_delegation": {"1": 1},
        "glue": {"names": 1, "a": 1, "aaaa": 1, "most": {"cde.a.": 1}},
        "ds_share": 1.0, "signed": false, "algorithms": {"ECDSAP256SHA256": 1},
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
