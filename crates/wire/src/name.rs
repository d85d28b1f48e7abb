//! Domain names in wire format, uncompressed: parsing, printing, canonical order.
//!
//! Everything works on plain `&[u8]` that hold one whole name, length octets and the root's zero
//! included; [`Name`] owns such bytes. Text follows RFC 1035 section 5.1 (escapes `\X` and `\DDD`),
//! comparison RFC 4343 (ASCII case does not count) and RFC 4034 section 6.1 (canonical order).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest name, in octets of wire format (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 255;
/// The longest label, in octets (RFC 1035 section 2.3.4).
pub const MAX_LABEL: usize = 63;
/// The root's name.
pub const ROOT: &[u8] = &[0];

/// Why some text is not a domain name. Offsets are octets from the start of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No text at all.
    #[error("an empty name: expected a domain name, '.' for the root")]
    Empty,
    /// Two dots in a row, or a dot at the start.
    #[error("an empty label: expected one to 63 octets between dots")]
    EmptyLabel {
        /// Where the label should have started.
        at: usize,
    },
    /// A label over 63 octets.
    #[error("a label of more than 63 octets")]
    LabelTooLong {
        /// Where the label starts.
        at: usize,
    },
    /// Over 255 octets in wire format.
    #[error("a name of more than 255 octets")]
    NameTooLong,
    /// A backslash without a character or a number up to 255 after it.
    #[error("a broken escape: expected \\X or \\DDD with DDD up to 255")]
    Escape {
        /// Where the backslash is.
        at: usize,
    },
    /// A relative name where there is no origin.
    #[error("a relative name, but no origin is known: end it with a dot or give $ORIGIN")]
    Relative,
    /// Bytes that are not one whole uncompressed name.
    #[error("not one whole uncompressed name in wire format")]
    Wire,
}

impl NameError {
    /// Where in the text the error is, in octets from its start.
    pub fn offset(self) -> usize {
        match self {
            Self::EmptyLabel { at } | Self::LabelTooLong { at } | Self::Escape { at } => at,
            _ => 0,
        }
    }
}

/// An owned name. Equality and hashing ignore ASCII case; order is canonical.
#[derive(Clone)]
pub struct Name {
    wire: Vec<u8>,
}

impl Name {
    /// The root.
    pub fn root() -> Self {
        Self { wire: vec![0] }
    }

    /// Reads presentation format; `origin` (wire format) completes a relative name, and is what `@` means.
    ///
    /// # Errors
    /// [`NameError`]: the fault in the text, and where it is.
    pub fn parse_text(text: impl AsRef<[u8]>, origin: Option<&[u8]>) -> Result<Self, NameError> {
        let mut wire = Vec::with_capacity(text.as_ref().len() + 2);
        parse_into(text.as_ref(), origin, &mut wire)?;
        Ok(Self { wire })
    }

    /// Takes a name in wire format.
    ///
    /// # Errors
    /// [`NameError::Wire`] unless the bytes are exactly one uncompressed name.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        match wire_len(wire) {
            Some(n) if n == wire.len() => Ok(Self { wire: wire.to_vec() }),
            _ => Err(NameError::Wire),
        }
    }

    /// The name in wire format.
    pub fn as_wire(&self) -> &[u8] {
        &self.wire
    }

    /// Number of labels, the root's not counted.
    pub fn label_count(&self) -> usize {
        label_count(&self.wire)
    }

    /// True at or below `ancestor`.
    pub fn is_under(&self, ancestor: &[u8]) -> bool {
        is_under(&self.wire, ancestor)
    }

    /// The name in small letters.
    #[must_use]
    pub fn lowercase(mut self) -> Self {
        lowercase(&mut self.wire);
        self
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.wire
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(self.wire.len() + 8);
        write_text(&self.wire, &mut text);
        // write_text() escapes whatever is not printable ASCII.
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;
    /// Reads a name as a whole: without a dot at its end it counts as if it had one.
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse_text(text, Some(ROOT))
    }
}

/// In presentation format.
impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.wire, &other.wire)
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        canonical_cmp(&self.wire, &other.wire)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for &b in &self.wire {
            state.write_u8(b.to_ascii_lowercase());
        }
    }
}

/// Appends the wire format of the name in `text` to `out`; leaves `out` as it was on an error.
///
/// # Errors
/// [`NameError`]: the fault in the text, and where it is.
#[inline]
pub fn parse_into(text: &[u8], origin: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), NameError> {
    let start = out.len();
    let done = parse_labels(text, origin, out)
        .and_then(|()| if out.len() - start > MAX_NAME { Err(NameError::NameTooLong) } else { Ok(()) });
    if done.is_err() {
        out.truncate(start);
    }
    done
}

