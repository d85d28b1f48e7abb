//! One line of strace's output, and what stands in a system call's arguments. Nothing in it is trusted: a server's bytes, a
//! file's name and strace's own words all come through here.

use memchr::memmem;
use std::net::{IpAddr, SocketAddr};

/// A line of strace's output, parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub pid: u32,
    /// Nanoseconds since 1970: of the call's begin; where it is resumed, of its end.
    pub time: u64,
    pub what: What<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    Call {
        name: &'a [u8],
        args: &'a [u8],
        end: End<'a>,
    },
    /// The call's end comes on another line.
    Unfinished {
        name: &'a [u8],
        args: &'a [u8],
    },
    Resumed {
        name: &'a [u8],
        args: &'a [u8],
        end: End<'a>,
    },
    /// A signal, or a process's end.
    Other,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End<'a> {
    /// The return value; none where the call never returned. Negative: an error.
    pub value: Option<i64>,
    /// The same and what strace says of it.
    pub result: &'a [u8],
    /// How long it took, in nanoseconds.
    pub took: u64,
}

/// Reads a line: `PID SECONDS.NANOSECONDS name(arguments) = value <seconds>`.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (pid, rest) = word(line)?;
    let (time, rest) = word(rest)?;
    let pid = number(pid)?.try_into().ok()?;
    let time = seconds(time)?;
    if rest.starts_with(b"+++ ") || rest.starts_with(b"--- ") {
        return Some(Line { pid, time, what: What::Other });
    }
    if let Some(rest) = rest.strip_prefix(b"<... ") {
        let at = memmem::find(rest, b" resumed>")?;
        let (args, end) = ended(&rest[at + 9..])?;
        return Some(Line { pid, time, what: What::Resumed { name: &rest[..at], args, end } });
    }
    let at = memchr::memchr(b'(', rest)?;
    let (name, rest) = (&rest[..at], &rest[at + 1..]);
    // A thread that was killed as it entered a call: strace could not see which.
    if name == b"????" {
        return Some(Line { pid, time, what: What::Other });
    }
    if !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let what = match rest.strip_suffix(b" <unfinished ...>") {
        Some(args) => What::Unfinished { name, args },
        None => {
            let (args, end) = ended(rest)?;
            What::Call { name, args, end }
        }
    };
    Some(Line { pid, time, what })
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let at = memchr::memchr(b' ', text)?;
    Some((&text[..at], text[at..].trim_ascii_start()))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
}

/// `12.000345678`, in nanoseconds.
fn seconds(text: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', text)?;
    let (whole, part) = (number(&text[..dot])?, &text[dot + 1..]);
    if part.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - part.len() as u32);
    whole.checked_mul(1_000_000_000)?.checked_add(number(part)? * scale)
}

/// Splits `arguments) = value ... <seconds>`.
fn ended(text: &[u8]) -> Option<(&[u8], End<'_>)> {
    let mut upto = text.len();
    let (close, result) = loop {
        let at = memmem::rfind(&text[..upto], b" = ")?;
        let before = text[..at].trim_ascii_end();
        if before.last() == Some(&b')') {
            break (before.len() - 1, &text[at + 3..]);
        }
        upto = at;
    };
    let digits = result.iter().skip(usize::from(result.first() == Some(&b'-')));
    let len = digits.take_while(|b| b.is_ascii_digit()).count();
    let value = if result.starts_with(b"0x") {
        let hex = result[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        std::str::from_utf8(&result[2..2 + hex])
            .ok()
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .map(|v| v as i64)
    } else if let Some(negative) = result.strip_prefix(b"-") {
        number(&negative[..len]).map(|n| -(n as i64))
    } else {
        number(&result[..len]).map(|n| n as i64)
    };
    let took =
        result.strip_suffix(b">").and_then(|r| seconds(&r[memchr::memrchr(b'<', r)? + 1..])).unwrap_or(0);
    Some((&text[..close], End { value, result, took }))
}

/// The file descriptor at the start of `args`: its number, and the file or socket that `-yy` prints for it.
pub(super) fn descriptor(args: &[u8]) -> Option<(i64, &[u8])> {
    let len = args.iter().take_while(|b| b.is_ascii_digit()).count();
    let fd = number(&args[..len])? as i64;
    let rest = args[len..].strip_prefix(b"<")?;
    let end = if rest.first() == Some(&b'/') {
        rest.iter().position(|b| matches!(b, b'>' | b'<'))?
    } else {
        memmem::find(rest, b"]>")? + 1
    };
    Some((fd, &rest[..end]))
}

/// A string as strace writes it, from behind its opening quote: its bytes, whether strace cut it off, and how much of
/// `text` it took.
pub(super) fn string(text: &[u8]) -> (Vec<u8>, bool, usize) {
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        at += 1;
        match b {
            b'"' => return (bytes, text[at..].starts_with(b"..."), at),
            b'\\' => {
                let Some(&escaped) = text.get(at) else { break };
                at += 1;
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'0'..=b'7' => {
                        let more = text[at..].iter().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
                        let octal =
                            text[at - 1..at + more].iter().fold(0_u32, |n, d| n * 8 + u32::from(d - b'0'));
                        at += more;
                        octal as u8
                    }
                    other => other,
                });
            }
            other => bytes.push(other),
        }
    }
    (bytes, true, at)
}

