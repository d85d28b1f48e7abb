use super::*;

const BUFFER: usize = 1 << 20;

fn collect(flows: &mut UdpFlows, want: usize) -> Vec<(u32, SocketAddr, Vec<u8>, Stamp)> {
    let mut got = Vec::new();
    for _ in 0..200 {
        flows.receive(256, &mut |m| got.push((m.flow, m.from, m.bytes.to_vec(), m.stamp))).unwrap();
        if got.len() >= want {
            break;
        }
        flows.wait(10_000_000).unwrap();
    }
    got
}

fn echo_round(bind: &str) {
    let mut responder = Responder::open(bind.parse().unwrap(), BUFFER).unwrap();
    let target = responder.local_addr().unwrap();
    let mut flows = UdpFlows::open(&[Flow::to(target), Flow::to(target)], BUFFER).unwrap();
    assert!(flows.receive_buffer() > 0);
    for flow in 0..2u32 {
        for n in 0..20u8 {
            let frame = flows.lend(flow).unwrap();
            frame.bytes.extend_from_slice(&[flow as u8, n]);
            frame.df = n % 3 == 0;
        }
        let mut sent = [false; 20];
        flows.flush(&mut |i, at| sent[i] = at.is_some()).unwrap();
        assert_eq!(sent, [true; 20]);
    }
    let mut received = 0;
    while received < 40 {
        responder.wait(1_000_000_000).unwrap();
        let (n, _) = responder
            .turn(&mut |m| {
                let keep = m[1] != 7;
                m[1] += 100;
                keep.then_some(m.len())
            })
            .unwrap();
        assert!(n > 0, "loopback lost datagrams");
        received += n;
    }
    let mut got = collect(&mut flows, 38);
    assert_eq!(got.len(), 38, "one of 20 on each flow stays unanswered");
    got.sort();
    for (flow, from, bytes, stamp) in &got {
        assert_eq!((bytes[0], *from), (*flow as u8, target));
        assert!(
            matches!(stamp, Stamp::Wall(t) if t.abs_diff(crate::sys::wall()) < 60_000_000_000),
            "{stamp:?}"
        );
    }
    let ns: Vec<u8> = got.iter().take(19).map(|g| g.2[1]).collect();
    assert_eq!(ns, (100..120).filter(|n| *n != 107).collect::<Vec<u8>>());
    assert_eq!(flows.troubles(), Troubles::default());
}

#[test]
fn batches_go_there_and_back() {
    echo_round("127.0.0.1:0");
}

#[test]
fn batches_go_there_and_back_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: no IPv6 here");
        return;
    }
    echo_round("[::1]:0");
}

#[test]
fn a_full_batch_lends_nothing_more() {
    let mut flows = UdpFlows::open(&[Flow::to("127.0.0.1:9".parse().unwrap())], BUFFER).unwrap();
    (0..BATCH).for_each(|_| assert!(flows.lend(0).is_some()));
    assert!(flows.lend(0).is_none());
}

#[test]
fn a_flood_of_mixed_sizes_arrives_whole() {
    let responder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    responder.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    let target = responder.local_addr().unwrap();
    let flows = UdpFlows::open(&[Flow::to(target), Flow::to(target)], BUFFER).unwrap();
    let mut flows = flows.for_floods();
    assert_eq!((flows.batch().size(), flows.backend()), (FLOOD_BATCH, "socket+gso"));
    let message = |n: usize| vec![n as u8; 20 + n * 7 % 31];
    for n in 0..200 {
        flows.lend(n as u32 / 150).unwrap().bytes.extend_from_slice(&message(n));
    }
    let mut sent = [false; 200];
    flows.flush(&mut |i, at| sent[i] = at.is_some()).unwrap();
    assert_eq!(sent, [true; 200]);
    let mut got = Vec::new();
    for _ in 0..200 {
        let mut bytes = [0; 100];
        let len = responder.recv(&mut bytes).expect("every datagram arrives");
        got.push(bytes[..len].to_vec());
    }
    got.sort();
    let mut want: Vec<_> = (0..200).map(message).collect();
    want.sort();
    assert_eq!(got, want);
    assert_eq!(flows.troubles(), Troubles::default());
}

#[test]
fn a_closed_port_is_seen_through_icmp() {
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut flows = UdpFlows::open(&[Flow::to(closed)], BUFFER).unwrap();
    for _ in 0..5 {
        flows.lend(0).unwrap().bytes.extend_from_slice(b"x");
        flows.flush(&mut |_, at| assert!(at.is_some(), "an error of the past refused a new query")).unwrap();
    }
    assert!(collect(&mut flows, 0).is_empty());
    assert!(flows.troubles().icmp >= 1);
    assert_eq!(flows.troubles().refused(), 0);
}

#[test]
fn full_receive_buffers_are_counted() {
    let mut responder = Responder::open("127.0.0.1:0".parse().unwrap(), BUFFER).unwrap();
    let mut flows = UdpFlows::open(&[Flow::to(responder.local_addr().unwrap())], 0).unwrap();
    for _ in 0..BATCH {
        flows.lend(0).unwrap().bytes.extend_from_slice(&[0; 100]);
    }
    flows.flush(&mut |_, _| ()).unwrap();
    while responder.turn(&mut |m| Some(m.len())).unwrap().0 > 0 {}
    let dropped = flows.troubles().socket_drops;
    assert!(dropped > 0, "the smallest buffer held {BATCH} answers");
    assert_eq!(collect(&mut flows, BATCH).len() as u64 + dropped, BATCH as u64);
}

#[test]
fn long_datagrams_keep_their_length() {
    let responder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut flows = UdpFlows::open(&[Flow::to(responder.local_addr().unwrap())], BUFFER).unwrap();
    flows.lend(0).unwrap().bytes.push(1);
    flows.flush(&mut |_, _| ()).unwrap();
    let from = responder.recv_from(&mut [0; 10]).unwrap().1;
    responder.send_to(&[7; 9000], from).unwrap();
    let mut seen = None;
    flows.wait(1_000_000_000).unwrap();
    flows.receive(1, &mut |m| seen = Some((m.bytes.len(), m.len))).unwrap();
    assert_eq!(seen, Some((Incoming::MAX, 9000)));
}

#[test]
fn answers_may_be_shorter_than_what_came() {
    let mut responder = Responder::open("127.0.0.1:0".parse().unwrap(), BUFFER).unwrap();
    let target = responder.local_addr().unwrap();
    let mut flows = UdpFlows::open(&[Flow::to(target)], BUFFER).unwrap();
    for n in 0..3u8 {
        flows.lend(0).unwrap().bytes.extend_from_slice(&[n; 9]);
    }
    flows.flush(&mut |_, _| ()).unwrap();
    responder.wait(1_000_000_000).unwrap();
    let turned = responder.turn(&mut |m| [Some(4), None, Some(99)][usize::from(m[0])]).unwrap();
    assert_eq!(turned, (3, 2));
    let got: Vec<_> = collect(&mut flows, 2).into_iter().map(|(_, _, bytes, _)| bytes).collect();
    assert_eq!(got, [vec![0; 4], vec![2; 9]], "one is cut, one cannot grow");
}
