//! Markers: updates of one name by which it can be seen when changes are served elsewhere.

use super::spec::MarkerSpec;
use crate::Error;
use crate::message::Builder;
use crate::script::{Rr, Section};
use crate::tsig::code_name;
use measure::clock::Wall;
use measure::{Nanos, Seed};
use serde::{Deserialize, Serialize};
use wire::name::{self, Name};
use wire::{class, rtype};

/// Class of what goes (RFC 2136, section 2.5.2).
const ANY: u16 = 255;

/// A marker update. Times are those of the wall clock, in nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    /// The number that the TXT record has, in decimal digits.
    pub number: u64,
    /// When it was due.
    pub intended: Nanos,
    /// When it was sent; none: the kernel refused it, or no id was free.
    pub sent: Option<Nanos>,
    /// When it was answered within the deadline.
    pub acknowledged: Option<Nanos>,
    /// The response code, TSIG's among them.
    pub rcode: Option<String>,
    /// Sent once after all updates, so that it can be seen that all of them have arrived. When that is depends on the length of the
    /// load, so it has no part in lags.
    #[serde(default)]
    pub closing: bool,
}

/// Makes them, and remembers what became of them.
#[derive(Debug)]
pub(super) struct Markers {
    zone: Vec<u8>,
    pub name: Name,
    every: Nanos,
    scattered: Option<Seed>,
    /// When the first interval begins, monotonic.
    begun: Nanos,
    /// The interval of the next one.
    interval: u64,
    /// When the next one is due, monotonic.
    pub next: Nanos,
    first: u64,
    pub made: Vec<Marker>,
}

impl Markers {
    /// For a zone (wire format).
    pub fn new(spec: &MarkerSpec, zone: &[u8]) -> Result<Self, Error> {
        let name = match &spec.name {
            Some(text) => text
                .parse::<Name>()
                .map_err(|e| Error::Spec(format!("--marker: '{text}' is no domain name: {e}")))?,
            None => {
                let wire = [&b"\x08_dnsrack"[..], zone].concat();
                Name::from_wire(&wire)
                    .map_err(|e| Error::Spec(format!("--marker: below the zone {e}: name one")))?
            }
        };
        if !name.is_under(zone) || name::equal(name.as_wire(), zone) {
            return Err(Error::Spec(format!(
                "--marker: {name} is not below the zone of the file's first update"
            )));
        }
        Ok(Self {
            zone: zone.into(),
            name,
            every: spec.every,
            scattered: spec.scattered,
            begun: 0,
            interval: 0,
            next: Nanos::MAX,
            first: spec.first,
            made: Vec::new(),
        })
    }

    /// The first interval begins at `start`.
    pub fn begin(&mut self, start: Nanos) {
        (self.begun, self.interval) = (start, 0);
        self.next = self.due(0);
    }

    /// When the marker of an interval is due.
    fn due(&self, interval: u64) -> Nanos {
        let within = self.scattered.map_or(0, |seed| seed.draw("marker", interval).below(self.every));
        self.begun + interval * self.every + within
    }

    /// Makes the one that is due: its place in the list, and when it was due. What was due before it and would be of no use any more
    /// is left out.
    pub fn make(&mut self, now: Nanos, wall: Wall, out: &mut Vec<u8>) -> (u32, Nanos) {
        let missed = now.saturating_sub(self.next) / self.every.max(1);
        let mut intended = self.next;
        if missed > 0 {
            self.interval += missed;
            intended = self.due(self.interval);
            if intended > now {
                self.interval -= 1;
                intended = self.due(self.interval);
            }
        }
        self.interval += 1;
        self.next = self.due(self.interval);
        let place = self.made.len() as u32;
        let number = self.first + u64::from(place);
        self.made.push(Marker { number, intended: wall.to_wall(intended), ..Marker::default() });
        let digits = number.to_string();
        let mut text = vec![digits.len() as u8];
        text.extend_from_slice(digits.as_bytes());
        let mut builder = Builder::default();
        builder.begin(&self.zone);
        let old = Rr { owner: self.name.as_wire(), class: ANY, rtype: rtype::TXT, ttl: 0, rdata: &[] };
        let new = Rr { class: class::IN, rdata: &text, ..old };
        for rr in [&old, &new] {
            // Two records fit.
            let _ = builder.push(Section::Update, rr);
        }
        builder.write(out);
        (place, intended)
    }

    /// The one made last is the closing one.
    pub fn close(&mut self) {
        if let Some(last) = self.made.last_mut() {
            last.closing = true;
        }
    }

    pub fn sent(&mut self, place: u32, at: Nanos) {
        if let Some(marker) = self.made.get_mut(place as usize) {
            marker.sent.get_or_insert(at);
        }
    }

    pub fn answered(&mut self, place: u32, at: Nanos, code: u16) {
        if let Some(marker) = self.made.get_mut(place as usize) {
            (marker.acknowledged, marker.rcode) = (Some(at), Some(code_name(code)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::Message;

    #[test]
    fn markers_count_and_leave_out_what_they_missed() {
        let spec = MarkerSpec { name: None, every: 100, first: 7, scattered: None };
        let mut markers = Markers::new(&spec, b"\x07example\x00").unwrap();
        assert_eq!(markers.name.to_string(), "_dnsrack.example.");
        markers.begin(1000);
        let mut bytes = Vec::new();
        assert_eq!(markers.make(1000, Wall::read(), &mut bytes), (0, 1000));
        let message = Message::from_octets(bytes.clone()).unwrap();
        assert_eq!(message.header_counts().nscount(), 2);
        assert!(bytes.ends_with(b"\x00\x02\x017"), "{bytes:?}");
        assert_eq!((markers.make(1350, Wall::read(), &mut bytes), markers.next), ((1, 1300), 1400));
        markers.sent(1, 5);
        markers.answered(1, 6, 5);
        let marker = &markers.made[1];
        assert_eq!((marker.number, marker.sent, marker.rcode.as_deref()), (8, Some(5), Some("REFUSED")));
        for bad in ["a..b", "elsewhere.", "example."] {
            let spec = MarkerSpec { name: Some(bad.into()), every: 1, first: 1, scattered: None };
            assert!(Markers::new(&spec, b"\x07example\x00").unwrap_err().to_string().starts_with("--marker"));
        }
        assert_eq!(Markers::new(&spec, b"\x00").unwrap().name.to_string(), "_dnsrack.");
    }

    #[test]
    fn scattered_markers_are_one_to_an_interval_anywhere_in_it() {
        let spec = MarkerSpec { name: None, every: 1000, first: 1, scattered: Some(Seed(3)) };
        let mut markers = Markers::new(&spec, b"\x00").unwrap();
        markers.begin(5000);
        let mut within = Vec::new();
        for interval in 0..200 {
            let (_, intended) = markers.make(markers.next, Wall::read(), &mut Vec::new());
            assert_eq!((intended - 5000) / 1000, interval);
            within.push((intended - 5000) % 1000);
        }
        within.sort_unstable();
        assert!(within[20] < 200 && (400..600).contains(&within[100]) && within[180] > 800, "{within:?}");
        // After a long stall the last one that was due is made, and none that is not due.
        let (_, intended) = markers.make(305_500, Wall::read(), &mut Vec::new());
        assert!(intended <= 305_500 && intended > 303_999 && markers.next > intended, "{intended}");
    }
}
