#!/usr/bin/env bash
# Is 'demo' as fast as with an older dnsrack, and does it give the same figures? Builds the program of COMMIT, runs 'demo' with NSD
# by both in turn, PAIRS times (6; two minutes each), and prints the times of each pair, and this dnsrack's figures as
# ratios to the older one's: median, least and most over the pairs, of valid trials. Needs dnsrack and dnsrack-query, built.
# Usage: scripts/demo-against.sh COMMIT [PAIRS]
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify "${1:?which commit?}^{commit}")
pairs=${2:-6}
target=$(realpath "${CARGO_TARGET_DIR:-target}")
for program in dnsrack dnsrack-query; do
    [ -x "$target/release/$program" ] || { echo "build it first: cargo build --release --workspace" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'git worktree remove --force "$work/source" 2>/dev/null || true' EXIT
cp "$target/release/dnsrack" "$work/after"
cp "$target/release/dnsrack-query" "$work/"
git worktree add --quiet --detach "$work/source" "$commit"
(cd "$work/source" && CARGO_TARGET_DIR=$target cargo build --release --quiet --package dnsrack)
cp "$target/release/dnsrack" "$work/before"
cp --preserve=timestamps "$work/after" "$target/release/dnsrack"
for n in $(seq "$pairs"); do
    order=(before after)
    [ $((n % 2)) -eq 1 ] || order=(after before)
    for which in "${order[@]}"; do
        start=$(date +%s.%N)
        # Invalid trials are a result here.
        "$work/$which" experiment run demo --set servers=nsd -o "$work/runs/$n-$which" >"$work/$n-$which.txt" 2>&1 ||
            [ $? -eq 3 ] || { tail "$work/$n-$which.txt" >&2; exit 1; }
        printf '%s %s: %.1f s\n' "$n" "$which" "$(echo "$(date +%s.%N) - $start" | bc)"
    done
done
"$work/dnsrack-query" "
  WITH figures AS (
    SELECT split_part(run, '-', 1) AS pair, split_part(run, '-', 2) AS which, family, zone_size, metric, value
    FROM metrics JOIN trials USING (run, trial)
    WHERE valid AND (metric = 'capacity_qps' OR metric = 'latency_p50' AND measure = 'latency')
  )
  SELECT metric, family, zone_size, count(*) AS pairs,
         median(a.value / b.value) AS median, min(a.value / b.value) AS least, max(a.value / b.value) AS most
  FROM figures a JOIN figures b USING (pair, family, zone_size, metric)
  WHERE a.which = 'after' AND b.which = 'before'
  GROUP BY metric, family, zone_size
  ORDER BY metric, family, zone_size" "$work/runs"
echo "runs: $work/runs"
