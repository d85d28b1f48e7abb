//! `dnsrack trace edit`

use crate::output::{self, Common, Failure, Status, time};
use clap::{Args, ValueEnum};
use measure::Nanos;
use measure::clock::SECOND;
use measure::units::{self, grouped};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::anonymize::Key;
use trace::edit::{Edit, Input, Kind, Net, Output, Summary, When};
use wire::name::{Name, ROOT};
use wire::ranges::Range;

/// `trace edit`.
#[derive(Debug, Args)]
pub struct EditFlags {
    /// Captures: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4). Several are merged by time; '-' is standard input
    #[arg(value_name = "CAPTURE", required = true)]
    captures: Vec<PathBuf>,
    /// File to write; '-' is standard output. With --slot, a folder
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Format: pcap, pcapng, or queries (dnsperf's "name type" lines) [default: pcapng if OUT ends so, otherwise pcap]
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    setters: Setters,
    /// Port of the servers; several are possible
    #[arg(long = "port", value_name = "PORT", default_value = "53")]
    ports: Vec<u16>,
}

/// Filters of what is kept. Those for DNS messages read the trace as messages: fragments go out in one packet, TCP connections are
/// rebuilt around what is kept. With the others alone every packet stays as it is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keep only")]
struct Filters {
    /// Keep queries (with --if-response: messages of both kinds, but no other packets)
    #[arg(long)]
    if_query: bool,
    /// Keep responses
    #[arg(long)]
    if_response: bool,
    /// Keep messages about names at or below this one
    #[arg(long, value_name = "NAME", value_parser = name)]
    if_under: Option<Name>,
    /// Keep messages about names whose label directly below --if-under's name (or the root) is in a range, as in 'zone slice
    /// --ranges': g-n,s or google..mango
    #[arg(long, value_name = "RANGES", value_delimiter = ',')]
    if_names: Vec<Range>,
    /// Keep queries with this EDNS size, and their responses
    #[arg(long, value_name = "N")]
    if_edns_size: Option<u16>,
    /// Keep queries with the DO bit, and their responses
    #[arg(long)]
    if_do: bool,
    /// Keep packets of clients in this block; may be repeated
    #[arg(long, value_name = "CIDR")]
    if_client: Vec<Net>,
    /// Keep packets of clients outside this block; may be repeated
    #[arg(long, value_name = "CIDR")]
    not_client: Vec<Net>,
    /// Keep packets from this time on: 2009-03-31T00:00:00.5Z, or +30s after the first packet
    #[arg(long, value_name = "TIME", value_parser = when)]
    from: Option<When>,
    /// Keep packets before this time
    #[arg(long, value_name = "TIME", value_parser = when)]
    to: Option<When>,
    /// Keep every Nth of the queries that all other filters keep, and their responses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Write one file for each slot of time (UTC multiples), named by its beginning
    #[arg(long, value_name = "DURATION", value_parser = slot)]
    slot: Option<Nanos>,
}

/// The changes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Change")]
struct Setters {
    /// Set the servers' address, at most one per family; packets of a family without one are left out
    #[arg(long, value_name = "IP")]
    set_dst: Vec<IpAddr>,
    /// Give clients addresses of this block, one each, in the order of their first packets; at most one block per family;
    /// packets of a family without one are left out. Needs 10 to 20 octets of memory for an IPv4 client, 25 to 50 for an IPv6
    /// client
    #[arg(long, value_name = "CIDR")]
    set_src_net: Vec<Net>,
    /// Set the MAC addresses of client and server; packets without an Ethernet header get one
    #[arg(long, value_name = "SRC,DST", value_parser = macs)]
    set_mac: Option<([u8; 6], [u8; 6])>,
    /// Set the EDNS size of queries that have one
    #[arg(long, value_name = "N")]
    set_edns_size: Option<u16>,
    /// Anonymise all addresses (IP, quoted by ICMP, client subnets in EDNS) with the key in this file, keeping prefixes
    /// (Crypto-PAn). MAC addresses are replaced by fixed ones. The file has 64 hexadecimal digits, and is made if it does not
    /// exist. Names in questions and records are kept, and so are addresses in records. Packets whose content cannot be read
    /// (other ports and protocols) are left out
    #[arg(long, value_name = "KEYFILE")]
    anonymize: Option<PathBuf>,
    /// Leave wrong checksums wrong; otherwise those of whole packets are corrected. Absent checksums stay absent either way
    #[arg(long)]
    keep_checksums: bool,
}

/// The output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Pcap,
    Pcapng,
    Queries,
}

