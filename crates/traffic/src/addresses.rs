//! Addresses of clients with their weights, from a file: the source address distribution of RZAIA's querygen (seed 003,
//! section 3.1).

use crate::Error;
use crate::lines::Lines;
use crate::profile::{AddressFile, CLIENTS_MAX};
use crate::random::Alias;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

/// Addresses, drawn by their weights.
#[derive(Debug)]
pub(crate) struct Addresses {
    all: Vec<IpAddr>,
    draw: Alias,
}

impl Addresses {
    /// Reads `ADDRESS` or `ADDRESS WEIGHT` lines; `;` and `#` begin comments. The weights of an address that is there
    /// several times add up.
    ///
    /// # Errors
    /// The first bad line with its column; a file without an address, or with more than [`CLIENTS_MAX`].
    pub(crate) fn open(file: &AddressFile) -> Result<Self, Error> {
        Self::read(&file.file).map_err(|error| error.asked_for_at(&file.said))
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let mut lines = Lines::open(path)?;
        let (mut all, mut weights, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        while let Some((text, column)) = lines.next()? {
            let (address, weight) = match parse_line(text) {
                Ok(parsed) => parsed,
                Err((at, what)) => return Err(lines.error(column + at, what)),
            };
            let n = *known.entry(address).or_insert(all.len());
            if n == all.len() {
                if n == CLIENTS_MAX as usize {
                    return Err(lines.error(column, format!("more than {CLIENTS_MAX} addresses")));
                }
                all.push(address);
                weights.push(0.0);
            }
            weights[n] += weight;
        }
        if all.is_empty() {
            return Err(Error::Empty { path: path.to_owned(), what: "address" });
        }
        Ok(Self { all, draw: Alias::new(&weights) })
    }

    pub(crate) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// The number of the address that these random bits draw.
    pub(crate) fn draw(&self, bits: u64) -> u32 {
        self.draw.get(bits)
    }

    pub(crate) fn get(&self, n: u32) -> IpAddr {
        self.all[n as usize]
    }
}

/// Reads an address and its weight; or the offset of the fault and what it is.
fn parse_line(text: &[u8]) -> Result<(IpAddr, f64), (usize, String)> {
    let shown = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(50)]).into_owned();
    let blank = |b: &u8| b.is_ascii_whitespace();
    let split = text.iter().position(blank).unwrap_or(text.len());
    let (address, rest) = text.split_at(split);
    let parsed = std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
    let Some(parsed) = parsed else {
        return Err((0, format!("'{}' is no address: expected 'ADDRESS WEIGHT'", shown(address))));
    };
    let weight = rest.trim_ascii();
    if weight.is_empty() {
        return Ok((parsed, 1.0));
    }
    let number = std::str::from_utf8(weight).ok().and_then(|text| text.parse::<f64>().ok());
    match number.filter(|n| *n > 0.0 && *n <= 1e15) {
        Some(number) => Ok((parsed, number)),
        None => {
            let at = split + rest.len() - rest.trim_ascii_start().len();
            let what = format!("'{}' is no weight: give a number above 0, up to 1e15", shown(weight));
            Err((at, what))
        }
    }
}

/// Fuzz entry point: any octets as a line of such a file.
///
/// # Panics
/// Where a fault lies outside the line, or a weight is not a number: a bug.
pub fn fuzz_address(text: &[u8]) {
    match parse_line(text.trim_ascii()) {
        Ok((_, weight)) => assert!(weight > 0.0 && weight.is_finite()),
        Err((at, what)) => assert!(at <= text.len() && !what.is_empty()),
    }
}
