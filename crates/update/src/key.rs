//! Secrets of TSIG (RFC 8945), as BIND's and Knot's tools keep them in files.

use crate::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::tsig::{Algorithm, KeyName};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A key that two ends share. Its secret is never shown: [`fmt::Debug`] leaves it out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsigKey {
    /// Its name in presentation format, without the last dot.
    pub name: String,
    /// `hmac-sha256` …
    pub algorithm: String,
    /// In base64.
    pub secret: String,
}

impl TsigKey {
    /// A key with this secret (base64) for HMAC-SHA256.
    pub fn sha256(name: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { name: name.into(), algorithm: "hmac-sha256".into(), secret: secret.into() }
    }

    /// A key of 256 random bits for HMAC-SHA256, for one run.
    ///
    /// # Errors
    /// [`Error::Random`].
    pub fn random(name: &str) -> Result<Self, Error> {
        let mut bytes = [0; 32];
        let mut got = 0;
        while got < bytes.len() {
            got += rustix::rand::getrandom(&mut bytes[got..], rustix::rand::GetRandomFlags::empty())
                .map_err(|e| Error::Random(e.into()))?;
        }
        Ok(Self::sha256(name, BASE64.encode(bytes)))
    }

    /// Reads a key file: what `tsig-keygen` and `keymgr -t` write for BIND,
    /// `key "NAME" { algorithm ALGORITHM; secret "SECRET"; };`, or one line `ALGORITHM:NAME:SECRET` as `nsupdate -y` and
    /// `knsupdate -y` take it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Parse`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// As [`Self::load`], from text; `file` is for errors.
    ///
    /// # Errors
    /// [`Error::Parse`]; it never quotes the secret.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let mut scan = Words { text, at: 0 };
        let fail = |at: usize, message: String| {
            let (line, column) = measure::line_column(text, at);
            Error::Parse { file: file.into(), line, column, message }
        };
        let mut name = None;
        let (mut algorithm, mut secret) = (None, None);
        while let Some((at, word)) = scan.next() {
            match word {
                "key" => name = scan.next().map(|(_, w)| w.to_owned()),
                "algorithm" => algorithm = scan.next().map(|(_, w)| w.to_owned()),
                "secret" => secret = scan.next().map(|(_, w)| w.to_owned()),
                line if line.matches(':').count() == 2 => {
                    let mut parts = line.split(':').map(str::to_owned);
                    (algorithm, name, secret) = (parts.next(), parts.next(), parts.next());
                }
                _ => {
                    let message = "not a key file: expected 'key \"NAME\" { algorithm …; secret \"…\"; };' as tsig-keygen writes \
                                   it, or ALGORITHM:NAME:SECRET";
                    return Err(fail(at, message.into()));
                }
            }
        }
        match (name, algorithm, secret) {
            (Some(name), Some(algorithm), Some(secret)) => {
                let key = Self {
                    name: name.trim_end_matches('.').to_owned(),
                    algorithm: algorithm.to_ascii_lowercase(),
                    secret,
                };
                key.tsig().map_err(|e| fail(0, e.to_string()))?;
                Ok(key)
            }
            (name, algorithm, _) => {
                let missing = match (name, algorithm) {
                    (None, _) => "name",
                    (_, None) => "algorithm",
                    _ => "secret",
                };
                Err(fail(text.len(), format!("the key has no {missing}")))
            }
        }
    }

    /// As `domain` takes it.
    ///
    /// # Errors
    /// [`Error::Spec`] for an unknown algorithm, a name that is not a domain name, or a secret that is not base64.
    pub fn tsig(&self) -> Result<domain::tsig::Key, Error> {
        let wrong = |what: &str| Error::Spec(format!("key {}: {what}", self.name));
        let algorithm = Algorithm::from_str(&self.algorithm)
            .map_err(|_| wrong(&format!("unknown algorithm '{}': use hmac-sha256", self.algorithm)))?;
        let secret = self.octets()?;
        let name = KeyName::from_str(&self.name).map_err(|_| wrong("its name is no domain name"))?;
        domain::tsig::Key::new(algorithm, &secret, name, None, None)
            .map_err(|e| wrong(&format!("it cannot be used: {e}")))
    }

    /// The secret.
    pub(crate) fn octets(&self) -> Result<Vec<u8>, Error> {
        let wrong = |_| Error::Spec(format!("key {}: the secret is not base64", self.name));
        BASE64.decode(&self.secret).map_err(wrong)
    }

    /// As BIND's configuration has it.
    pub fn bind(&self) -> String {
        format!(
            "key \"{}\" {{\n\talgorithm {};\n\tsecret \"{}\";\n}};\n",
            self.name, self.algorithm, self.secret
        )
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TsigKey")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// The words of a key file, without punctuation, quotes and comments.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        loop {
            let rest = &self.text[self.at..];
            let skipped = rest.len()
                - rest.trim_start_matches(|c: char| c.is_whitespace() || "{};\"".contains(c)).len();
            let rest = &rest[skipped..];
            self.at += skipped;
            if rest.is_empty() {
                return None;
            }
            if rest.starts_with('#') || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            let end = rest.find(|c: char| c.is_whitespace() || "{};\"".contains(c)).unwrap_or(rest.len());
            let at = self.at;
            self.at += end;
            return Some((at, &rest[..end]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

    #[test]
    fn both_forms_are_read_and_what_is_written_is_read_again() {
        let bind = format!(
            "# made by hand\nkey \"lab.\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n"
        );
        let key = TsigKey::parse(&bind, "k").unwrap();
        assert_eq!(
            (key.name.as_str(), key.algorithm.as_str(), key.secret.as_str()),
            ("lab", "hmac-sha256", SECRET)
        );
        assert_eq!(TsigKey::parse(&format!("hmac-sha256:lab:{SECRET}\n"), "k").unwrap(), key);
        assert_eq!(TsigKey::parse(&key.bind(), "k").unwrap(), key);
    }

    #[test]
    fn random_keys_differ_and_can_be_used() {
        let (one, other) = (TsigKey::random("a").unwrap(), TsigKey::random("a").unwrap());
        assert_ne!(one.secret, other.secret);
        one.tsig().unwrap();
        assert!(!format!("{one:?}").contains(&one.secret));
    }

    #[test]
    fn what_is_wrong_is_named_and_the_secret_is_not() {
        let error = |text: &str| TsigKey::parse(text, "k").unwrap_err().to_string();
        assert_eq!(error("key \"a\" { secret \"AAAA\"; };"), "k:1:28: the key has no algorithm");
        assert!(error("hmac-sha999:a:AAAA").contains("unknown algorithm 'hmac-sha999'"));
        let text = error("hmac-sha256:a:*notbase64*");
        assert!(text.contains("not base64") && !text.contains("*not"), "{text}");
        assert!(error("\nhello").starts_with("k:2:1: not a key file"), "{}", error("\nhello"));
    }
}