fn name(text: &str) -> Result<Name, String> {
    Name::parse_text(text, Some(ROOT)).map_err(|e| e.to_string())
}

fn when(text: &str) -> Result<When, String> {
    match text.strip_prefix('+') {
        Some(after) => units::duration(after).map(When::After),
        None => zone::time::parse_nanos(text)
            .map(When::At)
            .map_err(|e| format!("{e}, or a duration after the first packet such as +30s")),
    }
}

fn slot(text: &str) -> Result<Nanos, String> {
    match units::duration(text)? {
        length if length >= SECOND && length.is_multiple_of(SECOND) => Ok(length),
        _ => Err("a slot must be a second or a multiple of it".into()),
    }
}

fn macs(text: &str) -> Result<([u8; 6], [u8; 6]), String> {
    let mac = |text: &str| -> Option<[u8; 6]> {
        let parts: Option<Vec<u8>> = text
            .split([':', '-'])
            .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| (1..=2).contains(&part.len())))
            .collect();
        parts?.try_into().ok()
    };
    let pair = text.split_once(',').and_then(|(client, server)| Some((mac(client)?, mac(server)?)));
    pair.ok_or_else(|| format!("'{text}' is not two MAC addresses: give 02:00:00:00:00:01,02:00:00:00:00:02"))
}

/// `trace edit --json`.
#[derive(Serialize)]
struct Edited<'a> {
    output: &'a Path,
    format: Kind,
    #[serde(flatten)]
    summary: &'a Summary,
    /// The files of `slots`, in order.
    files: Vec<PathBuf>,
}

/// Runs it.
pub fn run(flags: &EditFlags, common: &Common) -> output::Result {
    let kind = kind(flags);
    let edit = edit(flags, kind)?;
    common.no_two_outputs(&flags.output)?;
    let mut progress = common.progress("packets", 0);
    let mut report = |packets| progress.set(packets);
    let (summary, files) = match flags.filters.slot {
        None => {
            let summary = output::write_output(&flags.output, |out| {
                Ok(edit.run(Input::Files(&flags.captures), Output::One(out), &mut report)?)
            })?;
            (summary, Vec::new())
        }
        Some(length) => slots(flags, &edit, length, &mut report)?,
    };
    progress.finish();
    let edited = Edited { output: &flags.output, format: kind, summary: &summary, files };
    if flags.output == Path::new("-") {
        eprint!("{}", sentences(&edited));
    } else {
        common.tell("trace.edit", &edited, || sentences(&edited))?;
    }
    Ok(Status::Done)
}

fn kind(flags: &EditFlags) -> Kind {
    let extension = flags.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match (flags.format, extension) {
        (Some(Format::Pcap), _) => Kind::Pcap,
        (Some(Format::Queries), _) => Kind::Queries,
        (Some(Format::Pcapng), _) | (None, "pcapng") => Kind::Pcapng,
        (None, _) => Kind::Pcap,
    }
}

