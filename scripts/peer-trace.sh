#!/usr/bin/env bash
# Sets `trace info` beside dnscap, which copies the same file, and beside `tshark -T fields`; says how fast `trace edit`, `trace
# import` and `traffic generate --format pcap` are: packets per second of CPU time of whole commands on one core, and of time on
# two, the file in the page cache, one after the other in rounds. The capture is made here: NSD with a root-like zone, asked
# 700,000 queries by 20,000 clients over UDP in the rack, captured at the server (1.4 million packets). tshark is measured once,
# on the first 100,000 packets.
#
#   scripts/peer-trace.sh [ROUNDS [CAPTURE]]
#
# With CAPTURE (classic pcap) that one is taken instead. Needs root, nsd, tcpdump, dnscap, tshark, capinfos; two cores.
set -euo pipefail
given=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
for program in tcpdump dnscap tshark capinfos editcap; do
    command -v $program >/dev/null || { echo "$program is missing" >&2; exit 1; }
done
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
rounds=${1:-5}
peer_rack peertrace 1000 100000

capture=$given
if [ -z "$given" ]; then
    capture=$work/capture.pcap
    peer_capture "$capture"
fi
taskset -pc 0-1 $$ >/dev/null
packets=$(capinfos -rMTc "$capture" | awk '{ print $NF }')
octets=$(stat -c %s "$capture")
cat "$capture" >/dev/null
echo "$packets packets, $octets octets"
# Two files of one trace.
"$dnsrack" trace edit "$capture" -o "$work/even.pcap" --to "+$(awk -v f="$("$dnsrack" --json trace info "$capture" 2>/dev/null | field duration_s)" 'BEGIN { print f / 2 }')s" >/dev/null 2>&1
"$dnsrack" trace edit "$capture" -o "$work/odd.pcap" --from "+$(awk -v f="$("$dnsrack" --json trace info "$capture" 2>/dev/null | field duration_s)" 'BEGIN { print f / 2 }')s" >/dev/null 2>&1

# timed NAME COLUMN COMMAND...: packets per second; COLUMN: cpu (user and system time) or wall.
timed() {
    local name=$1 column=$2 user system wall
    shift 2
    { TIMEFORMAT='%U %S %R'; time "$@" >"$work/out" 2>"$work/err"; } 2>"$work/time" || { cat "$work/err" >&2; exit 1; }
    read -r user system wall <"$work/time"
    awk -v n="${count:-$packets}" -v name="$name" -v c="$column" -v u="$user" -v s="$system" -v w="$wall" -v round="$round" 'BEGIN {
        t = c == "cpu" ? u + s : w; printf "%-6s %-24s %6s %10.3f %12.0f\n", round, name, c, t, n / t }' | tee -a "$work/table"
}
one() { taskset -c 1 "$@"; }

printf '%-6s %-24s %6s %10s %12s\n' round command time seconds 'packets/s'
for round in $(seq "$rounds"); do
    timed dnscap cpu one dnscap -r "$capture" -w "$work/copy"
    rm -f "$work"/copy.*
    timed info cpu one "$dnsrack" trace info --threads 1 "$capture"
    timed info-two-threads wall "$dnsrack" trace info --threads 2 "$capture"
    timed info-two-files wall "$dnsrack" trace info "$work/even.pcap" "$work/odd.pcap"
    timed edit-set-dst cpu one "$dnsrack" trace edit "$capture" -o /dev/null --format pcap --set-dst 192.0.2.53
    timed edit-set-dst-file cpu one "$dnsrack" trace edit "$capture" -o "$work/edited.pcap" --set-dst 192.0.2.53
    timed edit-if-query cpu one "$dnsrack" trace edit "$capture" -o /dev/null --format pcap --if-query
    timed edit-anonymize cpu one "$dnsrack" trace edit "$capture" -o /dev/null --format pcap --anonymize "$work/key"
    rm -rf "$work/rows"
    timed import cpu one "$dnsrack" trace import "$capture" -o "$work/rows"
    count=1000000
    timed generate cpu one "$dnsrack" traffic generate rzaia --zone "$work/zone" --count 1M --format pcap -o /dev/null
    unset count
done
round=once
editcap -r "$capture" "$work/first.pcap" 1-100000
count=100000
timed tshark cpu one tshark -n -r "$work/first.pcap" -T fields -e frame.time_epoch -e ip.src -e ip.dst -e udp.srcport -e dns.id \
    -e dns.qry.name -e dns.qry.type -e dns.flags.rcode -e dns.time
unset count

rate() { awk -v n="$1" '$2 == n' "$work/table" >"$work/one"; median 5 "$work/one"; }
awk -v info="$(rate info)" -v two="$(rate info-two-threads)" -v files="$(rate info-two-files)" -v copy="$(rate dnscap)" -v shark="$(rate tshark)" \
    -v edit="$(rate edit-set-dst)" -v filter="$(rate edit-if-query)" -v anon="$(rate edit-anonymize)" -v gen="$(rate generate)" 'BEGIN {
    printf "median info %.2f M/s, dnscap %.2f M/s: ratio %.2f (goal: 1)\n", info / 1e6, copy / 1e6, info / copy
    printf "median info on two cores %.2f M/s, of two files %.2f M/s: %.2f and %.2f of one core\n", two / 1e6, files / 1e6, two / info, files / info
    printf "tshark %.0f/s: info is %.0f times as fast (goal: 70)\n", shark, info / shark
    printf "edit %.2f, %.2f and %.2f M/s (set-dst, if-query, anonymize), generate %.2f M/s (goal: 2)\n", edit / 1e6, filter / 1e6, anon / 1e6, gen / 1e6 }'
