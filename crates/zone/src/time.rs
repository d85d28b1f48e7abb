//! Times of signatures: seconds since 1970, as text in the forms that people and RRSIGs use.

use measure::Nanos;
use measure::clock::SECOND;

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March end with the leap day.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = y.div_euclid(400);
    let of_era = y - era * 400;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * m + 2) / 5 + day - 1 - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z - era * 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    let month = if m < 10 { m + 3 } else { m - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * m + 2) / 5 + 1)
}

/// Seconds since 1970 from year, month, day, hour, minute, second; none where there is no such time.
pub(crate) fn seconds(fields: [i64; 6]) -> Option<u64> {
    let [year, month, day, hour, minute, second] = fields;
    let sane = (1970..=9999).contains(&year) && (1..=12).contains(&month) && hour < 24 && minute < 60;
    let at = days(year, month, day);
    // A day that the month does not have comes back as another date.
    let exists = sane && second < 60 && date(at) == (year, month, day);
    exists.then(|| (at * 86400 + hour * 3600 + minute * 60 + second) as u64)
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Seconds since 1970 from `YYYYMMDDHHMMSS`.
fn compact(text: &str) -> Option<u64> {
    let text: &[u8; 14] = text.as_bytes().try_into().ok()?;
    if !text.iter().fold(true, |all, b| all & b.is_ascii_digit()) {
        return None;
    }
    let two = |at: usize| i64::from(text[at] - b'0') * 10 + i64::from(text[at + 1] - b'0');
    seconds([two(0) * 100 + two(2), two(4), two(6), two(8), two(10), two(12)])
}

/// A time of an RRSIG: `YYYYMMDDHHMMSS`, or seconds since 1970 (RFC 4034 section 3.2), modulo 2^32.
pub(crate) fn rrsig_time(text: &str) -> Option<u32> {
    match compact(text) {
        Some(t) => Some(t as u32),
        None if text.len() <= 10 => digits(text).and_then(|n| u32::try_from(n).ok()),
        None => None,
    }
}

/// Appends a time as `YYYYMMDDHHMMSS`.
pub(crate) fn write_rrsig_time(time: u32, out: &mut Vec<u8>) {
    let ((year, month, day), rest) = (date(i64::from(time) / 86400), time % 86400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    out.extend_from_slice(format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}").as_bytes());
}

/// Seconds since 1970 from RFC 3339 (`2026-08-20T04:00:00Z`, also with an offset), from
/// `YYYYMMDDHHMMSS`, or from seconds.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse(text: &str) -> Result<u64, String> {
    let known = compact(text)
        .or_else(|| rfc3339(text))
        .or_else(|| (text.len() <= 10 && !text.is_empty()).then(|| digits(text))?.map(|n| n as u64));
    known.filter(|&t| t <= u64::from(u32::MAX)).ok_or_else(|| no_time(text))
}

fn no_time(text: &str) -> String {
    format!(
        "'{text}' is not a time up to 2106: give 2026-08-20T04:00:00Z, 20260820040000 or seconds since 1970"
    )
}

/// As [`parse`], with fractions of a second (of RFC 3339's form, or of seconds): nanoseconds since 1970. What is beyond
/// nine digits is cut.
///
/// # Errors
/// As [`parse`].
pub fn parse_nanos(text: &str) -> Result<Nanos, String> {
    let Some((head, tail)) = text.split_once('.') else { return Ok(parse(text)? * SECOND) };
    let length = tail.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, zone) = tail.split_at(length);
    let seconds = parse(&format!("{head}{zone}")).ok().filter(|_| length > 0).ok_or_else(|| no_time(text))?;
    let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    Ok(seconds * SECOND + nanos.fold(0, |sum, digit| sum * 10 + Nanos::from(digit - b'0')))
}

fn rfc3339(text: &str) -> Option<u64> {
    if !text.is_ascii() || text.len() < 20 {
        return None;
    }
    let (head, tail) = text.split_at(19);
    let b = head.as_bytes();
    let marks =
        b[4] == b'-' && b[7] == b'-' && matches!(b[10], b'T' | b't' | b' ') && b[13] == b':' && b[16] == b':';
    let at = |from: usize, to: usize| digits(&head[from..to]);
    let local = seconds([at(0, 4)?, at(5, 7)?, at(8, 10)?, at(11, 13)?, at(14, 16)?, at(17, 19)?])?;
    let zone = match tail.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => tail,
    };
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let n = digits(&zone[1..3])? * 3600 + digits(&zone[4..6])? * 60;
            if *sign == b'+' { n } else { -n }
        }
        _ => return None,
    };
    marks.then(|| local.checked_add_signed(-offset))?
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
        assert_eq!(at("2026-08-20T06:00:00.0000000019+02:00"), Ok((1_787_198_400, 1)));
        assert_eq!(at("1787198400.5"), Ok((1_787_198_400, 500_000_000)));
        assert_eq!(at("20260820040000"), Ok((1_787_198_400, 0)));
        for bad in
            ["", ".", ".5", "2026-08-20T04:00:00.25", "2026-08-20T04:00:00.Z", "1.2.3", "1787198400.", "1.5Z"]
        {
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
