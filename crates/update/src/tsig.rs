//! Signatures of messages (TSIG, RFC 8945), made and checked in place.
//!
//! As `domain::tsig` does it, with which the tests compare it, but without a copy of the message: a sender signs hundreds of
//! thousands of messages a second on one core.

use crate::{Error, TsigKey};
use aws_lc_rs::hmac;
use std::fmt;
use wire::header::{self, Header};
use wire::name;
use wire::record::skip_name;

/// TSIG's type, and its class ANY.
const TSIG: u16 = 250;
const ANY: u16 = 255;

/// How far the two ends' clocks may be apart, in seconds (RFC 8945, section 10: recommended).
const FUDGE: u16 = 300;

/// The longest signature, in octets.
pub const MAC_MAX: usize = 64;

/// A signature.
#[derive(Clone, Copy)]
pub struct Mac {
    bytes: [u8; MAC_MAX],
    len: u8,
}

impl Default for Mac {
    fn default() -> Self {
        Self { bytes: [0; MAC_MAX], len: 0 }
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({} octets)", self.len)
    }
}

impl Mac {
    fn new(bytes: &[u8]) -> Option<Self> {
        let mut mac = Self { bytes: [0; MAC_MAX], len: bytes.len() as u8 };
        mac.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(mac)
    }

    /// Its octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A fault of a message's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is none.
    Missing,
    /// The peer refused ours: 16 BADSIG, 17 BADKEY, 18 BADTIME, 22 BADTRUNC (RFC 8945, section 3).
    Refused(u16),
    /// Of another key or algorithm.
    Key,
    /// Not of this message.
    Signature,
    /// Of another time than now.
    Time,
    /// The message cannot be read.
    Damaged,
}

/// Signs and checks with one key.
pub struct Signer {
    key: hmac::Key,
    /// Wire format, small letters.
    name: Vec<u8>,
    algorithm: Vec<u8>,
    mac_len: usize,
    /// The octets to digest; kept between calls to save allocations.
    scratch: Vec<u8>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("mac_len", &self.mac_len).finish_non_exhaustive()
    }
}

/// Where the parts of a TSIG record are in a message.
struct Parts<'a> {
    /// The record's beginning.
    start: usize,
    algorithm: &'a [u8],
    time: u64,
    fudge: u16,
    mac: &'a [u8],
    original_id: u16,
    error: u16,
    other: &'a [u8],
}

impl Signer {
    /// For this key.
    ///
    /// # Errors
    /// [`Error::Spec`] for an algorithm other than hmac-sha1, -sha256, -sha384 and -sha512, and as [`TsigKey::tsig`].
    pub fn new(key: &TsigKey) -> Result<Self, Error> {
        let algorithm = match key.algorithm.as_str() {
            "hmac-sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            "hmac-sha256" => hmac::HMAC_SHA256,
            "hmac-sha384" => hmac::HMAC_SHA384,
            "hmac-sha512" => hmac::HMAC_SHA512,
            other => {
                return Err(Error::Spec(format!(
                    "key {}: unknown algorithm '{other}': use hmac-sha256",
                    key.name
                )));
            }
        };
        let wire_name = |text: &str| {
            let mut wire = Vec::new();
            name::parse_into(text.as_bytes(), Some(name::ROOT), &mut wire)
                .map_err(|e| Error::Spec(format!("key {}: {e}", key.name)))?;
            name::lowercase(&mut wire);
            Ok::<_, Error>(wire)
        };
        Ok(Self {
            key: hmac::Key::new(algorithm, &key.octets()?),
            name: wire_name(&key.name)?,
            algorithm: wire_name(&key.algorithm)?,
            mac_len: algorithm.tag_len(),
            scratch: Vec::with_capacity(1024),
        })
    }

    /// How many octets a signature adds to a message.
    #[cfg(test)]
    fn overhead(&self) -> usize {
        self.name.len() + 10 + self.algorithm.len() + 16 + self.mac_len
    }

