#!/usr/bin/env bash
# How long NSD takes to deny TLDs, by where their names would stand among the others: a signed zone of RZAIA's has most addresses of name
# servers below COM, NET and ORG. Prints each name with the status and the milliseconds that dig waited, three times.
# Usage: scripts/denial-time.sh [DELEGATIONS]
set -euo pipefail
dnsrack=${DNSRACK:-dnsrack}
folder=$(mktemp -d)
server=
trap 'test -z "$server" || kill "$server"; rm -rf "$folder"' EXIT
"$dnsrack" zone generate --family S-6-DS100 --delegations "${1:-100K}" --sign ECDSAP256SHA256 -o "$folder/zone" > "$folder/made" 2>&1
cat > "$folder/nsd.conf" <<END
server:
 ip-address: 127.0.0.1@5399
 zonesdir: ""
 pidfile: ""
 username: ""
 database: ""
 xfrdfile: ""
 xfrdir: "$folder"
 zonelistfile: ""
 rrl-ratelimit: 0
 rrl-whitelist-ratelimit: 0
remote-control:
 control-enable: no
zone:
 name: "."
 zonefile: "$folder/zone"
END
PATH=$PATH:/usr/sbin
nsd -d -c "$folder/nsd.conf" 2> "$folder/log" &
server=$!
ask() { dig @127.0.0.1 -p 5399 +norec +tries=1 +dnssec "$@"; }
for _ in $(seq 300); do
    if ask . SOA | grep -q 'status: NOERROR'; then break; fi
    sleep 1
done
for _ in 1 2 3; do
    for name in aaaa. com0. comaaa. mobi0. net0. netaaa. org0. orgaaa. zzz.; do
        ask "$name" A | awk -v name="$name" '/status:/ {status = $6} /Query time/ {print name, status, $4 " ms"}'
    done
done
