#!/usr/bin/env bash
# How good the path emulator is on this machine: delay error at RATE packets/s (goal: p99 below 200 us), loss against what was
# asked for, and the speed of one TCP connection over a path that does nothing (goal: 500 Mbit/s). Beside the emulator's own
# word stands what the kernel's stamps at the receiver's device say. Needs user namespaces or root (then the emulator runs before
# other programs). Usage: scripts/path-emulator.sh [SECONDS [RATE [MEGABYTES]]]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10} rate=${2:-20000} megabytes=${3:-500}
export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
cargo build --release --quiet --package dnsrack-rack --example paths
paths=${CARGO_TARGET_DIR:-target}/release/examples/paths
last=$(($(nproc) - 1))

# run MODE SPEC TABLE...: one run with a on the first core, b and the emulator on the last; prints the lines that python makes.
run() {
    "$paths" "$1" "$2" | python3 -c '
import json, math, sys
r = json.load(sys.stdin)
there = next(d for d in r["report"]["directions"] if d["from"] == "a" and d["to"] == "b")
seen, late, valid = r["seen"], r["report"]["delay_error_us"], r["report"]["validity"]
'"$3"'
for reason in valid["reasons"] + valid["warnings"]:
    print("   ", reason["text"])
'
}

count=$((rate * seconds)) gap=$((1000000 / rate)) cpus="\"cpus\": [[0], [$last]], \"router\": {\"cpus\": [$last]}"
echo "delay 50 ms, $rate packets/s of 100 octets for $seconds s:"
for v6 in false true; do
    run udp "{\"paths\": [{\"between\": [\"a\", \"b\"], \"delay\": \"50ms\"}], \"count\": $count, \"octets\": 100, \"gap_us\": $gap, \"v6\": $v6, $cpus}" '
t = seen["took_us"]
print("  %s: %d in, %d delivered; delay error %.0f us (p50) %.0f us (p99) %.0f us (max)" % ("IPv6" if '"${v6^}"' else "IPv4",
      there["packets_in"], there["delivered"], late["p50"], late["p99"], late["max"]))
print("    at the receiver, above 50 ms, with the sender: %.0f us (least) %.0f us (p50) %.0f us (p99)" % (t[0] - 5e4, t[3] - 5e4, t[5] - 5e4))'
done
for loss in 0.01 0.3 '{"share": 0.01, "burst": 4}'; do
    echo "loss $loss:"
    run udp "{\"paths\": [{\"from\": \"a\", \"to\": \"b\", \"loss\": $loss}], \"count\": $count, \"octets\": 100, \"gap_us\": $gap, $cpus}" '
loss = json.loads("""'"$loss"'""")
share, burst = (loss["share"], loss["burst"]) if isinstance(loss, dict) else (loss, None)
n = there["packets_in"]
rho = 1 - 1 / burst - share / (1 - share) / burst if burst else 0
half = 2.576 * math.sqrt(share * (1 - share) / n * (1 + rho) / (1 - rho))
got = there["lost"] / n
runs = seen["lost_runs"]
print("  %.5f of %d packets; 99 %% of tries lie in %.5f to %.5f: %s" % (got, n, share - half, share + half, "within" if abs(got - share) < half else "OUTSIDE"))
if burst:
    mean, half = there["lost"] / runs, 2.576 * math.sqrt(burst * (burst - 1) / runs)
    print("  bursts of %.3f on average; %.3f to %.3f: %s" % (mean, burst - half, burst + half, "within" if abs(mean - burst) < half else "OUTSIDE"))'
done
echo "TCP, nothing asked for, $megabytes MB:"
for v6 in false true; do
    run tcp "{\"paths\": [{\"between\": [\"a\", \"b\"]}], \"octets\": $((megabytes * 1000000)), \"v6\": $v6, $cpus}" '
print("  %s: %.0f Mbit/s, whole: %s; forwarded within %.0f us (p50) %.0f us (p99)" % ("IPv6" if '"${v6^}"' else "IPv4", seen["mbit_s"], seen["whole"], late["p50"], late["p99"]))'
done
