//! The expected sharing of servers by a profile's providers, as `zone generate` draws it.

use crate::Profile;

/// Delegations that use providers. A provider out of the zone, or under a name in it, has a first user to
/// itself; one under the zone's own name is a delegation with servers inside. All other users choose
/// the k-th provider in proportion to k^-exponent. Numbers are expectations; that users look for a provider with
/// servers enough is left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sharers {
    /// Providers that are no delegations of the zone.
    pub apart: f64,
    /// Providers that are.
    pub lodged: f64,
    /// Share of the providers that no other user chooses.
    pub alone: f64,
    /// Delegations of the one with most.
    pub largest: f64,
}

impl Sharers {
    /// `users` delegations, and providers `apart` and `lodged`.
    pub fn new(users: f64, apart: f64, lodged: f64, exponent: f64) -> Self {
        let apart = apart.min(users);
        let providers = (apart + lodged).round();
        if users <= 0.0 || providers < 1.0 {
            return Self::default();
        }
        // Ranks in ranges of nearly the same chance, eight to a doubling.
        let (mut ranges, mut sum, mut first) = (Vec::new(), 0.0, 1.0);
        while first <= providers {
            let len = f64::max((first / 8.0f64).floor(), 1.0).min(providers - first + 1.0);
            let weight = (first + (len - 1.0) / 2.0).powf(-exponent);
            ranges.push((len, weight));
            sum += len * weight;
            first += len;
        }
        let others = users - apart;
        let alone: f64 = ranges.iter().map(|(len, weight)| len * (-others * weight / sum).exp()).sum();
        Self { apart, lodged, alone: alone / providers, largest: 1.0 + others * ranges[0].1 / sum }
    }

    /// The expectation for a profile in a zone of so many delegations.
    pub fn of(p: &Profile, delegations: f64) -> Self {
        let s = &p.servers;
        let users = (1.0 - s.inside - s.own).max(0.0) * delegations;
        let all: f64 = s.under.values().sum();
        let own_name: f64 = s.under.iter().filter(|(name, _)| is(name, &p.apex.origin)).map(|(_, w)| w).sum();
        let lodged = if all > 0.0 { own_name / all } else { 0.0 };
        let providers = s.providers * delegations;
        Self::new(
            users,
            providers * (1.0 - lodged),
            (providers * lodged).min(s.inside * delegations),
            s.exponent,
        )
    }
}

/// True where both are the same name.
pub(super) fn is(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}
