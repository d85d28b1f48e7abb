//! Functions of DNS.
//!
//! A value that is none (a name that cannot be parsed, an address that is none) gives NULL.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int64Array, Int64Builder, StringArray, StringBuilder,
};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::expr_fn::SimpleScalarUDF;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Signature, TypeSignature, Volatility};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::name::{self, Name};

/// A function: its name with its arguments, what it gives, and itself.
pub type Function = (&'static str, &'static str, fn() -> ScalarUDF);

/// All of them.
pub const ALL: &[Function] = &[
    ("type_name(qtype)", "the name of a record type: 28 is AAAA", || of_number("type_name", type_name)),
    ("class_name(qclass)", "the name of a class: 1 is IN", || of_number("class_name", class_name)),
    ("rcode_name(rcode)", "the name of a response code: 3 is NXDOMAIN", || {
        of_number("rcode_name", rcode_name)
    }),
    ("opcode_name(opcode)", "the name of an operation: 5 is UPDATE", || {
        of_number("opcode_name", opcode_name)
    }),
    ("under(qname, zone)", "whether a name is the zone's, or one below it, in any case", under),
    ("tld(qname)", "the last label of a name, in lower case: com.; the root's is .", || of_text("tld", tld)),
    ("labels(qname)", "how many labels a name has, without the root's", labels),
    (
        "ip_prefix(address, v4[, v6])",
        "the network of an address: ip_prefix(src, 24, 48); without v6, addresses of IPv6 are shortened to v4, too",
        ip_prefix,
    ),
    ("reverse_name(address)", "the name of an address under in-addr.arpa or ip6.arpa", || {
        of_text("reverse_name", reverse_name)
    }),
];

/// Functions of a session.
pub fn all() -> impl Iterator<Item = ScalarUDF> {
    ALL.iter().map(|(_, _, make)| make())
}

