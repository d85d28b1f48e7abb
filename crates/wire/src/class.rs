//! Classes by number and by name (RFC 1035, section 3.2.4; RFC 6895, section 3.2).

/// The Internet.
pub const IN: u16 = 1;

/// The name of a class, such as `CH`; `CLASS` and its number where there is none (RFC 3597, section 5).
pub fn to_text(class: u16) -> String {
    let name = match class {
        IN => "IN",
        3 => "CH",
        4 => "HS",
        254 => "NONE",
        255 => "ANY",
        _ => return format!("CLASS{class}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_names() {
        assert_eq!([1, 3, 4, 254, 255, 2].map(to_text).join(" "), "IN CH HS NONE ANY CLASS2");
    }
}
