//! The scanner: every form of RFC 1035, bad input, real zones, any octets.

use crate::support::{Owned, Trickle, checker, collect, records, root_zones, unxz};
use measure::Seed;
use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;
use wire::name::Name;
use wire::rtype;
use zone::scan::fuzz_scan;
use zone::{Record, Scanner};

const ALL_TYPES: &str = r#"$ORIGIN example.
$TTL 1h30m
@ IN SOA ns1 host\.master ( 2026082000 ; serial
        30m 15m 1w ; refresh, retry, expire
        1d )
        NS ns1
        90m IN NS ns2.example.
        IN 3600 MX 10 mail
        TXT "a ; \"quoted\" string" plain esc\;aped "" "\000\255"
        SPF "v=spf1 -all"
        DNSKEY 257 3 ( 8 AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3
           +/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvAA== )
        CDNSKEY 257 3 RSASHA256 AwEAAaz/
        CDS 1 8 2 00ff 00ff 00ff 00ff 00ff 00ff 00ff 00ff 00FF00FF00FF00FF00FF00FF00FF00FF
        CAA 0 issue "ca.example; x=y"
        NSEC3PARAM 1 0 0 -
        ZONEMD 2026082000 1 1 5EECFE70FD07ADC33BC8F863090797200D9BFC20673DE752FECE9D66 8D12D36E5529DEEE33781F8AF54604ED4DF83586
        NSEC a NS SOA MX TYPE65280 RRSIG NSEC
        RRSIG NS 8 1 5400 20260902050000 20260820040000 57780 @ ehDz/goJiEywIXCsnosaWg==
a CNAME b.c
ns1 A 192.0.2.4
ns2 A 192.0.2.5
*.wild A 192.0.2.1
deleg DS 12345 13 2 89F7670AFC091B199B47900E4CE4135B9463B7F74D3D19A1C732E78C345D4DE6
 NS ns.deleg
ns.deleg A 192.0.2.2
        AAAA 2001:db8::1:0:0:1
d DNAME elsewhere.org.
h HINFO PC "Linux 6"
_s._tcp SRV 1 2 53 ns1
n NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:i@example.!" .
p PTR ns1
_443._tcp TLSA 3 1 1 0123456789ab
s SSHFP 4 2 0123012301230123012301230123012301230123012301230123012301230123
x TYPE65280 \# 4 0a000001
y A \# 4 C0000203
empty TYPE65281 \# 0
2t7b4g4vsa5smi47k61mv5bv1a22bojr NSEC3 1 1 12 aabbccdd 2vptu5timamqttgl4luu9kg21e0aor3s A RRSIG
b\.c.\100ots TXT dots
"#;

/// The records as lines in the generic form: nothing of our printing by type is in them.
fn generic(all: &[Owned]) -> String {
    let mut text = String::new();
    for (owner, ttl, rtype, rdata) in all {
        let hex: String = rdata.iter().map(|b| format!("{b:02x}")).collect();
        let owner = Name::from_wire(owner).unwrap();
        text += &format!("{owner} {ttl} IN {} \\# {} {hex}\n", rtype::to_text(*rtype), rdata.len());
    }
    text
}

/// The zone as BIND prints it, one record a line; `None` where BIND's tools are absent.
fn as_bind_prints(text: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zone");
    std::fs::write(&file, text).unwrap();
    let modes =
        ["-k", "ignore", "-n", "ignore", "-i", "none", "-m", "ignore", "-M", "ignore", "-r", "ignore"];
    let mut args = vec!["-q", "-s", "full", "-o", "-"];
    args.extend(modes);
    args.extend(["example.", file.to_str().unwrap()]);
    let out = checker("named-compilezone", &args)?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}

#[test]
fn every_type_is_read_as_bind_reads_it() {
    let ours = records(ALL_TYPES.as_bytes()).unwrap();
    assert_eq!(ours.len(), ALL_TYPES_RECORDS);
    let Some(direct) = as_bind_prints(ALL_TYPES) else { return };
    let through_us = as_bind_prints(&generic(&ours)).unwrap();
    for (a, b) in direct.lines().zip(through_us.lines()) {
        assert_eq!(a, b);
    }
    assert_eq!(direct.lines().filter(|l| !l.starts_with(';')).count(), ours.len());
    let mut again = records(direct.as_bytes()).unwrap();
    let mut ours = ours;
    again.sort();
    ours.sort();
    assert_eq!(again, ours, "what BIND prints reads as what we read");
}

