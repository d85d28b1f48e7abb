//! Small eBPF programs: an assembler for the few instructions that they need, and bpf(2) for maps, programs and
//! links. Instruction set: RFC 9669.
#![allow(unsafe_code)] // each block says why it is sound

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A register: `R0` results, `R1` to `R5` arguments (lost in calls), `R6` to `R9` kept, `R10` the stack's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // the machine has them
pub(crate) enum Reg {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How wide a load or store is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    U8 = 0x10,
    U16 = 0x08,
    U32 = 0x00,
    U64 = 0x18,
}

/// Arithmetic, 64 bits wide.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    Rsh = 0x70,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// Conditions of jumps, unsigned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum If {
    Eq = 0x10,
    Ne = 0x50,
    Gt = 0x20,
    Lt = 0xa0,
}

/// Helper functions of the kernel (linux/bpf.h).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Helper {
    KtimeGetNs = 5,
    RedirectMap = 51,
    XdpAdjustMeta = 54,
}

/// The return value of an XDP program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Xdp {
    Pass = 2,
    Tx = 3,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// Instructions as they are put down, with jumps to be resolved.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    places: Vec<Option<usize>>,
}

impl Assembler {
    fn put(&mut self, opcode: u8, dst: Reg, src: u8, offset: i16, imm: i32) {
        let regs = dst as u8 | src << 4;
        let [a, b] = offset.to_le_bytes();
        let [c, d, e, f] = imm.to_le_bytes();
        self.code.push(u64::from_le_bytes([opcode, regs, a, b, c, d, e, f]));
    }

    /// A label that is placed later.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The label stands here.
    pub fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    /// `dst = *(base + offset)`
    pub fn load(&mut self, width: Width, dst: Reg, base: Reg, offset: i16) {
        self.put(0x61 | width as u8, dst, base as u8, offset, 0);
    }

    /// `*(base + offset) = src`
    pub fn store(&mut self, width: Width, base: Reg, offset: i16, src: Reg) {
        self.put(0x63 | width as u8, base, src as u8, offset, 0);
    }

    /// `*(u64 *)(base + offset) += src`, atomically.
    pub fn add_atomic(&mut self, base: Reg, offset: i16, src: Reg) {
        self.put(0xdb, base, src as u8, offset, 0);
    }

    /// `dst = dst op src`
    pub fn op(&mut self, op: Op, dst: Reg, src: Reg) {
        self.put(0x0f | op as u8, dst, src as u8, 0, 0);
    }

    /// `dst = dst op value`
    pub fn op_imm(&mut self, op: Op, dst: Reg, value: i32) {
        self.put(0x07 | op as u8, dst, 0, 0, value);
    }

    /// Turns the 16 bits of `dst` from network to host order.
    pub fn swap_network_u16(&mut self, dst: Reg) {
        self.put(0xdc, dst, 0, 0, 16);
    }

    /// `if dst cond value goto label`
    pub fn jump_imm(&mut self, cond: If, dst: Reg, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x05 | cond as u8, dst, 0, 0, value);
    }

    /// `if the low 32 bits of dst cond value goto label`
    pub fn jump_imm32(&mut self, cond: If, dst: Reg, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x06 | cond as u8, dst, 0, 0, value);
    }

    /// `if dst cond src goto label`
    pub fn jump(&mut self, cond: If, dst: Reg, src: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x0d | cond as u8, dst, src as u8, 0, 0);
    }

    /// `goto label`
    pub fn goto(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(0x05, Reg::R0, 0, 0, 0);
    }

    /// `dst = the map`, for helpers.
    pub fn map(&mut self, dst: Reg, map: &Map) {
        self.put(0x18, dst, 1, 0, map.0.as_raw_fd());
        self.code.push(0);
    }

    /// `dst = the address of the first value of an array map`.
    pub fn map_value(&mut self, dst: Reg, map: &Map) {
        self.put(0x18, dst, 2, 0, map.0.as_raw_fd());
        self.code.push(0);
    }

    /// `r0 = helper(r1, …)`
    pub fn call(&mut self, helper: Helper) {
        self.put(0x85, Reg::R0, 0, 0, helper as i32);
    }

    /// `return action`
    pub fn exit(&mut self, action: Xdp) {
        self.op_imm(Op::Mov, Reg::R0, action as i32);
        self.exit_r0();
    }

    /// `return r0`
    pub fn exit_r0(&mut self) {
        self.put(0x95, Reg::R0, 0, 0, 0);
    }

    /// The instructions.
    ///
    /// # Panics
    /// Where a label was used and never placed: a mistake in the program.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let to = self.places[label.0].expect("every label that is used is placed");
            let distance = to as i64 - at as i64 - 1;
            let offset = i16::try_from(distance).expect("programs are short");
            self.code[at] |= u64::from(offset.cast_unsigned()) << 16;
        }
        self.code
    }
}

/// `union bpf_attr`, as far as it is used, in words of 64 bits.
type Attr = [u64; 18];

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const LINK_DETACH: libc::c_int = 34;

fn two(low: u32, high: u32) -> u64 {
    // The attribute's fields are in native order, one behind the other.
    u64::from(low) | u64::from(high) << 32
}

/// # Safety
/// Every pointer in `attr` must be valid for what `command` does with it.
unsafe fn bpf(command: libc::c_int, attr: &mut Attr) -> io::Result<libc::c_int> {
    // SAFETY: the attribute outlives the call and has the size stated; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of::<Attr>() as libc::c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// # Safety
/// As [`bpf`], for a command that returns a new descriptor.
unsafe fn bpf_fd(command: libc::c_int, attr: &mut Attr) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the descriptor is new and belongs to nobody else.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attr)?)) }
}

