//! The columns: name, type and what is in them, in one table.

use super::row::{Parts, Row, Side};
use crate::read::ChecksumState;
use arrow::array::TimestampMicrosecondBuilder;
use arrow::array::{ArrayRef, BooleanBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use measure::Nanos;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::name;

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// INT32.
    Int,
    /// INT64.
    Long,
    /// BOOLEAN.
    Bool,
    /// TIMESTAMP in microseconds, UTC.
    Time,
    /// STRING.
    Text,
}

/// Where a column's values come from; `None` is NULL.
#[derive(Clone, Copy)]
enum Value {
    Int(fn(&Row) -> Option<i32>),
    Long(fn(&Row) -> Option<i64>),
    Bool(fn(&Row) -> Option<bool>),
    /// Of nanoseconds since 1970.
    Time(fn(&Row) -> Option<Nanos>),
    /// Appends ASCII text.
    Text(fn(&Row, &mut Vec<u8>) -> Option<()>),
}

use Value::{Bool, Int, Long, Text, Time};

/// EDNS options by number (IANA's registry).
mod code {
    pub const NSID: u16 = 3;
    pub const DAU: u16 = 5;
    pub const DHU: u16 = 6;
    pub const N3U: u16 = 7;
    pub const CLIENT_SUBNET: u16 = 8;
    pub const PADDING: u16 = 12;
    pub const KEY_TAG: u16 = 14;
    pub const EXTENDED_ERROR: u16 = 15;
}

