//! The question of a transfer, and the signatures of its answers (RFC 8945, section 5.3.1).

use super::Tsig;
use crate::Error;
use domain::base::iana::Class;
use domain::base::{Message, MessageBuilder, Rtype, Serial, Ttl};
use domain::rdata::Soa;
use domain::rdata::tsig::Time48;
use domain::tsig::{ClientSequence, Key, ValidationError};
use wire::name::Name;

/// Checks message after message.
pub(super) struct Signatures {
    /// None where it has ended.
    sequence: Option<ClientSequence<Key>>,
    counts: Tsig,
    /// The message being checked, as checking takes its signature off.
    copy: Vec<u8>,
}

/// The question: IXFR since a serial (RFC 1995, section 3), or AXFR (RFC 5936, section 2.1); signed where there is a key.
pub(super) fn request(
    apex: &Name,
    since: Option<u32>,
    id: u16,
    key: Option<Key>,
) -> Result<(Vec<u8>, Option<Signatures>), Error> {
    let wrong = |what: &dyn std::fmt::Display| Error::Spec(format!("zone {apex}: {what}"));
    let name = domain::base::Name::from_octets(apex.as_wire().to_vec()).map_err(|e| wrong(&e))?;
    let mut message = MessageBuilder::new_vec().question();
    message.header_mut().set_id(id);
    let qtype = if since.is_some() { Rtype::IXFR } else { Rtype::AXFR };
    message.push((&name, qtype)).map_err(|e| wrong(&e))?;
    let mut message = message.authority();
    if let Some(serial) = since {
        let (root, zero) = (domain::base::Name::root_vec(), Ttl::from_secs(0));
        let soa = Soa::new(root.clone(), root, Serial(serial), zero, zero, zero, zero);
        message.push((&name, Class::IN, zero, soa)).map_err(|e| wrong(&e))?;
    }
    let mut message = message.additional();
    let sequence = key.map(|key| ClientSequence::request(key, &mut message, Time48::now())).transpose();
    let sequence = sequence.map_err(|e| wrong(&e))?;
    let signatures = sequence.map(|sequence| Signatures {
        sequence: Some(sequence),
        counts: Tsig::default(),
        copy: Vec::new(),
    });
    Ok((message.finish(), signatures))
}

/// The code of an answer that does not verify: TSIG's where the server sent one, its response code otherwise.
pub(super) fn code(error: &ValidationError, rcode: u8) -> u16 {
    match error {
        ValidationError::ServerBadSig => 16,
        ValidationError::ServerBadKey => 17,
        ValidationError::ServerBadTime { .. } => 18,
        _ => rcode.into(),
    }
}

impl Signatures {
    /// Checks the next message.
    pub fn check(&mut self, message: &[u8]) -> Result<(), ValidationError> {
        let mut copy = std::mem::take(&mut self.copy);
        copy.clear();
        copy.extend_from_slice(message);
        let mut copy = Message::from_octets(copy).map_err(|_| ValidationError::FormErr)?;
        let before = copy.header_counts().arcount();
        let sequence = self.sequence.as_mut().ok_or(ValidationError::ServerUnsigned)?;
        sequence.answer(&mut copy, Time48::now())?;
        if copy.header_counts().arcount() < before {
            self.counts.signed += 1;
        } else {
            self.counts.unsigned += 1;
        }
        self.copy = copy.into_octets();
        Ok(())
    }

    /// The last message was checked: whether it may be the last, as only a signed one may.
    pub fn done(&mut self) -> bool {
        self.sequence.take().is_some_and(|sequence| sequence.done().is_ok())
    }

    pub fn counts(&self) -> Tsig {
        self.counts
    }
}