    /// Appends the signature to a message that was complete but for it, at `time` (seconds since 1970). An answer's covers the
    /// `request`'s too.
    pub fn sign(&mut self, message: &mut Vec<u8>, time: u64, request: Option<&Mac>) -> Mac {
        self.scratch.clear();
        if let Some(request) = request {
            self.scratch.extend_from_slice(&u16::from(request.len).to_be_bytes());
            self.scratch.extend_from_slice(request.as_slice());
        }
        self.scratch.extend_from_slice(message);
        variables(&mut self.scratch, &self.name, &self.algorithm, (time, FUDGE, 0), &[]);
        let tag = hmac::sign(&self.key, &self.scratch);
        let mac = Mac::new(tag.as_ref()).unwrap_or_default();
        let id = [message[0], message[1]];
        message.extend_from_slice(&self.name);
        message.extend_from_slice(&TSIG.to_be_bytes());
        message.extend_from_slice(&ANY.to_be_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&((self.algorithm.len() + 16 + self.mac_len) as u16).to_be_bytes());
        message.extend_from_slice(&self.algorithm);
        message.extend_from_slice(&time.to_be_bytes()[2..]);
        message.extend_from_slice(&FUDGE.to_be_bytes());
        message.extend_from_slice(&u16::from(mac.len).to_be_bytes());
        message.extend_from_slice(mac.as_slice());
        message.extend_from_slice(&id);
        message.extend_from_slice(&[0; 4]);
        let additional = u16::from_be_bytes([message[10], message[11]]).wrapping_add(1);
        message[10..12].copy_from_slice(&additional.to_be_bytes());
        mac
    }

    /// Checks an answer's signature, which covers that of its request, at `now` (seconds since 1970).
    ///
    /// # Errors
    /// The fault; a key or signature that the peer refused shows in the answer's code alone, which is unsigned.
    pub fn check(&mut self, message: &[u8], now: u64, request: &Mac) -> Result<(), Fault> {
        let parts = parts(message).ok_or(Fault::Damaged)?.ok_or(Fault::Missing)?;
        if parts.error != 0 && parts.mac.is_empty() {
            return Err(Fault::Refused(parts.error));
        }
        if !is_name(message, parts.start, &self.name) || !name::equal(parts.algorithm, &self.algorithm) {
            return Err(Fault::Key);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&u16::from(request.len).to_be_bytes());
        self.scratch.extend_from_slice(request.as_slice());
        let at = self.scratch.len();
        self.scratch.extend_from_slice(&message[..parts.start]);
        let digested = &mut self.scratch[at..];
        let additional = u16::from_be_bytes([digested[10], digested[11]]).wrapping_sub(1);
        digested[10..12].copy_from_slice(&additional.to_be_bytes());
        header::set_id(digested, parts.original_id);
        let times = (parts.time, parts.fudge, parts.error);
        variables(&mut self.scratch, &self.name, &self.algorithm, times, parts.other);
        hmac::verify(&self.key, &self.scratch, parts.mac).map_err(|_| Fault::Signature)?;
        // BADTIME is the one refusal that is signed (RFC 8945, section 5.2.3).
        if parts.error != 0 {
            return Err(Fault::Refused(parts.error));
        }
        if parts.time.abs_diff(now) > u64::from(parts.fudge) { Err(Fault::Time) } else { Ok(()) }
    }
}

/// The signature at the end of a message; `None` where it has none or cannot be read.
pub fn mac_of(message: &[u8]) -> Option<Mac> {
    Mac::new(parts(message)??.mac)
}