/// The flags as the library wants them.
fn edit(flags: &EditFlags, kind: Kind) -> Result<Edit, Failure> {
    let EditFlags { filters: f, setters: s, .. } = flags;
    let output = flags.output.canonicalize().ok();
    let same = |c: &&PathBuf| output.is_some() && c.canonicalize().ok() == output;
    if let Some(input) = flags.captures.iter().find(same).filter(|input| input.is_file()) {
        return Err(Failure::usage(format!(
            "--output is {}, which is read: it would be overwritten",
            input.display()
        )));
    }
    let one_each = |v4: &dyn Fn(bool) -> usize, flag: &str| match v4(true) > 1 || v4(false) > 1 {
        true => Err(Failure::usage(format!("{flag} is given twice for one family: once per family"))),
        false => Ok(()),
    };
    one_each(&|v4| s.set_dst.iter().filter(|ip| ip.is_ipv4() == v4).count(), "--set-dst")?;
    one_each(&|v4| s.set_src_net.iter().filter(|net| net.is_ipv4() == v4).count(), "--set-src-net")?;
    if kind == Kind::Queries {
        if f.if_response && !f.if_query {
            return Err(Failure::usage(
                "--format queries with --if-response leaves nothing: lines are of queries",
            ));
        }
        let sets = !s.set_dst.is_empty()
            || !s.set_src_net.is_empty()
            || s.set_mac.is_some()
            || s.set_edns_size.is_some()
            || s.anonymize.is_some()
            || s.keep_checksums;
        if sets {
            return Err(Failure::usage(
                "--format queries has names and types alone: --set-..., --anonymize and --keep-checksums change nothing in it",
            ));
        }
    }
    Ok(Edit {
        kind,
        ports: flags.ports.clone(),
        if_query: f.if_query,
        if_response: f.if_response,
        if_under: f.if_under.clone(),
        if_names: f.if_names.clone(),
        if_edns_size: f.if_edns_size,
        if_do: f.if_do,
        if_clients: f.if_client.clone(),
        not_clients: f.not_client.clone(),
        from: f.from,
        to: f.to,
        every: f.every,
        set_dst_v4: s.set_dst.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None }),
        set_dst_v6: s.set_dst.iter().find_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None }),
        set_src_nets: s.set_src_net.clone(),
        set_mac: s.set_mac,
        set_edns_size: s.set_edns_size,
        anonymize: s.anonymize.as_deref().map(key).transpose()?,
        keep_checksums: s.keep_checksums,
    })
}

/// Reads the key, or makes one where there is none.
fn key(path: &Path) -> Result<Key, Failure> {
    let at = |e: io::Error| Failure { code: 1, message: format!("--anonymize: {}: {e}", path.display()) };
    match fs::read_to_string(path) {
        Ok(text) => text
            .parse()
            .map_err(|e| Failure { code: 1, message: format!("--anonymize: {}: {e}", path.display()) }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let key = Key::random();
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(at)?;
            file.write_all((key.to_hex() + "\n").as_bytes()).map_err(at)?;
            eprintln!(
                "{}: a new key was made; whoever has it can tell the addresses, and only with it others come out the same",
                path.display()
            );
            Ok(key)
        }
        Err(e) => Err(at(e)),
    }
}

/// Writes a file for each slot aside, and renames them when all are whole.
fn slots(
    flags: &EditFlags,
    edit: &Edit,
    length: Nanos,
    report: &mut dyn FnMut(u64),
) -> Result<(Summary, Vec<PathBuf>), Failure> {
    let folder = &flags.output;
    let at = |path: &Path, e: io::Error| Failure { code: 1, message: format!("{}: {e}", path.display()) };
    if folder == Path::new("-") {
        return Err(Failure::usage("--slot writes several files: --output must be a folder"));
    }
    let made = !folder.exists();
    fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
    let aside = measure::aside::folder_in(folder).map_err(|e| at(folder, e))?;
    let name = |start| slot_name(start, length, edit.kind);
    let mut open = |start: Nanos, again: bool| -> io::Result<Box<dyn Write>> {
        let path = aside.path().join(name(start));
        let file = if again { File::options().append(true).open(path)? } else { File::create_new(path)? };
        Ok(Box::new(BufWriter::with_capacity(1 << 18, file)))
    };
    let output = Output::Slots { length, open: &mut open };
    let result = edit.run(Input::Files(&flags.captures), output, report);
    if result.is_err() && made {
        drop(aside);
        // Where something else came into it, it is not ours to remove.
        let _ = fs::remove_dir(folder);
        return Err(result.expect_err("just seen").into());
    }
    let summary = result?;
    let mut files = Vec::new();
    for slot in &summary.slots {
        let to = folder.join(name(slot.start));
        fs::rename(aside.path().join(name(slot.start)), &to).map_err(|e| at(&to, e))?;
        files.push(to);
    }
    Ok((summary, files))
}

