#!/usr/bin/env bash
# How fast BIND and Knot DNS take updates from nsupdate, knsupdate, dnsperf -u and dnsrack: the same stream (ISC's mix, one
# change to a transaction, TSIG) over UDP, each program in turn against a server that was started anew with the same zone, server
# and client on a core of their own in a rack of two hosts. nsupdate and knsupdate wait for each answer; dnsperf and dnsrack do so
# with a window of 1, and are measured with one of WINDOW too. Rates are accepted transactions over the program's whole time, its
# start and the reading of the file included, and, where it says that itself, over its time of sending; beside the medians ratios
# to dnsrack with the same window. Knot DNS commits what waits together, and takes some 50 ms for it: one by one it gets a
# twenty-fifth of the updates. Last, what dnsrack sends
# from one core to a responder that only acknowledges: FLOOD updates, each signed, each answer's signature checked, whatever the answers
# and with a thousand in flight; a round counts where dnsrack calls it valid and it lasted for three seconds. Needs root.
# Usage: scripts/peer-update.sh [ROUNDS [UPDATES [DELEGATIONS [WINDOW [FLOOD]]]]]     (0 rounds: the flood alone, three times)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} updates=${2:-10K} delegations=${3:-10K} window=${4:-100} flood=${5:-2M}
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
for program in named knotd nsupdate knsupdate dnsperf dig python3; do
    command -v "$program" >/dev/null || PATH="/usr/sbin:$PATH" command -v "$program" >/dev/null ||
        { echo "$program is not installed: scripts/setup.sh installs it" >&2; exit 1; }
done
peer_rack update "$delegations" 1K
secret=$(head -c 32 /dev/urandom | base64)
printf 'key "lab" {\n\talgorithm hmac-sha256;\n\tsecret "%s";\n};\n' "$secret" >"$work/key"
# stream COUNT FILE
stream() {
    "$dnsrack" update generate "$work/zone" --mix isc --count "$1" -o "$2" >/dev/null 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
}
# streams COUNT NAME: in everybody's format.
streams() {
    stream "$1" "$work/$2"
    { echo "server $address"; cat "$work/$2"; } >"$work/$2.nsupdate"
    # dnsperf wants the zone before each transaction, and no word 'update'.
    awk '$1 == "zone" { zone = $2; open = 0; next } /^;/ { next } { if (!open) { print zone; open = 1 } sub(/^update /, ""); print } $1 == "send" { open = 0 }' \
        "$work/$2" >"$work/$2.dnsperf"
}
streams "$updates" all
all=$(grep -c '^send' "$work/all")
streams $((all > 5000 ? all / 25 : all > 200 ? 200 : all)) few
few=$(grep -c '^send' "$work/few")

# serve KIND: starts a server with a fresh copy of the zone, and waits until it answers. BIND takes no more than 100 updates at a
# time by default and drops the rest.
serve() {
    rm -rf "$work/server"
    mkdir -p "$work/server/db"
    cp "$work/zone" "$work/server/zone"
    case $1 in
    bind)
        cat - "$work/key" >"$work/server/conf" <<CONF
options { directory "$work/server"; listen-on { $address; }; listen-on-v6 { none; }; recursion no; notify no; pid-file none;
    session-keyfile "$work/server/session"; dnssec-validation no; check-names primary ignore; update-quota 65536; };
controls { };
zone "." { type primary; file "zone"; allow-update { key "lab"; }; };
CONF
        spawn server named -g -n 1 -c "$work/server/conf" >"$work/server/log" 2>&1 ;;
    knot)
        cat >"$work/server/conf" <<CONF
server:
    rundir: "$work/server"
    listen: [ "$address@53" ]
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
control:
    listen: "$work/server/control"
database:
    storage: "$work/server/db"
key:
  - id: lab
    algorithm: hmac-sha256
    secret: "$secret"
acl:
  - id: update
    action: update
    key: lab
zone:
  - domain: .
    file: "$work/server/zone"
    zonefile-sync: -1
    acl: update
CONF
        spawn server knotd -c "$work/server/conf" >"$work/server/log" 2>&1 ;;
    esac
    serving=$!
    for _ in $(seq 300); do
        on generator dig +time=1 +tries=1 +norec "@$address" . SOA 2>/dev/null | grep -q 'status: NOERROR' && return
        sleep 0.2
    done
    echo "$1 does not answer:" >&2
    tail -5 "$work/server/log" >&2
    exit 1
}
unserve() { kill "$serving" 2>/dev/null || true; wait "$serving" 2>/dev/null || true; }

# Each prints how many transactions of a stream were accepted and, where known, in how many seconds; what the program said is in
# $work/out.
refused() { grep -ci 'failed\|error\|refused' "$work/out" || true; }
with_nsupdate() {
    on generator nsupdate -t 0 -y "hmac-sha256:lab:$secret" "$work/$1.nsupdate" >"$work/out" 2>&1 || true
    echo $((${!1} - $(refused))) -
}
with_knsupdate() {
    on generator knsupdate -y "hmac-sha256:lab:$secret" "$work/$1.nsupdate" >"$work/out" 2>&1 || true
    echo $((${!1} - $(refused))) -
}
with_dnsperf() {
    on generator dnsperf -u -s "$address" -d "$work/$1.dnsperf" -n 1 -c 1 -T 1 -q "$2" -y "hmac-sha256:lab:$secret" >"$work/out" 2>&1 || true
    awk '/Response codes:/ { for (i = 1; i < NF; i++) if ($i == "NOERROR") n = $(i + 1) } /Run time/ { t = $NF } END { print n + 0, t ? t : "-" }' "$work/out"
}
with_dnsrack() {
    { on generator "$dnsrack" --json update send "$address" "$work/$1" --window "$2" --tsig "$work/key" --cpu 1 2>"$work/said" || [ $? -eq 3 ]; } >"$work/out"
    echo "$(field accepted <"$work/out") $(field duration_s <"$work/out")"
}

