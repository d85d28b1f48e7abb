//! Profile files: what is wrong is named with line and column.

use proptest::prelude::*;
use std::collections::BTreeMap;
use traffic::Port;
use traffic::{AddressFile, BUILT_IN, Background, Class, Law, NameList, Order, Profile, Shape};
use wire::name::Name;

const GOOD: &str = r#"about = "a test"

[edns]
share = 0.5
do = 0.2

[edns.sizes]
1232 = 1

[names]
nonexistent = 0.1
below = [1, 2]

[types]
A = 3
AAAA = 1
"#;

#[test]
fn built_in_profiles_are_read() {
    for (name, text) in BUILT_IN {
        assert_eq!(Profile::load(name).unwrap(), Profile::parse(text, name).unwrap());
        assert!(!Profile::load(name).unwrap().about.is_empty());
    }
    Profile::parse(GOOD, "good.toml").unwrap();
}

#[test]
fn faults_are_named_with_line_and_column() {
    let cases = [
        ("nonexistent = 0.1", "nonexistant = 0.1"),
        ("[names]", "[nams]"),
        ("nonexistent = 0.1", "nonexistent = 30"),
        ("share = 0.5", "share = \"half\""),
        ("do = 0.2", "do = 0.6"),
        ("1232 = 1", "70000 = 1"),
        ("1232 = 1", ""),
        ("1232 = 1", "1232 = 0"),
        ("[names]", "[edns.sizes-do]\n70000 = 1\n[names]"),
        ("do = 0.2", "sizes-do = { 1232 = 1 }"),
        ("AAAA = 1", "AAAAA = 1"),
        ("AAAA = 1", "AAAA = -1"),
        ("AAAA = 1", "TYPE1 = 1"),
        ("A = 3\nAAAA = 1", ""),
        ("below = [1, 2]", "below = []"),
        ("below = [1, 2]", "order = \"random\""),
        ("A = 3", "A = 3\nA = 4"),
        ("about = \"a test\"", "about = \"a test"),
        ("about = \"a test\"", ""),
        ("[types]", "[clients]\ncount = 0\n[types]"),
        ("[types]", "[clients]\nzipf = -1.0\n[types]"),
        ("[types]", "[clients]\nports = { 0 = 1 }\n[types]"),
        ("[types]", "[clients]\naddresses = \"a\"\ncount = 5\n[types]"),
        ("[types]", "[types-nonexistent]\nAA = 1\n[types]"),
        ("nonexistent = 0.1\nbelow = [1, 2]", "[types-nonexistent]\nA = 1"),
        ("nonexistent = 0.1\nbelow = [1, 2]", "[names.popular-nonexistent]\n\"local.\" = 0.1"),
        ("[types]", "[names.popular]\n\"a..b\" = 0.1\n[types]"),
        ("[types]", "[names.popular]\n\"com.\" = 1.1\n[types]"),
        ("[types]", "[names.popular]\n\"com.\" = 0.1\n\"COM\" = 0.1\n[types]"),
        ("[types]", "[names.popular]\n\"com.\" = 0.7\n\"net.\" = 0.4\n[types]"),
        ("[types]", "[names.lengths]\n0 = 1\n[types]"),
        ("[types]", "[names.shapes-nonexistent]\n3-64 = 1\n[types]"),
        ("[types]", "[names.shapes-nonexistent]\nnone = 1\n3 = 1\n[types]"),
        ("[types]", "[names.shapes]\nnone = 1\n[types]"),
        ("nonexistent = 0.1\nbelow = [1, 2]", "[names.shapes-nonexistent]\n3 = 1"),
        ("[types]", "[packets]\ntcp = 2\n[types]"),
        ("[types]", "[packets]\nrd = -0.5\n[types]"),
        ("[types]", "[[class]]\ncount = 5\n[types]"),
        ("[types]", "[[class]]\nshare = 0\n[types]"),
        ("[types]", "[[class]]\nshare = 1\nshares = 1\n[types]"),
        ("[types]", "[[class]]\nshare = 1\nedns = 0.1\n[types]"),
        ("[types]", "[[class]]\nshare = 1\ncount = 16777215\n[[class]]\nshare = 1\n[types]"),
        ("[types]", "[clients]\naddresses = \"a\"\n[[class]]\nshare = 1\n[[class]]\nshare = 1\n[types]"),
        ("[types]", "[[class]]\nshare = 1\nsizes-do = { 70000 = 1 }\n[types]"),
        ("[types]", "[[class]]\nshare = 1\ndo = 0\nsizes-do = { 700 = 1 }\n[types]"),
        ("[types]", "[arrivals]\nlaw = \"uneven\"\n[types]"),
        ("[types]", "[arrivals]\nlaw = \"intervals\"\n[types]"),
        ("[types]", "[arrivals]\nquantiles-us = [1, 2]\n[types]"),
        ("[types]", "[arrivals]\nlaw = \"intervals\"\nquantiles-us = [2, 1]\n[types]"),
        ("[types]", "[arrivals]\nrate = 0\n[types]"),
        ("[types]", "[background]\nshare = 2.0\n[types]"),
        ("[types]", "[background]\nunder = \"a..b\"\n[types]"),
        ("[types]", "[background]\nlabel = 64\n[types]"),
        ("[types]", "[background]\ntypes = { AA = 1 }\n[types]"),
    ];
    let mut shown = String::new();
    for (from, to) in cases {
        let error = Profile::parse(&GOOD.replacen(from, to, 1), "my.toml").expect_err(to);
        shown += &format!("{}\n    {error}\n", to.replace('\n', " | "));
    }
    insta::assert_snapshot!(shown);
}

