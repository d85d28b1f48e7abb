//! Name ranges: parts of a zone by the label directly below its origin, as ISC cut COM into halves and thirds
//! (ISC-TN-2008-1 section 6.2.2). One meaning for zones, query files and traces.
//!
//! A range compares that one label, as small letters, octet by octet, a shorter label first: the order of RFC 4034
//! section 6.1, so that a range is one piece of a zone in canonical order. What lies deeper goes with its label. A name
//! at the origin itself has no such label: it comes before every label, and belongs to the range that begins at the
//! first.
//!
//! Two ways to write a range:
//!
//! - `g-n`: labels that begin with `g` up to all that begin with `n` (letters, digits, underscores; `ga-go` too; `g`
//!   alone is `g-g`). Hyphens and digits come before the letters, underscores between `9` and `a`, other octets above
//!   `z`: so that nothing is lost, a range from `a` begins at the first label of all, and one up to `z` ends at the
//!   last. ISC's awk line compared otherwise (above `f` and not above `n`: `fa` was in, `na` was out), against its
//!   own file name; here the name counts.
//! - `google..mango`: labels from `google` on that come before `mango`; either may be empty, for no bound. Octets as
//!   in master files (`\.`, `\DDD`); a comma is `\044`.

use crate::name;
use std::fmt;

/// A range of names. Both bounds are small letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first label in it; empty where it begins at the first of all.
    low: Vec<u8>,
    /// The first label behind it; none where it ends at the last of all.
    high: Option<Vec<u8>>,
    /// `g-n` as it was written, in small letters.
    short: Option<String>,
}

/// Why a text is not a range or not a list of ranges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Not in one of the two forms.
    #[error(
        "'{0}' is not a range of names: give letters or digits such as a-f, or labels such as google..mango"
    )]
    Form(String),
    /// Its end does not come after its beginning.
    #[error("the range {0} is empty: its end comes before its beginning")]
    Empty(String),
    /// Ranges that leave names out.
    #[error("no range holds names {0}: ranges must leave no gap; the next one may begin there")]
    Gap(String),
    /// Ranges that share names.
    #[error("the ranges {0} and {1} overlap: give them in order, each behind the one before")]
    Overlap(String, String),
}

impl Range {
    /// From a first label (empty for no bound) to all before another; letters of any case.
    ///
    /// # Errors
    /// [`RangeError::Empty`].
    pub fn between(low: &[u8], high: Option<&[u8]>) -> Result<Self, RangeError> {
        let [low, end] = [low, high.unwrap_or_default()].map(<[u8]>::to_ascii_lowercase);
        let range = Self { low, high: high.map(|_| end), short: None };
        if range.high.as_ref().is_some_and(|high| *high <= range.low) {
            return Err(RangeError::Empty(range.to_string()));
        }
        Ok(range)
    }

    /// True where the name is in the range: never outside of the origin. Both in wire format.
    pub fn contains(&self, qname: &[u8], origin: &[u8]) -> bool {
        label_below(qname, origin).is_some_and(|label| !self.is_before(label) && !self.is_behind(label))
    }

    /// `g-n`, where it was written so: fit for the name of a file.
    pub fn short(&self) -> Option<&str> {
        self.short.as_deref()
    }

    /// True where the range ends before the label.
    fn is_before(&self, label: &[u8]) -> bool {
        self.high.as_ref().is_some_and(|high| compare(label, high).is_ge())
    }

    /// True where the range begins behind the label.
    fn is_behind(&self, label: &[u8]) -> bool {
        compare(label, &self.low).is_lt()
    }

    fn parse_short(text: &str) -> Option<Result<Self, RangeError>> {
        let text = text.to_ascii_lowercase();
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let plain = |t: &str| {
            (1..=name::MAX_LABEL).contains(&t.len())
                && t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !plain(first) || !plain(last) {
            return None;
        }
        let low = if first == "a" { Vec::new() } else { first.into() };
        // Names that begin with `last` come before names that begin with its successor; no octet here is 255.
        let mut high = Vec::from(last);
        if let Some(b) = high.last_mut() {
            *b += 1;
        }
        let high = (last != "z").then_some(high);
        if high.as_ref().is_some_and(|high| *high <= low) {
            return Some(Err(RangeError::Empty(text)));
        }
        Some(Ok(Self { low, high, short: Some(text) }))
    }

    fn parse_labels(text: &str) -> Option<Result<Self, RangeError>> {
        let split = unescaped_dots(text)?;
        let low = label(&text[..split])?;
        let high = label(&text[split + 2..])?;
        Some(Self::between(&low, (!high.is_empty()).then_some(&high[..])))
    }
}

/// Where the two dots are that no backslash goes before.
fn unescaped_dots(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1 + name::escape(&bytes[at + 1..])?.1,
            b'.' => return (bytes.get(at + 1) == Some(&b'.')).then_some(at),
            _ => at += 1,
        }
    }
    None
}

