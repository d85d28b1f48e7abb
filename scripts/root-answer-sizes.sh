#!/usr/bin/env bash
# How large are the answers of a signed root zone that do not fit into 512 octets (RZAIA section 6.3.1)? NSD serves ZONE, signed with RZAIA's
# keys. dig asks it with DO and an EDNS size of 65,535 octets for 1,000 names of six letters that do not exist, and for a name below each
# TLD that has 13 NS records. The script prints which sizes came most often, and writes the median of either kind to FOLDER, where
# 'dnsrack report --coverage' reads it: once for each of three lists of names.
# A root zone has other TLDs, glue and DS records today than it had in 2009, so the sizes are those of ZONE.
# Needs python3, nsd and dig. Usage: scripts/root-answer-sizes.sh ZONE [FOLDER]     (default: docs/values)
set -euo pipefail
export PATH="$PATH:/usr/sbin"
[ $# -ge 1 ] || { sed -n '/^# Needs/p' "$0" >&2; exit 2; }
zone=$(realpath "$1")
cd "$(dirname "$0")/.."
folder=${2:-docs/values}
. scripts/setup.sh
dnsrack=$(built dnsrack)
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
"$dnsrack" zone sign "$zone" --preset rzaia -o "$work/signed" 2>/dev/null
port=5399
cat >"$work/nsd.conf" <<CONF
server:
    ip-address: 127.0.0.1@$port
    username: ""
    chroot: ""
    zonesdir: "$work"
    database: ""
    pidfile: ""
    xfrdfile: ""
    zonelistfile: "$work/zone.list"
    ipv4-edns-size: 65535
    # Debian's build limits the rate of answers, and truncates some of those above it.
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: "."
    zonefile: "$work/signed"
CONF
nsd -d -c "$work/nsd.conf" >"$work/log" 2>&1 &
server=$!
for _ in $(seq 100); do
    dig -p $port @127.0.0.1 +time=1 +tries=1 . SOA >/dev/null 2>&1 && break
    sleep 0.1
done
PYTHONPATH=scripts python3 - "$work" "$folder" "$port" <<'PY'
import collections, published_values, random, re, statistics, subprocess, sys
work, folder, port = sys.argv[1:]
servers, owner = collections.Counter(), ""
for line in open(f"{work}/signed"):
    owner, *rest = (line if line[0] not in " \t" else owner + line).split()
    kind = next(word for word in rest if word != "IN" and not word.isdigit())
    if kind == "NS" and owner.count(".") == 1 and owner != ".":
        servers[owner] += 1
thirteen = sorted(tld for tld, count in servers.items() if count == 13)

def sizes(names):
    with open(f"{work}/names", "w") as file:
        file.writelines(f"{name} A\n" for name in names)
    asked = ["dig", "-p", port, "@127.0.0.1", "+dnssec", "+norec", "+nocookie", "+bufsize=65535", "+ignore", "-f", f"{work}/names"]
    text = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found = list(zip(re.findall("status: (\\w+)", text), map(int, re.findall("MSG SIZE  rcvd: (\\d+)", text))))
    assert len(found) == len(names), (len(found), len(names))
    assert not re.search("flags:[^;]* tc", text), "an answer was truncated"
    return found

def shown(what, found):
    sizes = [size for _, size in found]
    print(f"{what}: {len(sizes)} answers, median {statistics.median_low(sizes)} octets;", ", ".join(f"{size} ({n} times)" for size, n in collections.Counter(sizes).most_common(3)))
    return statistics.median_low(sizes)

missing, referrals = [], []
for seed in (1, 2, 3):
    chance = random.Random(seed)
    names = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=6)) + "." for _ in range(1100)]
    names = [name for name in names if name not in servers][:1000]
    found = sizes(names)
    assert all(status == "NXDOMAIN" for status, _ in found)
    missing.append(shown("Name that does not exist", found))
    # Referrals to the TLDs with 13 name servers, for a name below each that is as long as "example".
    found = sizes(["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=7)) + "." + tld for tld in thirteen])
    assert all(status == "NOERROR" for status, _ in found)
    referrals.append(shown("Signed referral with 13 NS records", found))
print("TLDs with 13 NS records:", *thirteen)
values = [(["Name that does not exist"], "Size", missing), (["Signed referral with 13 NS records"], "Size", referrals)]
published_values.write(folder, "rzaia-text-sizes", "scripts/root-answer-sizes.sh ZONE", values)
PY
