//! A file's contents: what is durable, and over it the pages that were written since.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The size of a page, which survives a power cut as a whole or not at all, in bytes.
pub const PAGE: u64 = 4096;

type Page = Box<[u8; PAGE as usize]>;

/// Contents as processes see them. What lies beyond the size is zero in every page.
#[derive(Debug, Default)]
pub(super) struct Content {
    size: u64,
    /// How much of the backing file still shows, at most `size`; beyond it what is in no page reads as zeroes: it was cut
    /// off, or never written.
    visible: u64,
    pages: BTreeMap<u64, Page>,
}

impl Content {
    /// Contents that are wholly in the backing file.
    pub fn durable(size: u64) -> Self {
        Self { size, visible: size, pages: BTreeMap::new() }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many pages would be lost now.
    pub fn volatile(&self) -> u64 {
        self.pages.len() as u64
    }

    /// How many pages a write would add.
    pub fn would_add(&self, offset: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let (first, last) = (offset / PAGE, (offset + len - 1) / PAGE);
        last - first + 1 - self.pages.range(first..=last).count() as u64
    }

    /// Up to `len` bytes from `offset`; fewer at the end of the file.
    pub fn read(&self, backing: Option<&File>, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let end = self.size.min(offset.saturating_add(len));
        if end <= offset {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; (end - offset) as usize];
        self.below(backing, offset, &mut bytes)?;
        for (&at, page) in self.pages.range(offset / PAGE..=(end - 1) / PAGE) {
            let start = at * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            bytes[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&page[(from - start) as usize..(to - start) as usize]);
        }
        Ok(bytes)
    }

    /// Reads from the backing file at `offset` on; the rest of `bytes` is left as it is.
    fn below(&self, backing: Option<&File>, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let Some(file) = backing else { return Ok(()) };
        let mut left = bytes.len().min(self.visible.saturating_sub(offset) as usize);
        let mut done = 0;
        while left > 0 {
            match file.read_at(&mut bytes[done..done + left], offset + done as u64)? {
                0 => break, // a hole at its end that was never written
                n => (done, left) = (done + n, left - n),
            }
        }
        Ok(())
    }

    /// Writes into pages, and grows the file where it must.
    pub fn write(&mut self, backing: Option<&File>, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (number, from) = (at / PAGE, (at % PAGE) as usize);
            let n = (PAGE as usize - from).min(data.len() - done);
            if !self.pages.contains_key(&number) {
                let mut page: Page = Box::new([0; PAGE as usize]);
                if n < PAGE as usize {
                    self.below(backing, number * PAGE, &mut page[..])?;
                }
                self.pages.insert(number, page);
            }
            let page = self.pages.get_mut(&number).expect("inserted above");
            page[from..from + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        self.size = self.size.max(offset + data.len() as u64);
        Ok(())
    }

    /// Cuts off, or grows with zeroes.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE));
            if let Some(page) = self.pages.get_mut(&(size / PAGE)) {
                page[(size % PAGE) as usize..].fill(0);
            }
            self.visible = self.visible.min(size);
        }
        self.size = size;
    }

    /// Makes the backing file the same as what processes see.
    pub fn flush(&mut self, backing: &File) -> io::Result<()> {
        let there = backing.metadata()?.len();
        if self.visible < there {
            backing.set_len(self.visible)?;
        }
        if self.size != self.visible.min(there) {
            backing.set_len(self.size)?;
        }
        for (&number, page) in &self.pages {
            self.store(backing, number, page)?;
        }
        self.visible = self.size;
        self.pages.clear();
        Ok(())
    }

    /// Writes those volatile pages that `survives` names to the backing file, as a disk may have done before the power went,
    /// and returns how many.
    pub fn salvage(&self, backing: &File, mut survives: impl FnMut() -> bool) -> io::Result<u64> {
        let mut saved = 0;
        for (&number, page) in &self.pages {
            if survives() {
                self.store(backing, number, page)?;
                saved += 1;
            }
        }
        Ok(saved)
    }

    fn store(&self, backing: &File, number: u64, page: &Page) -> io::Result<()> {
        let start = number * PAGE;
        let len = PAGE.min(self.size.saturating_sub(start));
        backing.write_all_at(&page[..len as usize], start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let mut content = Content::durable(10_000);
        content.resize(5_000);
        content.resize(9_000);
        let seen = content.read(Some(&file), 4_990, 100).unwrap();
        assert_eq!(seen[..10], [7; 10]);
        assert!(seen[10..].iter().all(|&b| b == 0), "{seen:?}");
        content.write(Some(&file), 4_999, &[1]).unwrap();
        assert_eq!(content.read(Some(&file), 4_998, 4).unwrap(), [7, 1, 0, 0]);
        assert_eq!(content.volatile(), 1);
        content.flush(&file).unwrap();
        assert_eq!((content.volatile(), file.metadata().unwrap().len()), (0, 9_000));
        let mut now = [9; 4];
        file.read_exact_at(&mut now, 4_998).unwrap();
        assert_eq!(now, [7, 1, 0, 0]);
    }

    #[test]
    fn pages_that_a_write_adds_are_counted_before() {
        let mut content = Content::default();
        assert_eq!(
            [content.would_add(0, 0), content.would_add(4095, 2), content.would_add(0, 4096)],
            [0, 2, 1]
        );
        content.write(None, 4096, b"x").unwrap();
        assert_eq!(content.would_add(0, 3 * PAGE), 2);
        assert_eq!(content.size(), 4097);
        assert_eq!(content.read(None, 4095, 10).unwrap(), [0, b'x']);
    }
}
