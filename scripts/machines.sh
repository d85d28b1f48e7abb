#!/usr/bin/env bash
# Tries experiments on machines that are reached by ssh, here three and more network namespaces with an sshd each: prints the figures of six
# experiments on this machine's own rack and by ssh as a table in Markdown, whose counts must be alike; how long it takes until up to 16 hosts
# make their first trial; then kills something of a run at a random instant, so many times, and lets it go on; then has Slurm end a job at its
# time limit. With a folder for it, a static build is made (scripts/static.sh) and runs with the root folder of Debian 13 (mmdebstrap).
# Needs root, two cores and the servers. Usage: scripts/machines.sh [KILLS [FOLDER]]
set -euo pipefail
cd "$(dirname "$0")/.."
export DNSRACK_KILLS=${1:-200}
if [ -n "${2:-}" ]; then
    mkdir -p "$2"
    folder=$(realpath "$2")
    export DNSRACK_STATIC=$folder/dnsrack DNSRACK_ROOT=$folder/root
    [ -e "$DNSRACK_STATIC" ] || scripts/static.sh "$folder"
    [ -e "$DNSRACK_ROOT" ] || mmdebstrap --variant=apt --include=nsd trixie "$DNSRACK_ROOT"
fi
cargo test --release --quiet --workspace --test it -- --ignored --nocapture --test-threads 1 machines:: slurm::
