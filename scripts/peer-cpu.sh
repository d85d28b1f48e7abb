#!/usr/bin/env bash
# CPU time per answered query of dnsrack, dnsperf and kxdpgun: NSD on one core, the generator on the other, in a rack of two
# hosts. The cost is what the generator's core did besides idling (user + system + interrupts + softirq of /proc/stat), as
# softirq is nobody's process; steal is left out. dnsperf says how much a window of 1000 can have answered, and dnsrack does
# the same over sockets; then all send at three quarters of that rate, in groups of 8 but for dnsperf: dnsrack sleeping
# between its groups (--spin 0), and, to show what that costs, polling as it does unless told. Prints us/answer; the last
# lines are medians and ratios. Needs root. Usage: scripts/peer-cpu.sh [ROUNDS [SECONDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3} seconds=${2:-10}
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
peer_rack cpu 100K 1M
peer_nsd
ticks=$(getconf CLK_TCK)

# core: user (with nice), system and interrupt ticks of the generator's core.
core() { awk '$1 == "cpu1" { print $2 + $3, $4, $7 + $8 }' /proc/stat; }

# cost NAME COMMAND...: runs a command that prints how many queries were answered; tells user, system, softirq and all of
# it in us for each.
cost() {
    local name=$1 answered before after
    shift
    before=$(core)
    answered=$("$@") || answered=0
    after=$(core)
    awk -v round="$round" -v name="$name" -v n="${answered:-0}" -v hz="$ticks" -v s="$seconds" -v b="$before" -v a="$after" 'BEGIN {
        split(b, x); split(a, y)
        if (n == 0) { printf "%-6s %-18s %12s\n", round, name, "none"; exit }
        for (i = 1; i <= 3; i++) us[i] = (y[i] - x[i]) / hz * 1e6 / n
        printf "%-6s %-18s %12.0f %8.3f %8.3f %8.3f %8.3f\n", round, name, n / s, us[1], us[2], us[3], us[1] + us[2] + us[3]
    }' | tee -a "$work/table"
}

dnsperf_run() { on generator dnsperf -s "$address" -d "$work/queries" -q 1000 -c 16 -T 1 -t 1 -l "$seconds" "$@" 2>/dev/null | awk '/Queries completed/ { print $3 }'; }
# kxdpgun takes names with types as dnsperf does, and runs with whole seconds.
# It leaves its XDP program on the interface, where ours would not find room.
kxdpgun_paced() {
    on generator kxdpgun -t "$seconds" -Q "$paced" -b 8 -F 1 -i "$work/queries" "$address" 2>&1 | awk '/total replies/ { gsub("[^0-9]", "", $3); print $3 }'
    on generator ip link set dev "$generator_device" xdp off
}
ours() { load run "$address" --duration "${seconds}s" "$@" | tee "$work/result.json" | field answered; }

printf '%-6s %-18s %12s %8s %8s %8s %8s\n' round generator 'answered/s' user system softirq 'us/answer'
for round in $(seq "$rounds"); do
    cost dnsperf-window dnsperf_run
    paced=$(awk '$2 == "dnsperf-window" { rate = $3 } END { printf "%d", rate * 0.75 }' "$work/table")
    cost ours-window ours --window 1000 --backend socket
    cost dnsperf-paced dnsperf_run -Q "$paced"
    cost ours-paced ours --rate "$paced" --group 8 --burst 8 --backend socket --spin 0s
    cost ours-polling ours --rate "$paced" --group 8 --burst 8 --backend socket
    cost kxdpgun-paced kxdpgun_paced
    cost ours-xdp-paced ours --rate "$paced" --group 8 --burst 8 --backend xdp --spin 0s
    cost ours-xdp-polling ours --rate "$paced" --group 8 --burst 8 --backend xdp
done
of() { awk -v n="$1" '$2 == n' "$work/table" >"$work/one"; median 7 "$work/one"; }
compare() { awk -v a="$(of "$1")" -v b="$(of "$2")" -v n="$1" -v m="$2" -v goal="$3" 'BEGIN { if (a + 0 == 0 || b + 0 == 0) { print n " or " m " has no figure"; exit }
    printf "median %s %.3f us, %s %.3f us: ratio %.2f (goal: at most %s: %s)\n", n, a, m, b, a / b, goal, a / b <= goal ? "met" : "missed" }'; }
compare ours-window dnsperf-window 0.5
compare ours-paced dnsperf-paced 0.5
compare ours-xdp-paced kxdpgun-paced 1.2
