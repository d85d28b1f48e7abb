//! PowerDNS as a primary whose zone changes: its backend for zone files takes no updates, the one for SQLite does.
//!
//! The zone is loaded into a database in the server's folder before the start (`pdnsutil load-zone`: some 20,000 records a
//! second), and served from there, by way of the packet and query caches. Updates are answered after SQLite's own commit, whose
//! syncs `gsqlite3-pragma-synchronous` can switch off. Transfers are whole zones: PowerDNS sends no differences.
//!
//! Of a signed zone it makes denials itself, from names that it keeps in order (`pdnsutil rectify-zone`), so NSEC records are taken
//! out of the database, and those in updates are ignored. Given the keys it signs each answer as it is asked for, and keeps signatures
//! in a cache; without, it serves the signatures that it has (`PRESIGNED`), and takes new ones as updates.

use super::{changes, extra};
use crate::driver::{Prepared, Site, tool};
use crate::error::{Error, Problem};
use crate::replication::{Replication, private_keys};
use rack::{Cmd, Output};
use std::path::Path;

/// The tables that the backend asks for, with the indices that make it quick.
const TABLES: &str = "\
CREATE TABLE domains (id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL COLLATE NOCASE, master VARCHAR(65535), last_check INTEGER,\n\
 type VARCHAR(8) NOT NULL, notified_serial INTEGER, account VARCHAR(40), options VARCHAR(65535), catalog VARCHAR(255));\n\
CREATE UNIQUE INDEX name_index ON domains(name);\n\
CREATE TABLE records (id INTEGER PRIMARY KEY, domain_id INTEGER, name VARCHAR(255), type VARCHAR(10), content VARCHAR(65535),\n\
 ttl INTEGER, prio INTEGER, disabled BOOLEAN DEFAULT 0, ordername VARCHAR(255), auth BOOL DEFAULT 1);\n\
CREATE INDEX records_name ON records(name, type);\n\
CREATE INDEX records_domain ON records(domain_id, name, type);\n\
CREATE INDEX records_order ON records(domain_id, ordername);\n\
CREATE TABLE supermasters (ip VARCHAR(64) NOT NULL, nameserver VARCHAR(255) NOT NULL, account VARCHAR(40));\n\
CREATE TABLE comments (id INTEGER PRIMARY KEY, domain_id INTEGER, name VARCHAR(255), type VARCHAR(10), modified_at INT,\n\
 account VARCHAR(40), comment VARCHAR(65535));\n\
CREATE TABLE domainmetadata (id INTEGER PRIMARY KEY, domain_id INT, kind VARCHAR(32), content TEXT);\n\
CREATE INDEX metadata_domain ON domainmetadata(domain_id);\n\
CREATE TABLE cryptokeys (id INTEGER PRIMARY KEY, domain_id INT, flags INT, active BOOL, published BOOL DEFAULT 1, content TEXT);\n\
CREATE TABLE tsigkeys (id INTEGER PRIMARY KEY, name VARCHAR(255), algorithm VARCHAR(50), secret VARCHAR(255));\n";

/// The configuration, and what makes the database.
pub(super) fn prepare(site: &Site<'_>, part: &Replication, dir: &str, file: &str) -> Result<Prepared, Error> {
    let origin = &site.spec.zone.origin;
    let config_dir = format!("--config-dir={dir}");
    let pdnsutil = tool(site, "pdnsutil")?.arg(&config_dir);
    let meta = |kind: &str, value: &str| pdnsutil.clone().args(["set-meta", origin, kind, value]);
    let key = &part.key;
    let mut before = vec![
        Cmd::new("sqlite3").args([&format!("{dir}/zone.db"), &format!(".read {dir}/tables.sql")]),
        pdnsutil.clone().args(["load-zone", origin, file]),
        pdnsutil.clone().args(["set-kind", origin, "primary"]),
        meta("TSIG-ALLOW-AXFR", &key.name),
        meta("TSIG-ALLOW-DNSUPDATE", &key.name),
    ];
    if part.is_tuned() && !part.secondaries.is_empty() {
        before.push(meta("NOTIFY-DNSUPDATE", "1"));
    }
    let mut files = vec![
        ("pdns.conf", conf(site, part, dir)),
        ("tables.sql", TABLES.to_owned() + &super::tsig_key(part)),
    ];
    if site.spec.zone.signed {
        let mut made = String::from("'NSEC', 'NSEC3', 'NSEC3PARAM'");
        if part.keys.is_some() {
            made += ", 'RRSIG', 'DNSKEY'";
        }
        files.push(("unmade.sql", format!("DELETE FROM records WHERE type IN ({made});\n")));
        before
            .push(Cmd::new("sqlite3").args([&format!("{dir}/zone.db"), &format!(".read {dir}/unmade.sql")]));
        if let Some(parameters) = super::nsec3(Path::new(file))
            .map_err(|source| Error::new(&site.spec.label, Problem::Zone { path: file.into(), source }))?
        {
            before.push(pdnsutil.clone().args(["set-nsec3", origin, &parameters]));
        }
        before.push(pdnsutil.clone().args(["rectify-zone", origin]));
        match &part.keys {
            // Of a zone that is said to be so names are not put in order any more.
            None => before.push(pdnsutil.clone().args(["set-presigned", origin])),
            Some(folder) => {
                for key in private_keys(&site.spec.label, folder)? {
                    let role = if key.ksk { "ksk" } else { "zsk" };
                    before.push(pdnsutil.clone().args([
                        "import-zone-key",
                        origin,
                        &key.file,
                        "active",
                        role,
                    ]));
                }
            }
        }
    }
    Ok(Prepared {
        files,
        folders: Vec::new(),
        check: Some(Cmd::new(site.program).args([&config_dir, "--config=check"])),
        before,
        start: Cmd::new(site.program).arg(&config_dir).stderr(Output::File(site.dir.join("pdns.log"))),
    })
}

fn conf(site: &Site<'_>, part: &Replication, dir: &str) -> String {
    format!(
        "launch=gsqlite3\n\
         gsqlite3-database={dir}/zone.db\n\
         gsqlite3-dnssec=yes\n\
         dnsupdate=yes\n\
         allow-dnsupdate-from=0.0.0.0/0,::/0\n\
         {common}{changes}{extra}",
        common = super::common(site),
        changes = changes(Some(part)),
        extra = extra(site.spec),
    )
}
