//! Datagrams of the size of a query between two sockets, one system call for each on either side: over loopback, and between two hosts of a
//! rack, which a veth pair joins. The machine's own interface leads to another machine: `dnsrack load search` measures it against an echo there.

use crate::{Bench, Measured, Point};
use measure::metrics::OPERATION_RATE;
use net::scheduling::settle;
use rack::{Host, HostSpec, Rack, RackSpec};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// For how long datagrams are sent.
const TIME: Duration = Duration::from_millis(300);

/// Octets of a query for a name of average length.
const OCTETS: usize = 45;

/// Datagrams that arrive in a second.
pub(crate) fn datagrams(bench: &Bench<'_>) -> Measured {
    let mut measured = Measured::default();
    let (one, other) = match bench.options.cpus[..] {
        [one, other, ..] => (one, other),
        _ => {
            measured
                .left_out
                .push("datagrams: there is one core only, and sender and receiver need one each".into());
            return measured;
        }
    };
    let loopback = Host::loopback();
    let mut add = |case: &str, rate: Result<f64, String>| match rate {
        Ok(rate) => measured.points.push(Point::new(case, OPERATION_RATE, rate)),
        Err(why) => measured.left_out.push(format!("datagrams {case}: {why}")),
    };
    add("over loopback", arriving(&loopback, &loopback, (one, other)));
    let hosts = vec![HostSpec::new("receiver", &[one]), HostSpec::new("sender", &[other])];
    add(
        "between two hosts (veth)",
        Rack::up(&RackSpec::new(hosts)).map_err(|e| e.to_string()).and_then(|rack| {
            let host = |name| rack.host(name).expect("it was asked for");
            arriving(host("receiver"), host("sender"), (one, other))
        }),
    );
    measured
}

/// Datagrams a second that a thread on the first core receives, of those that one on the second core sends.
fn arriving(receiver: &Host, sender: &Host, (one, other): (usize, usize)) -> Result<f64, String> {
    let words = |e: &dyn std::fmt::Display| e.to_string();
    let to = receiver.udp_socket(SocketAddr::new(IpAddr::V4(receiver.v4), 0)).map_err(|e| words(&e))?;
    let address = to.local_addr().map_err(|e| words(&e))?;
    let from = sender.udp_socket(SocketAddr::new(IpAddr::V4(sender.v4), 0)).map_err(|e| words(&e))?;
    from.connect(address).map_err(|e| words(&e))?;
    to.set_read_timeout(Some(Duration::from_millis(20))).map_err(|e| words(&e))?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            settle(Some(one)).map_err(|e| words(&e))?;
            received(&to, &ended).map_err(|e| words(&e))
        });
        let sending = scope.spawn(|| {
            let sent =
                settle(Some(other)).map_err(|e| words(&e)).and_then(|()| sent(&from).map_err(|e| words(&e)));
            ended.store(true, Ordering::Relaxed);
            sent
        });
        let sent = sending.join().expect("it returns its errors");
        let received = receiving.join().expect("it returns its errors")?;
        Ok(received as f64 / sent?.as_secs_f64())
    })
}

/// Sends for a while; how long that was.
fn sent(socket: &UdpSocket) -> std::io::Result<Duration> {
    let began = Instant::now();
    while began.elapsed() < TIME {
        for _ in 0..64 {
            socket.send(&[0; OCTETS])?;
        }
    }
    Ok(began.elapsed())
}

/// Counts what arrives until the sender has ended and nothing more comes.
fn received(socket: &UdpSocket, ended: &AtomicBool) -> std::io::Result<u64> {
    let (mut buffer, mut count) = ([0; 512], 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) if ended.load(Ordering::Relaxed) => {}
            Ok(_) => count += 1,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if ended.load(Ordering::Relaxed) {
                    return Ok(count);
                }
            }
            Err(e) => return Err(e),
        }
    }
}
