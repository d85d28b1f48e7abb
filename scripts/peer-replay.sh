#!/usr/bin/env bash
# How exactly a capture is replayed: dnsrack and tcpreplay send the same queries, and tcpdump at the server's end says when
# each arrived. Two captures: the UDP queries of a live one (a minute), and 50,000 queries/s made here. tcpreplay runs with
# its default timer, and with each of the others and the capture preloaded (over the live one with the first of them only).
# Needs root (rack up pins namespaces). Prints p50, p99 and maximum of |sent - intended| and the drift (last tenth against
# first), in microseconds, all counted from the median of the first hundred; the last lines are medians.
# Usage: scripts/peer-replay.sh [ROUNDS [SECONDS of the synthetic capture [CAPTURE...]]], of live and synthetic
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-10}
shift $(($# < 2 ? $# : 2))
captures=("$@")
[ $# -gt 0 ] || captures=(live synthetic)
live=../shared/data/captures/nsd-live.pcap.xz
for program in tcpdump tcpreplay; do
    command -v $program >/dev/null || { echo "$program is not installed: apt-get install $program" >&2; exit 1; }
done
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack replay 10K 1K
peer_nsd
"$dnsrack" traffic generate rzaia --zone "$work/zone" --rate 50K --duration "${seconds}s" -o "$work/synthetic.pcap" >/dev/null 2>&1
if [[ " ${captures[*]} " == *" live "* ]]; then
    [ -e $live ] || { echo "there is no $live: name the other capture, synthetic" >&2; exit 1; }
    xz -dc $live | tcpdump -r - --time-stamp-precision=nano -w "$work/live.pcap" 'udp dst port 53' 2>/dev/null
fi

# Prints "matched p50 p99 max drift" of the packets in the second capture against the first, by the message without its
# id and the how-manieth of its kind it is.
cat >"$work/compare.py" <<'PY'
import struct, sys
def queries(path):
    with open(path, "rb") as f:
        magic = f.read(24)[:4]
        unit = {b"\x4d\x3c\xb2\xa1": 1, b"\xd4\xc3\xb2\xa1": 1000}[magic]
        while len(head := f.read(16)) == 16:
            sec, part, length, _ = struct.unpack("<IIII", head)
            p = f.read(length)
            at = 14
            while p[at - 2:at] in (b"\x81\x00", b"\x88\xa8"):
                at += 4
            kind = p[at - 2:at]
            if kind == b"\x08\x00" and p[at + 9] == 17:
                at += (p[at] & 15) * 4
            elif kind == b"\x86\xdd" and p[at + 6] == 17:
                at += 40
            else:
                continue
            if p[at + 2:at + 4] == b"\x00\x35":
                size = struct.unpack(">H", p[at + 4:at + 6])[0]
                yield sec * 10**9 + part * unit, p[at + 10:at + size]
def numbered(path):
    seen, out = {}, []
    for at, message in queries(path):
        n = seen[message] = seen.get(message, 0) + 1
        out.append(((message, n), at))
    return out
intended, sent = numbered(sys.argv[1]), dict(numbered(sys.argv[2]))
errors = [sent[key] - at for key, at in intended if key in sent]
if len(errors) < 200:
    sys.exit(f"only {len(errors)} of {len(intended)} queries were found again among {len(sent)}")
median = lambda v: sorted(v)[len(v) // 2]
zero = median(errors[:100])
errors = [e - zero for e in errors]
size = sorted(abs(e) for e in errors)
tenth = len(errors) // 10
drift = median(errors[-tenth:]) - median(errors[:tenth])
print(f"{len(errors)}/{len(intended)}", *(f"{x / 1000:.1f}" for x in (size[len(size) // 2], size[len(size) * 99 // 100], size[-1], drift)))
PY

# measure NAME CAPTURE COMMAND...: runs the command on the generator while the server's end is captured.
measure() {
    local name=$1 capture=$2 got=$work/got.pcap tcpdump
    shift 2
    spawn server tcpdump -i "$server_device" -p -Z root --time-stamp-precision=nano -B 65536 -s 512 -w "$got" 'udp dst port 53' 2>"$work/said"
    tcpdump=$!
    until grep -q 'listening on' "$work/said"; do sleep 0.1; done
    on generator taskset -c 1 "$@" >"$work/out" 2>&1 || [ $? -eq 3 ] || { cat "$work/out" >&2; return 1; }
    sleep 1
    kill "$tcpdump"
    wait "$tcpdump" || true
    grep -E '[1-9][0-9]* packets dropped by kernel' "$work/said" >&2 || true
    # shellcheck disable=SC2046
    set -- $(python3 "$work/compare.py" "$work/$capture.pcap" "$got")
    printf '%-10s %-22s %15s %10s %10s %10s %10s\n' "$capture" "$name" "$@" | tee -a "$work/table"
}

printf '%-10s %-22s %15s %10s %10s %10s %10s\n' capture program matched 'p50 us' 'p99 us' 'max us' 'drift us'
for _ in $(seq "$rounds"); do
    for capture in "${captures[@]}"; do
        file=$work/$capture.pcap
        for backend in xdp socket; do
            measure "dnsrack-$backend" "$capture" "$dnsrack" load replay "$address" "[$address6]" --trace "$file" --cpus 1 --backend $backend
        done
        measure tcpreplay "$capture" tcpreplay -q -i "$generator_device" "$file"
        timers=(nano gtod select)
        [ "$capture" = synthetic ] || timers=(nano)
        for timer in "${timers[@]}"; do
            measure "tcpreplay-$timer" "$capture" tcpreplay -q -i "$generator_device" --timer="$timer" --preload-pcap "$file"
        done
    done
done
echo "medians of $rounds rounds:"
awk '{ print $1, $2 }' "$work/table" | sort -u | while read -r capture name; do
    printf '%-10s %-22s' "$capture" "$name"
    awk -v c="$capture" -v n="$name" '$1 == c && $2 == n' "$work/table" >"$work/one"
    for column in 4 5 6 7; do printf ' %10s' "$(median "$column" "$work/one")"; done
    echo
done