/// A label from its text; empty from nothing.
fn label(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    // With a dot at its end it would be a name, not a label.
    if name::Name::parse_text(text, None) != Err(name::NameError::Relative) {
        return None;
    }
    let wire = name::Name::parse_text(text, Some(name::ROOT)).ok()?;
    let mut labels = name::labels(wire.as_wire());
    let one = labels.next()?.to_vec();
    labels.next().is_none().then_some(one)
}

impl std::str::FromStr for Range {
    type Err = RangeError;
    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::parse_short(text)
            .or_else(|| Self::parse_labels(text))
            .unwrap_or_else(|| Err(RangeError::Form(text.to_owned())))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.short {
            Some(short) => f.write_str(short),
            None => write!(f, "{}..{}", shown(&self.low), shown(self.high.as_deref().unwrap_or_default())),
        }
    }
}

fn shown(label: &[u8]) -> String {
    let mut text = Vec::new();
    if !label.is_empty() {
        name::write_text(&[&[label.len() as u8], label, &[0]].concat(), &mut text);
        text.pop();
    }
    // write_text() gives printable ASCII; a comma would end the range in a list.
    String::from_utf8_lossy(&text).replace(',', "\\044")
}

/// The label directly below `origin` that a name has; empty at the origin, none outside of it.
pub fn label_below<'a>(qname: &'a [u8], origin: &[u8]) -> Option<&'a [u8]> {
    let mut label: &[u8] = &[];
    let mut rest = qname;
    while rest.len() > origin.len() {
        let up = name::parent(rest);
        if up.len() == rest.len() {
            return None;
        }
        (label, rest) = (&rest[1..rest.len() - up.len()], up);
    }
    name::equal(rest, origin).then_some(label)
}

/// Compares any label with one of small letters.
fn compare(label: &[u8], small: &[u8]) -> std::cmp::Ordering {
    label.iter().map(u8::to_ascii_lowercase).cmp(small.iter().copied())
}

/// Ranges in order, without gap or overlap: each name of the zone is in exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    ranges: Vec<Range>,
}

impl Partition {
    /// Takes ranges that cover all names, in order.
    ///
    /// # Errors
    /// [`RangeError::Gap`] and [`RangeError::Overlap`].
    pub fn new(ranges: Vec<Range>) -> Result<Self, RangeError> {
        let Some((first, last)) = ranges.first().zip(ranges.last()) else {
            return Err(RangeError::Gap("at all".into()));
        };
        if !first.low.is_empty() {
            return Err(RangeError::Gap(format!("before '{}'", shown(&first.low))));
        }
        for pair in ranges.windows(2) {
            let overlap = || RangeError::Overlap(pair[0].to_string(), pair[1].to_string());
            let end = pair[0].high.as_ref().ok_or_else(overlap)?;
            match pair[1].low.cmp(end) {
                std::cmp::Ordering::Less => return Err(overlap()),
                std::cmp::Ordering::Greater => {
                    let gap = format!("from '{}' to before '{}'", shown(end), shown(&pair[1].low));
                    return Err(RangeError::Gap(gap));
                }
                std::cmp::Ordering::Equal => {}
            }
        }
        if let Some(end) = &last.high {
            return Err(RangeError::Gap(format!("from '{}' on", shown(end))));
        }
        Ok(Self { ranges })
    }

    /// The ranges between labels: `n` labels in order make `n + 1` ranges.
    ///
    /// # Errors
    /// [`RangeError::Empty`] where the labels are not in order or the first is empty.
    pub fn at(labels: &[Vec<u8>]) -> Result<Self, RangeError> {
        let mut low: &[u8] = &[];
        let mut ranges = Vec::with_capacity(labels.len() + 1);
        for label in labels {
            ranges.push(Range::between(low, Some(label))?);
            low = label;
        }
        ranges.push(Range::between(low, None)?);
        Self::new(ranges)
    }

    /// The ranges in order; never none.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The range that holds the name; none outside of the origin. Both in wire format.
    pub fn find(&self, qname: &[u8], origin: &[u8]) -> Option<usize> {
        let label = label_below(qname, origin)?;
        Some(self.ranges.partition_point(|range| range.is_before(label)))
    }
}

impl std::str::FromStr for Partition {
    type Err = RangeError;
    /// Ranges with commas between them.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::new(text.split(',').map(|range| range.trim().parse()).collect::<Result<_, _>>()?)
    }
}

