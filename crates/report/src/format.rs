//! Figures as people read them.

use measure::Nanos;
use measure::units::grouped;

/// A number to three significant digits, without an exponent: `0.0123`, `1.23`, `12.3`, `123`, `1,230`.
pub(crate) fn significant(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { "0".into() } else { "–".into() };
    }
    // From the rounded number, so that 9.996 becomes 10.0 and not 10.00.
    let rounded: f64 = format!("{x:.2e}").parse().unwrap_or(x);
    let digits = (2 - rounded.abs().log10().floor() as i32).max(0) as usize;
    if digits == 0 && rounded >= 0.0 { grouped(rounded as u64) } else { format!("{rounded:.digits$}") }
}

/// A latency with the unit that suits it, to three significant digits.
pub(crate) fn latency(ns: f64) -> String {
    let (factor, unit) = latency_unit(ns);
    format!("{} {unit}", significant(ns / factor))
}

/// Nanoseconds per unit, and the unit, that suit a latency.
fn latency_unit(ns: f64) -> (f64, &'static str) {
    // One step early, so that 999.7 µs is not written as 1,000 µs.
    match ns {
        n if n < 999.5e3 => (1e3, "µs"),
        n if n < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Two latencies as a range with one unit where both suit it.
pub(crate) fn latency_range(low: f64, high: f64) -> String {
    let (factor, unit) = latency_unit(high);
    if latency(low) == latency(high) {
        latency(high)
    } else if latency_unit(low).1 == unit {
        format!("{}–{} {unit}", significant(low / factor), significant(high / factor))
    } else {
        format!("{}–{}", latency(low), latency(high))
    }
}

/// A rate in queries per second to three significant digits: `93,200/s`.
pub(crate) fn rate(qps: f64) -> String {
    format!("{}/s", significant(qps))
}

/// Two rates as a range.
pub(crate) fn rate_range(low: f64, high: f64) -> String {
    let (low, high) = (significant(low), significant(high));
    if low == high { format!("{high}/s") } else { format!("{low}–{high}/s") }
}

/// Two amounts of memory as a range, with one unit where both suit it.
pub(crate) fn memory_range(low: f64, high: f64) -> String {
    let (low, high) = (memory(low), memory(high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => high,
        (Some((number, a)), Some((_, b))) if a == b => format!("{number}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// A share in per cent that says 100 % and 0 % only where it is so.
pub(crate) fn percent(p: f64) -> String {
    let rest = p.min(100.0 - p);
    if rest <= 0.0 || !p.is_finite() {
        return format!("{p:.0} %");
    }
    // Two significant digits of whatever is nearer: of the loss where most is answered.
    let digits = (1 - rest.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{p:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    // Six digits are the limit: below that, say on which side it is.
    match text {
        "100" => ">99.9999 %".into(),
        "0" => "<0.000001 %".into(),
        text => format!("{text} %"),
    }
}

/// Memory in powers of 1024.
pub(crate) fn memory(bytes: f64) -> String {
    for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor as f64 {
            return format!("{} {unit}", significant(bytes / factor as f64));
        }
    }
    format!("{bytes:.0} B")
}

/// Seconds, with the unit that suits them.
pub(crate) fn seconds(s: f64) -> String {
    latency(s * 1e9)
}

/// The ratio of two figures: `×0.31`.
pub(crate) fn factor(x: f64) -> String {
    // Published cells have one or two digits: a factor of three would pretend.
    let rounded: f64 = format!("{x:.1e}").parse().unwrap_or(x);
    if x > 0.0 && rounded < 10.0 {
        let digits = (1 - rounded.log10().floor() as i32).max(1) as usize;
        format!("×{rounded:.digits$}")
    } else {
        format!("×{}", grouped(rounded.max(0.0) as u64))
    }
}

/// A value of a metric in its own unit.
pub fn value(value: f64, unit: &str) -> String {
    match unit {
        "us" => latency(value * 1e3),
        "s" => seconds(value),
        "B" => memory(value),
        "1/s" => rate(value),
        "%" => percent(value),
        _ if value.fract() == 0.0 && (0.0..1e15).contains(&value) => grouped(value as u64),
        _ => significant(value),
    }
}

/// A deadline or duration in whole words: `4 s`.
pub(crate) fn duration(ns: Nanos) -> String {
    let (factor, unit) = latency_unit(ns as f64);
    let x = ns as f64 / factor;
    if x.fract() == 0.0 { format!("{x:.0} {unit}") } else { format!("{} {unit}", significant(x)) }
}

/// `one`, `one and two`, `one, two and three`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 trial`, `2 trials`.
pub(crate) fn plural(n: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(n as u64), if n == 1 { "" } else { "s" })
}

/// Text made safe for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters from logs are not allowed in XML.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_take_the_unit_that_suits() {
        assert_eq!(
            [840.0, 121_499.0, 999_600.0, 77_700_000.0, 3.999e9].map(latency).join(", "),
            "0.840 µs, 121 µs, 1.00 ms, 77.7 ms, 4.00 s"
        );
        assert_eq!(latency_range(98_000.0, 121_000.0), "98.0–121 µs");
        assert_eq!(latency_range(98_000.0, 1_210_000.0), "98.0 µs–1.21 ms");
        assert_eq!(duration(4_000_000_000), "4 s");
    }

    #[test]
    fn a_share_is_whole_only_where_it_is() {
        assert_eq!(
            [100.0, 99.99, 99.96, 71.0, 0.0, 0.034, 99.999_999_99].map(percent).join(", "),
            "100 %, 99.99 %, 99.96 %, 71 %, 0 %, 0.034 %, >99.9999 %"
        );
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(
            [0.0, 0.01234, 9.996, 12.34, 123.4, 123_456.0].map(significant).join(" "),
            "0 0.0123 10.0 12.3 123 123,000"
        );
        assert_eq!([memory(1536.0), memory(3.02 * 1073741824.0)].join(", "), "1.50 KiB, 3.02 GiB");
        assert_eq!(
            [0.314, 1234.0, 0.001_88, 1.0, 9.96].map(factor).join(" "),
            "×0.31 ×1,200 ×0.0019 ×1.0 ×10"
        );
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }

    #[test]
    fn nothing_gets_through_as_markup() {
        assert_eq!(escape("<a href=\"x\">&'\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
    }
}
