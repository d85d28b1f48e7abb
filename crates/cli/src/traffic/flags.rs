//! Flags that `traffic generate`, `load run` and `load search` share: what a profile asks for.

use crate::output::Failure;
use clap::Args;
use measure::Seed;
use std::path::PathBuf;
use traffic::clients::{Crowd, Port, Ports};
use traffic::{Changes, Law, NameList, Order, Profile, Types, Under};

/// Which names a profile asks for: common to `traffic generate`, `load run` and `load search`.
#[derive(Debug, Args)]
pub struct NamesFlags {
    /// Ask for names of this zone file
    #[arg(long, value_name = "ZONE", requires = "profile", conflicts_with = "names")]
    zone: Option<PathBuf>,
    /// Ask for the names of this file, one a line (or of this zone). Repeatable: each list as often as its weight says
    /// [default: the profile's lists]
    #[arg(long, value_name = "FILE[=WEIGHT]", requires = "profile")]
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

/// What is otherwise than in the profile: common to `traffic generate` and `load run`.
#[derive(Debug, Args)]
pub struct Shape {
    /// Queries for names that do not exist, instead of the profile's: their share, or EXISTENT:NONEXISTENT such
    /// as 10:1 (RZAIA chapter 3)
    #[arg(long, value_name = "SHARE|A:B", value_parser = traffic::nonexistent)]
    nonexistent: Option<f64>,
    /// Types with their weights, such as A=5,AAAA=2, instead of the profile's; or 'zone': records of the zone,
    /// each name with its type
    #[arg(long, value_name = "TYPE=W,...|zone")]
    types: Option<Types>,
    /// Weights of 0, 1, 2, ... labels below a delegation, instead of the profile's
    #[arg(long, value_name = "W,W,...", value_parser = weights)]
    below: Option<Weights>,
    /// Names in which order, instead of the profile's: uniform (each as likely) or sequential (as in the zone)
    #[arg(long, value_name = "ORDER")]
    order: Option<Order>,
    /// This many clients, each with an address and a port of its own; client n sends as often as 1/n to the power
    /// ZIPF (0: all alike) [default: the profile's]
    #[arg(long, value_name = "COUNT[:ZIPF]")]
    clients: Option<Crowd>,
    /// Clients with the addresses of this file, ADDRESS WEIGHT a line (a weight is 1 where none is given), instead of
    /// the profile's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["clients", "ipv6"])]
    clients_file: Option<PathBuf>,
    /// Clients with random ports, a port of their own, or this port, with their weights, such as
    /// random=7,own=2,53=1. Those with random ports send from any flow
    #[arg(long, value_name = "KIND=W,...")]
    ports: Option<Ports>,
    /// Share of queries over IPv6, instead of the profile's
    #[arg(long, value_name = "SHARE")]
    ipv6: Option<f64>,
    /// A flood of random labels among the queries, counted apart: its share of all, or GOOD:FLOOD such as 1:10
    #[arg(long, value_name = "SHARE|A:B", value_parser = traffic::nonexistent)]
    background: Option<f64>,
    /// The flood's labels go before: apex (the zone's name), names (any that exists), or this name
    #[arg(long, value_name = "NAME", requires = "background")]
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
    /// What a message about them says.
    pub const FLAGS: &str = "--nonexistent, --types, --below, --order, --clients, --clients-file, --ports, --ipv6 and --background";

    /// The changes that these flags ask for.
    pub fn changes(&self) -> Changes {
        Changes {
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
            ..Changes::default()
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
