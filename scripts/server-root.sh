#!/usr/bin/env bash
# Makes a folder that holds another Debian release (such as bookworm, trixie or testing) with its name servers. A server is started from it with
# server.LABEL.root, for example:
#   dnsrack run isc-platform --set servers=nsd,nsd-13 --set server.nsd-13.kind=nsd --set server.nsd-13.root=FOLDER
# Servers that the release does not have are named and left out. FOLDER must not exist yet.
# Usage: scripts/server-root.sh RELEASE FOLDER [MIRROR]
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
release=$1 mirror=${3:-http://deb.debian.org/debian}
[ ! -e "$2" ] || { echo "$2 exists already: remove it, or name another folder" >&2; exit 1; }
folder=$(realpath -m "$2")
cd "$(dirname "$0")/.."
. scripts/setup.sh
need curl curl "reads the list of packages of the release"
need xz xz-utils "reads the list of packages of the release"
need mmdebstrap mmdebstrap "makes folders of Debian releases"
install_missing
list=$mirror/dists/$release/main/binary-$(dpkg --print-architecture)/Packages.xz
has=$(curl -fsSL "$list" | xz -dc | sed -n 's/^Package: //p') || { say "cannot read $list: is '$release' a release of Debian?"; exit 1; }
packages=()
for package in bind9 bind9-utils nsd knot pdns-server pdns-backend-bind pdns-backend-sqlite3 sqlite3 yadifa hickory-dns; do
    if grep -qx "$package" <<<"$has"; then packages+=("$package"); else say "Debian $release has no $package: left out"; fi
done
# Up to Debian 13 keymgr is in the package knot.
if grep -qx knot-keymgr <<<"$has"; then packages+=(knot-keymgr); fi
say "Debian $release with ${packages[*]}, in $folder"
# Aside, so that a folder that is there is whole.
as_root rm -rf "$folder.new"
include=$(IFS=,; echo "${packages[*]}")
# A mirror's copy of testing, and all of snapshot.debian.org, may be past the date until which its list is valid. Signatures are checked.
as_root mmdebstrap --quiet --variant=essential --aptopt='Acquire::Check-Valid-Until "false"' --include="$include" \
    "$release" "$folder.new" "$mirror"
# Its programs are run in this machine's /dev, /proc and /sys.
as_root mv "$folder.new" "$folder"
say "$(du -sh "$folder" | cut -f1) in $folder"
