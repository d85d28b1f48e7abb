#!/usr/bin/env bash
# Compares NSD with itself in a container of Debian 12, as a job of continuous integration does (docs/pages.md): as root with the engine's
# default options for BUDGET (3m), and a small experiment as a user without any capability. Podman runs the containers with runc. Needs
# root, and a build. Usage: scripts/container.sh [BUDGET]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
budget=${1:-3m}
program=$(built dnsrack)
need podman podman "runs containers"
need runc runc "runs containers for podman"
need mmdebstrap mmdebstrap "makes folders of Debian releases"
install_missing
work=$(mktemp -d)
image=localhost/dnsrack-container-test
end() {
    podman rmi --force "$image" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT
chmod 755 "$work"
mmdebstrap --quiet --variant=apt --include=nsd bookworm "$work/root.tar" http://deb.debian.org/debian
podman import --quiet "$work/root.tar" "$image"
rm "$work/root.tar"
mkdir -p "$work/files"
cp "$program" "$work/files/dnsrack"
# Podman would raise the limits of files and processes, which not everybody may.
files=$(ulimit -Hn)
inside() {
    podman --runtime "$(command -v runc)" run --rm --cgroupns=host --ulimit "nofile=$files:$files" \
        --ulimit nproc=4096:4096 --volume "$work/files:/files:ro" "$@"
}
script='cp -r /usr/sbin /tmp/base && cp -r /usr/sbin /tmp/candidate && cd /tmp &&
    /files/dnsrack compare --build base --build candidate --kind nsd --budget '$budget' --junit nsd.xml --markdown 2>log || status=$?
    [ "${status:-0}" != 1 ] || cat log; cat nsd.xml; echo "exit status ${status:-0}"'
inside "$image" sh -c "$script"
script='cd /tmp && /files/dnsrack run rzaia-latency --set size=quick --set servers=nsd --set zone.families=U-4-DS0 --set zone.delegations=1K -o run 2>&1 |
    tail -n 3'
inside --cap-drop all --user 1000 "$image" sh -c "$script"
