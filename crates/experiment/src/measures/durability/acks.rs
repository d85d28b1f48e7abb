//! Which updates were acknowledged, and when: from the sender's file of latencies.

use crate::Error;
use measure::Nanos;
use std::path::Path;

/// An update that was answered with NOERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Its place in the file of updates, from 0.
    pub number: u64,
    /// When the kernel received the answer: wall clock, nanoseconds.
    pub at: Nanos,
}

/// Reads the file of a sender whose times count from `began`; messages that were not answered so are left out.
///
/// # Errors
/// [`Error::Io`], [`Error::Machine`] for a line that the sender does not write.
pub fn read(file: &Path, began: Nanos) -> Result<Vec<Ack>, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::io(file))?;
    let mut acks = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [number, _, intended, _, latency, _, rcode, ..] = fields[..] else {
            return Err(Error::Machine(format!("{}: '{line}' is no line of it", file.display())));
        };
        if rcode != "NOERROR" {
            continue;
        }
        let us = |text: &str| text.parse::<f64>().ok();
        let Some((number, intended, latency)) = number
            .parse()
            .ok()
            .zip(us(intended))
            .zip(us(latency))
            .map(|((number, intended), latency)| (number, intended, latency))
        else {
            return Err(Error::Machine(format!("{}: '{line}' has no times", file.display())));
        };
        let after = ((intended + latency) * 1e3).max(0.0) as Nanos;
        acks.push(Ack { number, at: began + after });
    }
    Ok(acks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_acknowledged_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "message,client,intended_us,sent_us,latency_us,service_us,rcode,sends,transactions,records\n\
                    0,0,5.0,6.0,1000.0,999.0,NOERROR,1,1,2\n1,0,7.0,8.0,20.0,19.0,SERVFAIL,1,1,2\n2,0,9.0,9.5,,,,1,1,2\n";
        std::fs::write(file.path(), text).unwrap();
        assert_eq!(read(file.path(), 1_000_000).unwrap(), [Ack { number: 0, at: 2_005_000 }]);
        std::fs::write(file.path(), "head\n1,2\n").unwrap();
        assert!(read(file.path(), 0).unwrap_err().to_string().contains("'1,2' is no line"));
    }
}
