#!/usr/bin/env bash
# The papers' streams of queries again: captures that the profiles 'rzaia' (section 3.1) and 'isc' (section 5.1) generate from three seeds,
# counted by 'dnsrack trace info' and, packet by packet, by tshark. Writes the shares to FOLDER, where 'dnsrack report --coverage' reads
# them. Needs python3 and tshark.
# Usage: scripts/streams.sh [FOLDER]     (default: docs/values)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-docs/values}
. scripts/setup.sh
dnsrack=$(built dnsrack)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$dnsrack" zone generate --family U-4-DS0 --delegations 1K --seed 1 -o "$work/zone" 2>/dev/null
for seed in 1 2 3; do
    # As long and as fast as the paper's: 5,000 queries a second for 60 s.
    "$dnsrack" traffic generate rzaia --zone "$work/zone" --rate 5K --duration 60s --seed "$seed" -o "$work/rzaia.pcap" 2>/dev/null
    "$dnsrack" traffic generate isc --zone "$work/zone" --rate 2401 --duration 120s --seed "$seed" -o "$work/isc.pcap" 2>/dev/null
    for stream in rzaia isc; do
        "$dnsrack" --json trace info "$work/$stream.pcap" >"$work/$stream.$seed.json" 2>/dev/null
        tshark -r "$work/$stream.pcap" -o udp.check_checksum:TRUE -T fields -e ip.flags.df -e udp.checksum -e udp.checksum.status \
            -e dns.qry.type -e dns.qry.name >"$work/$stream.$seed.packets" 2>/dev/null
    done
done
PYTHONPATH=scripts python3 - "$work" "$folder" <<'PY'
import json, published_values, sys
work, folder = sys.argv[1:3]
# An owner stands on the first line of its records alone.
tlds, owner = set(), ""
for line in open(f"{work}/zone"):
    owner, *rest = (line if line[0] not in " \t" else owner + line).split()
    if "NS" in rest[:-1] and owner.count(".") == 1 and owner != ".":
        tlds.add(owner.rstrip(".").lower())

def write(table, values):
    published_values.write(folder, table, "scripts/streams.sh", [([row], column, measured) for (row, column), measured in values.items()])
    for (row, column), measured in values.items():
        print(f"{table}: {row:32} {column:7}", "  ".join(f"{m:.3f}" for m in measured))

def read(stream, seed):
    info = json.load(open(f"{work}/{stream}.{seed}.json"))
    packets = [line.rstrip("\n").split("\t") for line in open(f"{work}/{stream}.{seed}.packets")]
    # Both readers have to agree before either is believed.
    assert len(packets) == info["queries"], (stream, len(packets), info["queries"])
    return info, packets

def misses(packet):
    tld = packet[4].rstrip(".").rsplit(".", 1)[-1].lower()
    return tld not in tlds and packet[4] not in ("", "<Root>")

TYPES = {"A": 1, "PTR": 12, "AAAA": 28, "SOA": 6, "MX": 15, "A6": 38, "SRV": 33, "TXT": 16, "NS": 2, "ANY": 255, "CNAME": 5}
rzaia, isc = {}, {}
for seed in (1, 2, 3):
    info, packets = read("rzaia", seed)
    share = lambda count, of=None: round(100 * count / len(of if of is not None else packets), 3)
    found = {
        "with EDNS0": info["edns"]["present"], "with DO": info["edns"]["do"],
        "with DF": sum(p[0] in ("1", "True") for p in packets),
        "without UDP checksum": sum(int(p[1], 16) == 0 for p in packets),
        "with a bad UDP checksum": sum(p[2] == "0" for p in packets),
        "for TLDs that do not exist": sum(map(misses, packets)),
    }
    for what, count in found.items():
        rzaia.setdefault((what, "3.1"), []).append(share(count))
    rzaia.setdefault(("with DO", "3.2.1"), []).append(share(found["with DO"]))
    info, packets = read("isc", seed)
    isc.setdefault(("all", "failed"), []).append(share(sum(map(misses, packets))))
    for kind, number in TYPES.items():
        of_type = [packet for packet in packets if packet[3] == str(number)]
        assert len(of_type) == info["types"][kind]["count"], (kind, len(of_type))
        isc.setdefault((kind, "of all"), []).append(share(len(of_type)))
        isc.setdefault((kind, "failed"), []).append(share(sum(map(misses, of_type)), of_type))
write("rzaia-text-stream", rzaia)
write("isc-5.1", isc)
PY
