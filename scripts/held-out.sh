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

half=$("$dnsrack" --json trace info "$capture" 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["duration_s"] / 2)')
"$dnsrack" trace edit "$capture" -o "$work/first.pcap" --to "+${half}s" >/dev/null 2>"$work/said"
"$dnsrack" trace edit "$capture" -o "$work/second.pcap" --from "+${half}s" >/dev/null 2>"$work/said"
"$dnsrack" trace fit "$work/first.pcap" -o "$work/profile.toml"
"$dnsrack" traffic generate "$work/profile.toml" --zone "$work/zone" --duration "${half}s" -o "$work/generated.pcap"

# replayed NAME: what the server sees and answers while NAME is replayed.
replayed() {
    local out=$work/$1-answered.pcap tcpdump
    spawn server tcpdump -q -n -p -s 0 -i "$server_device" -B 32768 -Z root --time-stamp-precision=nano -w "$out" port 53 2>"$work/tcpdump"
    tcpdump=$!
    sleep 2
    on generator "$dnsrack" --json load replay "$address" "$address6" --trace "$work/$1.pcap" --cpus 1 >"$work/$1.json" 2>"$work/said" ||
        [ $? -eq 3 ] || { cat "$work/said" >&2; exit 1; }
    sleep 1
    kill -TERM "$tcpdump"
    wait "$tcpdump" || true
    grep -E 'dropped by kernel' "$work/tcpdump"
}
for name in first second generated; do replayed "$name"; done
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
