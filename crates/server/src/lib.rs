//! One file per name server: configuration, start, control, capabilities; readiness is generic.
//!
//! [`start`] checks everything that can be checked beforehand (program, zone file, addresses, port,
//! configuration), writes the configuration into the server's own folder and starts it on a host.
//! [`Server::ready`] then waits for the right serial and a right answer from the end of the zone: no server's
//! word is taken for it, and no server's log line (BIND says "all zones loaded" when one was not).
//!
//! # What all servers have in common
//!
//! * Whatever a server writes (process id, control socket, databases, logs) is in its folder. Nothing of the
//!   machine's own servers in /etc, /var and /run is read or written.
//! * It listens on [`ServerSpec::addresses`] and [`ServerSpec::port`] only, over UDP and TCP.
//! * UDP answers are capped at [`ServerSpec::udp_size`] octets, stated in the configuration even where it is
//!   the default (1232). YADIFA has the setting too, but heeds the client's size alone.
//! * Response rate limiting is off, and so is query logging. Without a [`Replication`] NOTIFY and outgoing zone
//!   transfers are off as well, and the zone file is served as it is.
//! * It stays the user that started it: no setuid, no chroot. So it runs as root, and as the root of a user
//!   namespace.
//! * What is not named here is the server's default: which glue is added to an answer, DNS cookies (BIND answers
//!   them, the others do not), zone checks, TCP limits (BIND 150, NSD 100, PowerDNS 20, YADIFA 128 connections).
//!
//! # What differs
//!
//! | | BIND | NSD | Knot DNS | PowerDNS | YADIFA | Hickory DNS |
//! |---|---|---|---|---|---|---|
//! | `workers` | threads (`-n`) | processes (`server-count`, `reuseport`) | UDP, TCP and background threads, each | receiver threads (`reuseport`), each answering by itself | UDP threads for each address | 0.24 has always four threads |
//! | `config` goes | into `options { }` | to the end of `server:` | to the end of the file | to the end of the file | to the end of the file | before the zone |
//! | a setting set twice | ours is left out | theirs wins | theirs wins | theirs wins | theirs wins | refused at the start |
//! | new sections | no | yes | yes; `zone:` and other lists only under new identifiers | (has none) | yes | yes |
//! | checked by | `named-checkconf` | `nsd-checkconf` | `knotc conf-check` | `pdns_server --config=check` (names, not values) | a start that ends before it listens | (has none) |
//! | reload | `rndc reload` | `nsd-control reload` | `knotc zone-reload` | `pdns_control bind-reload-now` | `yadifa ctrl -t reload`; a newer serial only | (has none) |
//! | counters | `rndc stats` | `nsd-control stats_noreset` | `knotc stats` (more with `mod-stats`) | `pdns_control show '*'` | its log's next line of counters (one every 5 s) | (has none) |
//! | updates (RFC 2136) | yes | no | yes | from SQLite, not from a zone file | yes | no (SIG(0) alone) |
//! | IXFR out | yes | yes | yes | no | yes | no |
//! | IXFR in | yes | yes | yes | not into a zone file | yes | no |
//! | a broken zone file at a reload | old zone served | zone gone (SERVFAIL) | old zone served | old zone served | old zone served | (no reload) |
//! | UDP answers end at | client's size or cap | client's size or cap | client's size or cap | client's size or cap | client's size; without EDNS 4,096 | client's size |
//! | DNAME, ZONEMD | yes | yes | yes | DNAME with `dname-processing=yes` | zone refused | not tried |
//! | DS in a referral without DO | no | no | no | yes | no | gives no referrals |
//! | referrals | yes | yes | yes | yes | yes | no: wrong answers at or below delegations |
//! | zones that are signed already | yes | yes | yes | yes | yes | no |
//!
//! Program, tools and libraries can be those of another distribution or release: [`ServerSpec::root`] names its root folder.
//!
//! PowerDNS runs with its packet and query caches on, as by default; `config` lines `cache-ttl=0`,
//! `query-cache-ttl=0` and `negquery-cache-ttl=0` switch them off.

mod check;
mod counted;
mod driver;
mod error;
mod found;
mod kind;
mod log;
mod programs;
mod quote;
mod ready;
mod replication;
mod servers;
mod spec;
mod start;
mod tool;

pub use check::spec as check;
pub use counted::Counted;
pub use driver::{Capabilities, Commit, Control, Facts, Line, Memory, NameServer, Prepared, Site};
pub use error::{Cause, Error, Problem};
pub use found::{Found, Program, found, installed, is_there, package, program_in};
pub use kind::Kind;
pub use ready::fuzz_answer;
pub use replication::{Replication, Timers};
pub use servers::driver;
pub use spec::{DEFAULT_UDP_SIZE, ServerSpec, ZoneRef};
pub use start::{Server, processes, start, start_heeding};
