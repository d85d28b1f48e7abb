//! Writing a query (RFC 1035, section 4.1; the OPT record: RFC 6891, section 6.1; DO: RFC 3225).

/// The fields of a query's OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The largest UDP answer that the sender can take, in octets.
    pub udp_size: u16,
    /// DO: the sender wants DNSSEC records.
    pub do_bit: bool,
}

/// Replaces `buf` by a query: OPCODE 0, RD clear (an authoritative server is asked), one question of
/// class IN, and an OPT record of version 0 without options where `edns` says so.
///
/// `qname_wire` is an uncompressed name in wire format, ending in the root label; it is not checked.
/// Allocates only where `buf` is too small.
pub fn write(buf: &mut Vec<u8>, id: u16, qname_wire: &[u8], qtype: u16, edns: Option<Edns>) {
    begin(buf, id);
    buf.extend_from_slice(qname_wire);
    end(buf, qtype, edns);
}

/// The first part of [`write`]: replaces `buf` by a header. The caller appends the name, and then calls [`end`].
#[inline]
pub fn begin(buf: &mut Vec<u8>, id: u16) {
    let [high, low] = id.to_be_bytes();
    buf.clear();
    buf.extend_from_slice(&[high, low, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
}

/// The last part of [`write`], after the name.
///
/// # Panics
/// Where nothing was begun.
#[inline]
pub fn end(buf: &mut Vec<u8>, qtype: u16, edns: Option<Edns>) {
    let [high, low] = qtype.to_be_bytes();
    buf.extend_from_slice(&[high, low, 0, 1]);
    if let Some(edns) = edns {
        buf[11] = 1; // ARCOUNT
        buf.extend_from_slice(&opt(edns));
    }
}

/// The OPT record: root name, type 41, class = UDP size, TTL = extended RCODE, version, flags; no data.
#[inline]
fn opt(edns: Edns) -> [u8; 11] {
    let [high, low] = edns.udp_size.to_be_bytes();
    [0, 0, 41, high, low, 0, 0, if edns.do_bit { 0x80 } else { 0 }, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::Rtype;
    use domain::base::{Message, ToName};

    #[test]
    fn an_independent_reader_agrees() {
        let mut buf = vec![9; 300];
        for edns in
            [None, Some(Edns { udp_size: 512, do_bit: false }), Some(Edns { udp_size: 4096, do_bit: true })]
        {
            write(&mut buf, 0x0102, b"\x02a6\x03NET\x00", 38, edns);
            let msg = Message::from_octets(&buf).unwrap();
            let header = msg.header();
            assert_eq!((header.id(), header.qr(), header.rd()), (0x0102, false, false));
            let question = msg.sole_question().unwrap();
            assert_eq!(question.qname().to_vec().as_slice(), b"\x02a6\x03NET\x00");
            assert_eq!(question.qtype(), Rtype::A6);
            let opt = msg.opt();
            assert_eq!(opt.as_ref().map(|o| o.udp_payload_size()), edns.map(|e| e.udp_size));
            assert_eq!(opt.as_ref().map(|o| o.dnssec_ok()), edns.map(|e| e.do_bit));
        }
    }
}
