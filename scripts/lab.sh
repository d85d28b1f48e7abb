# Functions for the comparisons with peers: a rack of two hosts with a core each, and a server on it. Source it from the
# repository's root. Needs root (rack up pins namespaces). What is started here ends with the script.

export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
work=$(mktemp -d)
lab=
lab_pids=()

lab_end() {
    for pid in "${lab_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    [ -z "$lab" ] || "$dnsrack" rack down "$lab" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap lab_end EXIT

# The program under test, built.
lab_build() {
    cargo build --release --quiet --package dnsrack
    dnsrack=$(realpath "${CARGO_TARGET_DIR:-target}/release/dnsrack")
}

# lab_up NAME: hosts server (core 0) and generator (core 1); sets $address, the server's.
lab_up() {
    lab=$1
    cat >"$work/$lab.toml" <<TOML
name = "$lab"
[[hosts]]
name = "server"
cpus = [0]
[[hosts]]
name = "generator"
cpus = [1]
TOML
    "$dnsrack" rack up "$work/$lab.toml" >/dev/null
    address=$("$dnsrack" rack exec server ip -4 -o addr show scope global |
        awk '{ sub("/.*", "", $4); print $4; exit }')
}

# On a host of the rack: on HOST COMMAND...
on() { "$dnsrack" rack exec "$@"; }

# lab_nsd ZONEFILE: NSD with one worker on the server's host, ready when this returns.
lab_nsd() {
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
    zonefile: "$1"
CONF
    on server nsd -d -c "$work/nsd.conf" >/dev/null 2>&1 &
    lab_pids+=($!)
    for _ in $(seq 300); do
        on generator dig +time=1 +tries=1 +norec "@$address" . SOA 2>/dev/null | grep -q 'status: NOERROR' && return
        sleep 0.2
    done
    echo "nsd does not answer; its log:" >&2
    cat "$work/nsd.log" >&2
    return 1
}

# Our load on the generator's core, as JSON. Exit status 3 says that our side was disturbed; the figure is printed all
# the same. ours run|search FLAGS...
ours() {
    local verb=$1
    shift
    on generator "$dnsrack" --json load "$verb" "$address" --cpus 1 "$@" 2>/dev/null || [ $? -eq 3 ]
}

# A value of the JSON object on standard input: json KEY, json KEY KEY...
json() { python3 -c 'import json,sys
v = json.load(sys.stdin)
for k in sys.argv[1:]: v = v[k]
print(v)' "$@"; }

# The median of the numbers on standard input, one a line.
median() { sort -g | awk '{ a[NR] = $1 } END { print NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'; }