/// All buffers among the arguments: `iov_base="..."` of vectors, else the first string. Says whether one was cut off.
pub(super) fn buffers(args: &[u8]) -> (Vec<u8>, bool) {
    let (mut all, mut cut, mut at, mut vector) = (Vec::new(), false, 0, false);
    while let Some(found) = memmem::find(&args[at..], b"iov_base=\"") {
        let (bytes, short, took) = string(&args[at + found + 10..]);
        all.extend(bytes);
        (cut, vector) = (cut | short, true);
        at += found + 10 + took;
    }
    match memchr::memchr(b'"', args) {
        Some(quote) if !vector => {
            let (bytes, short, _) = string(&args[quote + 1..]);
            (bytes, short)
        }
        _ => (all, cut),
    }
}

/// A message of recvmsg and its like: the address that stands with it, its bytes, and whether those were cut off.
pub(super) type Message = (Option<SocketAddr>, Vec<u8>, bool);

/// The messages among the arguments of a call that receives or sends.
pub(super) fn messages(name: &[u8], args: &[u8]) -> Vec<Message> {
    match name {
        b"recvmsg" | b"recvmmsg" | b"sendmsg" | b"sendmmsg" => {
            let starts: Vec<usize> = memmem::find_iter(args, b"msg_name=").collect();
            let ends = starts.iter().skip(1).copied().chain([args.len()]);
            starts
                .iter()
                .zip(ends)
                .map(|(&start, end)| {
                    let (bytes, cut) = buffers_of_message(&args[start..end]);
                    (address(&args[start + 9..end]), bytes, cut)
                })
                .collect()
        }
        b"recvfrom" | b"sendto" => {
            let Some(quote) = memchr::memchr(b'"', args) else { return Vec::new() };
            let (bytes, cut, took) = string(&args[quote + 1..]);
            let rest = &args[quote + 1 + took..];
            let given = memmem::find(rest, b"{sa_family=").and_then(|at| address(&rest[at..]));
            vec![(given, bytes, cut)]
        }
        _ => {
            let (bytes, cut) = buffers(args);
            vec![(None, bytes, cut)]
        }
    }
}

fn buffers_of_message(text: &[u8]) -> (Vec<u8>, bool) {
    match memmem::find(text, b"iov_base=\"") {
        Some(at) => buffers(&text[at..]),
        None => (Vec::new(), false),
    }
}

/// `{sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("127.0.0.1")}`
fn address(text: &[u8]) -> Option<SocketAddr> {
    if !text.starts_with(b"{sa_family=AF_INET") {
        return None;
    }
    let text = &text[..memchr::memchr(b'}', text)?];
    let port = &text[memmem::find(text, b"port=htons(")? + 11..];
    let port = number(&port[..memchr::memchr(b')', port)?])?;
    let ip = &text[memchr::memchr(b'"', text)? + 1..];
    let ip: IpAddr = std::str::from_utf8(&ip[..memchr::memchr(b'"', ip)?]).ok()?.parse().ok()?;
    Some(SocketAddr::new(ip, port.try_into().ok()?))
}