/// Appends the variables that are digested with a message (RFC 8945, section 4.3.3); names as small letters.
fn variables(
    out: &mut Vec<u8>,
    key: &[u8],
    algorithm: &[u8],
    (time, fudge, error): (u64, u16, u16),
    other: &[u8],
) {
    out.extend_from_slice(key);
    out.extend_from_slice(&ANY.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(algorithm);
    out.extend_from_slice(&time.to_be_bytes()[2..]);
    out.extend_from_slice(&fudge.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&(other.len() as u16).to_be_bytes());
    out.extend_from_slice(other);
}

/// Finds the TSIG record, which is the last one; the inner `None`: it has no such record; the outer: the message is damaged.
fn parts(message: &[u8]) -> Option<Option<Parts<'_>>> {
    let header = Header::new(message)?;
    if header.arcount() == 0 {
        return Some(None);
    }
    let mut at = header::LEN;
    for _ in 0..header.qdcount() {
        at = skip_name(message, at)? + 4;
    }
    let records = [header.ancount(), header.nscount(), header.arcount()].map(u32::from).iter().sum::<u32>();
    for _ in 1..records {
        at = skip_name(message, at)?;
        let length = message.get(at + 8..at + 10)?;
        at += 10 + usize::from(u16::from_be_bytes([length[0], length[1]]));
    }
    let start = at;
    let fixed = skip_name(message, at)?;
    let mut rest = message.get(fixed..)?;
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        Some(head)
    };
    let short = |b: &[u8]| u16::from_be_bytes([b[0], b[1]]);
    let head = take(10)?;
    if short(head) != TSIG || short(&head[2..]) != ANY {
        return Some(None);
    }
    let algorithm = take(name::wire_len(&message[fixed + 10..])?)?;
    let numbers = take(10)?;
    let time = numbers[..6].iter().fold(0, |time, &b| time << 8 | u64::from(b));
    let mac = take(usize::from(short(&numbers[8..])))?;
    let end = take(6)?;
    let other = take(usize::from(short(&end[4..])))?;
    if !rest.is_empty() {
        return None;
    }
    let (original_id, error) = (short(end), short(&end[2..]));
    Some(Some(Parts { start, algorithm, time, fudge: short(&numbers[6..]), mac, original_id, error, other }))
}

/// Whether the name at `at` of a message, compressed or not, is `wire`.
fn is_name(message: &[u8], mut at: usize, wire: &[u8]) -> bool {
    let mut rest = wire;
    for _ in 0..256 {
        let Some(&length) = message.get(at) else { return false };
        if length >= 192 {
            let Some(&low) = message.get(at + 1) else { return false };
            at = usize::from(length & 63) << 8 | usize::from(low);
            continue;
        }
        let end = 1 + usize::from(length);
        let (Some(ours), Some(theirs)) = (rest.get(..end), message.get(at..at + end)) else { return false };
        if !ours.eq_ignore_ascii_case(theirs) {
            return false;
        }
        if length == 0 {
            return true;
        }
        (rest, at) = (&rest[end..], at + end);
    }
    false
}

/// The name of a response code in RFC 8945, section 3, and RFC 1035, TSIG's own errors included.
pub fn code_name(code: u16) -> String {
    match code {
        0..=15 => wire::rcode::to_text(code as u8).into(),
        16 => "BADSIG".into(),
        17 => "BADKEY".into(),
        18 => "BADTIME".into(),
        22 => "BADTRUNC".into(),
        other => format!("TSIG{other}"),
    }
}

