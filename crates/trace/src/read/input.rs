//! The octets of a capture, from wherever it is, decompressed where it is compressed.

use super::Error;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use lz4_flex::frame::FrameDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Octets read at once: small, so that a reader of a live pipe does not wait for long.
const CHUNK: usize = 32 << 10;
/// The most memory that xz may take: enough for `xz -9e`, which needs 65 MiB.
const XZ_MEMORY: u64 = 256 << 20;
/// The largest zstd window, as a power of two: what `zstd` itself accepts without `--long`.
const ZSTD_WINDOW: u32 = 27;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// Where captures are: on this machine, or elsewhere.
pub trait Place: Send + Sync {
    /// Opens the capture of this name at its first octet.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Whether it can be opened more than once: a pipe cannot.
    fn can_reopen(&self, path: &Path) -> bool;
}

/// Files of this machine; `-` is standard input.
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl Place for Local {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) })
    }

    fn can_reopen(&self, path: &Path) -> bool {
        path != Path::new("-") && path.metadata().is_ok_and(|m| m.is_file())
    }
}

/// Octets, some of them in sight.
pub(crate) struct Input {
    from: Box<dyn Read + Send>,
    pub path: PathBuf,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// How many octets lie before `start`.
    passed: u64,
    /// There is nothing more to come.
    over: bool,
    /// The input ended before its time.
    pub truncated: bool,
}

impl Input {
    /// Opens a capture.
    pub fn open(place: &dyn Place, path: &Path) -> Result<Self, Error> {
        Self::new(path, place.open(path).map_err(Error::io(path))?)
    }

    /// Octets from elsewhere, `path` being their name.
    pub fn new(path: &Path, from: Box<dyn Read + Send>) -> Result<Self, Error> {
        let from = decompress(from).map_err(Error::io(path))?;
        let path = path.to_owned();
        let buffer = vec![0; CHUNK];
        Ok(Self { from, path, buffer, start: 0, end: 0, passed: 0, over: false, truncated: false })
    }

    /// Brings `count` octets into sight; false where there are not so many any more.
    pub fn need(&mut self, count: usize) -> Result<bool, Error> {
        while self.end - self.start < count {
            if self.over {
                return Ok(false);
            }
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.passed += self.start as u64;
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.buffer.len() < count {
                self.buffer.resize(count.next_multiple_of(CHUNK), 0);
            }
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A compressed file that ends too early.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    (self.over, self.truncated) = (true, true)
                }
                Err(e) => return Err(Error::io(&self.path)(e)),
            }
        }
        Ok(true)
    }

    /// The octets in sight.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Goes on by `count` octets in sight.
    pub fn pass(&mut self, count: usize) {
        self.start += count.min(self.end - self.start);
    }

    /// Goes on by `count` octets, wherever they are; false where there are not so many.
    pub fn skip(&mut self, mut count: usize) -> Result<bool, Error> {
        while count > 0 {
            if !self.need(1)? {
                return Ok(false);
            }
            let here = count.min(self.end - self.start);
            self.pass(here);
            count -= here;
        }
        Ok(true)
    }

    /// Where we are in the (decompressed) octets.
    pub fn offset(&self) -> u64 {
        self.passed + self.start as u64
    }
}

/// Decompresses what is compressed, as its first octets say.
fn decompress(from: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    // A small buffer: larger reads go past it.
    let mut from = BufReader::with_capacity(CHUNK / 8, from);
    // A pipe may give less at first.
    let mut magic = Vec::with_capacity(XZ.len());
    from.by_ref().take(XZ.len() as u64).read_to_end(&mut magic)?;
    let begins = |with: &[u8]| magic.starts_with(with);
    let (gzip, zstd, xz) = (begins(&GZIP), begins(&ZSTD), begins(&XZ));
    let lz4 = begins(&LZ4) || begins(&LZ4_LEGACY);
    let from = io::Cursor::new(magic).chain(from);
    if !(gzip || zstd || xz || lz4) {
        return Ok(Box::new(from));
    }
    let from = BufReader::with_capacity(CHUNK, from);
    Ok(if gzip {
        Box::new(MultiGzDecoder::new(from))
    } else if zstd {
        let mut decoder = ::zstd::stream::read::Decoder::with_buffer(from)?;
        decoder.window_log_max(ZSTD_WINDOW)?;
        Box::new(decoder)
    } else if xz {
        Box::new(XzDecoder::new_stream(from, Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?))
    } else {
        Box::new(Lz4(FrameDecoder::new(from)))
    })
}

/// One frame after the other, as `lz4 -d` reads them.
struct Lz4<R: Read>(FrameDecoder<R>);

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 if !into.is_empty() && !self.0.get_mut().fill_buf()?.is_empty() => self.0.read(into),
            n => Ok(n),
        }
    }
}