const ALL_TYPES_RECORDS: usize = 34;

#[test]
fn printing_and_reading_is_the_identity() {
    let all = records(ALL_TYPES.as_bytes()).unwrap();
    let mut text = Vec::new();
    for (owner, ttl, rtype, rdata) in &all {
        let record = Record { owner, ttl: *ttl, class: 1, rtype: *rtype, rdata, line: 0 };
        zone::text::write_record(&record, &mut text);
    }
    let shown = String::from_utf8(text).unwrap();
    assert_eq!(records(shown.as_bytes()).unwrap(), all, "{shown}");
    // Only what has no other form, or was not what its type says, is printed in the generic form.
    assert_eq!(shown.matches("\\#").count(), 2, "{shown}");
}

proptest! {
    #[test]
    fn any_data_of_any_type_can_be_printed(rtype in prop_oneof![0u16..70, any::<u16>()], rdata in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assume!(rtype != rtype::SOA);
        let mut text = b"example. 1 IN SOA . . 1 2 3 4 5\n".to_vec();
        zone::text::write_record(&Record { owner: b"\x01a\x07example\0", ttl: 7, class: 1, rtype, rdata: &rdata, line: 0 }, &mut text);
        let all = records(&text).unwrap();
        prop_assert_eq!(&all[1], &(b"\x01a\x07example\0".to_vec(), 7, rtype, rdata));
    }
}

#[test]
fn an_original_ttl_of_all_32_bits_reads_back() {
    let mut rdata = vec![0; 20];
    rdata[4] = 0x80;
    let mut text = b"example. 1 IN SOA . . 1 2 3 4 4294967295\n".to_vec();
    let rrsig =
        Record { owner: b"\x07example\0", ttl: 7, class: 1, rtype: rtype::RRSIG, rdata: &rdata, line: 0 };
    zone::text::write_record(&rrsig, &mut text);
    let all = records(&text).unwrap();
    assert_eq!((&all[0].3[all[0].3.len() - 4..], &all[1].3), (&[255u8; 4][..], &rdata));
}

#[test]
fn boundaries_of_reads_do_not_matter() {
    let whole = records(ALL_TYPES.as_bytes()).unwrap();
    let slow = collect(Scanner::new(Trickle(Cursor::new(ALL_TYPES)), "slow")).unwrap();
    assert_eq!(whole, slow);
}

