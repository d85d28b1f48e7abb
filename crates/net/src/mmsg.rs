//! Batches for sendmmsg and recvmmsg, allocated once.
#![allow(unsafe_code)] // each block says why it is sound

use crate::sys::{RawAddr, check, monotonic, nanos, parse_addr, wall};
use crate::transport::{Incoming, Outgoing};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Room for control messages: a timestamp or a packet info (at most 40 bytes with its header), aligned.
type Control = [u64; 8];

pub(crate) fn empty_header() -> libc::mmsghdr {
    // SAFETY: mmsghdr is a plain C structure of integers and pointers, for which all zeroes is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Sends `frames`, in the order that `order` gives, to one address: returns how many went, all of them from the
/// front of `order`, and when (monotonic, read last before the system call). An error means that the first could not be
/// sent.
pub(crate) struct Sender {
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// The segment size of each header.
    segments: Box<[Segment]>,
}

/// Datagrams that the kernel cuts out of one (`UDP_MAX_SEGMENTS` was 64 until Linux 6.9), and what all of them may hold
/// together with their header.
const SEGMENTS_MAX: usize = 64;
const SEGMENTED_MAX: usize = 65_000;

/// A control message `UDP_SEGMENT`: its header (16 octets) and the size of a segment, aligned.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Segment {
    header: libc::cmsghdr,
    size: u16,
}

// SAFETY: the pointers in the headers are written in each call, from borrows that outlive it, and are not
// used between calls; nothing in here is tied to a thread.
unsafe impl Send for Sender {}

impl Sender {
    pub(crate) fn new(size: usize) -> Self {
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let header = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<u16>(),
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        };
        Self {
            vectors: vec![vector; size].into(),
            headers: vec![empty_header(); size].into(),
            segments: vec![Segment { header, size: 0 }; size].into(),
        }
    }

    /// As [`Self::send`], with neighbours in `order` that are equally long handed over as one datagram to be cut up.
    pub(crate) fn send_segmented(
        &mut self,
        fd: BorrowedFd<'_>,
        to: &RawAddr,
        frames: &[Outgoing],
        order: &[u16],
    ) -> io::Result<(usize, u64)> {
        let length = |i: usize| frames[usize::from(order[i])].bytes.len();
        let all = order.len().min(self.headers.len());
        let (mut at, mut messages) = (0, 0);
        while at < all {
            let size = length(at).max(1);
            let most = (SEGMENTED_MAX / size).clamp(1, SEGMENTS_MAX);
            let count = (at..all).take(most).take_while(|&i| length(i) == size).count().max(1);
            for i in at..at + count {
                let bytes = &frames[usize::from(order[i])].bytes;
                self.vectors[i] =
                    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            }
            let header = &mut self.headers[messages].msg_hdr;
            header.msg_name = (&raw const to.storage).cast_mut().cast();
            header.msg_namelen = to.len;
            header.msg_iov = &raw mut self.vectors[at];
            header.msg_iovlen = count;
            self.segments[messages].size = size as u16;
            header.msg_control = (&raw mut self.segments[messages]).cast();
            // One datagram needs no cutting.
            header.msg_controllen = if count > 1 { size_of::<Segment>() } else { 0 };
            at += count;
            messages += 1;
        }
        let at = monotonic();
        // SAFETY: the first `messages` headers point at consecutive parts of the io vectors written above (at the
        // frames' bytes), at `to`, and at a control message of the length stated; all outlive the call, and the kernel
        // only reads.
        let sent = check(unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                messages as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        })?;
        Ok((self.headers[..sent as usize].iter().map(|h| h.msg_hdr.msg_iovlen).sum(), at))
    }

    pub(crate) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        to: &RawAddr,
        frames: &[Outgoing],
        order: &[u16],
    ) -> io::Result<(usize, u64)> {
        if let [one] = order {
            return send_one(fd, to, &frames[usize::from(*one)].bytes).map(|at| (1, at));
        }
        let n = order.len().min(self.headers.len());
        for ((&at, vector), header) in order.iter().zip(self.vectors.iter_mut()).zip(self.headers.iter_mut())
        {
            let bytes = &frames[usize::from(at)].bytes;
            *vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_name = (&raw const to.storage).cast_mut().cast();
            header.msg_hdr.msg_namelen = to.len;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_controllen = 0;
        }
        let at = monotonic();
        // SAFETY: the first `n` headers point at one io vector each, these at the frames' bytes, and at `to`; all
        // outlive the call, and the kernel only reads them (sendmsg does not write through name and vectors).
        let sent = check(unsafe {
            libc::sendmmsg(fd.as_raw_fd(), self.headers.as_mut_ptr(), n as libc::c_uint, libc::MSG_DONTWAIT)
        })?;
        Ok((sent as usize, at))
    }
}

/// Sends one datagram: the shortest way into the kernel. Returns when.
fn send_one(fd: BorrowedFd<'_>, to: &RawAddr, bytes: &[u8]) -> io::Result<u64> {
    let (data, name) = (bytes.as_ptr().cast(), (&raw const to.storage).cast());
    let at = monotonic();
    // SAFETY: bytes and address outlive the call and have the lengths stated; the kernel only reads them.
    let sent = unsafe { libc::sendto(fd.as_raw_fd(), data, bytes.len(), libc::MSG_DONTWAIT, name, to.len) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(at) }
}