/// Fuzz entry: any octets are a message with a signature, without one, or damaged.
pub fn fuzz_signature(message: &[u8]) {
    if let Some(Some(found)) = parts(message) {
        assert!(found.start < message.len() && found.mac.len() <= message.len());
    }
    let _ = mac_of(message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::Message;
    use domain::base::MessageBuilder;
    use domain::rdata::tsig::Time48;
    use domain::tsig::{ClientTransaction, ServerTransaction};
    use proptest::prelude::*;
    use std::sync::Arc;

    const NOW: u64 = 1_790_000_000;

    fn update(names: &[u8]) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(b"\x07example\x00\x00\x06\x00\x01");
        for n in names {
            message.extend_from_slice(&[
                1,
                b'a' + n % 26,
                0xc0,
                12,
                0,
                1,
                0,
                1,
                0,
                0,
                0,
                60,
                0,
                4,
                10,
                0,
                0,
                *n,
            ]);
        }
        message[9] = names.len() as u8;
        message
    }

    fn signers() -> Vec<(Signer, Arc<domain::tsig::Key>)> {
        ["hmac-sha1", "hmac-sha256", "hmac-sha384", "hmac-sha512"]
            .map(|algorithm| {
                let key = TsigKey { algorithm: algorithm.into(), ..TsigKey::random("Lab.Example").unwrap() };
                (Signer::new(&key).unwrap(), Arc::new(key.tsig().unwrap()))
            })
            .into()
    }

    proptest! {
        #[test]
        fn domain_takes_our_signatures_and_we_take_its(names in prop::collection::vec(any::<u8>(), 0..20)) {
            for (mut ours, theirs) in signers() {
                let mut message = update(&names);
                let before = message.len();
                let mac = ours.sign(&mut message, NOW, None);
                prop_assert_eq!(message.len(), before + ours.overhead());
                let found = mac_of(&message).unwrap();
                prop_assert_eq!(found.as_slice(), mac.as_slice());
                let mut request = Message::from_octets(message).unwrap();
                let now = Time48::from_u64(NOW);
                let transaction = ServerTransaction::request(&theirs, &mut request, now).unwrap().expect("it is signed");
                let mut answer = MessageBuilder::new_vec()
                    .start_answer(&request, domain::base::iana::Rcode::NOERROR)
                    .unwrap()
                    .additional();
                transaction.answer(&mut answer, now).unwrap();
                let answer = answer.finish();
                prop_assert_eq!(ours.check(&answer, NOW, &mac), Ok(()));
                prop_assert_eq!(ours.check(&answer, NOW + 301, &mac), Err(Fault::Time));
                prop_assert_eq!(ours.check(&answer, NOW, &Mac::default()), Err(Fault::Signature));
                let mut forged = answer.clone();
                forged[3] ^= 5;
                prop_assert_eq!(ours.check(&forged, NOW, &mac), Err(Fault::Signature));
            }
        }

        #[test]
        fn any_octets_are_safe(message in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_signature(&message);
        }

        #[test]
        fn damaged_signatures_are_safe(at in any::<prop::sample::Index>(), octet in any::<u8>(), cut in 0usize..40) {
            let (mut ours, _) = signers().swap_remove(1);
            let mut message = update(b"abc");
            let mac = ours.sign(&mut message, NOW, None);
            let at = at.index(message.len());
            message[at] = octet;
            message.truncate(message.len() - cut.min(message.len()));
            fuzz_signature(&message);
            let _ = ours.check(&message, NOW, &mac);
        }
    }

    #[test]
    fn domain_takes_the_answers_that_we_sign() {
        for (mut ours, theirs) in signers() {
            let mut request = MessageBuilder::new_vec().additional();
            let mut message = Message::from_octets(update(b"x")).unwrap();
            request.header_mut().set_id(message.header().id());
            let client =
                ClientTransaction::request(theirs.clone(), &mut request, Time48::from_u64(NOW)).unwrap();
            let mac = mac_of(request.as_slice()).unwrap();
            message.header_mut().set_qr(true);
            let mut answer = message.into_octets();
            ours.sign(&mut answer, NOW, Some(&mac));
            let mut answer = Message::from_octets(answer).unwrap();
            client.answer(&mut answer, Time48::from_u64(NOW)).unwrap();
        }
    }

    #[test]
    fn what_a_server_refuses_has_its_name() {
        let (mut ours, theirs) = signers().swap_remove(1);
        let mut other = Signer::new(&TsigKey::random("stranger").unwrap()).unwrap();
        let mut message = update(b"x");
        let mac = other.sign(&mut message, NOW, None);
        let mut request = Message::from_octets(message).unwrap();
        let refused = ServerTransaction::request(&theirs, &mut request, Time48::from_u64(NOW)).unwrap_err();
        let answer = refused.build_message(&request, MessageBuilder::new_vec()).unwrap().finish();
        assert_eq!(ours.check(&answer, NOW, &mac), Err(Fault::Refused(17)));
        assert_eq!([16, 17, 18, 5].map(code_name), ["BADSIG", "BADKEY", "BADTIME", "REFUSED"]);
        assert_eq!(ours.check(&update(b"x"), NOW, &mac), Err(Fault::Missing));
    }
}
