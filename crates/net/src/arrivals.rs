//! The number of DNS messages that arrive at a device. The kernel counts them for packet sockets with a filter, which nobody reads
//! (packet(7)).
//!
//! The filter accepts the messages. The queue of a socket is full after the first few, and the kernel counts and drops the others before it
//! copies them. So no message is missed at any rate; what it costs is in docs/trust.md.
#![allow(unsafe_code)] // each block says why it is sound

use crate::sys::{check, get_option, set_option};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Counts UDP datagrams with a DNS message of one kind, as they arrive at a device. What this host sends is not counted, nor are
/// further fragments of a datagram.
#[derive(Debug)]
pub struct Arrivals {
    sockets: [OwnedFd; 2],
    counted: u64,
}

impl Arrivals {
    /// Counts the messages with this opcode that are no responses, to `port`. Needs `CAP_NET_RAW` in the network namespace.
    ///
    /// # Errors
    /// From the system: no such device, no privilege.
    pub fn open(device: &str, port: u16, opcode: u8) -> io::Result<Self> {
        let index = crate::link::index(device)?;
        let v4 = open(index, libc::ETH_P_IP, &ipv4(port, opcode))?;
        let v6 = open(index, libc::ETH_P_IPV6, &ipv6(port, opcode))?;
        Ok(Self { sockets: [v4, v6], counted: 0 })
    }

    /// The number of messages since this was opened. At most 2³² may arrive between two calls.
    ///
    /// # Errors
    /// From the system.
    pub fn count(&mut self) -> io::Result<u64> {
        for socket in &self.sockets {
            // Since the last call: all packets, the dropped ones included; and the dropped ones.
            let [all, _] = get_option::<2>(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
            self.counted += u64::from(all);
        }
        Ok(self.counted)
    }
}

/// A packet socket that has a filter before it is bound, so that it counts nothing else. It sees packets from their network header on, and,
/// as it is of one protocol, none that this host sends.
fn open(index: u32, protocol: libc::c_int, filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers; the descriptor that it returns belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?) };
    // The least that the kernel gives.
    set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program and the instructions that it points at outlive the call; the kernel copies them.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    crate::packet::bind(&fd, index, protocol)?;
    Ok(fd)
}

/// Traffic class of the queries that watch a server (DSCP 8). They are not counted, because they are not part of a load.
pub const WATCHING: u8 = 0x20;

const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE_AT_X: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const LOAD_HALF_AT_X: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
/// X becomes four times the low half of the byte: the length of an IPv4 header.
const HEADER_TO_X: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// One instruction of a classic filter, before its jumps are known.
enum Step {
    Do(u32, u32),
    /// Goes on where the accumulator equals this; else the packet is refused.
    Wants(u32),
    /// Goes on where it does not.
    Refuses(u32),
}

/// Version and header length, type of service, length, id, fragment, time to live, protocol …; then UDP, then DNS.
fn ipv4(port: u16, opcode: u8) -> Vec<libc::sock_filter> {
    filter(&[
        Step::Do(LOAD_BYTE, 9),
        Step::Wants(libc::IPPROTO_UDP as u32),
        Step::Do(LOAD_HALF, 6),
        Step::Do(AND, 0x1fff),
        Step::Wants(0),
        Step::Do(LOAD_BYTE, 1),
        Step::Do(AND, 0xfc),
        Step::Refuses(WATCHING.into()),
        Step::Do(HEADER_TO_X, 0),
        Step::Do(LOAD_HALF_AT_X, 2),
        Step::Wants(port.into()),
        Step::Do(LOAD_BYTE_AT_X, 10),
        Step::Do(AND, 0xf8),
        Step::Wants(u32::from(opcode) << 3),
    ])
}

/// Version, traffic class and flow, length, next header …: 40 octets where there are no extension headers.
fn ipv6(port: u16, opcode: u8) -> Vec<libc::sock_filter> {
    filter(&[
        Step::Do(LOAD_BYTE, 6),
        Step::Wants(libc::IPPROTO_UDP as u32),
        Step::Do(LOAD_HALF, 0),
        Step::Do(AND, 0x0fc0),
        Step::Refuses(u32::from(WATCHING) << 4),
        Step::Do(LOAD_HALF, 42),
        Step::Wants(port.into()),
        Step::Do(LOAD_BYTE, 50),
        Step::Do(AND, 0xf8),
        Step::Wants(u32::from(opcode) << 3),
    ])
}

/// A filter that accepts what passes all steps.
fn filter(steps: &[Step]) -> Vec<libc::sock_filter> {
    let refuse = steps.len() + 1;
    let instruction = |code, k, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let one = |(at, step): (usize, &Step)| {
        let to_refuse = (refuse - at - 1) as u8;
        match *step {
            Step::Do(code, k) => instruction(code, k, 0, 0),
            Step::Wants(k) => instruction(IF_EQUAL, k, 0, to_refuse),
            Step::Refuses(k) => instruction(IF_EQUAL, k, to_refuse, 0),
        }
    };
    let mut all: Vec<_> = steps.iter().enumerate().map(one).collect();
    all.extend([instruction(RETURN, 1, 0, 0), instruction(RETURN, 0, 0, 0)]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// A header of DNS, with this second pair of octets.
    fn message(flags: u8) -> [u8; 12] {
        [0, 7, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn queries_are_counted_and_nothing_else_is() {
        let server = UdpSocket::bind("[::]:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let (mut queries, mut updates) = match (Arrivals::open("lo", port, 0), Arrivals::open("lo", port, 5))
        {
            (Ok(queries), Ok(updates)) => (queries, updates),
            (Err(e), _) | (_, Err(e)) => {
                eprintln!("SKIPPED: no packet socket: {e}");
                return;
            }
        };
        let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
        let v6 = UdpSocket::bind("[::1]:0").unwrap();
        let to = |socket: &UdpSocket, bytes: &[u8], port: u16| {
            let ip = socket.local_addr().unwrap().ip();
            // Nobody has the other port: that it says so is no matter.
            let _ = socket.send_to(bytes, (ip, port));
        };
        // More than the queue of a packet socket holds.
        for _ in 0..3000 {
            to(&v4, &message(0), port);
            to(&v6, &message(1), port);
        }
        to(&v4, &message(0x28), port);
        to(&v6, &message(0x28), port);
        for other in [0x80, 0x20, 0xa8] {
            to(&v4, &message(other), port);
            to(&v6, &message(other), port);
        }
        to(&v4, &message(0), port ^ 1);
        to(&v4, &[0; 2], port);
        rustix::net::sockopt::set_ip_tos(&v4, WATCHING).unwrap();
        rustix::net::sockopt::set_ipv6_tclass(&v6, WATCHING.into()).unwrap();
        to(&v4, &message(0), port);
        to(&v6, &message(0), port);
        assert_eq!((queries.count().unwrap(), updates.count().unwrap()), (6000, 2));
        rustix::net::sockopt::set_ip_tos(&v4, 0).unwrap();
        to(&v4, &message(0x28), port);
        assert_eq!((queries.count().unwrap(), updates.count().unwrap()), (6000, 3));
    }
}