/// The other end of a connected socket: `TCP:[127.0.0.1:53->127.0.0.1:4444]`, `TCPv6:[[::1]:53->[::1]:4444]`.
pub(super) fn peer(socket: &[u8]) -> Option<SocketAddr> {
    let at = memmem::find(socket, b"->")?;
    std::str::from_utf8(socket[at + 2..].strip_suffix(b"]")?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> (Vec<u8>, Vec<u8>, End<'_>) {
        match parse(line.as_bytes()).unwrap().what {
            What::Call { name, args, end } => (name.to_vec(), args.to_vec(), end),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_of_strace_6_1() {
        let (name, args, end) = call("6885  1795325438.692798867 fsync(31</tmp/b/z.jnl>) = 0 <0.000681342>");
        assert_eq!((&name[..], end.value, end.took), (&b"fsync"[..], Some(0), 681_342));
        assert_eq!(descriptor(&args), Some((31, &b"/tmp/b/z.jnl"[..])));
        let (_, args, end) = call(
            "1 1795325436.749389318 unlink(\"p\")  = -1 ENOENT (No such file or directory) <0.000021432>",
        );
        assert_eq!((end.value, buffers(&args)), (Some(-1), (b"p".to_vec(), false)));
        let (_, args, end) =
            call("1 1.000000001 openat(AT_FDCWD</tmp>, \"a = b\", O_RDWR) = 9</tmp/a = b> <0.000001000>");
        assert_eq!((end.value, end.took, buffers(&args).0), (Some(9), 1000, b"a = b".to_vec()));
        assert_eq!(descriptor(end.result), Some((9, &b"/tmp/a = b"[..])));
        assert_eq!(
            call("1 1.5 mmap(NULL, 502, PROT_READ, MAP_SHARED, 6</k>, 0) = 0x7feda4365000 <0.1>").2.value,
            Some(0x7fed_a436_5000)
        );
        let line = parse(b"1 1.5 <... read resumed> <unfinished ...>) = ?").unwrap();
        assert_eq!(line.time, 1_500_000_000);
        assert!(matches!(line.what, What::Resumed { name: b"read", end: End { value: None, .. }, .. }));
        assert!(matches!(
            parse(b"7 1.5 sendmmsg(26<UDP:[127.0.0.1:15353]>,  <unfinished ...>").unwrap().what,
            What::Unfinished { name: b"sendmmsg", args: b"26<UDP:[127.0.0.1:15353]>, " }
        ));
        let others = [
            "1 1.0 +++ killed by SIGTERM +++",
            "1 1.0 --- SIGTERM {si_signo=SIGTERM} ---",
            "1 1.0 ????( <unfinished ...>",
        ];
        for other in others {
            assert_eq!(parse(other.as_bytes()).unwrap().what, What::Other);
        }
        for foreign in
            ["", "strace: Process 1 attached", "1 x read(3) = 0", "1 1.0 read(3", "1 1.0 re ad(3) = 0"]
        {
            assert_eq!(parse(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn messages_have_their_addresses() {
        let args = br#"26<UDP:[127.0.0.1:53]>, [{msg_hdr={msg_name={sa_family=AF_INET, sin_port=htons(42917), sin_addr=inet_addr("127.0.0.1")}, msg_namelen=28 => 16, msg_iov=[{iov_base="\212\255(\0\1\"7", iov_len=65536}], msg_iovlen=1, msg_controllen=0, msg_flags=0}, msg_len=6}, {msg_hdr={msg_name={sa_family=AF_INET6, sin6_port=htons(7), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, msg_namelen=28 => 28, msg_iov=[{iov_base="ab", iov_len=2}, {iov_base="c"..., iov_len=65536}], msg_iovlen=2}, msg_len=3}], 19, 0, NULL"#;
        let got = messages(b"recvmmsg", args);
        assert_eq!(got.len(), 2);
        assert_eq!(got[0], (Some("127.0.0.1:42917".parse().unwrap()), b"\x8a\xad(\0\x01\"7".to_vec(), false));
        assert_eq!(got[1], (Some("[::1]:7".parse().unwrap()), b"abc".to_vec(), true));
        let from = br#"5<UDP:[0.0.0.0:53]>, "x\12", 512, 0, {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("192.0.2.1")}, [128 => 16]"#;
        assert_eq!(
            messages(b"recvfrom", from),
            [(Some("192.0.2.1:9".parse().unwrap()), b"x\n".to_vec(), false)]
        );
        assert_eq!(peer(b"TCP:[127.0.0.1:53->127.0.0.1:4444]"), Some("127.0.0.1:4444".parse().unwrap()));
        assert_eq!(peer(b"TCPv6:[[::1]:53->[::1]:4444]"), Some("[::1]:4444".parse().unwrap()));
        assert_eq!(peer(b"UDP:[127.0.0.1:53]"), None);
        assert_eq!(
            descriptor(b"28<TCP:[127.0.0.1:53->127.0.0.1:1]>, 0"),
            Some((28, &b"TCP:[127.0.0.1:53->127.0.0.1:1]"[..]))
        );
        assert_eq!(descriptor(b"23</dev/urandom<char 1:9>>, x"), Some((23, &b"/dev/urandom"[..])));
    }
}
