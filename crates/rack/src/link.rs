//! Devices, addresses and neighbours, set through rtnetlink. Its asynchronous runtime never leaves this file.

use crate::Error;
use futures_util::stream::StreamExt;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::packet_route::neighbour::{NeighbourFlags, NeighbourState};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric, RouteProtocol, RouteScope, RouteType};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The index of the loopback device in every namespace.
pub(crate) const LOOPBACK: u32 = 1;

/// The index of every device that we make first in a namespace. We say indices, instead of asking for them; and
/// leave room below for what the kernel may put into each new namespace (tunl0 and the like).
pub(crate) const FIRST: u32 = 1000;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Locally administered addresses, the same in every rack: of an end (see [`End`]) and a host's index.
pub(crate) fn mac(end: u8, index: usize) -> Mac {
    let [.., high, low] = (index as u32).to_be_bytes();
    [0x02, 0x53, 0x00, end, high, low]
}

/// Runs netlink requests in a namespace: on a thread of its own, since a netlink socket belongs to the
/// namespace in which it was made. `what` says what they are for, in errors.
fn requests(
    what: &str,
    namespace: BorrowedFd<'_>,
    run: impl AsyncFnOnce(Handle) -> Result<(), (String, rtnetlink::Error)> + Send,
) -> Result<(), Error> {
    let io = |e: std::io::Error| Error::Link { doing: what.into(), message: e.to_string(), hint: "" };
    let work = || -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(io)?;
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection().map_err(io)?;
            let connection = tokio::spawn(connection);
            let result = run(handle).await;
            connection.abort();
            result.map_err(|(doing, error)| Error::Link {
                doing: format!("{what}: {doing}"),
                hint: hint(&error),
                message: text(error),
            })
        })
    };
    net::ns::in_net_namespace(namespace, work).map_err(io)?
}

fn text(error: rtnetlink::Error) -> String {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io().to_string(),
        other => other.to_string(),
    }
}

fn hint(error: &rtnetlink::Error) -> &'static str {
    let rtnetlink::Error::NetlinkError(message) = error else { return "" };
    match message.to_io().raw_os_error() {
        Some(95 /* EOPNOTSUPP */) => {
            "; the kernel has no such kind of device: load its module (bridge, veth)"
        }
        Some(1 /* EPERM */) => "; run as root or through a command that makes its own namespaces",
        _ => "",
    }
}

/// Makes the switch: a bridge that forwards from the first moment, and floods neither multicast groups that
/// nobody joined nor waits for spanning tree.
pub(crate) fn add_switch(namespace: BorrowedFd<'_>, name: &str, mtu: u32) -> Result<(), Error> {
    let bridge =
        LinkBridge::new(name).index(FIRST).mtu(mtu).forward_delay(0).mcast_snooping(false).up().build();
    requests("switch", namespace, async move |handle| {
        let request = handle.link().add(bridge);
        request.execute().await.map_err(|e| (format!("add bridge {name}"), e))
    })
}

/// One end of a link.
pub(crate) struct End<'a> {
    pub namespace: BorrowedFd<'a>,
    pub device: &'a str,
    pub index: u32,
    pub mac: Mac,
}

impl End<'_> {
    /// The end of a link at its host.
    pub(crate) const HOST: u8 = 0;
    /// Its end at the switch.
    pub(crate) const PORT: u8 = 1;
    /// No end, but what the router calls a host towards those that have a path to it.
    pub(crate) const PATH: u8 = 2;
}

