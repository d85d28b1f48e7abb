//! Records as text: what the scanner reads back unchanged.

use crate::codec;
use crate::scan::Record;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{name, rtype};

/// Appends one record as one line: owner, TTL, class, type and data with tabs between them.
pub fn write_record(record: &Record<'_>, out: &mut Vec<u8>) {
    name::write_text(record.owner, out);
    write_tail(record, out);
}

/// As [`write_record`], after an owner that was already written.
pub(crate) fn write_tail(record: &Record<'_>, out: &mut Vec<u8>) {
    write_head(record.ttl, record.class, record.rtype, out);
    write_rdata(record.rtype, record.rdata, out);
    out.push(b'\n');
}

/// Appends what stands between owner and data: TTL, class and type, each after a tab, and a tab.
pub(crate) fn write_head(ttl: u32, class: u16, rtype: u16, out: &mut Vec<u8>) {
    out.push(b'\t');
    write_number(ttl.into(), out);
    match class {
        1 => out.extend_from_slice(b"\tIN\t"),
        n => put(out, format_args!("\tCLASS{n}\t")),
    }
    write_type(rtype, out);
    out.push(b'\t');
}

/// The output of [`write_head`], for records of few TTLs and types: most of a zone's are alike.
#[derive(Default)]
pub(crate) struct Heads(Vec<(u32, u16, u16, Vec<u8>)>);

impl Heads {
    /// As [`write_head`].
    pub fn write(&mut self, ttl: u32, class: u16, rtype: u16, out: &mut Vec<u8>) {
        const KEPT: usize = 12;
        let same = |h: &&(u32, u16, u16, Vec<u8>)| (h.0, h.1, h.2) == (ttl, class, rtype);
        if let Some((.., head)) = self.0.iter().find(same) {
            return out.extend_from_slice(head);
        }
        let start = out.len();
        write_head(ttl, class, rtype, out);
        if self.0.len() < KEPT {
            self.0.push((ttl, class, rtype, out[start..].to_vec()));
        }
    }
}

/// Appends the name of a type.
pub(crate) fn write_type(rtype: u16, out: &mut Vec<u8>) {
    match rtype::name(rtype) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => put(out, format_args!("TYPE{rtype}")),
    }
}

