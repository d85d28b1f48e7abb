//! Churn: how much of a zone changes in a day, as the papers define it.
//!
//! ISC counts domains added, domains deleted and NS changes, a third of each in its update stream; 1 % of COM a day is
//! its low rate, 3 % its medium (ISC-TN-2008-1 section 1.1). RZAIA counts entries added, deleted and changed, 10, 10
//! and 80 % of the updates, for 1 % and 10 % of the zone in 24 hours (chapter 5).

use super::{ChangeCounts, Diff};
use crate::time;
use serde::Serialize;

/// Shares of additions, deletions and changes, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mix {
    /// Additions.
    pub added: f64,
    /// Deletions.
    pub deleted: f64,
    /// Changes.
    pub changed: f64,
}

impl Mix {
    /// ISC's update stream.
    pub const ISC: Self = Self { added: 1.0 / 3.0, deleted: 1.0 / 3.0, changed: 1.0 / 3.0 };
    /// RZAIA's updates.
    pub const RZAIA: Self = Self { added: 0.1, deleted: 0.1, changed: 0.8 };

    /// The mix of some changes; none where there are none.
    fn of(changes: &ChangeCounts) -> Option<Self> {
        let share = |n: u64| n as f64 / changes.sum() as f64;
        (changes.sum() > 0).then(|| Self {
            added: share(changes.added),
            deleted: share(changes.deleted),
            changed: share(changes.changed),
        })
    }
}

/// Churn over some steps from version to version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Churn {
    /// Days between the first and the last version, where they are known.
    pub days: Option<f64>,
    /// Entries (delegations, or names where there are none) that were added, deleted or changed in any record but the
    /// SOA and DNSSEC's: RZAIA's. An entry counts in each step again.
    pub entries: ChangeCounts,
    /// Their mix.
    pub mix: Option<Mix>,
    /// Share of the zone's entries that changes in a day, 0 to 1.
    pub share_a_day: Option<f64>,
    /// The same with no other changes than of NS records: ISC's. None where the zone has no delegations.
    pub isc: Option<ChangeCounts>,
    /// Their mix.
    pub isc_mix: Option<Mix>,
    /// Share of the delegations that changes in a day by ISC's count, 0 to 1.
    pub isc_share_a_day: Option<f64>,
    /// ISC's changes a second: real COM had 2 to 4.
    pub isc_a_second: Option<f64>,
}

/// Sums up steps that follow each other, over so many days.
pub fn churn(steps: &[Diff], days: Option<f64>) -> Churn {
    let (mut entries, mut isc) = (ChangeCounts::default(), ChangeCounts::default());
    let mut size = 0;
    for step in steps {
        let (n, changes) = step.entries();
        size += n;
        entries += changes;
        isc += ChangeCounts { changed: step.changed_in.ns, ..step.delegations };
    }
    let days = days.filter(|&d| d > 0.0);
    // Of the mean size.
    let size = size as f64 / steps.len().max(1) as f64;
    let share = |changes: &ChangeCounts| days.filter(|_| size > 0.0).map(|d| changes.sum() as f64 / size / d);
    let delegations = steps.iter().any(|s| s.old.delegations + s.new.delegations > 0);
    let isc = Some(isc).filter(|_| delegations);
    Churn {
        days,
        entries,
        mix: Mix::of(&entries),
        share_a_day: share(&entries),
        isc,
        isc_mix: isc.as_ref().and_then(Mix::of),
        isc_share_a_day: isc.as_ref().and_then(share),
        isc_a_second: isc.and_then(|changes| Some(changes.sum() as f64 / days? / 86_400.0)),
    }
}

/// Days between versions whose serials are dates (YYYYMMDDnn): from date to date, since `nn` is no time of the day.
/// None where one is no date, or where they are the same date or in the wrong order.
pub fn days_between(old: u32, new: u32) -> Option<f64> {
    let date = |serial: u32| {
        let [year, month, day] =
            [serial / 1_000_000, serial / 10_000 % 100, serial / 100 % 100].map(|part| part as i16);
        time::seconds([year, month, day, 0, 0, 0])
    };
    let seconds = date(new)?.checked_sub(date(old)?)?;
    (seconds > 0).then_some(seconds as f64 / 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_that_are_dates_tell_the_days() {
        assert_eq!(days_between(2_026_080_900, 2_026_082_003), Some(11.0));
        assert_eq!(days_between(2_024_022_801, 2_024_030_100), Some(2.0));
        for (old, new) in [(2_026_080_900, 2_026_080_901), (2_026_080_901, 2_026_080_800), (1, 2_026_080_900)]
        {
            assert_eq!(days_between(old, new), None);
        }
        assert_eq!(days_between(2_026_022_900, 2_026_030_100), None, "no such day");
    }

    #[test]
    fn churn_is_a_share_of_the_mean_size() {
        let mut step = Diff::default();
        (step.old.delegations, step.new.delegations) = (100, 200);
        step.delegations = ChangeCounts { added: 100, deleted: 0, changed: 50 };
        step.changed_in.ns = 20;
        let mut last = Diff::default();
        (last.old.delegations, last.new.delegations) = (200, 200);
        let churn = churn(&[step, last], Some(2.0));
        assert_eq!((churn.share_a_day, churn.isc_share_a_day), (Some(0.5), Some(0.4)));
        assert_eq!(churn.mix, Some(Mix { added: 2.0 / 3.0, deleted: 0.0, changed: 1.0 / 3.0 }));
        assert_eq!(churn.isc_a_second, Some(120.0 / 172_800.0));
    }
}
