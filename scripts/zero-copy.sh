#!/usr/bin/env bash
# Tries AF_XDP without copies, for which a driver must have that mode. The driver is virtio-net of Linux 6.13 and later, in a virtual machine
# with a kernel from Debian (trixie-backports): it sends queries through a tap device to NSD on this machine, first without copies, then with
# them (the driver copies where the card does not use the addresses of the machine's memory that Linux gives it, "iommu_platform"). For each: how packets went, what was sent and answered, and what the kernel of
# this machine counted, which should be as many queries as were sent, and as many answers as were received.
#
#   ACCEL=tcg scripts/zero-copy.sh [RATE] [SECONDS]
#
# With ACCEL=tcg QEMU emulates the processor: that runs everywhere, and no rate or time means anything. Without, it uses /dev/kvm.
# Needs root, nsd, dig, python3, two cores, and the network for the kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
need qemu-system-x86_64 qemu-system-x86 "the virtual machine"
need busybox busybox-static "the programs in it"
need cpio cpio "its first file system"
need xz xz-utils "its drivers"
need nsd nsd "the server"
install_missing
# shellcheck source=scripts/peer-rack.sh
. scripts/peer-rack.sh
rate=${1:-5000} seconds=${2:-10}
mirror=http://deb.debian.org/debian
peer_rack zero-copy 20000 100000

# The newest kernel, in all of its packages.
curl -fsSL $mirror/dists/trixie-backports/main/binary-amd64/Packages.xz | xz -dc >"$work/packages"
version=$(sed -n 's/^Package: linux-image-\([0-9].*-cloud-amd64\)$/\1/p' "$work/packages" | sort -V | tail -1)
for package in image binary modules; do
    file=$(sed -n "s/^Filename: \(.*\/linux-$package-${version}_.*\)$/\1/p" "$work/packages" | sort -V | tail -1)
    [ -z "$file" ] || { curl -fsSL "$mirror/$file" -o "$work/kernel.deb" && dpkg-deb -x "$work/kernel.deb" "$work/kernel"; }
done
kernel=$(find "$work/kernel" -name 'vmlinuz*' -type f)
echo "kernel of the virtual machine: $version"

# The first file system: busybox, dnsrack with its libraries, the queries, the driver.
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$dnsrack" "$root/bin/dnsrack"
ldd "$dnsrack" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root${library%/*}"
    cp -L "$library" "$root$library"
done
cp "$work/queries" "$root/queries"
for module in failover net_failover virtio_net; do
    xz -dc "$(find "$work/kernel" -name "$module.ko.xz")" >"$root/$module.ko"
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in failover net_failover virtio_net; do insmod /\$module.ko; done
ip link set lo up; ip link set eth0 up; ip addr add 10.99.0.2/24 dev eth0; ip route add default via 10.99.0.1
ping -c 1 -W 5 10.99.0.1 >/dev/null || echo "SAID no answer from the other side"
echo
for pace in "--rate $rate" "--window 64"; do
    dnsrack --json load run $address --queries /queries --allow-external --cpus 0 --backend xdp \$pace \
        --duration ${seconds}s >/tmp/json 2>/tmp/said || grep -v '/s ' /tmp/said
    sed 's/^/JSON /' /tmp/json
done
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

peer_nsd
on server ip tuntap add tap0 mode tap multi_queue
on server ip addr add 10.99.0.1/24 dev tap0
on server ip link set tap0 up
# The card of the virtual machine has an Ethernet address of its own, of the range for local use.
udp() { on server awk '/^Udp: [0-9]/ { print $2 + $6, $5 }' /proc/net/snmp; }
for platform in on off; do
    before=$(udp)
    on server qemu-system-x86_64 -accel "${ACCEL:-kvm}" -cpu max -smp 2 -m 1G -nographic -no-reboot \
        -kernel "$kernel" -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1' \
        -netdev tap,id=net,ifname=tap0,queues=2,script=no,downscript=no \
        -device virtio-net-pci,netdev=net,mac=02:00:00:00:00:02,disable-legacy=on,iommu_platform=$platform,mq=on,vectors=6 \
        </dev/null >"$work/console" 2>&1 || true
    after=$(udp)
    grep -a '^JSON' "$work/console" | tr -d '\r' | sed 's/^JSON //' >"$work/json" ||
        { tail -20 "$work/console" >&2; exit 1; }
    python3 - "$work/json" "$before" "$after" <<'PY'
import json, sys
loads = [json.loads(line) for line in open(sys.argv[1])]
(q0, a0), (q1, a1) = (map(int, text.split()) for text in sys.argv[2:4])
for load in loads:
    print(f"{load['backend']}: {load['answered_qps']:,.0f} answers/s, p50 {load['latency_us']['p50']:.0f} us, drops {sum(load['drops'].values())}")
total = lambda *names: sum(load[name] for load in loads for name in names)
print(f"  sent {total('sent')}, this machine received {q1 - q0}; "
      f"this machine sent {a1 - a0} answers, received {total('answered', 'late', 'duplicates', 'unexpected', 'mismatched')}")
PY
done