/// Weights of some of these keys, not all zero.
fn weights<K: Ord + Clone + std::fmt::Debug + 'static>(
    keys: Vec<K>,
) -> impl Strategy<Value = BTreeMap<K, f64>> {
    let weight = prop_oneof![0.001..1.0f64, (1u64..1_000_000).prop_map(|n| n as f64), Just(1e15)];
    prop::collection::btree_map(prop::sample::select(keys), weight, 0..4)
}

/// Names with shares that are not more than 1 together.
fn popular() -> impl Strategy<Value = BTreeMap<Name, f64>> {
    let label = prop::collection::vec(any::<u8>(), 1..10);
    let name = prop::collection::vec(label, 0..4).prop_map(|labels| {
        let wire: Vec<u8> =
            labels.iter().flat_map(|l| [&[l.len() as u8], &l[..]].concat()).chain([0]).collect();
        Name::from_wire(&wire).unwrap()
    });
    prop::collection::btree_map(name, 0.0..0.2f64, 0..5)
}

prop_compose! {
    fn any_class(alone: bool)(
        share in 0.1..9.0f64,
        (clients, zipf, ipv6) in (1u32..100_000, 0.0..10.0f64, 0.0..1.0f64),
        file in prop::option::weighted(0.3, "[a-z\"\\\\é/ ]{1,9}"),
        (edns, of_edns, nonexistent) in (0.01..1.0f64, 0.0..1.0f64, 0.01..1.0f64),
        (rd, df, tcp) in (0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64),
        size in any::<u16>(),
        edns_sizes in weights(vec![512u16, 1232, 4096]),
        edns_sizes_do in weights(vec![0u16, 1400, 65535]),
    ) -> Class {
        let clients = if file.is_some() { (1, 1.0, 0.0) } else { (clients, zipf, ipv6) };
        let mut edns_sizes = edns_sizes;
        edns_sizes.insert(size, 1.0);
        let do_bit = if edns_sizes_do.is_empty() { 0.0 } else { edns * of_edns.max(0.1) };
        Class {
            share: if alone { 1.0 } else { share },
            clients: clients.0, zipf: clients.1, ipv6: clients.2,
            addresses: file.map(|file| AddressFile { file: file.into(), said: String::new() }),
            edns, do_bit, edns_sizes, edns_sizes_do, nonexistent, rd, df, tcp,
        }
    }
}

