//! The words of an entry.

use super::source::Found;
use std::borrow::Cow;

/// Something wrong in an entry, at an octet of it. Boxed, so that results of what went well stay small.
#[derive(Debug)]
pub(super) struct Bad(Box<(usize, Cow<'static, str>)>);

impl Bad {
    #[cold]
    pub fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new((at, what.into())))
    }

    /// Where, in octets from the entry's start, and what.
    pub fn parts(self) -> (usize, String) {
        (self.0.0, self.0.1.into_owned())
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

/// Where the first octet up to a space is: in an entry without control octets all of these are space.
#[inline]
fn word_len(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Eight octets at once: the lowest high bit that is left marks the first octet below 0x21.
    let (words, rest) = text.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let low = word.wrapping_sub(ONES * 0x21) & !word & (ONES * 0x80);
        if low != 0 {
            return i * 8 + low.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + rest.iter().position(|&b| b <= b' ').unwrap_or(rest.len())
}

/// Walks over the words of an entry; parentheses, line ends and comments are space.
pub(super) struct Tokens<'a> {
    /// The entry; a plain one with what follows it, its line end first, so that words are found in steps
    /// of eight octets.
    text: &'a [u8],
    len: usize,
    at: usize,
    plain: bool,
}

impl<'a> Tokens<'a> {
    #[inline]
    pub fn new(found: &Found<'a>) -> Self {
        Self { text: found.ahead, len: found.text.len(), at: 0, plain: found.plain }
    }
    /// True where the entry starts with space: its owner is the one before.
    #[inline]
    pub fn starts_with_space(&self) -> bool {
        self.len > 0 && matches!(self.text[0], b' ' | b'\t')
    }

    /// Steps over `\\#`, the mark of the generic form, where it is next.
    #[inline]
    pub fn skip_generic_mark(&mut self) -> bool {
        // The mark has a backslash.
        !self.plain && self.step_over_mark()
    }

    fn step_over_mark(&mut self) -> bool {
        let space = self.text[self.at..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let rest = &self.text[self.at + space..];
        let found = rest.starts_with(b"\\#") && rest.get(2).is_none_or(|b| b.is_ascii_whitespace());
        if found {
            self.at += space + 2;
        }
        found
    }

    // Inlined by force: a word goes through memory otherwise, in pieces that are read back as one.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Token<'a>> {
        if !self.plain {
            return self.careful_next();
        }
        loop {
            if self.at >= self.len {
                return None;
            }
            if self.text[self.at] > b' ' {
                break;
            }
            self.at += 1;
        }
        let start = self.at;
        self.at += word_len(&self.text[start..]);
        Some(Token { text: &self.text[start..self.at], at: start, quoted: false })
    }

    #[inline(never)]
    fn careful_next(&mut self) -> Option<Token<'a>> {
        loop {
            match *self.text.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' => self.at += 1,
                b';' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                b'"' => return Some(self.quoted()),
                _ => break,
            }
        }
        let start = self.at;
        let mut i = start;
        while let Some(&b) = self.text.get(i) {
            if STOP[usize::from(b)] {
                if b != b'\\' {
                    break;
                }
                i += 1;
            }
            i += 1;
        }
        self.at = i.min(self.len);
        Some(Token { text: &self.text[start..self.at], at: start, quoted: false })
    }

    fn quoted(&mut self) -> Token<'a> {
        let start = self.at;
        let mut i = start + 1;
        while let Some(&b) = self.text.get(i) {
            match b {
                b'"' => break,
                b'\\' => i += 2,
                _ => i += 1,
            }
        }
        let end = i.min(self.len);
        self.at = (end + 1).min(self.len);
        Token { text: &self.text[(start + 1).min(end)..end], at: start, quoted: true }
    }

    /// The next word, which must be there.
    #[inline]
    pub fn need(&mut self, what: &'static str) -> Result<Token<'a>, Bad> {
        self.next().ok_or_else(|| self.missing(what))
    }

    /// The error of a word that is not there.
    pub fn missing(&self, what: &str) -> Bad {
        Bad::new(self.len, format!("the record ends here: expected {what}"))
    }

    /// Nothing may follow.
    pub fn end(&mut self) -> Result<(), Bad> {
        match self.next() {
            None => Ok(()),
            Some(t) => Err(t.bad(format!("'{}' after the end of the record", t.shown()))),
        }
    }
}