/// Appends record data in the presentation format of its type; in the generic form (RFC 3597) where
/// the type is not known here or the data are not what the type says.
pub fn write_rdata(rtype: u16, rdata: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut data = Data { rest: rdata, out };
    if data.typed(rtype).is_none() || !data.rest.is_empty() {
        out.truncate(start);
        put(out, format_args!("\\# {}", rdata.len()));
        if !rdata.is_empty() {
            out.push(b' ');
            codec::write_hex(rdata, out);
        }
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

/// Appends a decimal number.
pub(crate) fn write_number(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a dotted quad.
pub(crate) fn write_ipv4(address: Ipv4Addr, out: &mut Vec<u8>) {
    let (mut text, mut at) = ([b'.'; 15], 0);
    for octet in address.octets() {
        let (hundreds, tens) = (octet / 100, octet / 10 % 10);
        for (digit, shown) in [(hundreds, octet > 99), (tens, octet > 9), (octet % 10, true)] {
            // Written anyway, and over it again: no branch.
            text[at.min(14)] = b'0' + digit;
            at += usize::from(shown);
        }
        if at < 15 {
            text[at] = b'.';
        }
        at += 1;
    }
    out.extend_from_slice(&text[..at - 1]);
}

/// Appends an IPv6 address as RFC 5952 wants it, and as the standard library prints it, which takes longer.
pub(crate) fn write_ipv6(address: Ipv6Addr, out: &mut Vec<u8>) {
    let groups = address.segments();
    if groups[..5] == [0; 5] {
        // Forms with IPv4 in them.
        return put(out, format_args!("{address}"));
    }
    // The longest run of two zeros and more, the first of equal ones.
    let (mut gap, mut i) = (8..8, 0);
    while i < 8 {
        let run = groups[i..].iter().take_while(|&&g| g == 0).count();
        if run > 1 && run > gap.len() {
            gap = i..i + run;
        }
        i += run.max(1);
    }
    let (mut text, mut at) = ([0; 40], 0);
    let mut put = |b: u8| {
        text[at] = b;
        at += 1;
    };
    for (i, group) in groups.into_iter().enumerate() {
        if gap.contains(&i) {
            if i == gap.start {
                put(b':');
                put(b':');
            }
            continue;
        }
        if i > 0 && i != gap.end {
            put(b':');
        }
        let digits = (16 - group.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            put(b"0123456789abcdef"[usize::from(group >> (4 * digit) & 15)]);
        }
    }
    out.extend_from_slice(&text[..at]);
}

struct Data<'a, 'o> {
    rest: &'a [u8],
    out: &'o mut Vec<u8>,
}

/// One field of a type's presentation format.
#[derive(Clone, Copy)]
enum Field {
    U8,
    U16,
    U32,
    Name,
    /// A character string, quoted.
    String,
    Hex,
    Base64,
    Type,
    Time,
    Salt,
    Hash,
    Types,
}

impl<'a> Data<'a, '_> {
    fn typed(&mut self, rtype: u16) -> Option<()> {
        use Field::*;
        match rtype {
            rtype::NS | rtype::CNAME | rtype::DNAME | rtype::PTR => self.field(Name),
            rtype::A => {
                write_ipv4(Ipv4Addr::from(*self.rest.first_chunk::<4>()?), self.out);
                self.rest = &self.rest[4..];
                Some(())
            }
            rtype::AAAA => {
                write_ipv6(Ipv6Addr::from(*self.rest.first_chunk::<16>()?), self.out);
                self.rest = &self.rest[16..];
                Some(())
            }
            rtype::SOA => self.fields(&[Name, Name, U32, U32, U32, U32, U32]),
            rtype::DS | rtype::CDS => self.fields(&[U16, U8, U8, Hex]),
            rtype::DNSKEY | rtype::CDNSKEY => self.fields(&[U16, U8, U8, Base64]),
            rtype::RRSIG => self.fields(&[Type, U8, U8, U32, Time, Time, U16, Name, Base64]),
            rtype::NSEC => self.fields(&[Name, Types]),
            rtype::NSEC3 => self.fields(&[U8, U8, U16, Salt, Hash, Types]),
            rtype::NSEC3PARAM => self.fields(&[U8, U8, U16, Salt]),
            rtype::MX => self.fields(&[U16, Name]),
            rtype::SRV => self.fields(&[U16, U16, U16, Name]),
            rtype::NAPTR => self.fields(&[U16, U16, String, String, String, Name]),
            rtype::TXT | rtype::SPF => {
                self.field(String)?;
                while !self.rest.is_empty() {
                    self.out.push(b' ');
                    self.field(String)?;
                }
                Some(())
            }
            rtype::HINFO => self.fields(&[String, String]),
            rtype::CAA => self.caa(),
            rtype::ZONEMD => self.fields(&[U32, U8, U8, Hex]),
            rtype::TLSA => self.fields(&[U8, U8, U8, Hex]),
            rtype::SSHFP => self.fields(&[U8, U8, Hex]),
            _ => None,
        }
    }

    fn fields(&mut self, fields: &[Field]) -> Option<()> {
        for (i, &field) in fields.iter().enumerate() {
            if i > 0 {
                self.out.push(b' ');
            }
            self.field(field)?;
        }
        Some(())
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    fn number(&mut self, octets: usize) -> Option<u64> {
        Some(self.take(octets)?.iter().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    fn field(&mut self, field: Field) -> Option<()> {
        match field {
            Field::U8 => write_number(self.number(1)?, self.out),
            Field::U16 => write_number(self.number(2)?, self.out),
            Field::U32 => write_number(self.number(4)?, self.out),
            Field::Name => {
                let n = name::wire_len(self.rest)?;
                let name = self.take(n)?;
                name::write_text(name, self.out);
            }
            Field::String => {
                let n = self.number(1)?;
                let text = self.take(n as usize)?;
                self.quoted(text);
            }
            Field::Hex | Field::Base64 => {
                let data = std::mem::take(&mut self.rest);
                match field {
                    // Nothing at all has no presentation but the generic one.
                    _ if data.is_empty() => return None,
                    Field::Hex => codec::write_hex(data, self.out),
                    _ => codec::write_base64(data, self.out),
                }
            }
            Field::Type => self.type_name(self.rest.first_chunk::<2>().map(|b| u16::from_be_bytes(*b))?)?,
            Field::Time => {
                let time = self.number(4)? as u32;
                crate::time::write_rrsig_time(time, self.out);
            }
            Field::Salt => {
                let n = self.number(1)?;
                match self.take(n as usize)? {
                    [] => self.out.push(b'-'),
                    salt => codec::write_hex(salt, self.out),
                }
            }
            Field::Hash => {
                let n = self.number(1).filter(|&n| n > 0)?;
                let hash = self.take(n as usize)?;
                codec::base32hex_encode(hash, self.out);
            }
            Field::Types => {
                let types = codec::read_bitmap(std::mem::take(&mut self.rest))?;
                if types.is_empty() {
                    // The space after the field before.
                    self.out.pop();
                }
                for (i, t) in types.into_iter().enumerate() {
                    if i > 0 {
                        self.out.push(b' ');
                    }
                    put(self.out, format_args!("{}", rtype::to_text(t)));
                }
            }
        }
        Some(())
    }

    fn type_name(&mut self, t: u16) -> Option<()> {
        self.take(2)?;
        write_type(t, self.out);
        Some(())
    }

    fn caa(&mut self) -> Option<()> {
        self.field(Field::U8)?;
        let n = self.number(1).filter(|&n| n > 0)?;
        let tag = self.take(n as usize)?;
        if !tag.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        self.out.push(b' ');
        self.out.extend_from_slice(tag);
        self.out.push(b' ');
        let value = std::mem::take(&mut self.rest);
        self.quoted(value);
        Some(())
    }

    fn quoted(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &b in text {
            match b {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', b]),
                b' '..=b'~' => self.out.push(b),
                _ => self.out.extend_from_slice(&[b'\\', b'0' + b / 100, b'0' + b / 10 % 10, b'0' + b % 10]),
            }
        }
        self.out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_print_as_in_std(groups in any::<[u16; 8]>(), zero in any::<u8>(), small in any::<u8>()) {
            let mut groups = groups;
            for (i, group) in groups.iter_mut().enumerate() {
                *group = if zero >> i & 1 != 0 { 0 } else if small >> i & 1 != 0 { *group & 0xff } else { *group };
            }
            let address = Ipv6Addr::from(groups);
            let mut text = Vec::new();
            write_ipv6(address, &mut text);
            prop_assert_eq!(String::from_utf8(text).unwrap(), address.to_string());
        }
    }
}
