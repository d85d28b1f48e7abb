#!/usr/bin/env bash
# What a switch costs beside a cable: NSD's answers per second with a window of 64, on one core, asked from another one. A rack of two hosts has
# a cable between them (a veth pair), a rack of three or more a switch (a bridge, which forwards on the sender's core). Both in turn, in
# rounds; a line each, then the ratio of the medians.
#
#   scripts/cable-against-switch.sh [ROUNDS]
#
# Needs root, nsd, dig, python3 and two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack cable-or-switch 20000 100000
{
    cat "$work/rack.toml"
    printf '[[hosts]]\nname = "third"\n'
} >"$work/switch.toml"
mv "$work/rack.toml" "$work/cable.toml"
for _ in $(seq "${1:-5}"); do
    for link in cable switch; do
        "$dnsrack" rack down "$rack" >/dev/null
        # A rack needs the cores of its hosts; the script itself stays off the generator's.
        taskset -pc 0-1 $$ >/dev/null
        "$dnsrack" rack up "$work/$link.toml" >/dev/null
        taskset -pc 0 $$ >/dev/null
        peer_nsd
        rate=$(load run "$address" --window 64 --warmup 1s --duration 4s | field answered_qps)
        echo "$link $rate" | tee -a "$work/$link"
        kill "${started[0]}" && wait "${started[0]}" || true
        started=()
    done
done
python3 -c "print(f'switch beside cable: {$(median 2 "$work/switch") / $(median 2 "$work/cable"):.3f}')"
