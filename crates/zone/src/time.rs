//! Times of signatures: seconds since 1970, as text in the forms that people and RRSIGs use.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use measure::Nanos;
use measure::clock::SECOND;
use std::io::Write;

/// Seconds since 1970 from year, month, day, hour, minute, second; none where there is no such time.
pub(crate) fn seconds([year, month, day, hour, minute, second]: [i16; 6]) -> Option<u64> {
    let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(|n| n as i8);
    let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    u64::try_from(Offset::UTC.to_timestamp(time).ok()?.as_second()).ok()
}

/// A number of at most ten digits.
fn digits(text: &str) -> Option<u64> {
    let sane = (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    sane.then(|| text.parse().ok())?
}

/// Seconds since 1970 from `YYYYMMDDHHMMSS`.
fn compact(text: &str) -> Option<u64> {
    let text: &[u8; 14] = text.as_bytes().try_into().ok()?;
    if !text.iter().fold(true, |all, b| all & b.is_ascii_digit()) {
        return None;
    }
    let two = |at: usize| i16::from(text[at] - b'0') * 10 + i16::from(text[at + 1] - b'0');
    seconds([two(0) * 100 + two(2), two(4), two(6), two(8), two(10), two(12)])
}

/// A time of an RRSIG: `YYYYMMDDHHMMSS`, or seconds since 1970 (RFC 4034 section 3.2), modulo 2^32.
pub(crate) fn rrsig_time(text: &str) -> Option<u32> {
    compact(text).map(|time| time as u32).or_else(|| digits(text)?.try_into().ok())
}

/// Appends a time as `YYYYMMDDHHMMSS`.
pub(crate) fn write_rrsig_time(time: u32, out: &mut Vec<u8>) {
    let time = Timestamp::from_second(time.into()).expect("times of 32 bits exist");
    write!(out, "{}", time.strftime("%Y%m%d%H%M%S")).expect("a vector takes all");
}

/// Seconds since 1970, as [`parse_nanos`]; fractions of a second are cut.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse(text: &str) -> Result<u64, String> {
    Ok(parse_nanos(text)? / SECOND)
}

/// Nanoseconds since 1970 from RFC 3339 (`2026-08-20T04:00:00Z`, also with an offset and with fractions of a second), from
/// `YYYYMMDDHHMMSS`, or from seconds, which may have a fraction too.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_nanos(text: &str) -> Result<Nanos, String> {
    let timestamp = || u64::try_from(text.parse::<Timestamp>().ok()?.as_nanosecond()).ok();
    let known = compact(text).or_else(|| digits(text)).map(|seconds| seconds * SECOND);
    known
        .or_else(|| with_fraction(text))
        .or_else(timestamp)
        .filter(|&time| time / SECOND <= u64::from(u32::MAX))
        .ok_or_else(|| {
            format!(
                "'{text}' is not a time up to 2106: give 2026-08-20T04:00:00Z, 20260820040000 or seconds since 1970"
            )
        })
}

/// Seconds with at most nine digits of a fraction.
fn with_fraction(text: &str) -> Option<Nanos> {
    let (seconds, fraction) = text.split_once('.')?;
    let scale = 10u64.checked_pow(9u32.checked_sub(fraction.len() as u32)?)?;
    Some(digits(seconds)? * SECOND + digits(fraction)? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_go_there_and_back(time in any::<u32>()) {
            let mut text = Vec::new();
            write_rrsig_time(time, &mut text);
            let text = String::from_utf8(text).unwrap();
            prop_assert_eq!(rrsig_time(&text), Some(time));
            prop_assert_eq!(parse(&text), Ok(u64::from(time)));
        }
    }

    #[test]
    fn people_write_fractions_of_seconds() {
        let at = |text: &str| parse_nanos(text).map(|t| (t / SECOND, t % SECOND));
        assert_eq!(at("2026-08-20T04:00:00.25Z"), Ok((1_787_198_400, 250_000_000)));
        assert_eq!(at("2026-08-20T06:00:00.000000001+02:00"), Ok((1_787_198_400, 1)));
        assert_eq!(at("1787198400.5"), Ok((1_787_198_400, 500_000_000)));
        assert_eq!(at("20260820040000"), Ok((1_787_198_400, 0)));
        for bad in [
            "",
            ".",
            ".5",
            "2026-08-20T04:00:00.25",
            "2026-08-20T04:00:00.Z",
            "1.2.3",
            "1787198400.",
            "1.5Z",
            "1.0000000001",
        ] {
            assert!(parse_nanos(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_write_times() {
        for text in
            ["2026-08-20T04:00:00Z", "2026-08-20 06:00:00+02:00", "2026-08-20T04:00:00.25Z", "20260820040000"]
        {
            assert_eq!(parse(text), Ok(1_787_198_400), "{text}");
        }
        assert_eq!(parse("1787198400"), Ok(1_787_198_400));
        assert_eq!(parse("20240229000000"), Ok(1_709_164_800));
        for bad in
            ["", "tomorrow", "20260230000000", "2026-08-20", "2026-08-20T04:00:00", "99999999999", "-5"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
