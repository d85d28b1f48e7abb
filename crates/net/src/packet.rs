//! Whole frames of a device, received and sent as they are: a packet socket (packet(7)), in batches.
//!
//! Frames that this kernel sends on the device are not received (`PACKET_IGNORE_OUTGOING`). Sent frames pass the device's queue like
//! anybody's, so that captures see them; with `PACKET_QDISC_BYPASS` they would not.
#![allow(unsafe_code)] // each block says why it is sound

use crate::mmsg::{empty_header, stamp_of};
use crate::sys::{check, get_option, monotonic, set_option, wait_readable, wait_writable, wall};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// How many frames are received or sent with one system call at most.
pub const BATCH: usize = 64;

/// A stamp older than this is a clock that was set meanwhile, not a frame that waited.
const OLDEST: u64 = 1_000_000_000;

/// A frame that was received.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// It, from its Ethernet header on; cut off where it is longer than the socket has room for.
    pub bytes: &'a [u8],
    /// Its true length in octets.
    pub length: usize,
    /// When the kernel received it: monotonic clock, nanoseconds.
    pub arrived: u64,
}

/// A packet socket of one device.
pub struct PacketSocket {
    fd: OwnedFd,
    room: usize,
    bytes: Box<[u8]>,
    controls: Box<[[u64; 8]]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// How many headers the kernel may have changed since they were prepared.
    used: usize,
    out_vectors: Box<[libc::iovec]>,
    out_headers: Box<[libc::mmsghdr]>,
    dropped: u64,
}

// SAFETY: the pointers in vectors and headers point into boxes of the same structure, which move with it without moving
// their content (`out_*`: are written in each call), and nothing in here is tied to a thread.
unsafe impl Send for PacketSocket {}

/// Binds a packet socket to a device, by its index, and to a protocol of Ethernet.
pub(crate) fn bind(fd: &OwnedFd, index: u32, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: sockaddr_ll is a plain C structure for which all zeroes is valid.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the address outlives the call and has the length that is stated.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Octets (the kernel's bookkeeping included) of frames that were sent and that the other end of a virtual link has not
/// processed yet: some 700 full frames of Ethernet. The kernel's default holds 90, which a burst on its way to a busy core
/// fills. The backlog of that core holds 1,000 frames unless it is raised, and what it drops is not seen by the sender.
const SENT: usize = 1_600_000;

impl PacketSocket {
    /// Opens one on `device`, with room for frames of `room` octets (Ethernet header included) and for `buffer` octets that
    /// wait to be received; without the privilege to pass `rmem_max` and `wmem_max` the kernel may grant less. Needs
    /// `CAP_NET_RAW` in the network namespace.
    ///
    /// # Errors
    /// From the system: no such device, no privilege.
    pub fn open(device: &str, room: usize, buffer: usize) -> io::Result<Self> {
        let index = crate::link::index(device)?;
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else. (Protocol 0: nothing is
        // received before the socket is bound to its device.)
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?) };
        set_option(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        let buffers =
            [(buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (SENT, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)];
        for (octets, force, ask) in buffers {
            // The kernel doubles what it is asked for, to pay for its own bookkeeping.
            let half = libc::c_int::try_from(octets / 2).unwrap_or(libc::c_int::MAX / 2);
            if set_option(fd.as_fd(), libc::SOL_SOCKET, force, half).is_err() {
                set_option(fd.as_fd(), libc::SOL_SOCKET, ask, half)?;
            }
        }
        bind(&fd, index, libc::ETH_P_ALL)?;
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Ok(Self {
            fd,
            room,
            bytes: vec![0; BATCH * room].into(),
            controls: vec![[0; 8]; BATCH].into(),
            vectors: vec![vector; BATCH].into(),
            headers: vec![empty_header(); BATCH].into(),
            used: BATCH,
            out_vectors: vec![vector; BATCH].into(),
            out_headers: vec![empty_header(); BATCH].into(),
            dropped: 0,
        })
    }

    /// Gives each frame that waits to `each`, at most [`BATCH`] of them, in the order of their arrival: how many.
    ///
    /// # Errors
    /// From the system; that nothing waits is none.
    pub fn receive(&mut self, each: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        for (i, buffer) in self.bytes.chunks_exact_mut(self.room).enumerate().take(self.used) {
            self.vectors[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: self.room };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[i].as_mut_ptr().cast();
            header.msg_controllen = size_of::<[u64; 8]>();
            header.msg_flags = 0;
        }
        // SAFETY: each header points at an io vector with its own part of the buffer, and at a control buffer, of the sizes
        // stated, all in boxes of this structure that stay in place during the call; no names, no timeout.
        let received = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        };
        self.used = usize::try_from(received).unwrap_or(0);
        match check(received) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            Err(e) => Err(e),
            Ok(_) => {
                let (now, wall_now) = both_clocks();
                for (header, buffer) in
                    self.headers.iter().zip(self.bytes.chunks_exact(self.room)).take(self.used)
                {
                    // SAFETY: the kernel has filled the control buffer, which this structure holds, and set its length.
                    let stamp = unsafe { stamp_of(&header.msg_hdr) };
                    let age = stamp.and_then(|at| wall_now.checked_sub(at)).filter(|&age| age < OLDEST);
                    let length = header.msg_len as usize;
                    let bytes = &buffer[..length.min(self.room)];
                    each(Frame { bytes, length, arrived: now - age.unwrap_or(0) });
                }
                Ok(self.used)
            }
        }
    }

    /// Sends frames, at most [`BATCH`] of them: how many went, all of them from the front.
    ///
    /// # Errors
    /// From the system, where the first could not be sent.
    pub fn send<'a>(&mut self, frames: impl IntoIterator<Item = &'a [u8]>) -> io::Result<usize> {
        let mut count = 0;
        for (frame, (vector, header)) in
            frames.into_iter().zip(self.out_vectors.iter_mut().zip(self.out_headers.iter_mut()))
        {
            *vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: the first `count` headers point at one io vector each, these at the frames' octets, which outlive the call
        // ('a); no names or control messages; the kernel only reads.
        let sent = check(unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                self.out_headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        })?;
        Ok(sent as usize)
    }

    /// Waits until a frame can be received or `timeout` nanoseconds have passed; a signal ends it too.
    ///
    /// # Errors
    /// From the system.
    pub fn wait(&self, timeout: u64) -> io::Result<()> {
        wait_readable(self.fd.as_fd(), timeout)
    }

    /// Waits until half of the room for frames that were sent is free again, or `timeout` nanoseconds have passed.
    ///
    /// # Errors
    /// From the system.
    pub fn wait_to_send(&self, timeout: u64) -> io::Result<()> {
        wait_writable(self.fd.as_fd(), timeout)
    }

    /// How many frames the kernel has dropped since the socket was opened because nobody took them in time.
    ///
    /// # Errors
    /// From the system.
    pub fn dropped(&mut self) -> io::Result<u64> {
        // Packets and drops since the last look.
        let [_, drops] = get_option::<2>(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        self.dropped += u64::from(drops);
        Ok(self.dropped)
    }
}

/// Both clocks at once, so that a frame's age is the same on either, whenever the wall clock was set: monotonic, wall. Where we
/// were interrupted meanwhile, which is tried to avoid, the monotonic reading is the later one: a frame then seems to have
/// come later than it did, and is never sent on too early.
fn both_clocks() -> (u64, u64) {
    let mut before = monotonic();
    for _ in 0..4 {
        let wall = wall();
        let after = monotonic();
        if after - before < 2_000 {
            return (after, wall);
        }
        before = after;
    }
    let wall = wall();
    (monotonic(), wall)
}
