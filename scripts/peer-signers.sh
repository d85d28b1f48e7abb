#!/usr/bin/env bash
# The same unsigned zone signed by dnsrack, dnssec-signzone, ldns-signzone and kzonesign with the same algorithm, in turn,
# on all cores that each can use; prints wall seconds and the ratios to dnsrack. The signers with K files share the keys.
# Usage: scripts/peer-signers.sh [FAMILY [DELEGATIONS [ALGORITHM [ROUNDS]]]]
set -euo pipefail
cd "$(dirname "$0")/.."
family=${1:-U-4-DS0} delegations=${2:-100K} algorithm=${3:-ECDSAP256SHA256} rounds=${4:-3}
export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
cargo build --release --quiet --package dnsrack
dnsrack="${CARGO_TARGET_DIR:-target}/release/dnsrack"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/keys" "$work/knot"
"$dnsrack" zone generate --family "$family" --delegations "$delegations" -o "$work/zone"
case $algorithm in RSA*) bits=(-b 2048) ;; *) bits=() ;; esac
ksk=$(dnssec-keygen -q -K "$work/keys" -a "$algorithm" "${bits[@]}" -f KSK .)
zsk=$(dnssec-keygen -q -K "$work/keys" -a "$algorithm" "${bits[@]}" .)
start=$(date -u -d '1 hour ago' +%Y%m%d%H%M%S) end=$(date -u -d '7 days' +%Y%m%d%H%M%S)
cat >"$work/knot.conf" <<CONF
database:
    storage: "$work/knot"
policy:
  - id: same
    algorithm: ${algorithm,,}
    ksk-size: $([ ${#bits[@]} -gt 0 ] && echo 2048 || echo 256)
    zsk-size: $([ ${#bits[@]} -gt 0 ] && echo 2048 || echo 256)
    signing-threads: $(nproc)
    rrsig-lifetime: 21d
    rrsig-refresh: 7d
zone:
  - domain: .
    file: "$work/zone"
    dnssec-signing: on
    dnssec-policy: same
CONF

ours() { "$dnsrack" zone sign "$work/zone" -o "$work/signed.ours" --algorithm "$algorithm" --keys "$work/keys" 2>"$work/said"; }
bind() { dnssec-signzone -S -P -d "$work" -x -n "$(nproc)" -s "$start" -e "$end" -o . -K "$work/keys" -f "$work/signed.bind" "$work/zone" >/dev/null 2>&1; }
ldns() { (cd "$work/keys" && ldns-signzone -i "$start" -e "$end" -o . -f "$work/signed.ldns" "$work/zone" "$ksk" "$zsk"); }
knot() { kzonesign -r -c "$work/knot.conf" -o "$work/knot" . >/dev/null; }
seconds() {
    local begin
    begin=$(date +%s.%N)
    "$1" || { echo NaN; return; }
    date +%s.%N | awk -v b="$begin" '{ printf "%.2f", $1 - b }'
}

printf '%s %s, %s, %s cores\n' "$family" "$delegations" "$algorithm" "$(nproc)"
printf '%-6s %9s %16s %8s %14s %8s %10s %8s\n' round dnsrack dnssec-signzone ratio ldns-signzone ratio kzonesign ratio
for round in $(seq "$rounds"); do
    o=$(seconds ours) b=$(seconds bind) l=$(seconds ldns) k=$(seconds knot)
    awk -v r="$round" -v o="$o" -v b="$b" -v l="$l" -v k="$k" \
        'BEGIN { printf "%-6s %7.2f s %14.2f s %8.1f %12.2f s %8.1f %8.2f s %8.1f\n", r, o, b, b / o, l, l / o, k, k / o }'
done
# All three that can be checked are checked, once: a fast signer of wrong zones is none.
for signed in ours bind ldns; do
    ldns-verify-zone -V 1 "$work/signed.$signed" >/dev/null && echo "signed.$signed verifies: $(grep -c RRSIG "$work/signed.$signed") lines with RRSIG"
done
cat "$work/said"