#[test]
fn bad_input_says_where_and_what() {
    let soa = "$ORIGIN example.\n$TTL 1h\n@ SOA ns1 host 1 2 3 4 5\n";
    let cases: Vec<(String, &str)> = vec![
        (
            format!("{soa}@ SOA ns1 host 1 2 3 4 5\n"),
            "test.zone:4:3: a second SOA: a zone has one, and test.zone:3:1 is it",
        ),
        (String::new(), "test.zone:1:1: the file holds no record: expected a zone, its SOA first"),
        ("; nothing\n\n".into(), "test.zone:3:1: the file holds no record"),
        (
            "a.example. 1 IN NS b.\n".into(),
            "test.zone:1:17: the first record is of type NS: expected the zone's SOA",
        ),
        (format!("{soa}www.other. A 192.0.2.1\n"), "test.zone:4:1: www.other. is out of the zone example."),
        (
            format!("{soa}{}.a A 192.0.2.1\n", "x".repeat(64)),
            "test.zone:4:1: the owner: a label of more than 63 octets",
        ),
        (format!("{soa}a NS {}.b\n", "x".repeat(64)), "test.zone:4:6: a label of more than 63 octets"),
        (
            format!("{soa}$INCLUDE missing.zone\n"),
            "test.zone:4:10: cannot include missing.zone: No such file",
        ),
        (format!("{soa}a A 192.0.2.1"), "test.zone:4:14: the file ends within a line: it seems cut off"),
        (format!("{soa}a A ( 192.0.2.1\n"), "test.zone:4:5: a parenthesis that is not closed"),
        (format!("{soa}a A 192.0.2.1 )\n"), "test.zone:4:15: a closing parenthesis without"),
        (format!("{soa}a TXT \"open\nb A 192.0.2.1\n"), "test.zone:4:7: a string without its closing quote"),
        (
            "hello. world\nthis is no zone\n".into(),
            "test.zone:1:8: 'world': expected a TTL, a class or a record type",
        ),
        ("\u{7f}ELF\u{2}\u{1}\n".into(), "test.zone:1:5: octet 2 is not text: expected a zone in text form"),
        (format!("{soa}a A 192.0.2\n"), "test.zone:4:5: '192.0.2': expected an IPv4 address"),
        (format!("{soa}a AAAA 2001::1::2\n"), "test.zone:4:8: '2001::1::2': expected an IPv6 address"),
        (format!("{soa}a A 192.0.2.1 5\n"), "test.zone:4:15: '5' after the end of the record"),
        (
            format!("{soa}a MX mail\n"),
            "test.zone:4:6: 'mail': expected a preference, a number from 0 to 65535",
        ),
        (format!("{soa}a MX 1\n"), "test.zone:4:7: the record ends here: expected a domain name"),
        (format!("{soa}a DS 1 8 2 0g\n"), "test.zone:4:13: not a hexadecimal digit"),
        (format!("{soa}a DS 1 8 2 000\n"), "test.zone:4:15: the record ends here: expected a digest"),
        (
            format!("{soa}a TYPE77 something\n"),
            "test.zone:4:10: the data of TYPE77 can only be read in the generic form",
        ),
        (format!("{soa}a TYPE77 \\# 3 0001\n"), "test.zone:4:13: a length of 3 octets, but 2 octets of data"),
        (
            format!("{soa}a TXT ( \"fine\"\n  \"{}\" )\n", "x".repeat(256)),
            "test.zone:5:3: a string of 256 octets: at most 255 fit",
        ),
        (format!("{soa}a CH A 192.0.2.1\n"), "test.zone:4:6: a class other than the SOA's, at test.zone:3:1"),
        (
            format!("{soa}$GENERATE 1-2 a A 192.0.2.$\n"),
            "test.zone:4:1: '$GENERATE': expected $ORIGIN, $TTL or $INCLUDE",
        ),
        (format!("{soa}a..b A 192.0.2.1\n"), "test.zone:4:3: the owner: an empty label"),
        (
            "@ SOA ns1 host 1 2 3 4 5\n".into(),
            "test.zone:1:1: the owner: a relative name, but no origin is known",
        ),
        (" A 192.0.2.1\n".into(), "test.zone:1:1: a record without an owner"),
    ];
    for (text, expected) in cases {
        let error = records(text.as_bytes()).expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{text}\n got {error}\nwant {expected}");
    }
    let xz = b"\xfd7zXZ\0\0\x04";
    assert!(records(xz).unwrap_err().to_string().contains("compressed with xz: unpack it"));
}

#[test]
fn files_include_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("sub")).unwrap();
    let main = "$TTL 60\nexample. SOA . . 1 2 3 4 5\n$ORIGIN example.\n$INCLUDE sub/one sub\n A 192.0.2.9\nb A 192.0.2.2\n";
    std::fs::write(at("main"), main).unwrap();
    std::fs::write(at("sub/one"), "a A 192.0.2.1\n$ORIGIN other.example.\n$INCLUDE two\nbroken\n").unwrap();
    std::fs::write(at("sub/two"), "c A 192.0.2.3\n").unwrap();
    let error = zone::probe(&at("main")).unwrap_err().to_string();
    assert!(error.contains("sub/one:4:7: the record ends here: expected a TTL, a class"), "{error}");

    std::fs::write(at("sub/one"), "a A 192.0.2.1\n$ORIGIN other.example.\n$INCLUDE two\n").unwrap();
    let all = collect(Scanner::open(&at("main")).unwrap()).unwrap();
    let owners: Vec<String> = all.iter().map(|r| Name::from_wire(&r.0).unwrap().to_string()).collect();
    assert_eq!(owners, ["example.", "a.sub.example.", "c.other.example.", "example.", "b.example."]);

    std::fs::write(at("sub/one"), "$INCLUDE one\n").unwrap();
    let error = zone::probe(&at("main")).unwrap_err().to_string();
    assert!(error.contains("nested more than 16 deep"), "{error}");
    let error = zone::probe(&at("sub")).unwrap_err().to_string();
    assert!(error.contains("directory"), "{error}");
}

