#!/usr/bin/env bash
# RZAIA's baseline check (seed 003, section 3.2.6) on data that the profile has not seen: a capture is cut in two halves by
# time, a profile is fitted to the first, queries are generated from it, and these and the queries of the second half are
# replayed at NSD with a signed root zone, in a rack of two hosts, captured at the server. `trace compare` says how much the
# two differ: truncation, sizes, codes, retries over TCP, latency; and, for scale, how much the two real halves differ when
# replayed alike. Needs root, nsd, tcpdump and xz.
#
#   scripts/held-out.sh CAPTURE ROOT-ZONE [FOLDER]
#
# ROOT-ZONE is unsigned, perhaps .xz. With FOLDER the captures, the profile and the comparisons are left there.
set -euo pipefail
capture=$(realpath "$1") root=$(realpath "$2") keep=${3:-}
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack heldout 1000 1000
case $root in *.xz) xz -dc "$root" >"$work/unsigned" ;; *) cp "$root" "$work/unsigned" ;; esac
"$dnsrack" zone sign "$work/unsigned" -o "$work/zone" --algorithm RSASHA256 2>"$work/said" >/dev/null || { cat "$work/said"; exit 1; }
peer_nsd
# Clients keep addresses of their own: a truncated answer to one is not taken for asked again by another.
nets=(10.99.0.0/19 fd99::/115)
generator_address=$(on generator ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
generator_address6=$(on generator ip -6 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
# Linux binds to routed IPv6 addresses only where told to.
on generator sh -c "echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind"
for net in "${nets[@]}"; do on generator ip route add local "$net" dev lo; done
on server ip route add "${nets[0]}" via "$generator_address"
on server ip route add "${nets[1]}" via "$generator_address6"

half=$("$dnsrack" --json trace info "$capture" 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["duration_s"] / 2)')
"$dnsrack" trace edit "$capture" -o "$work/first.pcap" --to "+${half}s" >/dev/null 2>"$work/said"
"$dnsrack" trace edit "$capture" -o "$work/second.pcap" --from "+${half}s" >/dev/null 2>"$work/said"
"$dnsrack" trace fit "$work/first.pcap" -o "$work/profile.toml"
"$dnsrack" traffic generate "$work/profile.toml" --zone "$work/zone" --duration "${half}s" -o "$work/generated.pcap"

# replayed NAME [FLAG...]: what the server sees and answers while NAME is replayed.
replayed() {
    local name=$1 out=$work/$1-answered.pcap tcpdump
    shift
    spawn server tcpdump -q -n -p -s 0 -i "$server_device" -B 32768 -Z root --time-stamp-precision=nano -w "$out" port 53 2>"$work/tcpdump"
    tcpdump=$!
    sleep 2
    on generator "$dnsrack" --json load replay "$address" "$address6" --trace "$work/$name.pcap" --cpus 1 --flows 8192 --source "${nets[0]},${nets[1]}" "$@" >"$work/$name.json" 2>"$work/said" ||
        [ $? -eq 3 ] || { cat "$work/said" >&2; exit 1; }
    sleep 1
    kill -TERM "$tcpdump"
    wait "$tcpdump" || true
    grep -E 'dropped by kernel' "$work/tcpdump"
}
for name in first second; do replayed "$name"; done
# Retries were recorded in those; of what was generated they are the generator's, as often as the profile says.
retry=$(sed -n 's/^retry = \([0-9.e-]*\).*/\1/p' "$work/profile.toml")
replayed generated --transport udp+tcp --retry "${retry:-0}"
status=0
echo '== the two real halves'
"$dnsrack" trace compare "$work/first-answered.pcap" "$work/second-answered.pcap" | tee "$work/halves.txt" || true
echo '== the second half, and what was generated from the first'
"$dnsrack" trace compare "$work/second-answered.pcap" "$work/generated-answered.pcap" | tee "$work/compared.txt" || status=$?
if [ -n "$keep" ]; then
    mkdir -p "$keep"
    cp "$work"/*.pcap "$work/profile.toml" "$work"/*.txt "$work"/*.json "$keep"
fi
exit $status
