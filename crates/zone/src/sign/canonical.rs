//! Canonical form and order of record data (RFC 4034 sections 6.2 and 6.3, RFC 6840 section 5.1).

use wire::name;
use wire::rtype;

/// The record data of one RRset in canonical form and order, without duplicates.
#[derive(Default)]
pub(super) struct Canonical {
    data: Vec<u8>,
    /// Start and end in `data`, and the record's number before sorting.
    order: Vec<(u32, u32, u32)>,
}

impl Canonical {
    /// Takes an RRset, and puts `rdatas`, which keep their letters, in order too.
    pub fn of(&mut self, rtype: u16, rdatas: &mut Vec<&[u8]>) {
        self.data.clear();
        self.order.clear();
        let mut ordered = true;
        for (i, rdata) in rdatas.iter().enumerate() {
            let start = self.data.len();
            canonical_rdata(rtype, rdata, &mut self.data);
            if let Some(&(last, end, _)) = self.order.last() {
                ordered = ordered && self.data[last as usize..end as usize] < self.data[start..];
            }
            self.order.push((start as u32, self.data.len() as u32, i as u32));
        }
        if ordered {
            return;
        }
        let data = &self.data;
        let record = |&(start, end, _): &(u32, u32, u32)| &data[start as usize..end as usize];
        self.order.sort_by(|a, b| record(a).cmp(record(b)));
        self.order.dedup_by(|a, b| record(a) == record(b));
        *rdatas = self.order.iter().map(|&(_, _, i)| rdatas[i as usize]).collect();
    }

    /// Takes an RRset of one record.
    pub fn of_one(&mut self, rtype: u16, rdata: &[u8]) {
        self.data.clear();
        canonical_rdata(rtype, rdata, &mut self.data);
        self.order.clear();
        self.order.push((0, self.data.len() as u32, 0));
    }

    /// In canonical form and order.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.order.iter().map(|&(start, end, _)| &self.data[start as usize..end as usize])
    }
}

/// True where an RRset is surely in canonical form and order already.
pub(super) fn is_canonical(rtype: u16, rdatas: &[&[u8]]) -> bool {
    // Length octets are no letters.
    let small = || rdatas.iter().all(|rdata| !rdata.iter().any(u8::is_ascii_uppercase));
    rdatas.is_sorted_by(|a, b| a < b) && (matches!(rtype, rtype::A | rtype::AAAA | rtype::DS) || small())
}

/// Appends record data in canonical form: names in it as small letters.
pub fn canonical_rdata(rtype: u16, rdata: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(rdata);
    let data = &mut out[start..];
    let (skip, names) = match rtype {
        rtype::A | rtype::AAAA | rtype::DS => return,
        rtype::NS | rtype::CNAME | rtype::DNAME | rtype::PTR => (0, 1),
        // MD, MF, MB, MG, MR, NXT.
        3 | 4 | 7 | 8 | 9 | 30 => (0, 1),
        // SOA, MINFO, RP.
        rtype::SOA | 14 | 17 => (0, 2),
        // MX, AFSDB, RT, KX.
        rtype::MX | 18 | 21 | 36 => (2, 1),
        // PX.
        26 => (2, 2),
        // SIG.
        24 => (18, 1),
        rtype::SRV => (6, 1),
        rtype::NAPTR => {
            let skip = (0..3).try_fold(4, |at, _| Some(at + 1 + usize::from(*data.get(at)?)));
            (skip.unwrap_or(data.len()), 1)
        }
        // The octets of the address that the prefix leaves (RFC 2874 section 3.1.1).
        rtype::A6 => (1 + usize::from(128u8.saturating_sub(data.first().map_or(128, |&p| p))).div_ceil(8), 1),
        _ => return,
    };
    let mut rest = data.get_mut(skip..).unwrap_or_default();
    for _ in 0..names {
        let Some(len) = name::wire_len(rest) else { return };
        let (name, tail) = rest.split_at_mut(len);
        name::lowercase(name);
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_canonical_form() {
        let mut canonical = Canonical::default();
        let mut rdatas: Vec<&[u8]> = vec![b"\x01b\0", b"\x01A\0", b"\x01a\0", b"\x01B\0"];
        canonical.of(rtype::NS, &mut rdatas);
        assert_eq!(canonical.records().collect::<Vec<_>>(), [b"\x01a\0", b"\x01b\0"]);
        assert_eq!(rdatas, [b"\x01A\0", b"\x01b\0"], "the first of equal ones, letters as they were");
        let mut text: Vec<&[u8]> = vec![b"\x01B", b"\x01a"];
        canonical.of(rtype::TXT, &mut text);
        assert_eq!(text, [b"\x01B", b"\x01a"], "no names in it: letters count");
        assert!(is_canonical(rtype::NS, &[b"\x01a\0", b"\x01b\0"]));
        assert!(!is_canonical(rtype::NS, &[b"\x01A\0", b"\x01b\0"]));
        assert!(!is_canonical(rtype::A, &[b"abcd", b"abcd"]) && is_canonical(rtype::A, &[b"ABCD", b"abcd"]));
        let mut a6: Vec<&[u8]> = vec![b"\x70\0\x07\x01N\0"];
        canonical.of(rtype::A6, &mut a6);
        assert_eq!(canonical.records().next(), Some(&b"\x70\0\x07\x01n\0"[..]));
    }
}
