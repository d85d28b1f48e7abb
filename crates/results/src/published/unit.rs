//! Units of published tables.

/// By what a figure in the unit `from` is to be multiplied to have it in `to`; none where they do not measure the same,
/// or one is ambiguous: of `MB` the papers do not say whether it is 10⁶ or 2²⁰ bytes.
///
/// `GB` is 2³⁰ bytes, as RZAIA's figure 2.1 shows of its tables 2.1 and 2.2, which alone have it.
pub fn conversion(from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(1.0);
    }
    /// The base unit of a unit, and how many of it the unit is.
    fn base(unit: &str) -> Option<(&'static str, f64)> {
        Some(match unit {
            "ns" => ("time", 1e-9),
            "us" => ("time", 1e-6),
            "ms" => ("time", 1e-3),
            "s" => ("time", 1.0),
            "B" => ("data", 1.0),
            // Of the traffic in RZAIA's chapter 5, which does not say whether it means 10⁶ or 2²⁰.
            "MB" => ("data", 1e6),
            "GB" => ("data", (1u64 << 30) as f64),
            "kbit/s" => ("bandwidth", 1e3),
            "Mbit/s" => ("bandwidth", 1e6),
            _ => return None,
        })
    }
    let ((what, from), (same, to)) = (base(from)?, base(to)?);
    (what == same).then_some(from / to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::find;

    #[test]
    fn units_are_converted_or_refused() {
        assert_eq!(conversion("ms", "ns"), Some(1e6));
        assert_eq!(conversion("GB", "B"), Some(1_073_741_824.0));
        assert_eq!(conversion("Mbit/s", "kbit/s"), Some(1e3));
        assert_eq!(conversion("MB", "B"), Some(1e6));
        assert_eq!(conversion("%", "%"), Some(1.0));
        for (from, to) in [("kB", "B"), ("B", "s"), ("1/s", "1"), ("%", "1"), ("x", "y")] {
            assert_eq!(conversion(from, to), None, "{from} {to}");
        }
        // A row's own unit comes before its table's.
        let sizes = find("rzaia-1.1").unwrap();
        assert_eq!(sizes.unit_of(&["U-4-DS0", "File Size"]), "B");
        assert_eq!(sizes.unit_of(&["U-4-DS0", "NS RRs"]), "1");
        assert_eq!(find("rzaia-text-path").unwrap().unit_of(&["300 ms"]), "kbit/s");
    }
}
