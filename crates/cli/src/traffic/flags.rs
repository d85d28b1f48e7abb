//! Flags that `traffic generate`, `load run` and `load search` share: what a profile asks for.

use crate::output::Failure;
use clap::Args;
use measure::Seed;
use std::path::PathBuf;
use traffic::{Crowd, Port, Ports};
use traffic::{Law, NameList, Order, Profile, ProfileChanges, Types, Under};

/// Which names a profile asks for: common to `traffic generate`, `load run` and `load search`.
#[derive(Debug, Args)]
pub struct NamesFlags {
    /// Ask for the names of this zone file
    #[arg(
        long,
        value_name = "ZONE",
        requires = "profile",
        conflicts_with = "names",
        help_heading = "Queries"
    )]
    zone: Option<PathBuf>,
    /// Ask for the names of this file: one on each line, or a zone file. Repeatable, with weights [default: the profile's lists]
    #[arg(
        long,
        value_name = "FILE[=WEIGHT]",
        requires = "profile",
        help_heading = "Queries",
        hide_short_help = true
    )]
    names: Vec<NameList>,
}

impl NamesFlags {
    /// True where one is given.
    pub fn any(&self) -> bool {
        self.zone.is_some() || !self.names.is_empty()
    }

    /// The lists that these flags ask for.
    ///
    /// # Errors
    /// Where there are none, and the profile has none either.
    pub fn lists(&self, profile: &str) -> Result<Vec<NameList>, Failure> {
        let zone = self.zone.as_ref().map(NameList::new);
        let lists: Vec<NameList> = zone.into_iter().chain(self.names.iter().cloned()).collect();
        if lists.is_empty() && !Profile::load(profile)?.lists.iter().any(|list| list.exist) {
            let what = "no names: give --zone ZONE or --names FILE, or [[names.list]] in the profile";
            return Err(Failure::usage(what));
        }
        Ok(lists)
    }
}

/// Changes to the profile: common to `traffic generate` and `load run`.
#[derive(Debug, Args)]
pub struct Shape {
    /// Share of queries for names that do not exist, or EXISTENT:NONEXISTENT such as 10:1 (RZAIA chapter 3) [default: the profile's]
    #[arg(long, value_name = "SHARE|A:B", value_parser = traffic::nonexistent, help_heading = "Queries", hide_short_help = true)]
    nonexistent: Option<f64>,
    /// Query types with their weights, such as A=5,AAAA=2; or 'zone', to ask for the records of the zone [default: the profile's]
    #[arg(long, value_name = "TYPE=W,...|zone", help_heading = "Queries", hide_short_help = true)]
    types: Option<Types>,
    /// Weights of queries with 0, 1, 2, ... labels below a delegation [default: the profile's]
    #[arg(long, value_name = "W,W,...", value_parser = weights, help_heading = "Queries", hide_short_help = true)]
    below: Option<Weights>,
    /// Order of names: uniform (each is equally likely) or sequential (as in the zone) [default: the profile's]
    #[arg(long, value_name = "ORDER", help_heading = "Queries", hide_short_help = true)]
    order: Option<Order>,
    /// Number of clients, each with its own address and port; client n sends in proportion to 1/n^ZIPF (0: all alike)
    /// [default: the profile's]
    #[arg(long, value_name = "COUNT[:ZIPF]", help_heading = "Clients", hide_short_help = true)]
    clients: Option<Crowd>,
    /// Clients from this file: an address and, if it is not 1, a weight on each line [default: the profile's]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["clients", "ipv6"], help_heading = "Clients", hide_short_help = true)]
    clients_file: Option<PathBuf>,
    /// Weights of clients with random ports, with one port of their own, or with this port, such as random=7,own=2,53=1
    #[arg(long, value_name = "KIND=W,...", help_heading = "Clients", hide_short_help = true)]
    ports: Option<Ports>,
    /// Share of queries over IPv6 [default: the profile's]
    #[arg(long, value_name = "SHARE", help_heading = "Clients", hide_short_help = true)]
    ipv6: Option<f64>,
    /// Mix in a flood of random labels, which is counted separately: its share, or GOOD:FLOOD such as 1:10
    #[arg(long, value_name = "SHARE|A:B", value_parser = traffic::nonexistent, help_heading = "Queries", hide_short_help = true)]
    background: Option<f64>,
    /// Put the flood's labels below: apex (the zone's name), names (any name that exists), or this name
    #[arg(
        long,
        value_name = "NAME",
        requires = "background",
        help_heading = "Queries",
        hide_short_help = true
    )]
    background_under: Option<Under>,
}

/// A list of weights: one flag's value.
#[derive(Clone, Debug)]
struct Weights(Vec<f64>);

fn weights(text: &str) -> Result<Weights, String> {
    let list = text.split(',').map(|w| w.trim().parse()).collect::<Result<_, _>>();
    list.map(Weights).map_err(|_| format!("'{text}': give numbers, such as 1,11,56"))
}

impl Shape {
    /// The names of these flags in messages.
    pub const FLAGS: &str = "--nonexistent, --types, --below, --order, --clients, --clients-file, --ports, --ipv6 and --background";

    /// The changes that these flags ask for.
    pub fn changes(&self) -> ProfileChanges {
        ProfileChanges {
            nonexistent: self.nonexistent,
            types: self.types.clone(),
            below: self.below.clone().map(|w| w.0),
            order: self.order,
            clients: self.clients,
            addresses: self.clients_file.clone(),
            // Clients that are asked for are to be seen by senders, whose flows have one port each.
            ports: self.ports.clone().or(self.clients.map(|_| Ports([(Port::Own, 1.0)].into()))),
            ipv6: self.ipv6,
            background: self.background,
            under: self.background_under.clone(),
            ..ProfileChanges::default()
        }
    }
}

/// The intervals between queries that --arrivals asks for: even, poisson, or a file of quantiles, one a line.
///
/// # Errors
/// A file that cannot be read, or has no quantiles.
pub fn law(text: &str) -> Result<Law, Failure> {
    let path = match text {
        "even" => return Ok(Law::Even),
        "poisson" => return Ok(Law::Poisson),
        path => path,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::usage(format!("--arrivals: even, poisson, profile or a file; {path}: {e}")))?;
    let mut quantiles = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let gap: f64 = line
            .trim()
            .parse()
            .map_err(|_| Failure::usage(format!("{path}:{}:1: '{}' is not a number", n + 1, line.trim())))?;
        quantiles.push(gap);
    }
    let law = Law::Intervals(quantiles);
    let checked = law.arrivals(1.0, Seed(0)).check();
    checked.map_err(|what| Failure::usage(format!("{path}: {what}")))?;
    Ok(law)
}
