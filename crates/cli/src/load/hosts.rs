//! Where a load is sent from: this process, or hosts of a rack that is up.

use super::failure;
use crate::output::Failure;
use ::load::{LoadResult, LoadSpec};
use clap::Args;
use measure::Event;
use measure::clock::{self, SECOND};
use rack::{StandingRack, standing};
use std::sync::atomic::AtomicBool;

/// The flags that say where from.
#[derive(Debug, Args)]
pub struct Hosts {
    /// Send from this host of a rack that is up; several hosts send an equal part each
    #[arg(long = "host", value_name = "HOST", help_heading = "Clients", hide_short_help = true)]
    hosts: Vec<String>,
    /// Name of that rack; needed only if several are up
    #[arg(long, value_name = "NAME", requires = "hosts", help_heading = "Clients", hide_short_help = true)]
    rack: Option<String>,
}

/// Where from, ready.
pub enum Place {
    Here,
    Rack { standing_rack: StandingRack, hosts: Vec<String>, logs: tempfile::TempDir },
}

impl Hosts {
    /// Finds the rack.
    pub fn place(&self) -> Result<Place, Failure> {
        if self.hosts.is_empty() {
            return Ok(Place::Here);
        }
        let standing_rack = standing::find(self.rack.as_deref())?;
        Ok(Place::Rack { standing_rack, hosts: self.hosts.clone(), logs: tempfile::tempdir()? })
    }
}

impl Place {
    /// Runs a load from there.
    pub fn run(
        &self,
        spec: &LoadSpec,
        stop: &AtomicBool,
        events: &mut dyn FnMut(Event),
    ) -> Result<LoadResult, Failure> {
        match self {
            Self::Here => ::load::run(spec, || clock::now() + SECOND / 100, stop, events),
            Self::Rack { standing_rack, hosts, logs } => {
                ::load::hosts::run(spec, standing_rack, hosts, logs.path(), stop, events)
            }
        }
        .map_err(failure)
    }
}