/// Fuzz entry: any octets are ranges or an error; what is read can be printed and read again, and holds each name
/// exactly once.
///
/// # Panics
/// Where not: a bug.
pub fn fuzz_ranges(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(range) = text.parse::<Range>() {
        assert_eq!(range.to_string().parse().as_ref(), Ok(&range));
    }
    let (Ok(partition), Ok(qname)) =
        (text.parse::<Partition>(), name::Name::parse_text(bytes, Some(name::ROOT)))
    else {
        return;
    };
    let holders = partition.ranges.iter().filter(|r| r.contains(qname.as_wire(), name::ROOT));
    assert_eq!(holders.count(), 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(text: &str) -> Vec<u8> {
        name::Name::parse_text(text, Some(name::ROOT)).unwrap().as_wire().to_vec()
    }

    fn holds(range: &str, qname: &str) -> bool {
        range.parse::<Range>().unwrap().contains(&wire(qname), &wire("com"))
    }

    #[test]
    fn a_range_holds_whole_prefixes() {
        for name in ["g.com", "Google.COM", "n.com", "NZZZ.com", "www.mango.com", "n-1.com", "n\\255.com"] {
            assert!(holds("g-n", name), "{name}");
        }
        for name in ["fzzz.com", "o.com", "com", "net", "g.net", "a.g-n.com.org", "9.com", ".", "gcom"] {
            assert!(!holds("g-n", name), "{name}");
        }
        assert!(holds("ga-go", "google.com") && !holds("ga-go", "gp.com") && holds("G", "gp.com"));
        assert!(holds("0-9", "4-all.com") && !holds("0-9", "_tcp.com") && !holds("0-9", "-.com"));
    }

    #[test]
    fn the_outer_ranges_take_what_is_outside_of_the_alphabet() {
        let thirds: Partition = "a-f,g-n,o-z".parse().unwrap();
        let find = |name: &str| thirds.find(&wire(name), &wire("com"));
        assert_eq!(["com", "0.com", "-.com", "_.com", "x.F.com", "fz.com"].map(find), [Some(0); 6]);
        assert_eq!(["g.com", "N9.com"].map(find), [Some(1); 2]);
        assert_eq!(["o.com", "z.com", "zz.com", "\\200.com", "{.com"].map(find), [Some(2); 5]);
        assert_eq!(["net", "com.net", "."].map(find), [None; 3]);
    }

    #[test]
    fn labels_bound_a_range_to_the_octet() {
        assert!(holds("google..mango", "google.com") && !holds("google..mango", "mango.com"));
        assert!(holds("google..mango", "mangn-zzz.com") && !holds("google..mango", "googl.com"));
        assert!(holds("..xn--b", "xn--a.com") && holds("XN--b..", "xn--B.com"));
        assert!(holds("a\\.b..", "a\\.b.com") && !holds("..a\\.", "a\\..com"));
    }

    #[test]
    fn gaps_and_overlaps_are_named() {
        let error = |text: &str| text.parse::<Partition>().unwrap_err().to_string();
        assert!(error("a-f,h-z").contains("from 'g' to before 'h'"), "{}", error("a-f,h-z"));
        assert!(error("b-z").contains("before 'b'") && error("a-y").contains("from 'z' on"));
        assert!(error("a-g,g-z").contains("a-g and g-z overlap") && error("o-z,a-n").contains("before 'o'"));
        assert!(error("0-9,a-z").contains("before '0'") && error("..,..").contains("overlap"));
        assert!(error("a-f,n-g,o-z").contains("n-g is empty"));
        for bad in ["", "a-f,", "a-f-g", "é", "a.b", "a.b..c", "a..b.", "\\", "..\\25", "a...b"] {
            assert!(matches!(bad.parse::<Range>(), Err(RangeError::Form(_))) || bad.contains(','), "{bad}");
            assert!(bad.parse::<Partition>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_ranges_or_an_error(text in "[a-c.,\\\\0-9z-]{0,12}") {
            fuzz_ranges(text.as_bytes());
        }

        #[test]
        fn labels_cut_as_canonical_order_does(
            mut cuts in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..4), 1..6),
            label in prop::collection::vec(any::<u8>(), 1..4),
        ) {
            cuts = cuts.into_iter().map(|c| c.to_ascii_lowercase()).collect();
            let cuts: Vec<Vec<u8>> = cuts.into_iter().collect();
            let partition = Partition::at(&cuts).unwrap();
            let text = partition.ranges().iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(text.parse(), Ok(partition.clone()), "{}", text);
            let full = |label: &[u8]| [&[label.len() as u8], label, b"\x03com\0"].concat();
            let expected = cuts.iter().filter(|c| name::canonical_cmp(&full(c), &full(&label)).is_le()).count();
            prop_assert_eq!(partition.find(&full(&label), b"\x03com\0"), Some(expected));
        }
    }
}