/// A column: its name, whether every row has a value, the parts of a row that it needs, and the value.
type Column = (&'static str, bool, Parts, Value);

/// Of the query, and no more than its header and question's type.
const QUERY: Parts = Parts { answer: false, name: false, edns: false };
const NAME: Parts = Parts { name: true, ..QUERY };
const EDNS: Parts = Parts { edns: true, ..QUERY };
const ANSWER: Parts = Parts { answer: true, ..QUERY };
const ANSWER_EDNS: Parts = Parts { edns: true, ..ANSWER };

const COLUMNS: &[Column] = &[
    ("id", true, QUERY, Int(|r| Some(r.query.header().id().into()))),
    ("time", true, QUERY, Time(|r| Some(r.query.at))),
    ("time_ns", true, QUERY, Long(|r| Some(long(r.query.at)))),
    ("qname", false, NAME, Text(qname)),
    ("frag", false, QUERY, Int(|r| r.query.fragments.map(int))),
    ("ttl", true, QUERY, Int(|r| Some(r.query.ttl.into()))),
    ("ipv", true, QUERY, Int(|r| Some(if r.from.is_ipv4() { 4 } else { 6 }))),
    ("prot", true, QUERY, Int(|r| Some(if r.tcp { 6 } else { 17 }))),
    ("src", true, QUERY, Text(|r, out| address(r.from.ip(), out))),
    ("srcp", true, QUERY, Int(|r| Some(r.from.port().into()))),
    ("dst", true, QUERY, Text(|r, out| address(r.to.ip(), out))),
    ("dstp", true, QUERY, Int(|r| Some(r.to.port().into()))),
    ("aa", false, ANSWER, Bool(|r| Some(r.answered()?.header().aa()))),
    ("tc", false, ANSWER, Bool(|r| Some(r.answered()?.header().tc()))),
    ("rd", true, QUERY, Bool(|r| Some(r.query.header().rd()))),
    ("ra", false, ANSWER, Bool(|r| Some(r.answered()?.header().ra()))),
    ("z", true, QUERY, Bool(|r| Some(r.query.header().z()))),
    ("ad", false, ANSWER, Bool(|r| Some(r.answered()?.header().ad()))),
    ("cd", true, QUERY, Bool(|r| Some(r.query.header().cd()))),
    ("ancount", false, ANSWER, Int(|r| Some(r.answered()?.header().ancount().into()))),
    ("arcount", false, ANSWER, Int(|r| Some(r.answered()?.header().arcount().into()))),
    ("nscount", false, ANSWER, Int(|r| Some(r.answered()?.header().nscount().into()))),
    ("qdcount", true, QUERY, Int(|r| Some(r.query.header().qdcount().into()))),
    ("opcode", true, QUERY, Int(|r| Some(r.query.header().opcode().into()))),
    ("rcode", false, ANSWER_EDNS, Int(|r| r.answered().map(rcode))),
    ("qtype", false, QUERY, Int(|r| Some(r.question?.0.into()))),
    ("qclass", false, QUERY, Int(|r| Some(r.question?.1.into()))),
    ("edns_udp", false, EDNS, Int(|r| Some(r.query.opt?.udp_size.into()))),
    ("edns_version", false, EDNS, Int(|r| Some(r.query.opt?.version.into()))),
    ("edns_do", false, EDNS, Bool(|r| Some(r.query.opt?.do_bit()))),
    ("edns_nsid", false, ANSWER_EDNS, Text(nsid)),
    ("edns_dnssec_dau", false, EDNS, Text(|r, out| numbers(r.option(code::DAU)?, 1, out))),
    ("edns_dnssec_dhu", false, EDNS, Text(|r, out| numbers(r.option(code::DHU)?, 1, out))),
    ("edns_dnssec_n3u", false, EDNS, Text(|r, out| numbers(r.option(code::N3U)?, 1, out))),
    ("edns_client_subnet", false, EDNS, Text(|r, out| subnet(r.option(code::CLIENT_SUBNET)?, out))),
    ("edns_padding", false, EDNS, Int(|r| Some(r.option(code::PADDING)?.len() as i32))),
    ("edns_keytag_count", false, EDNS, Int(|r| Some((r.option(code::KEY_TAG)?.len() / 2) as i32))),
    ("edns_keytag_list", false, EDNS, Text(|r, out| numbers(r.option(code::KEY_TAG)?, 2, out))),
    ("edns_other", false, EDNS, Text(other)),
    ("edns_ext_error", false, ANSWER_EDNS, Text(extended_errors)),
    ("labels", false, NAME, Int(|r| Some(name::label_count(r.name()?) as i32))),
    ("proc_time", false, ANSWER, Int(|r| r.answer.as_ref().map(|&(_, latency)| millis(latency)))),
    ("proc_time_ns", false, ANSWER, Long(|r| r.answer.as_ref().map(|&(_, latency)| long(latency)))),
    ("q_tc", true, QUERY, Bool(|r| Some(r.query.header().tc()))),
    ("q_ra", true, QUERY, Bool(|r| Some(r.query.header().ra()))),
    ("q_ad", true, QUERY, Bool(|r| Some(r.query.header().ad()))),
    ("req_len", true, QUERY, Int(|r| Some(int(r.query.len as u64)))),
    ("req_ip_df", false, QUERY, Bool(|r| r.query.df)),
    ("req_checksum", false, QUERY, Text(|r, out| checksum(r.query.checksum?, out))),
    ("tcp_hs_rtt", false, QUERY, Int(|r| r.handshake.map(millis))),
    ("tcp_hs_rtt_ns", false, QUERY, Long(|r| r.handshake.map(long))),
    ("res_time", false, ANSWER, Time(|r| Some(r.answered()?.at))),
    ("res_time_ns", false, ANSWER, Long(|r| Some(long(r.answered()?.at)))),
    ("res_len", false, ANSWER, Int(|r| Some(int(r.answered()?.len as u64)))),
    ("resp_frag", false, ANSWER, Int(|r| r.answered()?.fragments.map(int))),
    ("res_ttl", false, ANSWER, Int(|r| Some(r.answered()?.ttl.into()))),
    ("res_ip_df", false, ANSWER, Bool(|r| r.answered()?.df)),
    ("res_checksum", false, ANSWER, Text(|r, out| checksum(r.answered()?.checksum?, out))),
    ("res_edns_udp", false, ANSWER_EDNS, Int(|r| Some(r.answered()?.opt?.udp_size.into()))),
    ("res_edns_do", false, ANSWER_EDNS, Bool(|r| Some(r.answered()?.opt?.do_bit()))),
];

/// Columns whose values seldom repeat: a dictionary would be given up after it was filled.
pub(crate) const DIVERSE: &[&str] = &["id", "time", "time_ns", "proc_time_ns", "res_time", "res_time_ns"];

/// The columns in order: name, type, and whether every row has a value.
pub fn columns() -> impl Iterator<Item = (&'static str, Kind, bool)> {
    COLUMNS.iter().map(|&(name, required, _, value)| {
        let kind = match value {
            Int(_) => Kind::Int,
            Long(_) => Kind::Long,
            Bool(_) => Kind::Bool,
            Time(_) => Kind::Time,
            Text(_) => Kind::Text,
        };
        (name, kind, required)
    })
}

/// The columns as Arrow names them.
pub fn schema() -> Arc<Schema> {
    let fields: Vec<Field> = columns()
        .map(|(name, kind, required)| {
            let data = match kind {
                Kind::Int => DataType::Int32,
                Kind::Long => DataType::Int64,
                Kind::Bool => DataType::Boolean,
                Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                Kind::Text => DataType::Utf8,
            };
            Field::new(name, data, !required)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// The parts of rows that these columns, by their numbers, need.
pub(super) fn parts(columns: &[usize]) -> Parts {
    columns.iter().map(|&n| COLUMNS[n].2).fold(QUERY, Parts::and)
}

/// The rows' values in these columns, by their numbers.
pub(crate) fn arrays(rows: &[Row], columns: impl Iterator<Item = usize>) -> impl Iterator<Item = ArrayRef> {
    let mut text = Vec::new();
    columns.map(move |n| -> ArrayRef {
        let (.., value) = COLUMNS[n];
        match value {
            Int(of) => {
                let mut array = Int32Builder::with_capacity(rows.len());
                rows.iter().for_each(|row| array.append_option(of(row)));
                Arc::new(array.finish())
            }
            Long(of) => {
                let mut array = Int64Builder::with_capacity(rows.len());
                rows.iter().for_each(|row| array.append_option(of(row)));
                Arc::new(array.finish())
            }
            Bool(of) => {
                let mut array = BooleanBuilder::with_capacity(rows.len());
                rows.iter().for_each(|row| array.append_option(of(row)));
                Arc::new(array.finish())
            }
            Time(of) => {
                let mut array = TimestampMicrosecondBuilder::with_capacity(rows.len()).with_timezone("UTC");
                rows.iter().for_each(|row| array.append_option(of(row).map(|at| long(at / 1000))));
                Arc::new(array.finish())
            }
            Text(of) => {
                let mut array = StringBuilder::with_capacity(rows.len(), 0);
                for row in rows {
                    text.clear();
                    let some = of(row, &mut text);
                    array.append_option(some.map(|()| str::from_utf8(&text).expect("ASCII is written")));
                }
                Arc::new(array.finish())
            }
        }
    })
}

/// As far as it goes: a capture may claim any time.
fn long(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn int(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Whole milliseconds.
fn millis(nanos: Nanos) -> i32 {
    int(nanos / 1_000_000)
}

fn rcode(answer: &Side) -> i32 {
    i32::from(answer.header().rcode()) | answer.opt.map_or(0, |opt| i32::from(opt.extended_rcode) << 4)
}

fn put(text: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    out.write_fmt(text).expect("memory takes all that is written");
}

fn qname(row: &Row, out: &mut Vec<u8>) -> Option<()> {
    name::write_text(row.name()?, out);
    Some(())
}

fn address(address: IpAddr, out: &mut Vec<u8>) -> Option<()> {
    match address {
        IpAddr::V4(a) => put(format_args!("{a}"), out),
        IpAddr::V6(a) => put(format_args!("{a}"), out),
    }
    Some(())
}

/// As in JSON.
fn checksum(state: ChecksumState, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(match state {
        ChecksumState::Right => b"right",
        ChecksumState::Absent => b"absent",
        ChecksumState::Bad => b"bad",
        ChecksumState::Offloaded => b"offloaded",
        ChecksumState::Unknown => b"unknown",
    });
    Some(())
}

/// Big-endian numbers of `size` octets, with commas between.
fn numbers(data: &[u8], size: usize, out: &mut Vec<u8>) -> Option<()> {
    for (n, number) in data.chunks_exact(size).enumerate() {
        let number = number.iter().fold(0u32, |sum, &octet| sum << 8 | u32::from(octet));
        put(format_args!("{}{number}", if n > 0 { "," } else { "" }), out);
    }
    Some(())
}

/// The server's name for itself in the answer (RFC 5001): text where it is printable, otherwise 0x and hexadecimal digits.
fn nsid(row: &Row, out: &mut Vec<u8>) -> Option<()> {
    let (_, data) = row.answer_options().find(|&(code, _)| code == code::NSID)?;
    if data.iter().all(|octet| matches!(octet, b' '..=b'~')) {
        out.extend_from_slice(data);
    } else {
        out.extend_from_slice(b"0x");
        data.iter().for_each(|octet| put(format_args!("{octet:02x}"), out));
    }
    Some(())
}

/// Address and length of the source prefix (RFC 7871, section 6); NULL where it is malformed.
fn subnet(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&[_, family, source, _], prefix) = data.split_first_chunk::<4>()?;
    let address: IpAddr = match (data[0], family) {
        (0, 1) => {
            let mut octets = [0; 4];
            octets.get_mut(..prefix.len())?.copy_from_slice(prefix);
            Ipv4Addr::from(octets).into()
        }
        (0, 2) => {
            let mut octets = [0; 16];
            octets.get_mut(..prefix.len())?.copy_from_slice(prefix);
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    put(format_args!("{address}/{source}"), out);
    Some(())
}

/// Codes of the query's options that have no column of their own; NSID is a wish in a query, and no column's.
fn other(row: &Row, out: &mut Vec<u8>) -> Option<()> {
    use code::{CLIENT_SUBNET, DAU, DHU, KEY_TAG, N3U, PADDING};
    let known = [DAU, DHU, N3U, CLIENT_SUBNET, PADDING, KEY_TAG];
    list(row.options().map(|(code, _)| code).filter(|code| !known.contains(code)), out)
}

/// Codes of the answer's extended errors (RFC 8914).
fn extended_errors(row: &Row, out: &mut Vec<u8>) -> Option<()> {
    let errors = row.answer_options().filter(|&(code, _)| code == code::EXTENDED_ERROR);
    list(errors.filter_map(|(_, data)| Some(u16::from_be_bytes(*data.first_chunk()?))), out)
}

/// With commas between; NULL where there is none.
fn list(codes: impl Iterator<Item = u16>, out: &mut Vec<u8>) -> Option<()> {
    for (n, code) in codes.enumerate() {
        put(format_args!("{}{code}", if n > 0 { "," } else { "" }), out);
    }
    (!out.is_empty()).then_some(())
}
