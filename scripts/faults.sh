#!/usr/bin/env bash
# Makes each fault of server, way, generator and machine for real, many times, and prints as a table in Markdown how often it was
# named rightly, what else was named, and how often trials without a fault were flagged (docs/trust.md has what it printed).
# Needs NSD and root, two cores, and nothing else at work. Usage: scripts/faults.sh [REPEATS [CLEAN [PART OF A FAULT'S NAME]]]
set -euo pipefail
cd "$(dirname "$0")/.."
export DNSRACK_FAULT_REPEATS=${1:-20} DNSRACK_FAULT_CLEAN=${2:-100} DNSRACK_FAULT_ONLY=${3:-}
said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
cargo test --release --quiet --workspace --test it faults::table -- --exact --ignored --nocapture >"$said" 2>&1 || status=$?
grep '^|' "$said" || true
if [ $status -ne 0 ]; then
    grep -v '^|' "$said" >&2
fi
exit $status
