#!/usr/bin/env bash
# Signatures a second with keys of RSA, 1,024 bits, beside those that Nominet printed in 2006: 'dnsrack zone sign' signs Nominet's zone of
# 129,032 A records on all cores, reading and writing of the files included, and 'openssl speed rsa1024' says what as many processes
# as there are cores can do without a zone. The two take turns, five times. ldns-verify-zone checks the last zone.
# Writes the rates to FOLDER, where 'dnsrack report --coverage' reads them. Needs python3, openssl and ldnsutils, and nothing else at work.
# Usage: scripts/signing-rate.sh [FOLDER]     (default: docs/values)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-docs/values}
. scripts/setup.sh
dnsrack=$(built dnsrack)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$dnsrack" zone generate --family NOMINET --delegations 129032 --seed 1 -o "$work/zone" 2>/dev/null
for turn in 1 2 3 4 5; do
    "$dnsrack" --json zone sign "$work/zone" --algorithm RSASHA256 --zsk-bits 1024 --ksk-bits 1024 -o "$work/signed" 2>/dev/null >>"$work/rates"
    openssl speed -multi "$(nproc)" -seconds 3 rsa1024 2>/dev/null | grep '^rsa 1024 bits' >>"$work/openssl"
done
ldns-verify-zone -V 1 "$work/signed" >&2
PYTHONPATH=scripts python3 - "$work" "$folder" "$(grep -Ec 'RRSIG[[:space:]]+[A-Z0-9]+ 8 ' "$work/signed")" <<'PY'
import json, published_values, sys
work, folder, lines = sys.argv[1:]
summaries = [json.loads(line) for line in open(f"{work}/rates")]
# What the command counts has to be in the file.
assert all(s["signatures"] == int(lines) for s in summaries), (lines, summaries)
rates = {
    "Signing a test zone": [round(s["signatures_per_second"]) for s in summaries],
    # The columns are seconds to sign, seconds to verify, signatures a second, verifications a second.
    "openssl speed, rsa1024": [round(float(line.split()[-2])) for line in open(f"{work}/openssl")],
}
assert all(len(measured) == 5 for measured in rates.values()), rates
values = [([what], "Signatures/second", measured) for what, measured in rates.items()]
published_values.write(folder, "nominet-signing", "scripts/signing-rate.sh", values)
for what, measured in rates.items():
    print(f"{what:24}", *measured)
PY
