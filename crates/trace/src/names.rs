//! The names that captures ask for.

use crate::read::{Error, Options, Reader};
use std::collections::HashSet;
use std::path::PathBuf;
use wire::{name, question};

/// The names of all queries in captures, as wire names in lower case, each once, in no order. They are kept in memory. `progress` hears
/// how many packets are read.
///
/// # Errors
/// A capture that cannot be read.
pub fn names_asked_for(
    captures: &[PathBuf],
    progress: &mut dyn FnMut(u64),
) -> Result<HashSet<Vec<u8>>, Error> {
    let mut reader = Reader::open(captures, &Options::default())?;
    let (mut names, mut lower) = (HashSet::new(), Vec::new());
    for count in 0u64.. {
        if count.is_multiple_of(8192) {
            progress(reader.seen());
        }
        let Some(message) = reader.next()? else { break };
        if message.header().qr() {
            continue;
        }
        let Some(question) = question::parse(message.bytes) else { continue };
        lower.clear();
        lower.extend_from_slice(question.qname);
        name::lowercase(&mut lower);
        if !names.contains(&lower) {
            names.insert(lower.clone());
        }
    }
    Ok(names)
}
