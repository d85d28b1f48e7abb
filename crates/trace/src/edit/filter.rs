//! Which messages are kept.

use super::dropped::Drop;
use super::{Edit, Times};
use crate::pair::Pairs;
use crate::read::Message;
use measure::Nanos;
use std::net::IpAddr;
use wire::{name, opt, question, ranges};

/// Judges messages in the order of the trace.
pub(super) struct Filter<'e> {
    edit: &'e Edit,
    times: Times,
    /// Queries that wait for their responses, and whether they are kept; where responses depend on it.
    pairs: Option<Pairs<bool>>,
    /// Queries that all filters but `every` kept.
    passed: u64,
}

impl Edit {
    /// Why a client's packets are not kept.
    pub(super) fn client(&self, client: IpAddr) -> Result<(), Drop> {
        let within = |nets: &[super::Net]| nets.iter().any(|net| net.contains(client));
        let wanted = self.if_clients.is_empty() || within(&self.if_clients);
        if wanted && !within(&self.not_clients) { Ok(()) } else { Err(Drop::Client) }
    }
}

impl<'e> Filter<'e> {
    pub fn new(edit: &'e Edit) -> Self {
        let responses = edit.if_response || !edit.if_query;
        let paired = responses && (edit.if_edns_size.is_some() || edit.if_do || edit.every.is_some());
        Self { edit, times: Times::new(edit), pairs: paired.then(Pairs::default), passed: 0 }
    }

    /// Why a message is not kept; `first` is when the first packet was captured.
    pub fn message(&mut self, message: &Message<'_>, first: Nanos) -> Result<(), Drop> {
        let edit = self.edit;
        let response = message.header().qr();
        if !self.times.has(message.at, first) {
            return Err(Drop::Time);
        }
        edit.client(if response { message.to.ip() } else { message.from.ip() })?;
        self.name(message)?;
        if response {
            if edit.if_query && !edit.if_response {
                return Err(Drop::Responses);
            }
            return self.response(message);
        }
        let verdict = self.query(message);
        if let Some(pairs) = &mut self.pairs {
            pairs.expire(message.at, |_| {});
            pairs.query(message, verdict.is_ok());
        }
        verdict?;
        if edit.if_response && !edit.if_query { Err(Drop::Queries) } else { Ok(()) }
    }

    fn name(&self, message: &Message<'_>) -> Result<(), Drop> {
        let Edit { if_under, if_names, .. } = self.edit;
        if if_under.is_none() && if_names.is_empty() {
            return Ok(());
        }
        let origin = if_under.as_ref().map_or(name::ROOT, |name| name.as_wire());
        let qname = question::parse(message.bytes).ok_or(Drop::NoQuestion)?.qname;
        let named = if_names.is_empty() || if_names.iter().any(|range| range.contains(qname, origin));
        if named && ranges::label_below(qname, origin).is_some() { Ok(()) } else { Err(Drop::Names) }
    }

    fn query(&mut self, message: &Message<'_>) -> Result<(), Drop> {
        let edit = self.edit;
        if edit.if_edns_size.is_some() || edit.if_do {
            let opt = opt::find(message.bytes);
            if opt.is_none() && !message.is_whole() {
                return Err(Drop::CutMessage);
            }
            if edit.if_edns_size.is_some_and(|size| opt.is_none_or(|opt| opt.udp_size != size)) {
                return Err(Drop::EdnsSize);
            }
            if edit.if_do && !opt.is_some_and(|opt| opt.do_bit()) {
                return Err(Drop::Do);
            }
        }
        if let Some(every) = edit.every {
            self.passed += 1;
            if !(self.passed - 1).is_multiple_of(every.max(1)) {
                return Err(Drop::Every);
            }
        }
        Ok(())
    }

    fn response(&mut self, message: &Message<'_>) -> Result<(), Drop> {
        let Some(pairs) = &mut self.pairs else { return Ok(()) };
        match pairs.answer(message) {
            Some((true, _)) => Ok(()),
            Some((false, _)) => Err(Drop::QueryDropped),
            None if self.edit.if_edns_size.is_some() || self.edit.every.is_some() => Err(Drop::QueryUnknown),
            // A response to a query with DO has DO (RFC 3225, section 3).
            None if opt::find(message.bytes).is_some_and(|opt| opt.do_bit()) => Ok(()),
            None => Err(Drop::QueryUnknown),
        }
    }
}