fn parse_labels(text: &[u8], origin: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), NameError> {
    match text {
        [] => return Err(NameError::Empty),
        b"." => {
            out.push(0);
            return Ok(());
        }
        b"@" => {
            out.extend_from_slice(origin.ok_or(NameError::Relative)?);
            return Ok(());
        }
        _ => {}
    }
    let start = out.len();
    // Dots stand where wire format has the length of the label after them: copy, then put those in.
    out.push(0);
    out.extend_from_slice(text);
    let wire = &mut out[start..];
    let mut head = 0;
    let (chunks, _) = text.as_chunks::<8>();
    let done = chunks.len() * 8;
    for (i, chunk) in chunks.iter().enumerate() {
        let chunk = u64::from_le_bytes(*chunk);
        if octets_that_are(b'\\', chunk) != 0 {
            out.truncate(start);
            return parse_escaped(text, origin, out);
        }
        let mut dots = octets_that_are(b'.', chunk);
        while dots != 0 {
            let at = i * 8 + dots.trailing_zeros() as usize / 8;
            wire[head] = label_len(head, at)?;
            head = at + 1;
            dots &= dots - 1;
        }
    }
    for (at, &b) in text.iter().enumerate().skip(done) {
        if b == b'.' {
            wire[head] = label_len(head, at)?;
            head = at + 1;
        } else if b == b'\\' {
            out.truncate(start);
            return parse_escaped(text, origin, out);
        }
    }
    if head < text.len() {
        wire[head] = label_len(head, text.len())?;
        out.extend_from_slice(origin.ok_or(NameError::Relative)?);
    } else {
        wire[head] = 0;
    }
    // Otherwise the text ended with a dot, and the empty label is the root's.
    Ok(())
}

/// The high bit of each octet of `chunk` that is `b`.
#[inline]
fn octets_that_are(b: u8, chunk: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = ONES * 0x7f;
    let zeros = chunk ^ (ONES * b as u64);
    !(((zeros & LOW) + LOW) | zeros | LOW)
}

/// The length octet of a label from one place of a text to the dot at another.
#[inline]
fn label_len(from: usize, to: usize) -> Result<u8, NameError> {
    match to - from {
        0 => Err(NameError::EmptyLabel { at: to }),
        n if n > MAX_LABEL => Err(NameError::LabelTooLong { at: from }),
        n => Ok(n as u8),
    }
}

/// As [`parse_labels`], for text with escapes.
fn parse_escaped(text: &[u8], origin: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), NameError> {
    let (mut head, mut label, mut i) = (out.len(), 0, 0);
    out.push(0);
    loop {
        // The length octet at `head` is filled in where its label ends.
        let len = out.len() - head - 1;
        match text.get(i) {
            Some(b'.') | None => {
                if len > MAX_LABEL {
                    return Err(NameError::LabelTooLong { at: label });
                }
                out[head] = len as u8;
                if i >= text.len() {
                    if len > 0 {
                        out.extend_from_slice(origin.ok_or(NameError::Relative)?);
                    }
                    // Otherwise the text ended with a dot, and the empty label is the root's.
                    return Ok(());
                }
                if len == 0 {
                    return Err(NameError::EmptyLabel { at: i });
                }
                i += 1;
                (head, label) = (out.len(), i);
                out.push(0);
            }
            Some(b'\\') => {
                let (octet, used) = escape(&text[i + 1..]).ok_or(NameError::Escape { at: i })?;
                out.push(octet);
                i += 1 + used;
            }
            Some(&b) => {
                out.push(b);
                i += 1;
            }
        }
    }
}

/// The octet that an escape stands for, and how long it is; `text` starts after the backslash.
pub fn escape(text: &[u8]) -> Option<(u8, usize)> {
    match *text {
        [a, b, c, ..] if a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit() => {
            let n = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
            u8::try_from(n).ok().map(|n| (n, 3))
        }
        [a, ..] if !a.is_ascii_digit() => Some((a, 1)),
        _ => None,
    }
}

/// Appends presentation format, with a dot at the end; `wire` must be a whole name.
pub fn write_text(wire: &[u8], out: &mut Vec<u8>) {
    // An incomplete name has no text.
    let Some(len) = wire_len(wire).filter(|&len| len > 1) else {
        return out.push(b'.');
    };
    // Where wire format has the length of the next label, text has a dot: copy, then put those in.
    let start = out.len();
    out.extend_from_slice(&wire[1..len]);
    let text = &mut out[start..];
    let (mut at, mut length, mut plain) = (0, usize::from(wire[0]), true);
    while length > 0 {
        let end = at + length;
        plain &= text[at..end].iter().fold(true, |plain, &b| plain & PLAIN[usize::from(b)]);
        length = usize::from(std::mem::replace(&mut text[end], b'.'));
        at = end + 1;
    }
    if !plain {
        out.truncate(start);
        for label in labels(wire) {
            label.iter().for_each(|&b| write_octet(b, out));
            out.push(b'.');
        }
    }
}

