//! Nominet's zone (seed 004): nothing but addresses.

use super::Summary;
use crate::Error;
use crate::ordered::ordered;
use crate::text::write_number;
use std::io::Write;

/// The records of the paper: 2 x 254 x 254.
pub(super) const RECORDS: u64 = 129_032;
/// Octets of the addresses are 1 to 254.
const OCTETS: u64 = 254;
/// The most records: all addresses that such octets make below 224.0.0.0.
const MOST: u64 = 223 * OCTETS * OCTETS * OCTETS;
/// Records written by one task.
const TASK: u64 = 8192;
/// Seed 004 names the zone and the form of its records; the apex is assumed.
const APEX: &str = "$ORIGIN jadjadjad.example.com.\n$TTL 86400\n\
    @\tIN\tSOA\tns1 hostmaster 2006052600 3600 900 604800 86400\n\tNS\tns1\nns1\tA\t10.0.0.1\n";

/// Writes `records` records `test-a-b-c-d A a.b.c.d`: the first addresses from 1.1.1.1 on, in canonical order.
pub(super) fn write(
    threads: usize,
    records: u64,
    out: &mut (impl Write + ?Sized),
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Error> {
    if !(1..=MOST).contains(&records) {
        return Err(Error::Unable(format!("{records} records: give a number from 1 to {MOST}")));
    }
    let head = format!("; NOMINET, {records} records; written by dnsrack\n{APEX}");
    out.write_all(head.as_bytes()).map_err(Error::Write)?;
    let mut total = Summary {
        records: records + 3,
        ns: 1,
        a: records + 1,
        bytes: head.len() as u64,
        ..Summary::default()
    };
    let mut done = 0;
    ordered(
        threads,
        |feed| {
            let mut from = 0;
            while from < records && feed.push(from..records.min(from + TASK)) {
                from += TASK;
            }
            Ok(())
        },
        |ranks| {
            let mut text = Vec::with_capacity(48 * TASK as usize);
            let count = ranks.end - ranks.start;
            ranks.for_each(|rank| record(octets(rank, records), &mut text));
            (text, count)
        },
        |(text, count)| {
            out.write_all(&text).map_err(Error::Write)?;
            total.bytes += text.len() as u64;
            done += count;
            progress(done);
            Ok(())
        },
    )?;
    Ok(total)
}

fn record(octets: [u64; 4], out: &mut Vec<u8>) {
    out.extend_from_slice(b"test");
    for octet in octets {
        out.push(b'-');
        write_number(octet, out);
    }
    out.extend_from_slice(b"\tA\t");
    for (i, octet) in octets.into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        write_number(octet, out);
    }
    out.push(b'\n');
}

/// The octets of the label of this rank among the first `records` addresses. A label's numbers sort as
/// strings, and a hyphen sorts before a digit: so each number in turn is the `rank`-th string, with as many labels
/// below it as there are addresses that start so.
fn octets(mut rank: u64, records: u64) -> [u64; 4] {
    let mut octets = [0; 4];
    // Addresses that start with the octets so far.
    let mut left = records;
    for (i, octet) in octets.iter_mut().enumerate() {
        let below = OCTETS.pow(3 - i as u32);
        let ranks_of = |n: u64| left.saturating_sub((n - 1) * below).min(below);
        let found = strings().find(|&n| match rank.checked_sub(ranks_of(n)) {
            Some(rest) => {
                rank = rest;
                false
            }
            None => true,
        });
        let n = found.expect("ranks are below the number of records");
        (*octet, left) = (n, ranks_of(n));
    }
    octets
}

/// The numbers 1 to 254 in the order of their strings.
fn strings() -> impl Iterator<Item = u64> {
    (1..10).flat_map(|a| {
        let with_children = move |n: u64| std::iter::once(n).chain((0..10).map(move |d| n * 10 + d));
        std::iter::once(a)
            .chain((0..10).flat_map(move |b| with_children(a * 10 + b)))
            .filter(|&n| n <= OCTETS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_all_there_and_sorted() {
        for records in [1, 7, 300, 70_000] {
            let all: Vec<[u64; 4]> = (0..records).map(|rank| octets(rank, records)).collect();
            let label = |o: &[u64; 4]| format!("test-{}-{}-{}-{}", o[0], o[1], o[2], o[3]);
            assert!(all.windows(2).all(|w| label(&w[0]) < label(&w[1])));
            let mut numbers: Vec<u64> =
                all.iter().map(|o| o.iter().fold(0, |n, &octet| n * OCTETS + octet - 1)).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..records));
        }
    }
}
