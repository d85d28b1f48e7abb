//! An AF_XDP socket: packet memory (UMEM) and the four rings that it shares with the kernel.
//!
//! In copy mode the kernel only takes from the transmission ring inside our own system calls, so that what it has left
//! there can be made void again. Without copies the driver takes from it whenever it likes. Reference:
//! Documentation/networking/af_xdp.rst.
#![allow(unsafe_code)] // each block says why it is sound

use crate::sys::{check, set_option};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel leaves this much room before a received packet (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: usize = 256;
/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.18): how many descriptors one system call may take; 32 without.
const MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// `XDP_RING_NEED_WAKEUP`: the driver waits for a system call before it goes on with a ring.
const NEED_WAKEUP: u32 = 1;

/// A packet in the UMEM.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Desc {
    pub addr: u64,
    pub len: u32,
    pub options: u32,
}

/// Memory shared with the kernel.
struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(len: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { at: NonNull::new(at.cast()).expect("mmap does not give address 0"), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and everything that points into it goes with its owner.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// One ring of `T`, of which we are the producer or the consumer.
pub(super) struct Ring<T> {
    _memory: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    /// Our own position: what is not yet shown to the kernel.
    pub at: u32,
}

impl<T: Copy> Ring<T> {
    fn map(fd: BorrowedFd<'_>, size: u32, page: libc::off_t, offsets: &[u64; 4]) -> io::Result<Self> {
        let len = offsets[2] as usize + size as usize * size_of::<T>();
        let memory = Mapping::new(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), page)?;
        // SAFETY: the kernel says where in the mapping its counters and entries lie, aligned for their types.
        let (producer, consumer, entries, flags) = unsafe {
            (
                memory.at.add(offsets[0] as usize).cast(),
                memory.at.add(offsets[1] as usize).cast(),
                memory.at.add(offsets[2] as usize).cast(),
                memory.at.add(offsets[3] as usize).cast(),
            )
        };
        Ok(Self { _memory: memory, producer, consumer, flags, entries, mask: size - 1, at: 0 })
    }

    fn counter(&self, of: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as `self`; shared with the kernel by atomic accesses only.
        unsafe { of.as_ref() }
    }

    /// How far the producer has come.
    pub fn produced(&self) -> u32 {
        self.counter(self.producer).load(Ordering::Acquire)
    }

    /// How far the consumer has come.
    pub fn consumed(&self) -> u32 {
        self.counter(self.consumer).load(Ordering::Acquire)
    }

    /// Whether the driver does nothing with this ring until a system call wakes it up.
    pub fn needs_wakeup(&self) -> bool {
        self.counter(self.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    /// Shows the kernel what was written up to here.
    pub fn publish(&self) {
        self.counter(self.producer).store(self.at, Ordering::Release);
    }

    /// Gives back to the kernel what was read up to here.
    pub fn release(&self) {
        self.counter(self.consumer).store(self.at, Ordering::Release);
    }

    pub fn size(&self) -> u32 {
        self.mask + 1
    }

    /// Reads an entry; only what the kernel has produced and we have not released has a meaning.
    pub fn get(&self, at: u32) -> T {
        // SAFETY: the mask keeps it inside the mapping; entries are plain integers, for which any bits are valid.
        unsafe { self.entries.add((at & self.mask) as usize).read() }
    }

    /// Writes an entry that the kernel does not look at now.
    pub fn set(&mut self, at: u32, value: T) {
        // SAFETY: the mask keeps it inside the mapping; the kernel reads integers, whatever they are.
        unsafe { self.entries.add((at & self.mask) as usize).write(value) };
    }

    /// Writes the next entry.
    pub fn push(&mut self, value: T) {
        self.set(self.at, value);
        self.at = self.at.wrapping_add(1);
    }
}

/// Packet memory: chunks of one size.
pub(super) struct Umem {
    memory: Mapping,
    pub chunk: usize,
}

impl Umem {
    fn new(chunks: usize, chunk: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = Mapping::new(chunks * chunk, flags, -1, 0)?;
        // Huge pages where they can be had: packets lie far apart, and each would want an address translation of its
        // own. Then all at once, so that no page fault comes while it sends.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
            // SAFETY: the mapping was made above, is as long as stated, and nothing points into it yet.
            unsafe { libc::madvise(memory.at.as_ptr().cast(), memory.len, advice) };
        }
        Ok(Self { memory, chunk })
    }

    fn inside(&self, addr: u64, len: usize) -> usize {
        let at = addr as usize;
        assert!(at <= self.memory.len && len <= self.memory.len - at, "outside the packet memory");
        at
    }

    /// The octets of a packet, which the kernel has finished with.
    pub fn bytes(&self, addr: u64, len: usize) -> &[u8] {
        let at = self.inside(addr, len);
        // SAFETY: inside the mapping; the kernel does not write to chunks that it has handed over.
        unsafe { std::slice::from_raw_parts(self.memory.at.as_ptr().add(at), len) }
    }

    /// The octets of a chunk that is ours.
    pub fn bytes_mut(&mut self, addr: u64, len: usize) -> &mut [u8] {
        let at = self.inside(addr, len);
        // SAFETY: inside the mapping; chunks that are ours the kernel neither reads nor writes.
        unsafe { std::slice::from_raw_parts_mut(self.memory.at.as_ptr().add(at), len) }
    }
}

/// `struct xdp_umem_reg`
#[repr(C)]
struct UmemReg {
    addr: u64,
    len: u64,
    chunk_size: u32,
    headroom: u32,
    flags: u32,
    tx_metadata_len: u32,
}

/// `struct sockaddr_xdp`
#[repr(C)]
struct Address {
    family: u16,
    flags: u16,
    interface: u32,
    queue: u32,
    shared_umem: u32,
}

/// The kernel's counters (`struct xdp_statistics`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    /// Received packets that got lost on the way to us: no room in a ring, or too large for a chunk.
    pub dropped: u64,
}

/// Reads an option of a socket that consists of integers, with the octets that the kernel wrote of it; the rest is zero.
fn integers<T: Copy + Default, const N: usize>(
    fd: BorrowedFd<'_>,
    name: libc::c_int,
) -> io::Result<([T; N], usize)> {
    let mut values = [T::default(); N];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` octets, and the callers read integers, for which any bits are valid.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, values.as_mut_ptr().cast(), &raw mut len)
    })?;
    Ok((values, len as usize))
}

/// A socket with its memory, bound to one queue of an interface.
pub(super) struct Socket {
    // The rings go before the socket, the socket before the memory.
    pub received: Ring<Desc>,
    pub to_send: Ring<Desc>,
    pub fill: Ring<u64>,
    pub sent: Ring<u64>,
    fd: OwnedFd,
    pub umem: Umem,
    /// Whether the driver reads and writes packets in our memory. Known once it is bound.
    pub zero_copy: bool,
}

// SAFETY: the pointers lead into mappings that the same structure owns and that do not move with it; no thread is
// special to the kernel.
unsafe impl Send for Socket {}

impl Socket {
    /// A socket with `sending` chunks for packets to be sent (from address 0) and `receiving` ones for received packets
    /// (behind them, all given to the kernel), both powers of two.
    pub fn open(sending: u32, receiving: u32, chunk: usize) -> io::Result<Self> {
        // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
        let fd = unsafe {
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?)
        };
        let umem = Umem::new((sending + receiving) as usize, chunk)?;
        let register = UmemReg {
            addr: umem.memory.at.as_ptr().addr() as u64,
            len: umem.memory.len as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // SAFETY: the structure outlives the call; the memory that it names lives as long as the socket (fields are
        // dropped in the order of their declaration), and the kernel keeps the pages pinned anyway.
        check(unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_UMEM_REG,
                (&raw const register).cast(),
                size_of::<UmemReg>() as libc::socklen_t,
            )
        })?;
        // Twice as many completions as packets: a completion that finds no room would stop sending.
        let sizes = [
            (libc::XDP_RX_RING, receiving),
            (libc::XDP_TX_RING, sending),
            (libc::XDP_UMEM_FILL_RING, receiving),
            (libc::XDP_UMEM_COMPLETION_RING, sending * 2),
        ];
        for (ring, size) in sizes {
            set_option(fd.as_fd(), libc::SOL_XDP, ring, size as libc::c_int)?;
        }
        // Packets on their way to a slow receiver count against the send buffer, a few hundred octets each.
        let buffer = libc::c_int::try_from(u64::from(sending) * 2048).unwrap_or(libc::c_int::MAX / 2);
        if set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer).is_err() {
            set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, buffer)?;
        }
        // Newer kernels only; without it a larger batch takes a system call for each 32.
        let _ = set_option(fd.as_fd(), libc::SOL_XDP, MAX_TX_SKB_BUDGET, sending as libc::c_int);
        let (offsets, len) = integers::<u64, 16>(fd.as_fd(), libc::XDP_MMAP_OFFSETS)?;
        if len != size_of_val(&offsets) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "AF_XDP of before Linux 5.4"));
        }
        let (at, rings) = (fd.as_fd(), offsets.as_chunks::<4>().0);
        let mut socket = Self {
            received: Ring::map(at, receiving, libc::XDP_PGOFF_RX_RING, &rings[0])?,
            to_send: Ring::map(at, sending, libc::XDP_PGOFF_TX_RING, &rings[1])?,
            fill: Ring::map(at, receiving, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &rings[2])?,
            sent: Ring::map(at, sending * 2, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, &rings[3])?,
            fd,
            umem,
            zero_copy: false,
        };
        for i in 0..receiving {
            socket.fill.push(u64::from(sending + i) * chunk as u64);
        }
        socket.fill.publish();
        Ok(socket)
    }

    /// Binds it to a queue of an interface: without copies where the driver has that mode and `copy` does not forbid it.
    pub fn bind(&mut self, interface: u32, queue: u32, copy: bool) -> io::Result<()> {
        let address = Address {
            family: libc::AF_XDP as u16,
            flags: libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 },
            interface,
            queue,
            shared_umem: 0,
        };
        let len = size_of::<Address>() as libc::socklen_t;
        // SAFETY: the address outlives the call and has the length stated.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        let ([options], _) = integers::<u32, 1>(self.fd.as_fd(), libc::XDP_OPTIONS)?;
        self.zero_copy = options & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(())
    }

    /// Wakes up a driver that waits for free chunks to receive into.
    pub fn wake_receiver(&self) {
        // SAFETY: no buffer and no address. There is nothing to be read: the call fails, and has done its work.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Has the kernel send what is in the ring.
    pub fn kick(&self) -> io::Result<()> {
        // SAFETY: no buffer and no address.
        let sent = unsafe {
            libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub fn statistics(&self) -> Statistics {
        // In copy mode packets without a free chunk are among the dropped ones; those that met a full ring are not. Without
        // copies the interface drops packets when it has no chunk: the last count then says how often it asked in vain, not
        // how many packets were lost.
        let ([dropped, _, _, ring_full, _, _], _) =
            integers::<u64, 6>(self.fd.as_fd(), libc::XDP_STATISTICS).unwrap_or_default();
        Statistics { dropped: dropped + ring_full }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