/// `2009-03-31T0100Z.pcap`; with seconds where slots are not whole minutes.
fn slot_name(start: Nanos, length: Nanos, kind: Kind) -> String {
    let shape = if length.is_multiple_of(60 * SECOND) { "%Y-%m-%dT%H%M" } else { "%Y-%m-%dT%H%M%S" };
    let name = time(start).strftime(shape);
    let ending = match kind {
        Kind::Pcap => "pcap",
        Kind::Pcapng => "pcapng",
        Kind::Queries => "queries",
    };
    format!("{name}Z.{ending}")
}

fn sentences(edited: &Edited<'_>) -> String {
    let Edited { output, format, summary: s, files } = edited;
    let what = if *format == Kind::Queries { "queries" } else { "packets" };
    let mut out = format!(
        "{}: {} {what}, {} octets, of {} packets",
        output.display(),
        grouped(s.written),
        grouped(s.bytes),
        grouped(s.read)
    );
    if s.by_message {
        let _ = write!(out, "; {} of {} DNS messages kept", grouped(s.kept), grouped(s.messages));
    }
    out.push('\n');
    for (what, count) in [
        ("clients got an address", s.clients),
        ("wrong checksums made right", s.checksums_made_right),
        ("client subnets anonymised", s.subnets),
        ("EDNS sizes set", s.edns_sizes_set),
    ] {
        if count > 0 {
            let _ = writeln!(out, "{} {what}", grouped(count));
        }
    }
    for (reason, count) in s.dropped.iter() {
        let _ = writeln!(out, "left out: {} {reason}", grouped(count));
    }
    for (reason, count) in s.ignored.iter() {
        let _ = writeln!(out, "left out: {} {reason}", grouped(count));
    }
    for (file, slot) in files.iter().zip(&s.slots) {
        let _ = writeln!(out, "{}: {}", file.display(), grouped(slot.written));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_by_their_beginning() {
        let start = 1_238_461_200 * SECOND;
        assert_eq!(slot_name(start, 3600 * SECOND, Kind::Pcap), "2009-03-31T0100Z.pcap");
        assert_eq!(slot_name(start + 7 * SECOND, SECOND, Kind::Queries), "2009-03-31T010007Z.queries");
    }

    #[test]
    fn people_type_times_and_addresses() {
        assert_eq!(when("+1.5s"), Ok(When::After(3 * SECOND / 2)));
        assert_eq!(when("2009-03-31T01:00:00.25Z"), Ok(When::At(1_238_461_200 * SECOND + SECOND / 4)));
        assert!(when("later").unwrap_err().contains("+30s"));
        assert_eq!(macs("2:0:0:0:0:1,02-00-00-00-00-FF"), Ok(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 255])));
        for bad in ["", "2:0:0:0:0:1", "2:0:0:0:0:1,2:0:0:0:0", "2:0:0:0:0:1,2:0:0:0:0:100", "+2:0:0:0:0:1,x"]
        {
            assert!(macs(bad).is_err(), "{bad}");
        }
        assert!(slot("1h").is_ok() && slot("0").is_err() && slot("1.5s").is_err());
    }
}
