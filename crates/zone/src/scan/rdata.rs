//! Record data from text to wire format, by type.

use super::token::{Bad, Tokens};
use crate::codec;
use wire::name;
use wire::rtype;

type Parsed = Result<(), Bad>;

/// Reads the words of one record's data.
pub(super) struct Reader<'a, 't> {
    pub tokens: &'t mut Tokens<'a>,
    pub origin: Option<&'t [u8]>,
    pub out: &'t mut Vec<u8>,
}

/// A number with its range checked; `digits` must be all decimal digits.
pub(super) fn decimal(digits: &[u8], max: u64) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut n = 0u64;
    for &b in digits {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n * 10 + u64::from(digit);
    }
    (n <= max).then_some(n)
}

/// A TTL or a SOA timer: seconds, or numbers with units as in `1h30m`; at most 2^31-1 (RFC 2181).
pub(super) fn ttl(text: &[u8]) -> Option<u32> {
    const MAX: u64 = (1 << 31) - 1;
    if let Some(n) = decimal(text, MAX) {
        return Some(n as u32);
    }
    let (mut total, mut n, mut digits) = (0u64, 0u64, 0);
    for &b in text {
        let unit = match b.to_ascii_lowercase() {
            b'0'..=b'9' if digits < 10 => {
                n = n * 10 + u64::from(b - b'0');
                digits += 1;
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86400,
            b'w' => 604_800,
            _ => return None,
        };
        if digits == 0 {
            return None;
        }
        total += n * unit;
        (n, digits) = (0, 0);
    }
    (digits == 0 && total <= MAX && !text.is_empty()).then_some(total as u32)
}

impl Reader<'_, '_> {
    /// The data of one record of type `rtype`, appended to `out`.
    pub fn rdata(&mut self, rtype: u16) -> Parsed {
        match rtype {
            rtype::NS | rtype::CNAME | rtype::DNAME | rtype::PTR => self.name(),
            rtype::A => self.ipv4(),
            rtype::AAAA => self.ipv6(),
            rtype::SOA => {
                self.name()?;
                self.name()?;
                self.u32("the serial")?;
                for what in ["refresh", "retry", "expire", "minimum"] {
                    self.timer(what)?;
                }
                Ok(())
            }
            rtype::DS | rtype::CDS => {
                self.u16("a key tag")?;
                self.algorithm()?;
                self.u8("a digest type")?;
                self.hex("a digest in hexadecimal")
            }
            rtype::DNSKEY | rtype::CDNSKEY => {
                self.u16("the flags")?;
                self.u8("the protocol")?;
                self.algorithm()?;
                self.base64("a key in base64")
            }
            rtype::RRSIG => self.rrsig(),
            rtype::NSEC => {
                self.name()?;
                self.types()
            }
            rtype::NSEC3 => {
                self.nsec3_parameters()?;
                let t = self.tokens.need("the next hashed name")?;
                let at = self.out.len();
                self.out.push(0);
                if !codec::base32hex_decode(t.text, self.out) || self.out.len() - at > 256 {
                    return Err(t.bad("expected a hash in base32hex"));
                }
                self.out[at] = (self.out.len() - at - 1) as u8;
                self.types()
            }
            rtype::NSEC3PARAM => self.nsec3_parameters(),
            rtype::MX => {
                self.u16("a preference")?;
                self.name()
            }
            rtype::SRV => {
                self.u16("a priority")?;
                self.u16("a weight")?;
                self.u16("a port")?;
                self.name()
            }
            rtype::NAPTR => {
                self.u16("an order")?;
                self.u16("a preference")?;
                for what in ["the flags", "the services", "the expression"] {
                    self.string(what)?;
                }
                self.name()
            }
            rtype::TXT | rtype::SPF => {
                self.string("a string")?;
                while let Some(t) = self.tokens.next() {
                    self.string_of(t)?;
                }
                Ok(())
            }
            rtype::HINFO => {
                self.string("the CPU")?;
                self.string("the operating system")
            }
            rtype::CAA => self.caa(),
            rtype::ZONEMD => {
                self.u32("a serial")?;
                self.u8("a scheme")?;
                self.u8("a hash algorithm")?;
                self.hex("a digest in hexadecimal")
            }
            rtype::TLSA => {
                self.u8("a certificate usage")?;
                self.u8("a selector")?;
                self.u8("a matching type")?;
                self.hex("data in hexadecimal")
            }
            rtype::SSHFP => {
                self.u8("a key algorithm")?;
                self.u8("a fingerprint type")?;
                self.hex("a fingerprint in hexadecimal")
            }
            _ => {
                let t = self.tokens.need("\\# and data")?;
                Err(t.bad(format!(
                    "the data of {} can only be read in the generic form: \\# LENGTH HEX (RFC 3597)",
                    rtype::to_text(rtype)
                )))
            }
        }
    }

    /// The generic form, after its `\#` (RFC 3597 section 5).
    pub fn generic(&mut self) -> Parsed {
        let t = self.tokens.need("a length in octets")?;
        let len = decimal(t.text, 65535).ok_or_else(|| t.bad("expected a length from 0 to 65535"))? as usize;
        let start = self.out.len();
        if len > 0 {
            self.hex("data in hexadecimal")?;
        }
        match self.out.len() - start {
            n if n == len => Ok(()),
            n => Err(t.bad(format!("a length of {len} octets, but {n} octets of data"))),
        }
    }

    fn name(&mut self) -> Parsed {
        let t = self.tokens.need("a domain name")?;
        name::parse_into(t.text, self.origin, self.out)
            .map_err(|e| Bad::new(t.at + e.offset(), e.to_string()))
    }

    fn number(&mut self, what: &'static str, max: u64) -> Result<u64, Bad> {
        let t = self.tokens.need(what)?;
        decimal(t.text, max)
            .ok_or_else(|| t.bad(format!("'{}': expected {what}, a number from 0 to {max}", t.shown())))
    }

    fn u8(&mut self, what: &'static str) -> Parsed {
        let n = self.number(what, 255)?;
        self.out.push(n as u8);
        Ok(())
    }

    fn u16(&mut self, what: &'static str) -> Parsed {
        let n = self.number(what, 65535)?;
        self.out.extend_from_slice(&(n as u16).to_be_bytes());
        Ok(())
    }

    fn u32(&mut self, what: &'static str) -> Parsed {
        let n = self.number(what, u32::MAX.into())?;
        self.out.extend_from_slice(&(n as u32).to_be_bytes());
        Ok(())
    }

    fn timer(&mut self, what: &'static str) -> Parsed {
        let t = self.tokens.need(what)?;
        // A plain number may use all 32 bits, so that whatever comes in wire format can be printed and read again.
        let seconds = decimal(t.text, u32::MAX.into()).map(|n| n as u32).or_else(|| ttl(t.text));
        let seconds = seconds.ok_or_else(|| {
            t.bad(format!("'{}': expected {what}, seconds or a time such as 1h30m", t.shown()))
        })?;
        self.out.extend_from_slice(&seconds.to_be_bytes());
        Ok(())
    }

    fn algorithm(&mut self) -> Parsed {
        let t = self.tokens.need("an algorithm number")?;
        let known = std::str::from_utf8(t.text).ok().and_then(codec::algorithm_number);
        let n = decimal(t.text, 255).map(|n| n as u8).or(known);
        self.out.push(n.ok_or_else(|| t.bad("expected a DNSSEC algorithm: a number or its mnemonic"))?);
        Ok(())
    }

    fn ipv4(&mut self) -> Parsed {
        let t = self.tokens.need("an IPv4 address")?;
        let address =
            codec::ipv4(t.text).ok_or_else(|| t.bad(format!("'{}': expected an IPv4 address", t.shown())))?;
        self.out.extend_from_slice(&address);
        Ok(())
    }

    fn ipv6(&mut self) -> Parsed {
        let t = self.tokens.need("an IPv6 address")?;
        let address =
            codec::ipv6(t.text).ok_or_else(|| t.bad(format!("'{}': expected an IPv6 address", t.shown())))?;
        self.out.extend_from_slice(&address);
        Ok(())
    }

    /// Hexadecimal digits to the end of the record, spaces anywhere.
    fn hex(&mut self, what: &'static str) -> Parsed {
        let (mut high, mut any) = (None, false);
        while let Some(t) = self.tokens.next() {
            any = true;
            for (i, &b) in t.text.iter().enumerate() {
                let Some(digit) = codec::hex_digit(b) else {
                    return Err(Bad::new(t.at + i, format!("not a hexadecimal digit: expected {what}")));
                };
                match high.take() {
                    None => high = Some(digit << 4),
                    Some(h) => self.out.push(h | digit),
                }
            }
        }
        if any && high.is_none() { Ok(()) } else { Err(self.tokens.missing(what)) }
    }

    /// Base64 to the end of the record, spaces anywhere.
    fn base64(&mut self, what: &'static str) -> Parsed {
        let mut decoder = codec::Base64Decoder::default();
        let mut any = false;
        while let Some(t) = self.tokens.next() {
            any = true;
            if let Err(i) = decoder.push(t.text, self.out) {
                return Err(Bad::new(t.at + i, format!("not base64 here: expected {what}")));
            }
        }
        if any && decoder.is_complete() { Ok(()) } else { Err(self.tokens.missing(what)) }
    }

    fn string(&mut self, what: &'static str) -> Parsed {
        let t = self.tokens.need(what)?;
        self.string_of(t)
    }

    fn string_of(&mut self, t: super::token::Token<'_>) -> Parsed {
        let at = self.out.len();
        self.out.push(0);
        self.unescape(t)?;
        let len = self.out.len() - at - 1;
        self.out[at] =
            u8::try_from(len).map_err(|_| t.bad(format!("a string of {len} octets: at most 255 fit")))?;
        Ok(())
    }

    fn unescape(&mut self, t: super::token::Token<'_>) -> Parsed {
        let mut i = 0;
        while let Some(&b) = t.text.get(i) {
            i += 1;
            if b != b'\\' {
                self.out.push(b);
                continue;
            }
            let (octet, used) = name::escape(&t.text[i..]).ok_or_else(|| {
                Bad::new(t.at + i - 1 + usize::from(t.quoted), "a broken escape: expected \\X or \\DDD")
            })?;
            self.out.push(octet);
            i += used;
        }
        Ok(())
    }

    fn caa(&mut self) -> Parsed {
        self.u8("the flags")?;
        let t = self.tokens.need("a tag")?;
        if !(1..=255).contains(&t.text.len()) || !t.text.iter().all(u8::is_ascii_alphanumeric) {
            return Err(t.bad("expected a tag of letters and digits"));
        }
        self.out.push(t.text.len() as u8);
        self.out.extend_from_slice(t.text);
        let value = self.tokens.need("a value")?;
        self.unescape(value)
    }

    fn rrsig(&mut self) -> Parsed {
        self.type_code()?;
        self.algorithm()?;
        self.u8("a number of labels")?;
        self.timer("the original TTL")?;
        for what in ["an expiration time", "an inception time"] {
            let t = self.tokens.need(what)?;
            let text = std::str::from_utf8(t.text).unwrap_or_default();
            let time = crate::time::rrsig_time(text)
                .ok_or_else(|| t.bad(format!("'{}': expected {what}, YYYYMMDDHHMMSS", t.shown())))?;
            self.out.extend_from_slice(&time.to_be_bytes());
        }
        self.u16("a key tag")?;
        self.name()?;
        self.base64("a signature in base64")
    }

    fn nsec3_parameters(&mut self) -> Parsed {
        self.u8("a hash algorithm")?;
        self.u8("the flags")?;
        self.u16("a number of iterations")?;
        let t = self.tokens.need("a salt in hexadecimal, or -")?;
        if t.text == b"-" {
            self.out.push(0);
            return Ok(());
        }
        if t.text.len() % 2 != 0 || t.text.len() > 510 {
            return Err(t.bad("expected an even number of hexadecimal digits, at most 510"));
        }
        self.out.push((t.text.len() / 2) as u8);
        for (i, pair) in t.text.chunks_exact(2).enumerate() {
            let octet = codec::hex_digit(pair[0]).zip(codec::hex_digit(pair[1])).map(|(h, l)| h << 4 | l);
            self.out.push(octet.ok_or_else(|| Bad::new(t.at + 2 * i, "not a hexadecimal digit"))?);
        }
        Ok(())
    }

    fn type_code(&mut self) -> Parsed {
        let t = self.tokens.need("a record type")?;
        let code =
            rtype::from_text(t.text).ok_or_else(|| t.bad(format!("'{}' is no record type", t.shown())))?;
        self.out.extend_from_slice(&code.to_be_bytes());
        Ok(())
    }

    /// A type bitmap to the end of the record (RFC 4034 section 4.1.2).
    fn types(&mut self) -> Parsed {
        let mut types = Vec::new();
        while let Some(t) = self.tokens.next() {
            let code = rtype::from_text(t.text)
                .ok_or_else(|| t.bad(format!("'{}' is no record type", t.shown())))?;
            types.push(code);
        }
        types.sort_unstable();
        codec::write_bitmap(&types, self.out);
        Ok(())
    }
}
