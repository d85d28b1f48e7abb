//! Text codes of record data: hexadecimal, base64, base32hex, addresses, type bitmaps, mnemonics.

use std::net::Ipv6Addr;

/// Mnemonics of DNSSEC algorithms (IANA's registry).
const ALGORITHMS: [(&str, u8); 10] = [
    ("RSAMD5", 1),
    ("DSA", 3),
    ("RSASHA1", 5),
    ("NSEC3RSASHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
];

/// The number of a DNSSEC algorithm from its mnemonic, in any case.
pub fn algorithm_number(text: &str) -> Option<u8> {
    ALGORITHMS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|&(_, n)| n)
}

/// The mnemonic of a DNSSEC algorithm, or its number.
pub fn algorithm_name(number: u8) -> String {
    let known = ALGORITHMS.iter().find(|&&(_, n)| n == number);
    known.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

const HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut i = 0;
    while i < 16 {
        table[b"0123456789abcdef"[i] as usize] = i as u8;
        table[b"0123456789ABCDEF"[i] as usize] = i as u8;
        i += 1;
    }
    table
};

#[inline]
pub(crate) fn hex_digit(b: u8) -> Option<u8> {
    Some(HEX[usize::from(b)]).filter(|&digit| digit < 16)
}

pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &b in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    }
}

pub(crate) fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    use base64::Engine as _;
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = base64::engine::general_purpose::STANDARD.encode_slice(bytes, &mut out[start..]);
    // The buffer has the exact size that the encoding needs.
    out.truncate(start + written.unwrap_or(0));
}

#[inline]
fn sextet(b: u8) -> u32 {
    u32::from(BASE64[usize::from(b)])
}

/// Base64 that may come in pieces.
#[derive(Default)]
pub(crate) struct Base64Decoder {
    bits: u32,
    /// Digits of the current group of four, padding included.
    digits: u8,
    padding: u8,
    closed: bool,
}

const BASE64: [u8; 256] = {
    let mut table = [0xff; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut i = 0;
    while i < 64 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table
};

impl Base64Decoder {
    /// Decodes one piece; the error is the offset of what is not base64.
    pub fn push(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), usize> {
        let mut i = 0;
        if self.digits == 0 && !self.closed {
            // Whole groups of four without padding, at once.
            let (groups, _) = text.as_chunks::<4>();
            let start = out.len();
            out.resize(start + groups.len() * 3, 0);
            let (octets, _) = out[start..].as_chunks_mut::<3>();
            for (group, octets) in groups.iter().zip(octets) {
                let [a, b, c, d] = *group;
                let (a, b, c, d) = (sextet(a), sextet(b), sextet(c), sextet(d));
                if (a | b | c | d) & 0x80 != 0 {
                    break;
                }
                let [_, x, y, z] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
                *octets = [x, y, z];
                i += 4;
            }
            out.truncate(start + i / 4 * 3);
        }
        for (i, &b) in text.iter().enumerate().skip(i) {
            self.digit(b, out).ok_or(i)?;
        }
        Ok(())
    }

    fn digit(&mut self, b: u8, out: &mut Vec<u8>) -> Option<()> {
        if self.closed {
            return None;
        }
        if b == b'=' {
            if self.digits < 2 {
                return None;
            }
            self.padding += 1;
            self.bits <<= 6;
        } else {
            let value = BASE64[usize::from(b)];
            if value > 63 || self.padding > 0 {
                return None;
            }
            self.bits = self.bits << 6 | u32::from(value);
        }
        self.digits += 1;
        if self.digits == 4 {
            let octets = self.bits.to_be_bytes();
            out.extend_from_slice(&octets[1..4 - usize::from(self.padding)]);
            self.closed = self.padding > 0;
            (self.bits, self.digits, self.padding) = (0, 0, 0);
        }
        Some(())
    }

    /// True where no group is left open.
    pub fn is_complete(&self) -> bool {
        self.digits == 0
    }
}

const BASE32: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Base32 with the extended hex alphabet, without padding (RFC 5155 section 3.3).
pub(crate) fn base32hex_decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut bits, mut count) = (0u32, 0);
    for &b in text {
        let b = b.to_ascii_lowercase();
        let Some(value) = BASE32.iter().position(|&x| x == b) else { return false };
        bits = (bits << 5 | value as u32) & 0xffff;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    // The bits left over must be less than a digit, and zero.
    !text.is_empty() && count < 5 && bits & ((1 << count) - 1) == 0
}

pub(crate) fn base32hex_encode(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u32, 0);
    for &b in bytes {
        bits = (bits << 8 | u32::from(b)) & 0xffff;
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(BASE32[(bits >> count) as usize & 31]);
        }
    }
    if count > 0 {
        out.push(BASE32[(bits << (5 - count)) as usize & 31]);
    }
}

/// Dotted quad, decimal, without leading zeros beyond three digits.
pub(crate) fn ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let digit = |i: usize| text.get(i).map(|b| u32::from(b.wrapping_sub(b'0'))).filter(|&d| d < 10);
    let (mut address, mut i) = ([0; 4], 0);
    for (part, octet) in address.iter_mut().enumerate() {
        if part > 0 {
            if text.get(i) != Some(&b'.') {
                return None;
            }
            i += 1;
        }
        let mut n = digit(i)?;
        i += 1;
        for _ in 0..2 {
            let Some(d) = digit(i) else { break };
            n = n * 10 + d;
            i += 1;
        }
        *octet = u8::try_from(n).ok()?;
    }
    (i == text.len()).then_some(address)
}

