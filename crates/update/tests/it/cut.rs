//! Servers that do what real ones do on bad days: silence, half a transfer, another's answer. Each is reported by its name.

use super::lab::{RUN, get};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use update::{TransferResult, TransferSpec, transfer};

const MS: u64 = 1_000_000;

/// A message that answers the AXFR of "zz.": records by owner and type, SOA with serial 1.
fn message(id: [u8; 2], records: &[(&[u8], u16)]) -> Vec<u8> {
    let mut msg = vec![id[0], id[1], 0x84, 0, 0, 0, 0, records.len() as u8, 0, 0, 0, 0];
    for (owner, rtype) in records {
        let data = match *rtype {
            wire::rtype::SOA => [&[0, 0, 0, 0, 0, 1][..], &[0; 16]].concat(),
            _ => vec![192, 0, 2, 1],
        };
        msg.extend_from_slice(owner);
        msg.extend_from_slice(&rtype.to_be_bytes());
        msg.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        msg.extend_from_slice(&data);
    }
    [&(msg.len() as u16).to_be_bytes()[..], &msg].concat()
}

const APEX: &[u8] = b"\x02zz\0";
const BELOW: &[u8] = b"\x01a\x02zz\0";

/// A server that reads one question, does something, and closes.
fn serve(then: impl FnOnce(&mut TcpStream, [u8; 2]) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query).unwrap();
        then(&mut stream, [query[0], query[1]]);
    });
    address
}

fn ask(address: SocketAddr) -> TransferResult {
    get(&TransferSpec { timeout: 700 * MS, ..TransferSpec::new(address, "zz") })
}

/// The code and the sentence.
fn why(result: &TransferResult) -> (String, String) {
    let reason = result.failed.clone().expect("it fails");
    assert!(!result.complete);
    (reason.code, reason.text)
}

#[test]
fn a_transfer_that_ends_half_way_says_how_far_it_came() {
    let address = serve(|stream, id| {
        let first = message(id, &[(APEX, 6), (BELOW, 1)]);
        let second = message(id, &[(BELOW, 1)]);
        stream.write_all(&[&first[..], &second, &second[..20]].concat()).unwrap();
    });
    let result = ask(address);
    let (code, text) = why(&result);
    assert_eq!(code, "cut");
    assert_eq!(
        text,
        "the server closed the connection after 2 messages, 3 records, before the final SOA (20 octets of the next message \
         had come): its log says why; nothing is kept of what came, so ask again"
    );
    assert_eq!((result.messages, result.records), (2, 3));
    assert_eq!(result.tcp_bytes, result.dns_bytes + 4 + 20);
}

#[test]
fn silence_and_trickling_end_with_the_time() {
    let begun = Instant::now();
    let silent = ask(serve(|_, _| std::thread::sleep(Duration::from_secs(5))));
    assert_eq!(why(&silent).0, "timeout");
    assert!(why(&silent).1.starts_with("the time was over before any message"), "{:?}", silent.failed);
    assert_eq!((silent.first_byte_s, silent.tcp_bytes), (None, 0));
    let trickling = ask(serve(|stream, id| {
        let first = message(id, &[(APEX, 6)]);
        for octet in first.iter().chain(&[0u8; 100]) {
            if stream.write_all(&[*octet]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }));
    assert_eq!(why(&trickling).0, "timeout");
    assert!(begun.elapsed() < Duration::from_secs(4), "the time is one for all octets together");
}

#[test]
fn who_does_not_listen_is_told() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let result = ask(address);
    assert_eq!((why(&result).0.as_str(), result.connect_s), ("connect", None));
}

#[test]
fn what_is_no_answer_of_ours_is_refused() {
    let other_id = ask(serve(|stream, id| {
        stream.write_all(&message([id[0], !id[1]], &[(APEX, 6)])).unwrap();
    }));
    assert_eq!(why(&other_id).0, "other_id");
    let more = ask(serve(|stream, id| {
        let all = [message(id, &[(APEX, 6), (APEX, 6)]), message(id, &[(BELOW, 1)])].concat();
        stream.write_all(&all).unwrap();
    }));
    assert_eq!(why(&more).0, "after_the_end");
    let damaged = ask(serve(|stream, id| {
        let mut first = message(id, &[(APEX, 6), (BELOW, 1)]);
        first.truncate(first.len() - 1);
        let length = first.len() as u16 - 2;
        first[..2].copy_from_slice(&length.to_be_bytes());
        stream.write_all(&first).unwrap();
    }));
    assert_eq!(why(&damaged).0, "damaged");
    assert_eq!(damaged.records, 1, "what came before it");
}

#[test]
fn nothing_is_asked_of_others_without_leave() {
    let spec = TransferSpec::new("192.0.2.1:53".parse().unwrap(), "zz");
    let refused = transfer(&spec, None, &RUN, &mut |_| ()).unwrap_err();
    assert!(refused.to_string().contains("--allow-external"), "{refused}");
    let spec = TransferSpec::new("127.0.0.1:53".parse().unwrap(), "a..b");
    assert!(transfer(&spec, None, &RUN, &mut |_| ()).unwrap_err().to_string().contains("empty label"));
}

#[test]
fn a_stop_is_obeyed() {
    let stop = AtomicBool::new(true);
    let address = serve(|_, _| std::thread::sleep(Duration::from_secs(5)));
    let result = transfer(&TransferSpec::new(address, "zz"), None, &stop, &mut |_| ()).unwrap();
    assert_eq!(why(&result).0, "stopped");
}
