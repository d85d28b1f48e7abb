//! The queries that come with the program: files of SQL, whose first lines say what they give.
//!
//! A comment `-- $name = value: text` gives a parameter its value, which `--set name=…` replaces.

use crate::Error;

/// A query.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name, without the `@`.
    pub name: &'static str,
    /// The SQL, with comments.
    pub sql: &'static str,
}

macro_rules! shipped {
    ($($name:literal)*) => {
        /// All of them: of traces first, then of run directories.
        pub const ALL: &[Shipped] =
            &[$(Shipped { name: $name, sql: include_str!(concat!("../queries/", $name, ".sql")) }),*];
    };
}

shipped! {
    "types"
    "rcodes"
    "opcodes"
    "transports"
    "edns"
    "edns-sizes"
    "checksums"
    "query-sizes"
    "response-sizes"
    "response-sizes-above"
    "truncation"
    "latency"
    "rates"
    "labels"
    "clients"
    "networks"
    "tlds"
    "names"
    "tcp-retries"
    "unanswered"
    "rssac002-traffic-volume"
    "rssac002-traffic-sizes"
    "rssac002-rcode-volume"
    "rssac002-unique-sources"
    "isc-5.1"
    "rzaia-6"
    "valid"
    "figures"
    "trend"
    "figures-by-memory"
    "slowest-second"
}

/// A parameter of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, without the `$`.
    pub name: &'static str,
    /// Its value where none is given.
    pub value: &'static str,
    /// What it is.
    pub text: &'static str,
}

impl Shipped {
    /// The query of a name.
    ///
    /// # Errors
    /// [`Error::NoQuery`].
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let like = |query: &&Self| strsim::jaro_winkler(query.name, name);
        ALL.iter().find(|query| query.name == name).ok_or_else(|| Error::NoQuery {
            name: name.to_owned(),
            nearest: ALL
                .iter()
                .max_by(|a, b| like(a).total_cmp(&like(b)))
                .filter(|query| like(query) > 0.8)
                .map(|query| query.name),
        })
    }

    fn comments(&self) -> impl Iterator<Item = &'static str> {
        self.sql.lines().map_while(|line| line.strip_prefix("-- "))
    }

    /// What it gives.
    pub fn text(&self) -> String {
        let lines: Vec<_> = self.comments().filter(|line| !line.starts_with('$')).collect();
        lines.join(" ")
    }

    /// Its parameters.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> {
        self.comments().filter_map(|line| {
            let (name, rest) = line.strip_prefix('$')?.split_once(" = ")?;
            let (value, text) = rest.split_once(": ")?;
            Some(Parameter { name, value, text })
        })
    }

    /// Whether it is of run directories rather than of traces.
    pub fn is_of_runs(&self) -> bool {
        !self.sql.contains("FROM queries")
    }
}
