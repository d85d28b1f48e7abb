//! The words of an entry.

use std::borrow::Cow;

/// Something wrong in an entry, at an octet of it.
#[derive(Debug)]
pub(super) struct Bad {
    pub at: usize,
    pub what: Cow<'static, str>,
}

impl Bad {
    pub fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self { at, what: what.into() }
    }
}

/// One word of an entry, escapes as they stand.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub text: &'a [u8],
    /// Offset in the entry.
    pub at: usize,
    pub quoted: bool,
}

impl Token<'_> {
    pub fn bad(&self, what: impl Into<Cow<'static, str>>) -> Bad {
        Bad::new(self.at, what)
    }

    /// The word as it may be shown in a message.
    pub fn shown(&self) -> String {
        let shown = String::from_utf8_lossy(&self.text[..self.text.len().min(40)]).into_owned();
        if self.text.len() > 40 { shown + "..." } else { shown }
    }
}

/// Octets that end an unquoted word, and the backslash.
const STOP: [bool; 256] = {
    let mut table = [false; 256];
    let stops = b" \t\r\n;()\"\\";
    let mut i = 0;
    while i < stops.len() {
        table[stops[i] as usize] = true;
        i += 1;
    }
    table
};

/// Walks over the words of an entry; parentheses, line ends and comments are space.
pub(super) struct Tokens<'a> {
    entry: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(entry: &'a [u8]) -> Self {
        Self { entry, at: 0 }
    }

    /// True where the entry starts with space: its owner is the one before.
    #[inline]
    pub fn starts_with_space(&self) -> bool {
        matches!(self.entry.first(), Some(b' ' | b'\t'))
    }

    /// Steps over `\\#`, the mark of the generic form, where it is next.
    pub fn skip_generic_mark(&mut self) -> bool {
        let space = self.entry[self.at..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let rest = &self.entry[self.at + space..];
        let found = rest.starts_with(b"\\#") && rest.get(2).is_none_or(|b| b.is_ascii_whitespace());
        if found {
            self.at += space + 2;
        }
        found
    }

    #[inline]
    pub fn next(&mut self) -> Option<Token<'a>> {
        loop {
            match *self.entry.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' => self.at += 1,
                b';' => {
                    let rest = &self.entry[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                b'"' => return Some(self.quoted()),
                _ => break,
            }
        }
        let start = self.at;
        let mut i = start;
        while let Some(&b) = self.entry.get(i) {
            if STOP[usize::from(b)] {
                if b != b'\\' {
                    break;
                }
                i += 1;
            }
            i += 1;
        }
        self.at = i.min(self.entry.len());
        Some(Token { text: &self.entry[start..self.at], at: start, quoted: false })
    }

    fn quoted(&mut self) -> Token<'a> {
        let start = self.at;
        let mut i = start + 1;
        while let Some(&b) = self.entry.get(i) {
            match b {
                b'"' => break,
                b'\\' => i += 2,
                _ => i += 1,
            }
        }
        let end = i.min(self.entry.len());
        self.at = (end + 1).min(self.entry.len());
        Token { text: &self.entry[(start + 1).min(end)..end], at: start, quoted: true }
    }

    /// The next word, which must be there.
    #[inline]
    pub fn need(&mut self, what: &'static str) -> Result<Token<'a>, Bad> {
        self.next().ok_or_else(|| self.missing(what))
    }

    /// The error of a word that is not there.
    pub fn missing(&self, what: &str) -> Bad {
        Bad::new(self.entry.len(), format!("the record ends here: expected {what}"))
    }

    /// Nothing may follow.
    pub fn end(&mut self) -> Result<(), Bad> {
        match self.next() {
            None => Ok(()),
            Some(t) => Err(t.bad(format!("'{}' after the end of the record", t.shown()))),
        }
    }
}