/// Octets of labels that text shows as they are.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = b'!';
    while b <= b'~' {
        table[b as usize] = !matches!(b, b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$');
        b += 1;
    }
    table
};

fn write_octet(b: u8, out: &mut Vec<u8>) {
    match b {
        // Characters with a meaning in master files, anywhere in a token or at its start.
        b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => out.extend_from_slice(&[b'\\', b]),
        b'!'..=b'~' => out.push(b),
        _ => out.extend_from_slice(&[b'\\', b'0' + b / 100, b'0' + b / 10 % 10, b'0' + b % 10]),
    }
}

/// The labels from left to right, the root's not among them; stops where the bytes end.
pub fn labels(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = wire;
    std::iter::from_fn(move || {
        let (&len, tail) = rest.split_first()?;
        if len == 0 || tail.len() < usize::from(len) {
            return None;
        }
        let (label, tail) = tail.split_at(usize::from(len));
        rest = tail;
        Some(label)
    })
}

/// Number of labels, the root's not counted.
pub fn label_count(wire: &[u8]) -> usize {
    labels(wire).count()
}

/// Length of the uncompressed name at the start of `bytes`, in octets, if there is one.
#[inline]
pub fn wire_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let len = usize::from(*bytes.get(at)?);
        at += 1 + len;
        if len > MAX_LABEL || at > MAX_NAME {
            return None;
        }
        if len == 0 {
            return Some(at);
        }
    }
}

/// The name one label up; the root's parent is the root.
#[inline]
pub fn parent(wire: &[u8]) -> &[u8] {
    match wire.first() {
        Some(&n) if n > 0 && wire.len() > usize::from(n) + 1 => &wire[usize::from(n) + 1..],
        _ => wire,
    }
}

/// True where both are the same name, ASCII case apart.
#[inline]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    // Length octets are below 64, out of reach of the case folding. Most names that are the same are
    // written the same.
    a == b || a.eq_ignore_ascii_case(b)
}

/// True where `name` is `ancestor` or lies below it.
#[inline]
pub fn is_under(name: &[u8], ancestor: &[u8]) -> bool {
    let mut rest = name;
    while rest.len() > ancestor.len() {
        let up = parent(rest);
        if up.len() == rest.len() {
            return false;
        }
        rest = up;
    }
    equal(rest, ancestor)
}

/// Turns ASCII letters into small ones, in place.
pub fn lowercase(wire: &mut [u8]) {
    wire.make_ascii_lowercase();
}

/// Canonical order (RFC 4034 section 6.1): label by label from the right, as small letters, a
/// missing label first. Both must be whole names.
pub fn canonical_cmp(a: &[u8], b: &[u8]) -> Ordering {
    let (mut starts_a, mut starts_b) = ([0u8; 128], [0u8; 128]);
    let (na, nb) = (offsets(a, &mut starts_a), offsets(b, &mut starts_b));
    for i in 1..=na.min(nb) {
        let la = label_at(a, starts_a[na - i]);
        let lb = label_at(b, starts_b[nb - i]);
        let order = compare_labels(la, lb);
        if order.is_ne() {
            return order;
        }
    }
    na.cmp(&nb)
}

/// Appends octets that compare (as octets do) as [`canonical_cmp`] compares names; what is appended after them
/// does not change the order of different names.
pub fn sort_key(wire: &[u8], out: &mut Vec<u8>) {
    let mut starts = [0u8; 128];
    let n = offsets(wire, &mut starts);
    for &start in starts[..n].iter().rev() {
        for &b in label_at(wire, start) {
            match b {
                // Zero ends a label: two octets stand for it, and for one, which they begin with.
                0 => out.extend_from_slice(&[1, 1]),
                1 => out.extend_from_slice(&[1, 2]),
                b => out.push(b.to_ascii_lowercase()),
            }
        }
        out.push(0);
    }
    // No label begins with it: a name comes before those below it.
    out.push(0);
}

fn offsets(wire: &[u8], starts: &mut [u8; 128]) -> usize {
    let (mut at, mut n) = (0, 0);
    while let Some(&len) = wire.get(at).filter(|&&len| len > 0) {
        starts[n] = at as u8;
        n += 1;
        at += 1 + usize::from(len);
    }
    n
}

