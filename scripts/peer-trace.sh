#!/usr/bin/env bash
# Sets `trace info` and `trace edit` beside dnscap and tshark: packets per second of whole commands on one core, and on two,
# the file in the page cache, in turn. The capture is made here: NSD with a root-like zone, asked 700,000 queries by 20,000
# clients over UDP in the rack, captured at the server (1.4 million packets).
#
#   scripts/peer-trace.sh [ROUNDS [CAPTURE]]
#
# With CAPTURE (classic pcap) that one is taken instead. Needs root, nsd, tcpdump, dnscap, tshark, capinfos; two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/peer-rack.sh
rounds=${1:-5} given=${2:-}
peer_rack peertrace 1000 100000

capture=$given
if [ -z "$given" ]; then
    peer_nsd
    capture=$work/capture.pcap
    net=10.77.0.0/16
    near=$(on generator ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
    on generator ip route add local $net dev lo
    on server ip route add $net via "$near"
    spawn server tcpdump -q -n -i "$server_device" -B 65536 -s 0 -w "$capture" port 53 2>"$work/tcpdump"
    tcpdump=$!
    sleep 2
    load run "$address" --backend xdp --source $net --flows 20000 --rate 20K --duration 35s >"$work/load.json"
    sleep 1
    kill -INT $tcpdump 2>/dev/null || true
    wait $tcpdump || true
    tail -3 "$work/tcpdump" >&2
fi
cp "$capture" /tmp/trace-big.pcap; capinfos "$capture" | head -8; cat "$work/load.json" | head -c 600
