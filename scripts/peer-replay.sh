#!/usr/bin/env bash
# How exactly a capture is replayed: dnsrack and tcpreplay (default timer, and its other timers with the capture
# preloaded) send the same queries, and tcpdump at the server's end says when each arrived. Two captures: the UDP queries
# of a live one, and 50,000 queries/s made here. Needs root (rack up pins namespaces). Prints p50 and p99 of |sent -
# intended| and the drift (last tenth against first), in microseconds; the last lines are medians.
# Usage: scripts/peer-replay.sh [ROUNDS [SECONDS of the synthetic capture]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
seconds=${2:-10}
export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
live=../shared/data/captures/nsd-live.pcap.xz
cargo build --release --quiet --package dnsrack
dnsrack="${CARGO_TARGET_DIR:-target}/release/dnsrack"
for program in tcpdump tcpreplay python3; do
    command -v $program >/dev/null || { echo "$program is not installed: apt-get install $program" >&2; exit 1; }
done
rack=replay
work=$(mktemp -d)
started=()
finish() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    "$dnsrack" rack down $rack >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT

cat >"$work/$rack.toml" <<TOML
name = "$rack"
[[hosts]]
name = "server"
cpus = [0]
[[hosts]]
name = "generator"
cpus = [1]
TOML
"$dnsrack" zone generate --family U-4-DS0 --delegations 10K -o "$work/zone" >/dev/null 2>&1
"$dnsrack" traffic generate rzaia --zone "$work/zone" --rate 50K --duration "${seconds}s" -o "$work/synthetic.pcap" >/dev/null 2>&1
captures=(synthetic)
if [ -e $live ]; then
    xz -dc $live | tcpdump -r - --time-stamp-precision=nano -w "$work/live.pcap" 'udp dst port 53' 2>/dev/null
    captures=(live synthetic)
else
    echo "SKIPPED: there is no $live" >&2
fi

"$dnsrack" rack up "$work/$rack.toml" >/dev/null
on() { "$dnsrack" rack exec --rack $rack "$@"; }
# behind NAME COMMAND...: starts it on the server; its process id is in NAME.pid, what it says in NAME.log.
behind() {
    local name=$1
    shift
    rm -f "$work/$name.pid"
    # shellcheck disable=SC2016
    on server sh -c 'echo $$ >"$1.pid"; shift; exec "$@"' sh "$work/$name" "$@" >"$work/$name.log" 2>&1 &
    until [ -s "$work/$name.pid" ]; do sleep 0.1; done
    sleep 1
}
link=$(on server ip -4 -o addr show scope global | awk '{ print $2; exit }')
v4=$(on server ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
v6=$(on server ip -6 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
source_link=$(on generator ip -4 -o addr show scope global | awk '{ print $2; exit }')
for address in "$v4:53" "[$v6]:53"; do
    behind echo "$dnsrack" load echo "$address"
    started+=("$(cat "$work/echo.pid")")
done

# Prints "matched p50 p99 max drift" of the packets in the second capture against the first, by the message without its
# id and the how-manieth of its kind it is. Times count from the first hundred packets' median error.
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
    print(len(errors), "nan nan nan nan")
    sys.exit()
median = lambda v: sorted(v)[len(v) // 2]
zero = median(errors[:100])
errors = [e - zero for e in errors]
size = sorted(abs(e) for e in errors)
tenth = len(errors) // 10
drift = median(errors[-tenth:]) - median(errors[:tenth])
print(len(errors), *(f"{x / 1000:.1f}" for x in (size[len(size) // 2], size[len(size) * 99 // 100], size[-1], drift)))
PY

# measure NAME CAPTURE COMMAND...: runs the command on the generator while the server's end is captured.
measure() {
    local name=$1 capture=$2 got=$work/got.pcap tcpdump
    shift 2
    behind tcpdump tcpdump -i "$link" -p --time-stamp-precision=nano -B 65536 -s 512 -w "$got" 'udp dst port 53'
    tcpdump=$(cat "$work/tcpdump.pid")
    on generator "$@" >"$work/out" 2>&1 || [ $? -eq 3 ] || { cat "$work/out" >&2; return 1; }
    sleep 1
    kill -TERM "$tcpdump"
    while kill -0 "$tcpdump" 2>/dev/null; do sleep 0.1; done
    grep -E '[1-9][0-9]* packets dropped by kernel' "$work/tcpdump.log" >&2 || true
    # shellcheck disable=SC2046
    set -- $(python3 "$work/compare.py" "$work/$capture.pcap" "$got")
    printf '%-10s %-22s %9s %10s %10s %10s %10s\n' "$capture" "$name" "$@" | tee -a "$work/table"
}

printf '%-10s %-22s %9s %10s %10s %10s %10s\n' capture program matched 'p50 us' 'p99 us' 'max us' 'drift us'
for _ in $(seq "$rounds"); do
    for capture in "${captures[@]}"; do
        file=$work/$capture.pcap
        measure dnsrack "$capture" "$dnsrack" load replay "$v4" "[$v6]" --trace "$file" --cpus 1
        measure tcpreplay "$capture" tcpreplay -q -i "$source_link" "$file"
        for timer in nano gtod select; do
            measure "tcpreplay-$timer-preload" "$capture" tcpreplay -q -i "$source_link" --timer=$timer --preload-pcap "$file"
        done
    done
done
echo "medians of $rounds rounds:"
cut -c1-33 "$work/table" | sort -u | while read -r capture name; do
    printf '%-10s %-22s' "$capture" "$name"
    for column in 3 4 5 6 7; do
        awk -v c="$capture" -v n="$name" -v k=$column '$1 == c && $2 == n { print $k }' "$work/table" | sort -g |
            awk '{ v[NR] = $1 } END { printf " %10s", v[int((NR + 1) / 2)] }'
    done
    echo
done
