//! The twelve octets before everything else (RFC 1035, section 4.1.1; AD and CD: RFC 4035).

/// Octets in a header.
pub const LEN: usize = 12;

/// A view over the header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a>(&'a [u8; LEN]);

impl<'a> Header<'a> {
    /// The header of `msg`; `None` where the message is shorter than a header.
    pub fn new(msg: &'a [u8]) -> Option<Self> {
        msg.first_chunk().map(Self)
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// ID.
    pub fn id(self) -> u16 {
        self.u16(0)
    }

    /// QR: this is an answer.
    pub fn qr(self) -> bool {
        self.0[2] & 0x80 != 0
    }

    /// OPCODE, 0 to 15; a query has 0.
    pub fn opcode(self) -> u8 {
        self.0[2] >> 3 & 15
    }

    /// AA: the answer is authoritative.
    pub fn aa(self) -> bool {
        self.0[2] & 4 != 0
    }

    /// TC: the message was truncated.
    pub fn tc(self) -> bool {
        self.0[2] & 2 != 0
    }

    /// RD: recursion desired.
    pub fn rd(self) -> bool {
        self.0[2] & 1 != 0
    }

    /// RA: recursion available.
    pub fn ra(self) -> bool {
        self.0[3] & 0x80 != 0
    }

    /// Z: the bit that is still reserved.
    pub fn z(self) -> bool {
        self.0[3] & 0x40 != 0
    }

    /// AD: the data are authentic; in a query: it is understood.
    pub fn ad(self) -> bool {
        self.0[3] & 0x20 != 0
    }

    /// CD: checking disabled.
    pub fn cd(self) -> bool {
        self.0[3] & 0x10 != 0
    }

    /// RCODE, 0 to 15: without the upper bits that an OPT record may add.
    pub fn rcode(self) -> u8 {
        self.0[3] & 15
    }

    /// QDCOUNT: questions.
    pub fn qdcount(self) -> u16 {
        self.u16(4)
    }

    /// ANCOUNT: records in the answer section.
    pub fn ancount(self) -> u16 {
        self.u16(6)
    }

    /// NSCOUNT: records in the authority section.
    pub fn nscount(self) -> u16 {
        self.u16(8)
    }

    /// ARCOUNT: records in the additional section.
    pub fn arcount(self) -> u16 {
        self.u16(10)
    }

    /// Whether the header is that of a referral to other servers: NOERROR without AA, no records in the answer section, and some in the
    /// authority section (RFC 1034, section 4.3.2, step 3b).
    pub fn is_referral(self) -> bool {
        self.qr() && !self.aa() && self.rcode() == 0 && self.ancount() == 0 && self.nscount() > 0
    }

    /// False where the message of `len` octets is too short for the records that the header claims:
    /// a question takes at least 5 octets, a record at least 11 (RFC 1035, sections 4.1.2 and 4.1.3).
    /// Cheap: looks at the counts alone.
    pub fn counts_fit(self, len: usize) -> bool {
        let records = [self.ancount(), self.nscount(), self.arcount()];
        let records: usize = records.iter().map(|&n| usize::from(n)).sum();
        LEN + 5 * usize::from(self.qdcount()) + 11 * records <= len
    }
}

/// Sets RD: recursion desired; nothing happens where the message is shorter than its flags.
pub fn set_rd(msg: &mut [u8]) {
    if let Some(at) = msg.get_mut(2) {
        *at |= 1;
    }
}

/// Writes the ID into a message; nothing happens where the message is shorter than an ID.
pub fn set_id(msg: &mut [u8], id: u16) {
    if let Some(at) = msg.first_chunk_mut() {
        *at = id.to_be_bytes();
    }
}

/// Makes an answer of a query in place, as an echo does: sets QR, nothing else.
pub fn set_qr(msg: &mut [u8]) {
    if let Some(at) = msg.get_mut(2) {
        *at |= 0x80;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_where_rfc_1035_puts_it() {
        let mut msg = [0x12, 0x34, 0b1010_1111, 0b1000_0011, 0, 1, 0, 2, 0, 3, 1, 0];
        let h = Header::new(&msg).unwrap();
        assert_eq!((h.id(), h.opcode(), h.rcode()), (0x1234, 5, 3));
        assert_eq!([h.qr(), h.aa(), h.tc(), h.rd(), h.ra()], [true; 5]);
        assert_eq!([h.z(), h.ad(), h.cd()], [false; 3]);
        for (bit, set) in
            [(0x40, [true, false, false]), (0x20, [false, true, false]), (0x10, [false, false, true])]
        {
            let other = [&msg[..3], &[bit], &msg[4..]].concat();
            let h = Header::new(&other).unwrap();
            assert_eq!([h.z(), h.ad(), h.cd()], set);
        }
        let h = Header::new(&msg).unwrap();
        assert_eq!([h.qdcount(), h.ancount(), h.nscount(), h.arcount()], [1, 2, 3, 256]);
        set_id(&mut msg, 0xabcd);
        assert_eq!(Header::new(&msg).unwrap().id(), 0xabcd);
        let mut query = [0u8; LEN];
        set_qr(&mut query);
        let h = Header::new(&query).unwrap();
        assert!(h.qr() && !h.aa() && !h.tc() && !h.rd() && !h.ra());
        set_rd(&mut query);
        assert_eq!(query[2..4], [0x81, 0]);
    }

    #[test]
    fn short_messages_have_no_header() {
        assert_eq!(Header::new(&[0; LEN - 1]), None);
        set_id(&mut [0], 7);
        set_qr(&mut [0, 0]);
        set_rd(&mut [0, 0]);
    }

    #[test]
    fn counts_beyond_the_message_do_not_fit() {
        let mut msg = [0u8; LEN + 16];
        msg[5] = 1;
        msg[7] = 1;
        assert!(Header::new(&msg).unwrap().counts_fit(msg.len()));
        assert!(!Header::new(&msg).unwrap().counts_fit(msg.len() - 1));
    }
}