#[test]
fn all_real_root_zones_are_read() {
    for path in root_zones() {
        let text = unxz(&path);
        let lines = text.iter().filter(|&&b| b == b'\n').count();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut scanner = Scanner::new(Cursor::new(text), &name);
        let (mut records, mut serial) = (0, String::new());
        while let Some(record) = scanner.next().unwrap() {
            records += 1;
            if record.rtype == rtype::SOA {
                let at = record.rdata.len() - 20;
                serial = u32::from_be_bytes(record.rdata[at..at + 4].try_into().unwrap()).to_string();
            }
        }
        assert_eq!(records, lines, "{name}: a record a line");
        assert!(records > 20_000, "{name}: {records} records");
        assert!(name.contains(&serial), "{name} has serial {serial}");
    }
}

#[test]
fn the_end_of_a_real_zone_is_probed() {
    let Some(path) = root_zones().pop() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), unxz(&path)).unwrap();
    let probe = zone::probe(file.path()).unwrap();
    assert_eq!(probe.origin, Name::root());
    assert_eq!(probe.name.to_string(), "zw.");
    assert_eq!((probe.rtype, probe.delegation, probe.signed), (rtype::NS, true, true));
    assert!(probe.rdata.len() >= 4 && probe.delegations > 1400);
    let (mut names, mut signed) = (0, 0);
    zone::delegations(file.path(), &mut |_, has_ds| {
        names += 1;
        signed += u64::from(has_ds);
    })
    .unwrap();
    assert_eq!(names, probe.delegations);
    assert!(signed * 10 > names * 9 && signed < names, "{signed} of {names} are signed");
}

#[test]
fn a_zone_without_delegations_is_probed_at_its_last_owner() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "$ORIGIN b.a.\n$TTL 5\n@ SOA . . 7 2 3 4 5\n NS ns\nz.c TXT x\nns A 192.0.2.1\nz.c A 192.0.2.2\n A 192.0.2.3\nc A 192.0.2.4\n";
    std::fs::write(file.path(), text).unwrap();
    let probe = zone::probe(Path::new(file.path())).unwrap();
    assert_eq!((probe.name.to_string().as_str(), probe.rtype, probe.serial), ("ns.b.a.", rtype::A, 7));
    assert!(!probe.delegation && !probe.signed && probe.delegations == 0);
    let mut owners = Vec::new();
    zone::delegations(file.path(), &mut |owner, _| owners.push(Name::from_wire(owner).unwrap().to_string()))
        .unwrap();
    assert_eq!(owners, ["b.a.", "z.c.b.a.", "ns.b.a.", "z.c.b.a.", "c.b.a."]);
}

/// A second of mutations: nothing panics, and what is read can be printed and read again.
#[test]
fn mutated_zones_never_panic() {
    let corpus: [&[u8]; 3] = [
        ALL_TYPES.as_bytes(),
        b"$TTL 1\n. SOA a. b. 1 1h 1 1 1\ncom. NS a.gtld-servers.net.\n",
        b"@ 1 IN SOA \\# 4 00\n\\000.\\. TXT ( \"\\\"\" ; )\n )\n",
    ];
    let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
    let mut draw = Seed(4).draw("fuzz", 0);
    let mut runs = 0;
    while std::time::Instant::now() < end {
        let mut text = corpus[draw.below(3) as usize].to_vec();
        for _ in 0..=draw.below(6) {
            let at = draw.below(text.len() as u64) as usize;
            match draw.below(5) {
                0 => text[at] = draw.below(256) as u8,
                1 => text[at] = b"\"\\();\n\t .$@#*-=0"[draw.below(16) as usize],
                2 => text.truncate(at.max(1)),
                3 => {
                    text.remove(at);
                    text.push(b'\n');
                }
                _ => {
                    let piece = text[at..(at + 20).min(text.len())].to_vec();
                    let to = draw.below(text.len() as u64) as usize;
                    text.splice(to..to, piece);
                }
            }
        }
        fuzz_scan(&text);
        runs += 1;
    }
    assert!(runs > 100, "{runs} runs in a second");
}
