//! Line and column of an octet in a text.

/// The line and the character in it, both from 1, of the octet at `offset`.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::line_column;

    #[test]
    fn positions_count_from_one() {
        let text = "ab\nçd\n";
        assert_eq!(
            [0, 1, 3, 5, 99].map(|at| line_column(text, at)),
            [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
        );
    }
}
