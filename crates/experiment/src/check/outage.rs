//! Can a secondary be away for as long as is asked?

use crate::{Error, Experiment, Measure};
use measure::Nanos;
use measure::clock::SECOND;

/// Whether one can be away for so long.
pub fn check(e: &Experiment) -> Result<(), Error> {
    for d in e.distributions() {
        let Some(away) = d.away else { continue };
        if d.secondaries < 1 + u32::from(d.primary.is_some()) {
            return Err(e.refuse(
                "distribution.away: the last secondary is away, and that is not the server measured: give one more",
            ));
        }
        if d.chained > 0 {
            return Err(e.refuse(
                "distribution.away: the last secondary is away, and what a chained one has from another is not captured: leave \
                 distribution.chained out",
            ));
        }
        let Some(&measure) = e.measure.iter().find(|m| matches!(m, Measure::Lag | Measure::Churn)) else {
            return Err(e.refuse("distribution.away: it is of 'lag' and 'churn' alone"));
        };
        let length = match measure {
            Measure::Churn if e.updates.series.is_empty() => continue,
            Measure::Churn => e.updates.every.0 * e.updates.series.len() as Nanos,
            _ => e.updates.duration.0,
        };
        if away.0 == 0 || away.0 >= length {
            return Err(e.refuse(format!(
                "distribution.away: {away} must be longer than nothing and shorter than the changes go on ({} s)",
                length / SECOND
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {

    fn refusal(sets: &[&str]) -> String {
        let (path, text) = crate::named("isc-distribution").unwrap();
        let text = text.split("[[variant]]").next().unwrap().to_owned();
        let sets: Vec<_> = sets.iter().map(|s| s.parse().unwrap()).collect();
        crate::load(&path, &text, &sets).err().map_or_else(String::new, |e| e.to_string())
    }

    #[test]
    fn only_what_can_be_away_is() {
        assert_eq!(refusal(&["distribution.away=10s"]), "");
        assert!(refusal(&["distribution.away=60s"]).contains("shorter than the changes go on (60 s)"));
        assert!(refusal(&["distribution.away=1s", "distribution.secondaries=1"]).contains("give one more"));
        assert!(refusal(&["distribution.away=1s", "measure=latency"]).contains("'lag' and 'churn'"));
    }
}
