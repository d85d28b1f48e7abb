# A rack of two hosts, a server on one core and a generator on the other, for the scripts that set peers beside dnsrack; sourced
# by them. Needs root (rack up pins namespaces). All is gone when the script ends.
# shellcheck shell=bash

# peer_rack NAME DELEGATIONS QUERIES: builds the program and the rack. Sets dnsrack, work (a folder, with $work/zone and
# $work/queries), address and address6 (the server's), and server_device and generator_device.
peer_rack() {
    local name=$1 delegations=$2 queries=$3
    export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
    [ "$(id -u)" -eq 0 ] || { echo "run it as root: rack up pins namespaces" >&2; exit 1; }
    if [ -z "${DNSRACK:-}" ]; then
        cargo build --release --quiet --package dnsrack
    fi
    dnsrack=${DNSRACK:-${CARGO_TARGET_DIR:-target}/release/dnsrack}
    rack=$name work=$(mktemp -d) started=()
    trap finish EXIT
    printf 'name = "%s"\n[[hosts]]\nname = "server"\ncpus = [0]\n[[hosts]]\nname = "generator"\ncpus = [1]\n' "$name" >"$work/rack.toml"
    "$dnsrack" zone generate --family U-4-DS0 --delegations "$delegations" -o "$work/zone" >/dev/null 2>"$work/said"
    "$dnsrack" traffic generate rzaia --zone "$work/zone" --count "$queries" --format queries -o "$work/all" >/dev/null 2>"$work/said"
    # kxdpgun does not know A6.
    awk '$2 != "A6"' "$work/all" >"$work/queries"
    "$dnsrack" rack up "$work/rack.toml" >/dev/null
    # What the scripts do themselves stays off the generator's core.
    taskset -pc 0 $$ >/dev/null
    read -r server_device address < <(on server ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $2, $4; exit }')
    address6=$(on server ip -6 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
    generator_device=$(on generator ip -4 -o addr show scope global | awk '{ print $2; exit }')
}

# peer_nsd: starts NSD with the zone and waits until it answers.
peer_nsd() {
    cat >"$work/nsd.conf" <<CONF
server:
    ip-address: $address
    ip-address: $address6
    port: 53
    username: ""
    server-count: 1
    reuseport: yes
    database: ""
    zonesdir: "$work"
    pidfile: "$work/nsd.pid"
    xfrdir: "$work"
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
    spawn server nsd -d -c "$work/nsd.conf"
    for _ in $(seq 300); do
        on generator dig +time=1 +tries=1 +norec "@$address" . SOA 2>/dev/null | grep -q 'status: NOERROR' && return
        sleep 0.2
    done
    echo "NSD does not answer:" >&2
    tail -5 "$work/nsd.log" >&2
    exit 1
}

# peer_capture FILE: a capture at the server of 700,000 queries by 20,000 clients over UDP, and NSD's answers (1.4 million packets).
peer_capture() {
    local net=10.77.0.0/16 near tcpdump
    peer_nsd
    near=$(on generator ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
    on generator ip route add local $net dev lo
    on server ip route add $net via "$near"
    spawn server tcpdump -q -n -p -i "$server_device" -B 65536 -s 0 -Z root -w "$1" port 53 2>"$work/tcpdump"
    tcpdump=$!
    sleep 2
    load run "$address" --backend xdp --source $net --flows 20000 --rate 20K --duration 35s >"$work/load.json"
    sleep 1
    kill -TERM $tcpdump
    wait $tcpdump || true
    kill "${started[0]}" && wait "${started[0]}" || true
}

finish() {
    local pid
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    "$dnsrack" rack down "$rack" >/dev/null 2>&1 || true
    rm -rf "$work"
}

# on HOST COMMAND...: runs a command on a host of the rack.
on() { "$dnsrack" rack exec --rack "$rack" "$@"; }

# spawn HOST COMMAND...: starts it there; $! is its process id. It is ended with the script.
spawn() {
    "$dnsrack" rack exec --rack "$rack" "$@" &
    started+=($!)
}

# load FLAGS...: a load from the generator, its JSON; exit status 3 says that our side was disturbed, and goes on.
load() { on generator "$dnsrack" --json load "$@" --queries "$work/queries" --cpus 1 2>"$work/said" || [ $? -eq 3 ] || { cat "$work/said" >&2; false; }; }

# field PATH: a number of a JSON object, such as latency_us.p50.
field() { python3 -c 'import functools, json, sys; print(functools.reduce(lambda o, k: o[k], sys.argv[1].split("."), json.load(sys.stdin)))' "$1"; }

# median COLUMN FILE
median() { awk -v c="$1" '{ print $c }' "$2" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
