//! Labels of random characters.

use crate::random::Draws;

/// Appends a label of `len` random characters, the first a letter.
pub(crate) fn push_label(out: &mut Vec<u8>, draws: &mut Draws, len: usize) {
    out.push(len as u8);
    let start = out.len();
    // Twelve at a time, whatever the length: a loop of known length is a few instructions.
    while out.len() < start + len {
        let bits = draws.bits();
        let [low, high] = [bits, bits >> 40].map(|bits| letters(bits).to_le_bytes());
        out.extend_from_slice(&low);
        out.extend_from_slice(&high[..4]);
    }
    out.truncate(start + len);
    let first = out[start];
    if first.is_ascii_digit() {
        out[start] = first - b'0' + b'u';
    }
}

/// Eight characters of "abcdefghijklmnopqrstuvwxyz012345", five bits each from the lowest on: all at once.
fn letters(bits: u64) -> u64 {
    // Halves of twenty bits, quarters of ten, eighths of five move apart.
    let x = bits & 0xf_ffff | (bits & 0xff_fff0_0000) << 12;
    let x = x & 0x0000_03ff_0000_03ff | (x & 0x000f_fc00_000f_fc00) << 6;
    let x = x & 0x001f_001f_001f_001f | (x & 0x03e0_03e0_03e0_03e0) << 3;
    // An octet of 26 or more gets its highest bit set, and is a digit.
    let digits = (x + 0x6666_6666_6666_6666) >> 7 & 0x0101_0101_0101_0101;
    x + 0x6161_6161_6161_6161 - digits * u64::from(b'a' + 26 - b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Keys;
    use measure::Seed;

    #[test]
    fn five_bits_are_a_letter() {
        let alphabet = b"abcdefghijklmnopqrstuvwxyz012345";
        let mut draws = Keys::new(Seed(1), "test").draws(0);
        for _ in 0..10_000 {
            let bits = draws.bits();
            let expected = std::array::from_fn(|n| alphabet[(bits >> (5 * n)) as usize & 31]);
            assert_eq!(letters(bits).to_le_bytes(), expected, "{bits:x}");
        }
    }
}
