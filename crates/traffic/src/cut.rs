//! Files of queries cut by name ranges, as zones are sliced.

use crate::Error;
use crate::lines::Lines;
use crate::queries::parse_line;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use wire::ranges::Partition;

/// How many queries went where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CutQueries {
    /// By range.
    pub queries: Vec<u64>,
    /// Queries for names outside of the zone: in no range, written nowhere.
    pub outside: u64,
}

/// Writes each query of a file to the output of the range that its name is in, in the order of the file; comments and
/// blank lines are left out. `origin` is the zone's name in wire format. Each query is in one range only: those
/// for the zone's own name in that which begins at the first label.
///
/// # Errors
/// The first bad line with its column; a file that cannot be read; the outputs'.
///
/// # Panics
/// Where there are not as many outputs as ranges.
pub fn cut_queries<W: Write>(
    path: &Path,
    origin: &[u8],
    partition: &Partition,
    outputs: &mut [W],
) -> Result<CutQueries, Error> {
    assert_eq!(partition.ranges().len(), outputs.len(), "one output a range");
    let mut lines = Lines::open(path)?;
    let mut qname = Vec::new();
    let mut cut = CutQueries { queries: vec![0; outputs.len()], outside: 0 };
    let written =
        |source| Error::Io { path: format!("writing the parts of {}", path.display()).into(), source };
    while let Some((text, column)) = lines.next()? {
        if let Err((at, what)) = parse_line(text, &mut qname) {
            return Err(lines.error(column + at, what));
        }
        match partition.find(&qname, origin) {
            Some(n) => {
                cut.queries[n] += 1;
                outputs[n].write_all(text).and_then(|()| outputs[n].write_all(b"\n")).map_err(written)?;
            }
            None => cut.outside += 1,
        }
    }
    outputs.iter_mut().try_for_each(Write::flush).map_err(written)?;
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_goes_to_one_range() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "; comment\nwww.Apple.com A\n  google.com. AAAA  \n\ncom SOA\nexample.net A\n0.com TYPE7\nzoo.com A\n";
        std::fs::write(file.path(), text).unwrap();
        let partition: Partition = "a-f,g-z".parse().unwrap();
        let mut outputs = vec![Vec::new(), Vec::new()];
        let cut = cut_queries(file.path(), b"\x03com\0", &partition, &mut outputs).unwrap();
        assert_eq!(cut, CutQueries { queries: vec![3, 2], outside: 1 });
        let texts: Vec<_> = outputs.iter().map(|o| std::str::from_utf8(o).unwrap()).collect();
        assert_eq!(texts, ["www.Apple.com A\ncom SOA\n0.com TYPE7\n", "google.com. AAAA\nzoo.com A\n"]);
        std::fs::write(file.path(), "a.com A\nb.com\n").unwrap();
        let e = cut_queries(file.path(), b"\x03com\0", &partition, &mut outputs).unwrap_err();
        assert!(e.to_string().contains(":2:6: a name without a type"), "{e}");
    }
}