# run PROGRAM COMMAND STREAM...: against a fresh server. The last column is what medians are of.
run() {
    local name=$1 begun ended accepted own
    shift
    serve "$server"
    begun=$(date +%s.%N)
    read -r accepted own < <("$@") || { accepted=0 own=-; }
    ended=$(date +%s.%N)
    awk -v r="$round" -v s="$server" -v p="$name" -v n="${accepted:-0}" -v t="${!2}" -v b="$begun" -v e="$ended" -v o="${own:--}" \
        'BEGIN { printf "%-6s %-6s %-13s %8d of %8d in %7.2f s, sending %9s/s: %8.0f\n", r, s, p, n, t, e - b, o + 0 ? sprintf("%.0f", n / o) : "?", n / (e - b) }' |
        tee -a "$work/table"
    unserve
}
: >"$work/table"
for round in $(seq "$rounds"); do
    for server in bind knot; do
        one=$([ "$server" = knot ] && echo few || echo all)
        run nsupdate with_nsupdate "$one"
        run knsupdate with_knsupdate "$one"
        run dnsperf-1 with_dnsperf "$one" 1
        run dnsrack-1 with_dnsrack "$one" 1
        run "dnsperf-$window" with_dnsperf all "$window"
        run "dnsrack-$window" with_dnsrack all "$window"
    done
done
# of SERVER PROGRAM: its median rate.
of() { awk -v s="$1" -v p="$2" '$2 == s && $3 == p { print $NF }' "$work/table" >"$work/one"; median 1 "$work/one"; }
if [ "$rounds" -gt 0 ]; then
    printf '\n%-6s %-13s %10s %10s %8s\n' server program 'updates/s' dnsrack ratio
    for server in bind knot; do
        for pair in nsupdate:1 knsupdate:1 dnsperf-1:1 "dnsperf-$window:$window"; do
            awk -v s="$server" -v p="${pair%:*}" -v a="$(of "$server" "${pair%:*}")" -v b="$(of "$server" "dnsrack-${pair#*:}")" \
                'BEGIN { printf "%-6s %-13s %10.0f %10.0f %8s\n", s, p, a, b, a + 0 ? sprintf("%.2f", b / a) : "-" }'
        done
    done
fi

# What is the most that the sender can do.
stream "$flood" "$work/flood"
spawn server "$dnsrack" update echo "$address" --tsig "$work/key" --cpu 0 2>"$work/said"
sleep 1
printf '\n%-6s %-7s %10s %14s %8s  %s\n' round pace 'sent/s' 'acknowledged/s' seconds 'invalid for'
for round in $(seq $((rounds > 0 ? rounds : 3))); do
    for pace in flood window; do
        how=(--flood)
        [ "$pace" = window ] && how=(--window 1000)
        { on generator "$dnsrack" --json update send "$address" "$work/flood" "${how[@]}" --clients 8 --deadline 1s --tsig "$work/key" --cpu 1 2>"$work/said" || [ $? -eq 3 ]; } >"$work/out"
        python3 - "$round" "$pace" "$work/out" <<'PY' | tee -a "$work/floods"
import json, sys
o = json.load(open(sys.argv[3]))
why = [r["code"] for r in o["validity"]["reasons"]]
if o["duration_s"] < 3: why.append("short")
print("%-6s %-7s %10.0f %14.0f %8.2f  %s" % (sys.argv[1], sys.argv[2], o["sent_ups"], o["acknowledged_ups"], o["duration_s"], ",".join(why) or "-"))
PY
    done
done
awk '$6 == "-"' "$work/floods" >"$work/valid"
if [ ! -s "$work/valid" ]; then
    echo "no round of these is valid and lasted for three seconds: give a larger FLOOD, or a quieter machine" >&2
    exit 3
fi
# The greater of both rates of each line.
most=$(awk '{ if ($NF + 0 > m) m = $NF + 0; if ($(NF - 1) + 0 > m) m = $(NF - 1) + 0 } END { print m + 0 }' "$work/table")
for pace in flood window; do
    awk -v p="$pace" '$2 == p' "$work/valid" >"$work/one"
    [ -s "$work/one" ] || continue
    awk -v p="$pace" -v s="$(median 3 "$work/one")" -v a="$(median 4 "$work/one")" -v m="$most" \
        'BEGIN { printf "%s, median of valid rounds: %.0f/s sent, %.0f/s acknowledged", p, s, a; if (m > 0) printf "; the fastest server took %.0f/s: ratios %.1f and %.1f (goal: at least 10)", m, s / m, a / m; print "" }'
done
