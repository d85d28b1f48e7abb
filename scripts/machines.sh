#!/usr/bin/env bash
# Tries experiments on machines that are reached by ssh, here three and more network namespaces with an sshd each: prints the figures of six
# experiments on this machine's own rack and by ssh as a table in Markdown, whose counts must be alike; then kills something of a run
# at a random instant, so many times, and lets it go on; then has Slurm end a job at its time limit. Needs root, two cores and the servers.
# Usage: scripts/machines.sh [KILLS]
set -euo pipefail
cd "$(dirname "$0")/.."
export DNSRACK_KILLS=${1:-200}
cargo test --release --quiet --workspace --test it -- --ignored --nocapture --test-threads 1 machines:: slurm::
