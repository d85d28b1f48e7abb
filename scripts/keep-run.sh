#!/bin/sh
# Keeps the small files of a run: scripts/keep-run.sh RUN NAME makes docs/runs/NAME, which 'dnsrack report' and 'compare' read.
# Configurations and logs of the servers stay where they are, and so do the machine's name and folders. Needs python3.
set -eu
[ $# -eq 2 ] || { sed -n 2,3p "$0" >&2; exit 2; }
run=$1 to=$(dirname "$0")/../docs/runs/$2
mkdir -p "$to"
cp "$run/run.toml" "$run/trials.parquet" "$run/latency.parquet" "$run/series.parquet" "$to"
python3 - "$run/environment.json" "$to/environment.json" "$to/run.toml" <<'EOF'
import json, os.path, shlex, sys
environment = json.load(open(sys.argv[1]))
environment["machine"].pop("hostname", None)
for machine in environment.get("machines", []):
    machine.pop("name", None)
    machine["described"]["environment"].pop("hostname", None)
# Whoever repeats it has the program and the run somewhere else.
words = [word for word in shlex.split(environment["command"]) if word != "--resume"]
for flag in ("-o", "--output"):
    if flag in words:
        del words[words.index(flag):words.index(flag) + 2]
environment["command"] = shlex.join(["dnsrack"] + words[1:])
# Nor where the root folders of servers are: their names say which releases they hold.
plan = open(sys.argv[3]).read()
for root in {server.get("root") for server in environment.get("servers", [])} - {None}:
    name = os.path.basename(root)
    environment["command"] = environment["command"].replace(root, name)
    plan = plan.replace(root, name)
for server in environment.get("servers", []):
    if server.get("root"):
        server["root"] = os.path.basename(server["root"])
open(sys.argv[3], "w").write(plan)
json.dump(environment, open(sys.argv[2], "w"), indent=2, sort_keys=True)
EOF
du -sh "$to"