/// A BPF map, gone with its last user.
#[derive(Debug)]
pub(crate) struct Map(OwnedFd);

impl Map {
    /// From queue numbers to AF_XDP sockets.
    pub fn xsk(entries: u32) -> io::Result<Self> {
        Self::create(17, 4, entries)
    }

    /// An array of one value.
    pub fn value(size: u32) -> io::Result<Self> {
        Self::create(2, size, 1)
    }

    fn create(kind: u32, value: u32, entries: u32) -> io::Result<Self> {
        let mut attr = [0; 18];
        (attr[0], attr[1]) = (two(kind, 4), two(value, entries));
        // SAFETY: no pointers in it.
        unsafe { bpf_fd(MAP_CREATE, &mut attr) }.map(Self)
    }

    /// Puts a socket into it.
    pub fn set_socket(&self, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.set(key, &socket.as_raw_fd().to_ne_bytes())
    }

    /// Writes the value at `key`, which must have the map's value size.
    pub fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        let mut attr = [0; 18];
        attr[0] = two(self.0.as_raw_fd().cast_unsigned(), 0);
        (attr[1], attr[2]) = ((&raw const key).addr() as u64, value.as_ptr().addr() as u64);
        // SAFETY: key and value outlive the call; the value is as long as the map's values are, the caller's promise
        // that all two callers in this crate keep.
        unsafe { bpf(MAP_UPDATE, &mut attr) }.map(drop)
    }

    /// Reads an array's value of `N` words.
    pub fn get<const N: usize>(&self, key: u32) -> io::Result<[u64; N]> {
        let mut value = [0u64; N];
        let mut attr = [0; 18];
        attr[0] = two(self.0.as_raw_fd().cast_unsigned(), 0);
        (attr[1], attr[2]) = ((&raw const key).addr() as u64, value.as_mut_ptr().addr() as u64);
        // SAFETY: as above; the kernel writes the map's value size, which the callers' maps have as `N` words.
        unsafe { bpf(MAP_LOOKUP, &mut attr)? };
        Ok(value)
    }
}

/// An XDP program in the kernel.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Has the kernel verify and translate the instructions. On refusal the error ends with the last lines of the
    /// verifier's words.
    pub fn load(code: &[u64]) -> io::Result<Self> {
        let load = |log: &mut [u8]| {
            let licence = c"Dual MIT/GPL";
            let mut attr = [0; 18];
            attr[0] = two(6, code.len() as u32); // BPF_PROG_TYPE_XDP
            (attr[1], attr[2]) = (code.as_ptr().addr() as u64, licence.as_ptr().addr() as u64);
            if !log.is_empty() {
                (attr[3], attr[4]) = (two(1, log.len() as u32), log.as_mut_ptr().addr() as u64);
            }
            attr[6] = u64::from_ne_bytes(*b"dnsrack\0"); // its name, of up to 16 octets
            // SAFETY: instructions, licence and log outlive the call and have the lengths stated.
            unsafe { bpf_fd(PROG_LOAD, &mut attr) }
        };
        load(&mut []).map(Self).map_err(|e| {
            let mut log = vec![0; 64 << 10];
            let Err(_) = load(&mut log) else { return e };
            let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]);
            let lines: Vec<&str> = text.trim_end().lines().collect();
            let last = lines[lines.len().saturating_sub(4)..].join(" / ");
            if last.is_empty() { e } else { io::Error::new(e.kind(), format!("{e}: {last}")) }
        })
    }
}

/// A program attached to an interface; detached when dropped, or when the process ends.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

/// Where in the receive path an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the driver.
    Native = 4,
    /// On socket buffers, behind the driver.
    Generic = 2,
}

impl Attach {
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "xdp-native",
            Self::Generic => "xdp-generic",
        }
    }
}

impl Link {
    pub fn attach(program: &Program, interface: u32, mode: Attach) -> io::Result<Self> {
        let mut attr = [0; 18];
        attr[0] = two(program.0.as_raw_fd().cast_unsigned(), interface);
        attr[1] = two(37, mode as u32); // BPF_XDP
        // SAFETY: no pointers in it.
        unsafe { bpf_fd(LINK_CREATE, &mut attr) }.map(Self)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut attr = [0; 18];
        attr[0] = two(self.0.as_raw_fd().cast_unsigned(), 0);
        // Detached at once, so that who comes next finds the interface free; without it, a moment later.
        // SAFETY: no pointers in it.
        let _ = unsafe { bpf(LINK_DETACH, &mut attr) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_the_standard_encodes_them() {
        let mut a = Assembler::default();
        let end = a.label();
        a.load(Width::U32, Reg::R2, Reg::R1, 4);
        a.op_imm(Op::Add, Reg::R2, 14);
        a.jump(If::Gt, Reg::R2, Reg::R3, end);
        a.swap_network_u16(Reg::R5);
        a.store(Width::U64, Reg::R10, -8, Reg::R0);
        a.place(end);
        a.exit(Xdp::Pass);
        let bytes: Vec<[u8; 8]> = a.finish().iter().map(|i| i.to_le_bytes()).collect();
        assert_eq!(
            bytes,
            [
                [0x61, 0x12, 4, 0, 0, 0, 0, 0],
                [0x07, 0x02, 0, 0, 14, 0, 0, 0],
                [0x2d, 0x32, 2, 0, 0, 0, 0, 0],
                [0xdc, 0x05, 0, 0, 16, 0, 0, 0],
                [0x7b, 0x0a, 0xf8, 0xff, 0, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }
}
