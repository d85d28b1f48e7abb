#!/usr/bin/env bash
# How good is 'dnsrack compare --build'?
#   scripts/compare-accuracy.sh same [REPEATS [SERVERS]]          each build against itself: how wide are the intervals (12 repeats)?
#   scripts/compare-accuracy.sh slowed PERCENT [TIMES [SERVERS]]  a build against itself, slowed: is that found (10 times)?
# SERVERS is a list such as "nsd bind". A server is slowed by a preload that computes for so long before each message that is sent;
# the time is PERCENT of what a query takes when the server has all of its core. Needs python3, and cc for 'slowed'.
set -euo pipefail
cd "$(dirname "$0")/.."
dnsrack=${DNSRACK:-${CARGO_TARGET_DIR:-target}/release/dnsrack}
[ -x "$dnsrack" ] || { echo "build it first: cargo build --release" >&2; exit 1; }
export PATH="/usr/sbin:$PATH"
work=$(mktemp -d)
echo "runs: $work"

program() {
    case $1 in
    bind) command -v named ;; nsd) command -v nsd ;; knot) command -v knotd ;; powerdns) command -v pdns_server ;; yadifa) command -v yadifad ;;
    *) echo "unknown server $1" >&2; exit 2 ;;
    esac
}

# compare NAME BASE CANDIDATE KIND [--set …]: writes NAME.json; says nothing if the comparison ended with an answer.
compare() {
    local name=$1 base=$2 candidate=$3 kind=$4
    shift 4
    "$dnsrack" compare --build "$base" --build "$candidate" --kind "$kind" -o "$work/$name" --json "$@" >"$work/$name.json" 2>"$work/$name.txt" ||
        [ -s "$work/$name.json" ] || { tail -5 "$work/$name.txt" >&2; exit 1; }
}

same() {
    local repeats=${1:-12}
    printf '%-9s %7s   %-36s %9s %18s %11s\n' server seconds figure change interval half-width
    for server in ${2:-bind nsd knot powerdns}; do
        local began=$SECONDS
        compare "same-$server" "$(program "$server")" "$(program "$server")" "$server" --set repeats="$repeats" --set comparison.repeats="$repeats"
        python3 - "$server" $((SECONDS - began)) "$work/same-$server.json" <<'PY'
import json, sys
server, seconds, path = sys.argv[1:]
for cell in json.load(open(path))["cells"]:
    for figure in cell["figures"]:
        change = figure["change"]
        if not change:
            continue
        low, high = 100 * change["low"], 100 * change["high"]
        name = f"{figure['name']} ({cell['params'].get('measure', 'both')})"
        shown = "" if low <= 0 <= high else "  shown"
        print(f"{server:<9} {seconds:>7}   {name:<36} {100 * change['value']:>+7.2f} % {low:>+8.2f} to {high:>+6.2f} {(high - low) / 2:>8.2f} %{shown}")
PY
    done
}

slowed() {
    local percent=$1 times=${2:-10}
    cat >"$work/slow.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void spend(unsigned messages) {
    static long long each = -1;
    if (each < 0) each = atoll(getenv("SLOW_NS"));
    for (long long until = now() + each * messages; now() < until;) {}
}

ssize_t sendto(int fd, const void *data, size_t length, int flags, const struct sockaddr *to, socklen_t size) {
    static ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!real) real = dlsym(RTLD_NEXT, "sendto");
    spend(1);
    return real(fd, data, length, flags, to, size);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static ssize_t (*real)(int, const struct msghdr *, int);
    if (!real) real = dlsym(RTLD_NEXT, "sendmsg");
    spend(1);
    return real(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
    static int (*real)(int, struct mmsghdr *, unsigned, int);
    if (!real) real = dlsym(RTLD_NEXT, "sendmmsg");
    spend(count);
    return real(fd, messages, count, flags);
}
C
    cc -O2 -shared -fPIC -o "$work/slow.so" "$work/slow.c" -ldl
    printf '%-9s %5s %8s %-10s %9s  %s\n' server time seconds outcome 'added ns' 'changes of the figures that decide, in percent'
    for server in ${3:-nsd bind}; do
        # What a query takes: from the mean rate of a short window.
        "$dnsrack" experiment run demo --set servers="$server" --set zone.families=U-4-DS0 --set zone.delegations=10K --set repeats=5 \
            --set measure=throughput --set throughput.window=200 --set throughput.duration=2s --set throughput.warmup=500ms \
            -o "$work/$server-alone" --events >"$work/$server-alone.json" 2>"$work/said" || [ $? -eq 3 ] || { tail -5 "$work/said" >&2; exit 1; }
        local ns
        ns=$(python3 - "$work/$server-alone.json" "$percent" <<'PY'
import json, statistics, sys
events = [json.loads(line) for line in open(sys.argv[1])]
metrics = [metric for event in events if event.get("event") == "done" for metric in event["metrics"]]
found = [metric["value"] for metric in metrics if metric["name"] == "server_cpu_per_query"]
print(round(statistics.median(found) * 1000 * float(sys.argv[2]) / 100))
PY
        )
        printf '#!/bin/sh\nLD_PRELOAD=%s/slow.so SLOW_NS=%s exec %s "$@"\n' "$work" "$ns" "$(program "$server")" >"$work/slow-$server"
        chmod +x "$work/slow-$server"
        for n in $(seq "$times"); do
            local began=$SECONDS
            compare "slowed-$server-$n" "$(program "$server")" "$work/slow-$server" "$server"
            python3 - "$server" "$n" $((SECONDS - began)) "$ns" "$work/slowed-$server-$n.json" <<'PY'
import json, sys
server, n, seconds, ns, path = sys.argv[1:]
found = json.load(open(path))
parts = []
for cell in found["cells"]:
    for figure in cell["figures"]:
        change = figure["change"]
        if change and figure["gates"]:
            parts.append(f"{figure['name']} {100 * change['value']:+.1f} ({100 * change['low']:+.1f} to {100 * change['high']:+.1f}) {figure['outcome']}")
print(f"{server:<9} {n:>5} {seconds:>8} {found['outcome']:<10} {ns:>9}  {'; '.join(parts)}", flush=True)
PY
        done
    done
}

case ${1:-} in
same) shift; same "$@" ;;
slowed) shift; slowed "$@" ;;
*) sed -n 2,7p "$0" >&2; exit 2 ;;
esac
