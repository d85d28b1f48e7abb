#!/bin/bash
# A statement on the nodes of a Slurm job: the first one has the scheduler, and each has an executor.
#
#   sbatch --nodes 4 --exclusive docs/query-on-slurm.sh @types /shared/captures/*.pcap.zst --format csv -o /shared/types.csv
#
# The arguments are those of 'dnsrack query'. All nodes must see dnsrack, dnsrack-query and the sources at the same paths. DNSRACK
# names the program where it is not on the PATH. PORT is the port of the scheduler.
set -euo pipefail
dnsrack=${DNSRACK:-dnsrack}
port=${PORT:-50050}
: "${SLURM_JOB_NODELIST:?run this script with sbatch, or in a job}"

# The address that Slurm has for a node.
address() {
    local name
    name=$(scontrol show node "$1" --oneliner | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2)
    getent ahosts "$name" | awk 'NR == 1 { print $1 }'
}

step() { srun --overlap --nodes=1 --ntasks=1 --nodelist="$@"; }

steps=()
# What each executor says, by node.
said=$(mktemp -d)
end() {
    trap - EXIT
    # A scheduler and executors end with their steps.
    [ ${#steps[@]} -eq 0 ] || kill "${steps[@]}" 2>/dev/null || true
    wait
    rm -r "$said"
}
trap end EXIT

nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=$(head -n 1 <<<"$nodes")
scheduler=$(address "$first"):$port
step "$first" "$dnsrack" query scheduler --address "${scheduler%:*}" --port "$port" --allow-external &
steps+=($!)
for node in $nodes; do
    step "$node" "$dnsrack" query executor --scheduler "$scheduler" --address "$(address "$node")" --allow-external \
        2> >(tee "$said/$node" >&2) &
    steps+=($!)
done
# An executor says where it is when the scheduler knows it. The statement is divided among those that are known when it starts.
until=$((SECONDS + 60))
for node in $nodes; do
    while ! grep -qs '^dnsrack query executor: at ' "$said/$node"; do
        if ((SECONDS >= until)); then
            echo "$node: its executor did not start in a minute: the statement starts without it" >&2
            break
        fi
        sleep 0.2
    done
done
"$dnsrack" query --cluster "$scheduler" "$@"
