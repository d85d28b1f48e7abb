#!/usr/bin/env bash
# What a switch costs beside a cable: NSD's answers per second with a window of 64, on one core, asked from another one. A rack of two hosts has
# a cable between them (a veth pair), a rack of three or more a switch (a bridge, which forwards on the sender's core). Both in turn, in
# rounds; a line each, then the ratio of the medians.
#
#   scripts/cable-against-switch.sh [ROUNDS]
#
# Needs root, nsd, jq and two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
if [ -n "${DNSRACK:-}" ]; then
    dnsrack=$(realpath "$DNSRACK")
else
    cargo build --release --quiet --package dnsrack
    dnsrack=${CARGO_TARGET_DIR:-target}/release/dnsrack
fi
work=$(mktemp -d)
name=cable$$ server=
tidy() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    "$dnsrack" rack down "$name" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap tidy EXIT
"$dnsrack" zone generate --family U-4-DS0 --delegations 20K -o "$work/zone" 2>/dev/null
printf '[[hosts]]\nname = "server"\ncpus = [0]\n[[hosts]]\nname = "generator"\ncpus = [1]\n' >"$work/cable.toml"
{ cat "$work/cable.toml"; printf '[[hosts]]\nname = "third"\n'; } >"$work/switch.toml"
cat >"$work/nsd.conf" <<CONF
server:
 username: ""
 database: ""
 zonesdir: "$work"
 pidfile: ""
 xfrdfile: ""
 zonelistfile: ""
 xfrdir: "$work"
 ip-address: 10.53.0.1
 server-count: 1
 rrl-ratelimit: 0
 rrl-whitelist-ratelimit: 0
remote-control:
 control-enable: no
zone:
 name: "."
 zonefile: "zone"
CONF
for _ in $(seq "$rounds"); do
    for link in cable switch; do
        "$dnsrack" rack up "$work/$link.toml" --name "$name" >/dev/null
        taskset -c 0 "$dnsrack" rack exec --rack "$name" server nsd -d -c "$work/nsd.conf" 2>"$work/nsd.log" &
        server=$!
        sleep 2
        "$dnsrack" --json load run 10.53.0.1 --profile isc --zone "$work/zone" --window 64 --warmup 1s --duration 4s \
            --rack "$name" --host generator >"$work/result" 2>/dev/null
        printf '%s ' "$link"
        jq -er '[.. | .answered_qps? // empty] | first | floor' "$work/result"
        kill "$server"
        wait "$server" || true
        server=
        "$dnsrack" rack down "$name" >/dev/null
    done
done | tee "$work/rates"
awk '{ n[$1]++; r[$1, n[$1]] = $2 }
    function median(l,   i, j, t) {
        for (i = 1; i < n[l]; i++) for (j = i + 1; j <= n[l]; j++)
            if (r[l, j] < r[l, i]) { t = r[l, i]; r[l, i] = r[l, j]; r[l, j] = t }
        return r[l, int((n[l] + 1) / 2)]
    }
    END { printf "switch beside cable: %.3f\n", median("switch") / median("cable") }' "$work/rates"
