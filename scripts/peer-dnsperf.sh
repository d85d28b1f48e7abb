#!/usr/bin/env bash
# The peak of NSD on 100K U-4-DS0 as dnsperf and dnsrack find it, in turn, on the same rack with one core
# each; prints them and the ratios. Needs root (rack up pins namespaces). Usage: scripts/peer-dnsperf.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
cargo build --release --quiet --package dnsrack
dnsrack="${CARGO_TARGET_DIR:-target}/release/dnsrack"
work=$(mktemp -d)
nsd=
finish() { [ -z "$nsd" ] || kill "$nsd" 2>/dev/null || true; "$dnsrack" rack down peer >/dev/null 2>&1 || true; rm -rf "$work"; }
trap finish EXIT

cat >"$work/peer.toml" <<TOML
name = "peer"
[[hosts]]
name = "server"
cpus = [0]
[[hosts]]
name = "generator"
cpus = [1]
TOML
"$dnsrack" zone generate --family U-4-DS0 --delegations 100K -o "$work/zone"
"$dnsrack" traffic generate rzaia --zone "$work/zone" --count 1M --format queries -o "$work/queries"
"$dnsrack" rack up "$work/peer.toml"
address=$("$dnsrack" rack exec server ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
cat >"$work/nsd.conf" <<CONF
server:
    ip-address: $address
    port: 53
    username: ""
    server-count: 1
    reuseport: yes
    database: ""
    zonesdir: "$work"
    pidfile: "$work/nsd.pid"
    xfrdfile: "$work/xfrd.state"
    zonelistfile: "$work/zone.list"
    logfile: "$work/nsd.log"
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: "."
    zonefile: "$work/zone"
CONF
"$dnsrack" rack exec server nsd -d -c "$work/nsd.conf" &
nsd=$!
for _ in $(seq 300); do
    "$dnsrack" rack exec generator dig +time=1 +tries=1 +norec "@$address" . SOA 2>/dev/null | grep -q 'status: NOERROR' && break
    sleep 0.2
done

# The search's peak is an open loop's with at most 0.1 % loss; the window is dnsperf's own method.
# Exit status 3 says that our side was disturbed; the figure is printed all the same.
ours() { "$dnsrack" rack exec generator "$dnsrack" --json load "$@" --queries "$work/queries" --cpus 1 2>/dev/null || [ $? -eq 3 ]; }
json() { python3 -c 'import json,sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
printf '%-6s %12s %12s %8s %12s %8s\n' round 'dnsperf q/s' 'search q/s' ratio 'window q/s' ratio
for round in $(seq "$rounds"); do
    theirs=$("$dnsrack" rack exec generator dnsperf -s "$address" -d "$work/queries" -q 1000 -c 16 -T 1 -l 10 2>/dev/null |
        awk '/Queries per second/ { print $4 }')
    peak=$(ours search "$address" --loss 0.001 --budget 20s | json peak_qps)
    window=$(ours run "$address" --window 1000 --duration 10s | json answered_qps)
    awk -v r="$round" -v t="$theirs" -v p="$peak" -v w="$window" 'BEGIN { printf "%-6s %12.0f %12.0f %8.2f %12.0f %8.2f\n", r, t, p, p / t, w, w / t }' | tee -a "$work/table"
done
median() { awk -v c="$1" '{ print $c }' "$work/table" | sort -n | awk '{ v[NR] = $1 } END { printf "%.2f", v[int((NR + 1) / 2)] }'; }
printf 'median ratio to dnsperf: search %s, window %s\n' "$(median 4)" "$(median 6)"