/// Shapes of so many labels at least.
fn any_shapes(least: usize) -> impl Strategy<Value = BTreeMap<Shape, f64>> {
    let shape = prop::collection::vec(1u8..=20, least..5).prop_map(|lengths| Shape::new(&lengths).unwrap());
    prop::collection::btree_map(shape, 0.001..1e9f64, 0..6)
}

prop_compose! {
    fn any_profile()(
        about in any::<String>(),
        classes in prop_oneof![
            any_class(true).prop_map(|class| vec![class]),
            prop::collection::vec(any_class(false), 2..5),
        ],
        (sequential, types_of_zone) in any::<(bool, bool)>(),
        lists in prop::collection::vec(("[a-z=#\"]{1,9}", 0.001..1e15f64, any::<bool>()), 0..3),
        (popular, popular_nonexistent) in (popular(), popular()),
        lengths in weights((1u8..=63).collect()),
        (shapes, shapes_nonexistent) in (any_shapes(0), any_shapes(1)),
        (below, below_nonexistent) in (prop::collection::vec(0.1..9.0f64, 1..9), prop::collection::vec(0.1..9.0f64, 1..20)),
        (types, types_itself, types_nonexistent, flood) in
            (weights(vec![1u16, 2, 28, 65280]), weights(vec![2u16, 48]), weights(vec![12u16, 99]), weights(vec![16u16, 255])),
        (no_checksum, bad_checksum, flooded) in (0.0..0.5f64, 0.0..0.5f64, 0.0..1.0f64),
        ports in weights(vec![Port::Random, Port::Own, Port::Number(53), Port::Number(65535)]),
        law in prop_oneof![
            Just(Law::Even),
            Just(Law::Poisson),
            prop::collection::vec(0.01..1e6f64, 2..30).prop_map(|mut q| {
                q.sort_by(f64::total_cmp);
                Law::Intervals(q)
            }),
        ],
        (rate, retry) in (prop::option::of(0.001..1e9f64), prop::option::of(0.0..1.0f64)),
        (under, label) in (prop::sample::select(vec!["apex", "names", "a.b."]), 1u8..64),
    ) -> Profile {
        let list = |(file, weight, exist): (String, f64, bool)| NameList { weight, exist, ..NameList::new(file) };
        let mut types = types;
        types.insert(1, 3.0);
        let flood = if flood.is_empty() { [(1, 1.0)].into() } else { flood };
        let said = (!shapes.is_empty(), !shapes_nonexistent.is_empty());
        Profile {
            about, classes, popular, popular_nonexistent, shapes, types_of_zone, types, types_itself, types_nonexistent,
            no_checksum, bad_checksum, ports, law, rate, retry,
            order: if sequential { Order::Sequential } else { Order::Uniform },
            lists: lists.into_iter().map(list).collect(),
            // What shapes say is not said otherwise too.
            below: if said.0 { vec![1.0] } else { below },
            below_nonexistent: if said.1 { vec![1.0] } else { below_nonexistent.into_iter().take(9).collect() },
            lengths: if said.1 { Default::default() } else { lengths },
            shapes_nonexistent,
            background: Background { share: flooded, under: under.parse().unwrap(), label, types: flood },
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(profile in any_profile()) {
        let text = profile.to_toml();
        let mut again = Profile::parse(&text, "p.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
        again.lists.iter_mut().for_each(|list| list.said.clear());
        again.classes.iter_mut().filter_map(|c| c.addresses.as_mut()).for_each(|a| a.said.clear());
        prop_assert_eq!(again, profile, "{}", text);
    }
}

#[test]
fn written_profiles_say_what_is_what() {
    let text = |name: &str| Profile::load(name).unwrap().to_toml();
    insta::assert_snapshot!([text("rzaia"), text("nominet")].join("----\n"));
    for (name, _) in BUILT_IN {
        assert_eq!(Profile::parse(&text(name), name).unwrap(), Profile::load(name).unwrap());
    }
}