/// Joins two ends by a veth pair.
pub(crate) fn add_link(one: &End<'_>, other: &End<'_>, mtu: u32) -> Result<(), Error> {
    let peer = LinkUnspec::new_with_name(other.device)
        .index(other.index)
        .address(other.mac.to_vec())
        .mtu(mtu)
        .setns_by_fd(other.namespace.as_raw_fd())
        .build();
    let pair = LinkMessageBuilder::<LinkVeth>::new(one.device, other.device)
        .index(one.index)
        .address(one.mac.to_vec())
        .mtu(mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
        .up()
        .build();
    requests(&format!("link {}", one.device), one.namespace, async move |handle| {
        handle.link().add(pair).execute().await.map_err(|e| ("add the veth pair".into(), e))
    })
}

/// Makes a link's end a port of the switch in its namespace, behind which a host is.
pub(crate) fn plug_in(port: &End<'_>, host: Mac) -> Result<(), Error> {
    let enslaved = LinkUnspec::new_with_index(port.index).controller(FIRST).build();
    requests(&format!("port {}", port.device), port.namespace, async move |handle| {
        let request = handle.link().set(enslaved);
        request.execute().await.map_err(|e| ("add it to the switch".into(), e))?;
        // The switch knows from the start behind which port the host is: nothing is flooded.
        // (Noarp is "static"; a permanent entry would mean the switch's own address.)
        let known = handle.neighbours().add_bridge(port.index, &host).state(NeighbourState::Noarp);
        known.execute().await.map_err(|e| ("enter the host's address".into(), e))
    })
}

/// Has the switch hand what is sent to these addresses to its own network namespace, on its own device.
pub(crate) fn keep_at_switch(namespace: BorrowedFd<'_>, addresses: &[Mac]) -> Result<(), Error> {
    requests("router", namespace, async move |handle| {
        for address in addresses {
            let mut request = handle.neighbours().add_bridge(FIRST, address);
            request.message_mut().header.flags = NeighbourFlags::Own;
            request.execute().await.map_err(|e| ("enter the address of a path".to_owned(), e))?;
        }
        Ok(())
    })
}

/// Enters other addresses for some of a host's neighbours.
pub(crate) fn meet_at(host: &End<'_>, name: &str, neighbours: &[(IpAddr, Mac)]) -> Result<(), Error> {
    requests(&format!("host {name}"), host.namespace, async move |handle| {
        for neighbour in neighbours {
            enter_neighbour(&handle, host.index, neighbour).await?;
        }
        Ok(())
    })
}

async fn enter_neighbour(
    handle: &Handle,
    device: u32,
    (address, mac): &(IpAddr, Mac),
) -> Result<(), (String, rtnetlink::Error)> {
    let request = handle.neighbours().add(device, *address).link_layer_address(mac);
    let request = request.kind(RouteType::Unspec).replace();
    request.execute().await.map_err(|e| (format!("enter neighbour {address}"), e))
}

/// Has TCP of a host use one congestion control towards its subnets, whatever programs ask for. By its routes: in a network
/// namespace the setting accepts only what the machine has allowed to all its users.
pub(crate) fn pin_congestion_control(
    host: &End<'_>,
    name: &str,
    subnets: [(IpAddr, u8, IpAddr); 2],
    algorithm: &str,
) -> Result<(), Error> {
    const RTAX_CC_ALGO: u32 = 16;
    requests(&format!("host {name}"), host.namespace, async move |handle| {
        for (network, prefix, own) in subnets {
            let doing = format!("set congestion control {algorithm} for {network}/{prefix}");
            let invalid = |text: String| (doing.clone(), rtnetlink::Error::InvalidNla(text));
            let mut route = RouteMessageBuilder::<IpAddr>::new()
                .destination_prefix(network, prefix)
                .map_err(|e| invalid(e.to_string()))?
                .output_interface(host.index)
                .protocol(RouteProtocol::Kernel);
            if network.is_ipv4() {
                route = route.pref_source(own).map_err(|e| invalid(e.to_string()))?.scope(RouteScope::Link);
            } else {
                route = route.priority(256); // the kernel's own
            }
            let mut message = route.build();
            let metrics =
                vec![RouteMetric::Lock(1 << RTAX_CC_ALGO), RouteMetric::CcAlgo(algorithm.to_owned())];
            message.attributes.push(RouteAttribute::Metrics(metrics));
            handle.route().add(message).replace().execute().await.map_err(|e| (doing, e))?;
        }
        Ok(())
    })
}

/// Sets a host's devices up, gives it its addresses, and enters its neighbours' for good, so that no packet ever
/// waits for address resolution.
pub(crate) fn configure(
    host: &End<'_>,
    name: &str,
    addresses: &[(IpAddr, u8)],
    neighbours: &[(IpAddr, Mac)],
) -> Result<(), Error> {
    let (device, loopback) = (LinkUnspec::new_with_index(host.index), LinkUnspec::new_with_index(LOOPBACK));
    requests(&format!("host {name}"), host.namespace, async move |handle| {
        let up = [("eth0", device.up().build()), ("lo", loopback.up().build())];
        for (device, message) in up {
            let request = handle.link().set(message);
            request.execute().await.map_err(|e| (format!("set {device} up"), e))?;
        }
        for &(address, prefix) in addresses {
            let mut request = handle.address().add(host.index, address, prefix);
            if address.is_ipv6() {
                request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
            }
            request.execute().await.map_err(|e| (format!("add {address}/{prefix}"), e))?;
        }
        for neighbour in neighbours {
            enter_neighbour(&handle, host.index, neighbour).await?;
        }
        Ok(())
    })
}

/// Whether a queueing discipline can be put on a device: asks for it, and tells the kernel's refusal.
pub(crate) fn try_qdisc(namespace: BorrowedFd<'_>, device: u32, kind: &str) -> Result<(), Error> {
    let mut message = TcMessage::with_index(device as i32);
    message.header.parent = TcHandle::ROOT;
    message.attributes.push(TcAttribute::Kind(kind.into()));
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    requests(&format!("queueing discipline {kind}"), namespace, async move |mut handle| {
        let failed = |error| ("add it".to_owned(), error);
        let mut answers = handle.request(request).map_err(failed)?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(failed(rtnetlink::Error::NetlinkError(error)));
            }
        }
        Ok(())
    })
}