/// Any text form of RFC 4291 section 2.2.
pub(crate) fn ipv6(text: &[u8]) -> Option<[u8; 16]> {
    if text.contains(&b'.') {
        return std::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok().map(|a| a.octets());
    }
    let mut groups = [0u16; 8];
    let (mut n, mut gap, mut i) = (0, None, 0);
    if text.starts_with(b"::") {
        gap = Some(0);
        i = 2;
    }
    while i < text.len() {
        let (mut value, mut digits) = (0u16, 0);
        while let Some(d) = text.get(i).and_then(|&b| hex_digit(b)) {
            if digits == 4 {
                return None;
            }
            value = value << 4 | u16::from(d);
            digits += 1;
            i += 1;
        }
        if digits == 0 || n == 8 {
            return None;
        }
        groups[n] = value;
        n += 1;
        match (text.get(i), text.get(i + 1)) {
            (None, _) => break,
            (Some(b':'), Some(b':')) if gap.is_none() => {
                gap = Some(n);
                i += 2;
            }
            (Some(b':'), Some(b)) if b.is_ascii_hexdigit() => i += 1,
            _ => return None,
        }
    }
    match gap {
        None if n == 8 => {}
        // "::" stands for one group at least.
        Some(at) if n < 8 => {
            groups.copy_within(at..n, 8 - (n - at));
            groups[at..8 - (n - at)].fill(0);
        }
        _ => return None,
    }
    let mut address = [0; 16];
    for (pair, group) in address.chunks_exact_mut(2).zip(groups) {
        pair.copy_from_slice(&group.to_be_bytes());
    }
    Some(address)
}

/// Writes the type bitmap of sorted types (RFC 4034 section 4.1.2).
pub(crate) fn write_bitmap(types: &[u16], out: &mut Vec<u8>) {
    for block in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let len = usize::from(block[block.len() - 1] & 255) / 8 + 1;
        out.extend_from_slice(&[(block[0] >> 8) as u8, len as u8]);
        let start = out.len();
        out.resize(start + len, 0);
        for t in block {
            out[start + usize::from(t & 255) / 8] |= 0x80 >> (t & 7);
        }
    }
}

/// Reads a type bitmap back; `None` where it is malformed.
pub(crate) fn read_bitmap(mut bitmap: &[u8]) -> Option<Vec<u16>> {
    let mut types = Vec::new();
    let mut last = None;
    while let [window, len, rest @ ..] = bitmap {
        let len = usize::from(*len);
        // Non-canonical forms would not survive being printed and read again.
        if last.is_some_and(|l| l >= *window)
            || !(1..=32).contains(&len)
            || rest.len() < len
            || rest[len - 1] == 0
        {
            return None;
        }
        last = Some(*window);
        for (i, &bits) in rest[..len].iter().enumerate() {
            let base = u16::from(*window) << 8 | (i * 8) as u16;
            types.extend((0..8).filter(|bit| bits & (0x80 >> bit) != 0).map(|bit| base + bit));
        }
        bitmap = &rest[len..];
    }
    bitmap.is_empty().then_some(types)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_read_as_in_std(text in "[0-9a-f:.]{1,24}", octets in any::<[u8; 16]>(), gap in 0usize..17, to in 0usize..17) {
            let mut octets = octets;
            if gap < to { octets[gap..to].fill(0); }
            prop_assert_eq!(ipv6(text.as_bytes()), text.parse::<Ipv6Addr>().ok().map(|a| a.octets()));
            let address = Ipv6Addr::from(octets);
            prop_assert_eq!(ipv6(address.to_string().as_bytes()), Some(octets));
        }

        #[test]
        fn base64_comes_in_pieces(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..120) {
            let mut text = Vec::new();
            write_base64(&bytes, &mut text);
            let (a, b) = text.split_at(cut.min(text.len()));
            let (mut decoder, mut out) = (Base64Decoder::default(), Vec::new());
            decoder.push(a, &mut out).unwrap();
            decoder.push(b, &mut out).unwrap();
            prop_assert!(decoder.is_complete());
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn base32hex_goes_there_and_back(bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            let (mut text, mut out) = (Vec::new(), Vec::new());
            base32hex_encode(&bytes, &mut text);
            prop_assert!(base32hex_decode(&text, &mut out));
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn bitmaps_go_there_and_back(types in prop::collection::btree_set(any::<u16>(), 0..20)) {
            let types: Vec<u16> = types.into_iter().collect();
            let mut bitmap = Vec::new();
            write_bitmap(&types, &mut bitmap);
            prop_assert_eq!(read_bitmap(&bitmap), Some(types));
        }
    }

    #[test]
    fn addresses_of_version_4() {
        assert_eq!(ipv4(b"192.0.2.1"), Some([192, 0, 2, 1]));
        for bad in
            ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1..2.3", "1.2.3.", ".1.2.3", "1.2.3.0004", "a.b.c.d"]
        {
            assert_eq!(ipv4(bad.as_bytes()), None, "{bad}");
        }
    }
}