/// A batch of receive buffers.
pub(crate) struct Receiver {
    bytes: Box<[[u8; Incoming::MAX]]>,
    names: Box<[RawAddr]>,
    controls: Box<[Control]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// How many headers the kernel may have changed since they were prepared.
    used: usize,
}

// SAFETY: the pointers in headers and vectors point into the boxes of the same structure, which move with it
// without moving their content.
unsafe impl Send for Receiver {}

impl Receiver {
    pub(crate) fn new(size: usize) -> Self {
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            bytes: vec![[0; Incoming::MAX]; size].into(),
            names: vec![RawAddr::empty(); size].into(),
            controls: vec![[0; 8]; size].into(),
            vectors: vec![vector; size].into(),
            headers: vec![empty_header(); size].into(),
            used: size,
        }
    }

    /// Receives what is there into the batch, at most `most` datagrams: how many. The stamps and packet infos that the
    /// socket was asked for come with them.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        for i in 0..self.used {
            self.vectors[i] =
                libc::iovec { iov_base: self.bytes[i].as_mut_ptr().cast(), iov_len: Incoming::MAX };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.names[i].storage).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[i].as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>();
            header.msg_flags = 0;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each header points at a name, an io vector with its buffer, and a control buffer of the sizes
        // stated, all in boxes of this structure that stay in place during the call; no timeout.
        let received = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len().min(most) as libc::c_uint,
                flags,
                ptr::null_mut(),
            )
        };
        self.used = usize::try_from(received).unwrap_or(0);
        check(received).map(|n| n as usize)
    }

    /// How many datagrams a batch holds.
    pub(crate) fn size(&self) -> usize {
        self.headers.len()
    }

    /// The true length of datagram `i` of the last batch (`MSG_TRUNC` makes the kernel tell it).
    pub(crate) fn len(&self, i: usize) -> usize {
        self.headers[i].msg_len as usize
    }

    /// The octets of datagram `i` of the last batch that were kept.
    pub(crate) fn bytes(&self, i: usize) -> &[u8] {
        &self.bytes[i][..self.len(i).min(Incoming::MAX)]
    }

    pub(crate) fn bytes_mut(&mut self, i: usize) -> &mut [u8] {
        let len = self.len(i).min(Incoming::MAX);
        &mut self.bytes[i][..len]
    }

    /// Whence datagram `i` of the last batch came.
    pub(crate) fn from(&self, i: usize) -> Option<SocketAddr> {
        parse_addr(&self.names[i].storage)
    }

    /// When the kernel received datagram `i` of the last batch: wall nanoseconds; now where it did not say.
    pub(crate) fn stamp(&self, i: usize) -> u64 {
        // SAFETY: the kernel has filled the control buffer, which this structure holds, and set its length.
        unsafe { stamp_of(&self.headers[i].msg_hdr) }.unwrap_or_else(wall)
    }

    /// Sends the first `keep` octets of datagrams of the last batch of `n` back to where they came from, those for which it
    /// gives a length: how many went. Where the socket was asked for packet infos, the answer's source is the address that was asked.
    pub(crate) fn send_back(
        &mut self,
        fd: BorrowedFd<'_>,
        n: usize,
        mut keep: impl FnMut(usize) -> Option<usize>,
    ) -> io::Result<usize> {
        let mut kept = 0;
        for i in 0..n {
            if let Some(length) = keep(i) {
                self.vectors[i].iov_len = length.min(self.len(i)).min(Incoming::MAX);
                // Swapping whole headers keeps each with its own buffers.
                self.headers.swap(kept, i);
                kept += 1;
            }
        }
        let mut done = 0;
        while done < kept {
            // SAFETY: headers[done..kept] are as the kernel filled them: their names, vectors and controls lie in
            // boxes of this structure and have the lengths that the kernel stated.
            let sent = check(unsafe {
                libc::sendmmsg(
                    fd.as_raw_fd(),
                    self.headers[done..].as_mut_ptr(),
                    (kept - done) as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            })?;
            done += sent as usize;
        }
        Ok(done)
    }
}

/// The kernel's stamp among the control messages of a header: wall nanoseconds.
///
/// # Safety
/// The header's control buffer and its length are as the kernel left them, and the buffer is still there.
pub(crate) unsafe fn stamp_of(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: the CMSG macros stay inside the length that the kernel stated, and a control message of this type holds
    // a timespec, read wherever it is aligned.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(header);
        while !cmsg.is_null() {
            if (*cmsg).cmsg_level == libc::SOL_SOCKET && (*cmsg).cmsg_type == libc::SCM_TIMESTAMPNS {
                return Some(nanos(libc::CMSG_DATA(cmsg).cast::<libc::timespec>().read_unaligned()));
            }
            cmsg = libc::CMSG_NXTHDR(header, cmsg);
        }
    }
    None
}

/// Takes one message off the error queue of a socket; false where it is empty.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> bool {
    let mut control = [0u64; 64];
    let mut header = empty_header().msg_hdr;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<[u64; 64]>();
    // SAFETY: the header has no name and no vectors, and a control buffer of the size stated that outlives the call.
    unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) >= 0 }
}
