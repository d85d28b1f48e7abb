//! Numbers and durations as people type them: `5K`, `1.5M`, `60s`, `7d`.

use crate::clock::{Nanos, SECOND};

/// A count or rate: digits, perhaps a fraction, perhaps `K`, `M` or `G` (powers of ten).
///
/// # Errors
/// A sentence that says what was expected.
pub fn number(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1e6),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        // parse() also takes "inf", "nan" and exponents; a typing error must not become one.
        Ok(n) if digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') && n.is_finite() => Ok(n * factor),
        _ => Err(format!(
            "'{text}' is not a number: give digits, with K, M or G for thousands, millions, 10^9"
        )),
    }
}

/// A whole count: as [`number`], without a rest.
///
/// # Errors
/// A sentence that says what was expected.
pub fn count(text: &str) -> Result<u64, String> {
    let n = number(text)?;
    if n.fract() == 0.0 && n < 1e18 { Ok(n as u64) } else { Err(format!("'{text}' is not a whole number")) }
}

/// A duration: a number with `us`, `ms`, `s`, `m`, `h` or `d` (seconds where there is none).
///
/// # Errors
/// A sentence that says what was expected.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "" | "s" => SECOND as f64,
        "m" => 60.0 * SECOND as f64,
        "h" => 3600.0 * SECOND as f64,
        "d" => 86400.0 * SECOND as f64,
        _ => f64::NAN,
    };
    match digits.parse::<f64>() {
        Ok(n) if factor.is_finite() => Ok((n * factor).round() as Nanos),
        _ => Err(format!("'{text}' is not a duration: give a number with us, ms, s, m, h or d, such as 60s")),
    }
}

/// A count with thousands grouped by commas, for tables and sentences.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// How many of something: `1 record`, `1,438 records`.
pub fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A zone size or rate as the papers write it: `100K`, `1M`, `4.5M`; other numbers as [`grouped`].
pub fn short(n: u64) -> String {
    for (factor, suffix) in [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")] {
        if n >= factor && n.is_multiple_of(factor / 10) {
            let (whole, tenth) = (n / factor, n % factor / (factor / 10));
            return if tenth == 0 { format!("{whole}{suffix}") } else { format!("{whole}.{tenth}{suffix}") };
        }
    }
    grouped(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_type_numbers() {
        assert_eq!(number("5K"), Ok(5000.0));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        assert_eq!(duration("60s"), Ok(60 * SECOND));
        assert_eq!(duration("1.5ms"), Ok(1_500_000));
        assert_eq!(duration("7d"), Ok(7 * 86400 * SECOND));
        for bad in ["", "K", "1e3", "inf", "5 K", "-1", "1..2"] {
            assert!(number(bad).is_err(), "{bad}");
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(count("1.5").is_err());
    }

    #[test]
    fn tables_write_numbers() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1000), grouped(55_208_694)].join(" "),
            "0 999 1,000 55,208,694"
        );
        assert_eq!(
            [short(280), short(1000), short(4_500_000), short(129_032)].join(" "),
            "280 1K 4.5M 129,032"
        );
    }
}
