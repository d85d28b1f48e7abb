//! Numbers as they are printed.

/// A number in a text.
#[derive(Debug, PartialEq)]
pub struct Number {
    /// As printed.
    pub value: f64,
    /// Digits after the point.
    decimals: i32,
    /// What one printed unit stands for: 1,000 with a `K`.
    times: f64,
    /// Digits before the point.
    whole: usize,
    /// The unit after it, or that of its neighbour.
    pub unit: Option<String>,
}

const UNITS: [(&str, f64); 14] = [
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("Mbit/s", 1e6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("B", 1.0),
    ("%", 0.01),
    ("/s", 1.0),
    ("1", 1.0),
];

/// What a unit is in seconds, octets, or of one. Those of metrics and published tables too.
pub fn factor(unit: &str) -> f64 {
    match unit {
        "us" => 1e-6,
        _ => UNITS.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, factor)| *factor),
    }
}

impl Number {
    /// From where to where a value is printed so: half a unit of the last digit to each side. Zeros at the end of a whole
    /// number beyond its third digit may come from rounding.
    pub fn range(&self) -> (f64, f64) {
        let digits = format!("{:.0}", self.value.abs() / self.times);
        let zeros = digits.chars().rev().take_while(|c| *c == '0').count().min(self.whole.saturating_sub(3));
        let step = if self.decimals > 0 { 10f64.powi(-self.decimals) } else { 10f64.powi(zeros as i32) };
        let half = step * self.times / 2.0;
        (self.value - half, self.value + half)
    }
}

/// Every number of a text that is not part of a word (`S-6-DS100`).
pub fn numbers(text: &str) -> Vec<Number> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<Number> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if !chars[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let before = |n: usize| at.checked_sub(n).map(|i| chars[i]);
        let sign = matches!(before(1), Some('-' | '−'));
        let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '_');
        let word = in_word(before(1)) || sign && in_word(before(2));
        let begin = at;
        while at < chars.len() && {
            let three = chars[at..].iter().skip(1).take_while(|c| c.is_ascii_digit()).count() == 3;
            let digit = chars.get(at + 1).is_some_and(char::is_ascii_digit);
            chars[at].is_ascii_digit() || chars[at] == ',' && three || chars[at] == '.' && digit
        } {
            at += 1;
        }
        let digits: String = chars[begin..at].iter().filter(|c| **c != ',').collect();
        let times = match chars.get(at) {
            Some('K') if chars.get(at + 1) != Some(&'i') => 1e3,
            Some('M') if !matches!(chars.get(at + 1), Some('i' | 'B')) => 1e6,
            _ => 1.0,
        };
        if times > 1.0 {
            at += 1;
        }
        let rest: String = chars[at..].iter().skip_while(|c| matches!(c, ' ' | '\u{a0}')).collect();
        let unit = UNITS.iter().map(|(name, _)| *name).filter(|name| *name != "1").find(|name| {
            rest.strip_prefix(name).is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
        });
        if word {
            continue;
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        found.push(Number {
            value: digits.parse::<f64>().unwrap() * times * if sign { -1.0 } else { 1.0 },
            decimals: fraction.len() as i32,
            times,
            whole: whole.len(),
            unit: unit.map(str::to_owned),
        });
    }
    // "52.5–58.6 µs": of its neighbour to the right, then to the left.
    for i in (0..found.len().saturating_sub(1)).rev() {
        if found[i].unit.is_none() {
            found[i].unit = found[i + 1].unit.clone();
        }
    }
    for i in 1..found.len() {
        if found[i].unit.is_none() {
            found[i].unit = found[i - 1].unit.clone();
        }
    }
    found
}

#[test]
fn numbers_are_read_as_people_write_them() {
    let parsed = |text: &str| -> Vec<(f64, Option<String>)> {
        numbers(text).into_iter().map(|n| (n.value, n.unit)).collect()
    };
    let unit = |u: &str| Some(u.to_owned());
    assert_eq!(parsed("S-6-DS100, U-4-DS0"), []);
    assert_eq!(parsed("54.9 µs (52.5–58.6)"), [(54.9, unit("µs")), (52.5, unit("µs")), (58.6, unit("µs"))]);
    assert_eq!(parsed("-3.4 to +4.9 %"), [(-3.4, unit("%")), (4.9, unit("%"))]);
    assert_eq!(parsed("38,100 (×1.5), 10K"), [(38100.0, None), (1.5, None), (10000.0, None)]);
    assert_eq!(parsed("1,000, 12,5 and 7"), [(1000.0, None), (12.0, None), (5.0, None), (7.0, None)]);
    let range = |text: &str| numbers(text)[0].range();
    assert_eq!((range("38,100"), range("100"), range("8")), ((38050.0, 38150.0), (99.5, 100.5), (7.5, 8.5)));
    assert_eq!(range("20,000"), (19950.0, 20050.0));
    assert_eq!(range("0.25"), (0.245, 0.255));
}
