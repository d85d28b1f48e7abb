//! Zone profiles as text: places of keys, and writing.

use super::{Model, Profile};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The octet at which the value of a key stands; that of the table around it where the key is not given.
pub(super) fn position(text: &str, path: &[String]) -> usize {
    let Ok(document) = DeTable::parse(text) else { return 0 };
    let mut at = document.span().start;
    let mut table = Some(document.into_inner());
    for key in path {
        let Some(value) = table.as_mut().and_then(|t| t.remove(key.as_str())) else { break };
        at = value.span().start;
        table = match Spanned::into_inner(value) {
            DeValue::Table(inner) => Some(inner),
            _ => None,
        };
    }
    at
}

/// As [`Profile::to_toml`].
pub(super) fn write(p: &Profile) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = document(p, &mut out);
    out
}

fn document(p: &Profile, out: &mut String) -> std::fmt::Result {
    let (apex, labels, servers, ds) = (&p.apex, &p.labels, &p.servers, &p.ds);
    writeln!(
        out,
        "# A zone profile: see `dnsrack zone generate --profile`. Shares are 0 to 1, weights relative."
    )?;
    writeln!(out, "about = {}", quoted(&p.about))?;
    writeln!(out, "delegations = {}", p.delegations)?;

    writeln!(
        out,
        "\n# SOA and NS records at the apex. Timers: refresh, retry, expire, minimum; all in seconds."
    )?;
    writeln!(out, "[apex]\norigin = {}", quoted(&apex.origin))?;
    writeln!(out, "serial = {}\ntimers = {:?}", apex.serial, apex.timers)?;
    writeln!(out, "soa-ttl = {}\nns-ttl = {}", apex.soa_ttl, apex.ns_ttl)?;
    if let Some(mailbox) = &apex.mailbox {
        writeln!(out, "mailbox = {}", quoted(mailbox))?;
    }
    writeln!(out, "# The first is the SOA's primary.\nservers = [")?;
    for server in &apex.servers {
        writeln!(out, "    {},", quoted(server))?;
    }
    writeln!(out, "]")?;

    let model = match labels.model {
        Model::Words => "words",
        Model::Letters => "letters",
    };
    writeln!(
        out,
        "\n# Names of delegations: of words (second-level domains) or letters (TLDs); share of IDNs."
    )?;
    writeln!(out, "[labels]\nmodel = \"{model}\"\nidn = {}", labels.idn)?;
    writeln!(out, "# Weights of their lengths in octets, without IDNs.")?;
    weights("labels.lengths", &labels.lengths, out)?;

    writeln!(out, "\n[ns]\nttl = {}", p.ns.ttl)?;
    writeln!(out, "# Weights of the number of name servers of a delegation.")?;
    weights("ns.counts", &p.ns.counts, out)?;

    writeln!(
        out,
        "\n# Shares of NS records: inside the delegation; elsewhere, for it alone (own). The rest are servers\n\
         # of providers: their number for each delegation, chosen in proportion to rank^-exponent."
    )?;
    writeln!(out, "[servers]\ninside = {}\nown = {}", servers.inside, servers.own)?;
    writeln!(out, "providers = {}\nexponent = {}", servers.providers, servers.exponent)?;
    writeln!(
        out,
        "# Under which names own and providers' servers lie, with weights. A name in the zone has their glue;\n\
         # the zone's own name stands for any of its delegations."
    )?;
    writeln!(out, "[servers.under]")?;
    for (name, weight) in &servers.under {
        writeln!(out, "{} = {weight}", quoted(name))?;
    }

    writeln!(out, "\n# Shares of the servers in the zone that have an A, and an AAAA record.")?;
    writeln!(out, "[glue]\na = {}\naaaa = {}\nttl = {}", p.glue.a, p.glue.aaaa, p.glue.ttl)?;

    writeln!(
        out,
        "\n# Share of the delegations with DS records; weights of their number, algorithms, digest types."
    )?;
    writeln!(out, "[ds]\nshare = {}\nttl = {}", ds.share, ds.ttl)?;
    writeln!(out, "counts = {}", inline(&ds.counts))?;
    writeln!(out, "algorithms = {}", inline(&ds.algorithms))?;
    writeln!(out, "digests = {}", inline(&ds.digests))
}

fn weights<K: Display>(table: &str, weights: &BTreeMap<K, f64>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "[{table}]")?;
    weights.iter().try_for_each(|(k, w)| writeln!(out, "{k} = {w}"))
}

fn inline<K: Display>(weights: &BTreeMap<K, f64>) -> String {
    let pairs: Vec<String> = weights.iter().map(|(k, w)| format!("{k} = {w}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