fn function(
    name: &str,
    arguments: Vec<Vec<DataType>>,
    gives: DataType,
    of: impl Fn(&[ArrayRef]) -> ArrayRef + Send + Sync + 'static,
) -> ScalarUDF {
    let signature =
        Signature::one_of(arguments.into_iter().map(TypeSignature::Exact).collect(), Volatility::Immutable);
    let call = move |values: &[ColumnarValue]| -> Result<ColumnarValue> {
        let all_scalar = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let array = of(&ColumnarValue::values_to_arrays(values)?);
        if all_scalar {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    };
    ScalarUDF::from(SimpleScalarUDF::new_with_signature(name, signature, gives, Arc::new(call)))
}

fn of_number(name: &str, text: fn(i64) -> Option<String>) -> ScalarUDF {
    function(name, vec![vec![DataType::Int64]], DataType::Utf8, move |arrays| {
        let numbers: &Int64Array = arrays[0].as_primitive::<Int64Type>();
        let mut out = StringBuilder::new();
        // The same number comes again and again.
        let mut last: Option<(i64, Option<String>)> = None;
        for number in numbers {
            let Some(number) = number else {
                out.append_null();
                continue;
            };
            if last.as_ref().is_none_or(|(known, _)| *known != number) {
                last = Some((number, text(number)));
            }
            out.append_option(last.as_ref().and_then(|(_, text)| text.as_deref()));
        }
        Arc::new(out.finish())
    })
}

fn of_text(name: &str, text: fn(&str, &mut String) -> Option<()>) -> ScalarUDF {
    function(name, vec![vec![DataType::Utf8]], DataType::Utf8, move |arrays| {
        let (mut out, mut made) = (StringBuilder::new(), String::new());
        for value in strings(&arrays[0]) {
            made.clear();
            let some = value.and_then(|value| text(value, &mut made));
            out.append_option(some.map(|()| made.as_str()));
        }
        Arc::new(out.finish())
    })
}

fn strings(array: &ArrayRef) -> &StringArray {
    array.as_string::<i32>()
}

fn type_name(number: i64) -> Option<String> {
    Some(wire::rtype::to_text(u16::try_from(number).ok()?).to_string())
}

fn class_name(number: i64) -> Option<String> {
    Some(wire::class::to_text(u16::try_from(number).ok()?))
}

fn rcode_name(number: i64) -> Option<String> {
    Some(wire::rcode::extended_to_text(u16::try_from(number).ok()?))
}

fn opcode_name(number: i64) -> Option<String> {
    Some(trace::facts::opcode_to_text(u8::try_from(number).ok()?))
}

fn parsed(name: &str) -> Option<Name> {
    Name::parse_text(name, Some(b"\0")).ok()
}

fn tld(name: &str, out: &mut String) -> Option<()> {
    let name = parsed(name)?;
    let last = name::labels(name.as_wire()).filter(|label| !label.is_empty()).last().unwrap_or_default();
    let mut wire = Vec::with_capacity(last.len() + 2);
    if !last.is_empty() {
        wire.push(last.len() as u8);
        wire.extend(last.iter().map(u8::to_ascii_lowercase));
    }
    wire.push(0);
    let mut text = Vec::new();
    name::write_text(&wire, &mut text);
    out.push_str(str::from_utf8(&text).ok()?);
    Some(())
}

fn labels() -> ScalarUDF {
    function("labels", vec![vec![DataType::Utf8]], DataType::Int64, |arrays| {
        let mut out = Int64Builder::new();
        let count = |name: &str| Some(parsed(name)?.label_count() as i64);
        strings(&arrays[0]).iter().for_each(|value| out.append_option(value.and_then(count)));
        Arc::new(out.finish())
    })
}

fn under() -> ScalarUDF {
    function("under", vec![vec![DataType::Utf8, DataType::Utf8]], DataType::Boolean, |arrays| {
        let (names, zones) = (strings(&arrays[0]), strings(&arrays[1]));
        let mut out = BooleanBuilder::new();
        let mut zone: Option<(String, Option<Name>)> = None;
        for n in 0..names.len() {
            if names.is_null(n) || zones.is_null(n) {
                out.append_null();
                continue;
            }
            if zone.as_ref().is_none_or(|(text, _)| text != zones.value(n)) {
                zone = Some((zones.value(n).to_owned(), parsed(zones.value(n))));
            }
            let zone = zone.as_ref().and_then(|(_, zone)| zone.as_ref());
            let name = parsed(names.value(n));
            out.append_option(name.zip(zone).map(|(name, zone)| name.is_under(zone.as_wire())));
        }
        Arc::new(out.finish())
    })
}

fn ip_prefix() -> ScalarUDF {
    use DataType::{Int64, Utf8};
    function("ip_prefix", vec![vec![Utf8, Int64], vec![Utf8, Int64, Int64]], Utf8, |arrays| {
        let mut out = StringBuilder::new();
        let length = |array: &ArrayRef, n: usize| {
            let lengths: &Int64Array = array.as_primitive::<Int64Type>();
            (!lengths.is_null(n)).then(|| lengths.value(n))
        };
        for (n, address) in strings(&arrays[0]).iter().enumerate() {
            let prefix = |address: &str| {
                let address: IpAddr = address.parse().ok()?;
                let of = &arrays[if address.is_ipv4() || arrays.len() < 3 { 1 } else { 2 }];
                let length = u32::try_from(length(of, n)?).ok()?;
                let network: IpAddr = match address {
                    IpAddr::V4(a) => {
                        let mask = u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0);
                        Ipv4Addr::from_bits(a.to_bits() & mask).into()
                    }
                    IpAddr::V6(a) => {
                        let mask = u128::MAX.checked_shl(128u32.checked_sub(length)?).unwrap_or(0);
                        Ipv6Addr::from_bits(a.to_bits() & mask).into()
                    }
                };
                Some(format!("{network}/{length}"))
            };
            out.append_option(address.and_then(prefix));
        }
        Arc::new(out.finish())
    })
}

fn reverse_name(address: &str, out: &mut String) -> Option<()> {
    use std::fmt::Write;
    match address.parse().ok()? {
        IpAddr::V4(a) => {
            let [a, b, c, d] = a.octets();
            write!(out, "{d}.{c}.{b}.{a}.in-addr.arpa.").ok()
        }
        IpAddr::V6(a) => {
            let nibbles = a.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            for nibble in nibbles {
                write!(out, "{nibble:x}.").ok()?;
            }
            out.push_str("ip6.arpa.");
            Some(())
        }
    }
}
