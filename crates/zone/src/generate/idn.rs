//! A-labels (RFC 5890) that sort as the word in them.
//!
//! An A-label is `xn--`, the ASCII letters, a hyphen, and the other letters in Punycode (RFC 3492). With one such
//! letter in a word without hyphens, the order is that of the words, since a hyphen sorts before
//! letters and digits: so IDNs need no sorting, and stand in the zone as one run.

use super::labels::mix;

/// The prefix of every A-label.
pub(super) const PREFIX: &[u8] = b"xn--";

/// Letters of Latin script that names are registered with; all PVALID (RFC 5892).
const LETTERS: [char; 24] = [
    'ä', 'ö', 'ü', 'é', 'è', 'à', 'ç', 'ñ', 'ó', 'á', 'í', 'ú', 'ã', 'õ', 'ê', 'å', 'ø', 'æ', 'ş', 'ğ', 'ł',
    'š', 'č', 'ž',
];

/// Makes the word from `start` on, of ASCII letters and digits, an A-label with one more letter.
pub(super) fn a_label(out: &mut Vec<u8>, start: usize, hash: u64) {
    let len = out.len() - start;
    let letter = LETTERS[(mix(hash) % LETTERS.len() as u64) as usize];
    let at = mix(hash ^ 1) % (len as u64 + 1);
    out.splice(start..start, PREFIX.iter().copied());
    out.push(b'-');
    // RFC 3492 section 6.3 for one letter: all code points below it, at all places before it.
    punycode((u64::from(u32::from(letter)) - 0x80) * (len as u64 + 1) + at, out);
}

/// A number as a generalized variable-length integer with the initial bias (RFC 3492 sections 3.3 and 5).
fn punycode(mut n: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // The bias is 72, so thresholds are 1, 1 and then 26: clamp(36 k - 72, 1, 26).
    for threshold in [1, 1].into_iter().chain(std::iter::repeat(26)) {
        if n < threshold {
            break;
        }
        out.push(DIGITS[(threshold + (n - threshold) % (36 - threshold)) as usize]);
        n = (n - threshold) / (36 - threshold);
    }
    out.push(DIGITS[n as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_come_out() {
        // The word without the letter, the letter and its place, and what Python's codec gives.
        for (word, letter, at, expected) in [
            ("mnchen", 'ü', 1, "mnchen-3ya"),
            ("bcher", 'ü', 1, "bcher-kva"),
            ("fa", 'ł', 1, "fa-xqa"),
            ("a", 'ž', 1, "a-toa"),
        ] {
            let mut out = format!("{word}-").into_bytes();
            punycode((u64::from(u32::from(letter)) - 0x80) * (word.len() as u64 + 1) + at, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn the_order_is_that_of_the_words() {
        let mut labels: Vec<Vec<u8>> = Vec::new();
        for (i, word) in ["able", "able2", "ablest", "abler", "zoo"].into_iter().enumerate() {
            let mut out = b"...".to_vec();
            out.extend_from_slice(word.as_bytes());
            a_label(&mut out, 3, i as u64);
            labels.push(out[3..].to_vec());
        }
        labels.swap(2, 3);
        assert!(labels.is_sorted() && labels.iter().all(|l| l.starts_with(b"xn--")), "{labels:?}");
    }
}
