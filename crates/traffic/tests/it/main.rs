//! The traffic room from outside: what its users see.

mod classes;
mod files;
mod lists;
mod profiles;
mod senders;
mod shares;
mod workers;
mod zones;

use std::path::{Path, PathBuf};
use traffic::{NameList, ProfileSpec, Query, QuerySource, SourceSpec};

/// A file with a text, in a folder that goes when the test ends.
fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("space on the disk");
    path
}

/// A zone with `count` delegations named as `zone generate` would not: letters and numbers.
fn zone(folder: &Path, count: usize) -> PathBuf {
    let mut text = ". 60 IN SOA a. b. 1 2 3 4 5\n. 60 IN NS ns.d0.\n".to_owned();
    for n in 0..count {
        text += &format!("d{n}. 60 IN NS ns.d{n}.\nns.d{n}. 60 IN A 192.0.2.1\n");
    }
    write(folder, &format!("zone-{count}"), &text)
}

fn profile(profile: impl Into<String>, names: PathBuf, seed: u64) -> SourceSpec {
    SourceSpec::Profile(ProfileSpec {
        profile: profile.into(),
        names: vec![NameList::new(names)],
        seed: measure::Seed(seed),
        changes: Default::default(),
    })
}

fn take(source: &mut dyn QuerySource, count: usize) -> Vec<Query> {
    let mut out = Vec::new();
    let mut query = Query::default();
    while out.len() < count && source.next(&mut query).expect("a readable source") {
        out.push(query.clone());
    }
    out
}