fn label_at(wire: &[u8], start: u8) -> &[u8] {
    let start = usize::from(start);
    &wire[start + 1..start + 1 + usize::from(wire[start])]
}

fn compare_labels(a: &[u8], b: &[u8]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let order = x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase());
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::name::{Name as DomainName, ToName};
    use proptest::prelude::*;
    use std::str::FromStr;

    /// Names of up to five labels of any octets, as wire format.
    fn any_name() -> impl Strategy<Value = Vec<u8>> {
        let octet = prop_oneof![any::<u8>(), prop::sample::select(b"aAbBzZ019-_.\\\"*@$ ".to_vec())];
        let label = prop::collection::vec(octet, 1..12);
        prop::collection::vec(label, 0..5).prop_map(|labels| {
            let mut wire = Vec::new();
            for label in labels {
                wire.push(label.len() as u8);
                wire.extend(label);
            }
            wire.push(0);
            wire
        })
    }

    proptest! {
        #[test]
        fn text_goes_there_and_back(wire in any_name()) {
            let name = Name::from_wire(&wire).unwrap();
            let text = name.to_string();
            let again = Name::parse_text(&text, None).unwrap();
            prop_assert_eq!(again.as_wire(), &wire[..]);
            let other = DomainName::<Vec<u8>>::from_str(&text).unwrap();
            prop_assert_eq!(other.as_slice(), &wire[..], "domain reads {} otherwise", text);
        }

        #[test]
        fn order_and_equality_are_those_of_domain(a in any_name(), b in any_name()) {
            let (x, y) = (DomainName::from_octets(a.clone()).unwrap(), DomainName::from_octets(b.clone()).unwrap());
            prop_assert_eq!(canonical_cmp(&a, &b), x.name_cmp(&y));
            let (mut keys, after) = ([Vec::new(), Vec::new()], if a < b { [0xff, 0] } else { [0, 0xff] });
            for ((key, name), after) in keys.iter_mut().zip([&a, &b]).zip(after) {
                sort_key(name, key);
                if !equal(&a, &b) {
                    key.push(after);
                }
            }
            prop_assert_eq!(keys[0].cmp(&keys[1]), canonical_cmp(&a, &b));
            prop_assert_eq!(equal(&a, &b), x.name_eq(&y));
            prop_assert_eq!(is_under(&a, &b), x.ends_with(&y));
            prop_assert_eq!(label_count(&a), x.label_count() - 1);
        }

        #[test]
        fn any_bytes_are_a_name_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(name) = Name::parse_text(&bytes, Some(ROOT)) {
                prop_assert_eq!(wire_len(name.as_wire()), Some(name.as_wire().len()));
            }
            let _ = Name::from_wire(&bytes);
        }
    }

    #[test]
    fn the_example_of_rfc_4034_is_in_order() {
        let sorted = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            "\\001.z.example.",
            "*.z.example.",
            "\\200.z.example.",
        ];
        let names: Vec<Name> = sorted.iter().map(|t| Name::parse_text(t, None).unwrap()).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(names[4].is_under(names[1].as_wire()) && !names[4].is_under(names[5].as_wire()));
    }

    #[test]
    fn errors_say_what_and_where() {
        let parse = |t: &str| Name::parse_text(t, None).unwrap_err();
        assert_eq!(parse(""), NameError::Empty);
        assert_eq!(parse("a..b."), NameError::EmptyLabel { at: 2 });
        assert_eq!(parse(".a."), NameError::EmptyLabel { at: 0 });
        assert_eq!(parse(&format!("a.{}.", "x".repeat(64))), NameError::LabelTooLong { at: 2 });
        assert_eq!(parse(&"x2345678.".repeat(29)), NameError::NameTooLong);
        assert_eq!(parse("a\\256."), NameError::Escape { at: 1 });
        assert_eq!(parse("a\\"), NameError::Escape { at: 1 });
        assert_eq!(parse("a\\1x."), NameError::Escape { at: 1 });
        assert_eq!(parse("www"), NameError::Relative);
        assert_eq!(parse("@"), NameError::Relative);
    }

    #[test]
    fn an_origin_completes() {
        let origin = Name::parse_text("example.", None).unwrap();
        let www = Name::parse_text("www", Some(origin.as_wire())).unwrap();
        assert_eq!(www.to_string(), "www.example.");
        assert_eq!(Name::parse_text("@", Some(origin.as_wire())).unwrap(), origin);
        assert_eq!("EXAMPLE".parse::<Name>().unwrap(), origin);
        assert_eq!(parent(origin.as_wire()), ROOT);
        assert_eq!(parent(ROOT), ROOT);
    }
}
