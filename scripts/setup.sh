# What ./demo, ./test and the scripts need on a Debian machine; sourced by them. Installs only what is missing, and says so.
# shellcheck shell=bash

say() { printf '== %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else say "'$*' needs root and there is no sudo: run it as root, then start again"; return 1
    fi
}

# need COMMAND PACKAGE REASON: remembers the package where the command is missing.
missing=()
need() {
    if ! command -v "$1" >/dev/null && [ ! -x "/usr/sbin/$1" ]; then
        say "missing: $2 ($3)"
        missing+=("$2")
    fi
}

need_to_build() {
    need cc build-essential "the linker, and libraries with C parts"
    need pkg-config pkg-config "finding OpenSSL"
    [ -e /usr/include/openssl/rsa.h ] || { say "missing: libssl-dev (RSA-1024 keys of the seeds' zones)"; missing+=(libssl-dev); }
    need curl curl "fetching the Rust toolchain where there is none"
}

need_servers() {
    need named bind9 "server under test"
    need nsd nsd "server under test"
    need knotd knot "server under test"
    need pdns_server pdns-server "server under test"
    [ -e /usr/lib/x86_64-linux-gnu/pdns/libbindbackend.so ] || [ -n "$(find /usr/lib -name libbindbackend.so 2>/dev/null)" ] ||
        { say "missing: pdns-backend-bind (PowerDNS reads zone files with it)"; missing+=(pdns-backend-bind); }
    [ -n "$(find /usr/lib -name libgsqlite3backend.so 2>/dev/null)" ] ||
        { say "missing: pdns-backend-sqlite3 (PowerDNS takes updates with it)"; missing+=(pdns-backend-sqlite3); }
    need sqlite3 sqlite3 "makes PowerDNS's databases"
    need yadifad yadifa "server under test"
    need delv bind9-dnsutils "validates answers from a trust anchor"
    need nsupdate bind9-dnsutils "sends updates that ours are set beside"
    need named-checkzone bind9-utils "checks configurations and zones"
}

need_to_test() {
    need dnsperf dnsperf "the peer that figures are set beside"
    need ldns-verify-zone ldnsutils "independent judge of signed zones"
    need kzonecheck knot-dnssecutils "independent judge of signed zones"
    need unbound-host unbound-host "second validator of answers, beside delv"
    need kdig knot-dnsutils "asks for zone transfers"
    need tshark tshark "independent judge of captures"
    need dumpcap wireshark-common "captures what a rack carries"
    need tcpdump tcpdump "reads captures that were edited"
    need tcprewrite tcpreplay "reads captures that were edited"
    need ip iproute2 "looks for leftovers of a run"
    need xz xz-utils "reads compressed zones"
    need zstd zstd "compressed captures"
    need lz4 lz4 "compressed captures"
    need sshd openssh-server "machines that are reached by ssh"
    need ssh openssh-client "machines that are reached by ssh"
    need slurmctld slurmctld "experiments on the nodes of a cluster"
    need slurmd slurmd "experiments on the nodes of a cluster"
    need srun slurm-client "experiments on the nodes of a cluster"
    need munged munge "experiments on the nodes of a cluster"
    need setpriv util-linux "tests without privileges"
    need chromium chromium "draws pages of reports"
    need chromedriver chromium-driver "drives a browser in tests of pages"
    [ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || { say "missing: fonts-dejavu-core (letters for these pages)"; missing+=(fonts-dejavu-core); }
    [ -e /usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py ] ||
        { say "missing: python3-prometheus-client (its parser judges the figures for scrapers)"; missing+=(python3-prometheus-client); }
    need strace strace "traces a server's syncs"
    need eatmydata eatmydata "takes a server's syncs away, which tests must find"
    need sqlite3 sqlite3 "makes PowerDNS's database"
    [ -e /usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql ] ||
        { say "missing: pdns-backend-sqlite3 (PowerDNS takes updates with it)"; missing+=(pdns-backend-sqlite3); }
}

# apt_get ARGUMENTS: runs apt-get, and waits while another program holds a lock of apt or dpkg: for APT_WAIT seconds at most
# (600 where nothing is said). DPkg::Lock::Timeout does not cover the lock of the lists that "update" takes, so it is tried again.
apt_get() {
    local most=${APT_WAIT:-600} said status waited=0 told=
    while :; do
        status=0
        said=$(as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" 2>&1 >/dev/null) || status=$?
        case $said in
            *"Could not get lock"* | *"Unable to acquire the dpkg frontend lock"* | *"Unable to lock"*) ;;
            *) break ;;
        esac
        [ "$status" -ne 0 ] || break
        if [ "$waited" -ge "$most" ]; then
            say "another program held apt's lock for $most s: wait until it has ended, then start again"
            break
        fi
        if [ -z "$told" ]; then
            say "another program uses apt; waiting for it, $most s at most ($(grep -m 1 'Could not get lock' <<<"$said" || true))"
            told=1
        fi
        sleep 2
        waited=$((waited + 2))
    done
    [ -z "$said" ] || printf '%s\n' "$said" >&2
    return "$status"
}

# Servers start themselves when Debian installs them; a test rack wants the programs alone.
install_missing() {
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing from Debian: ${missing[*]}"
    local guard=/usr/sbin/policy-rc.d guarded=
    if [ ! -e $guard ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $guard >/dev/null && as_root chmod 755 $guard && guarded=1
    fi
    local status=0
    apt_get update && apt_get install -y --no-install-recommends "${missing[@]}" || status=$?
    [ -z "$guarded" ] || as_root rm -f $guard
    if [ -d /run/systemd/system ]; then
        local package service
        for package in "${missing[@]}"; do
            case $package in
                bind9) service=named ;; nsd) service=nsd ;; knot) service=knot ;; pdns-server) service=pdns ;; yadifa) service=yadifa ;;
                openssh-server) service=ssh ;; slurmctld | slurmd | munge) service=$package ;; *) continue ;;
            esac
            say "$service.service was installed for its program: disabled, so that it does not start at boot"
            as_root systemctl disable -q "$service" || true
        done
    fi
    missing=()
    return $status
}

rust() {
    export PATH="$HOME/.cargo/bin:/usr/sbin:$PATH"
    if ! command -v cargo >/dev/null; then
        say "no Rust toolchain: installing it for $(id -un) with rustup (Debian 12's own is too old for our libraries)"
        if apt-cache show rustup >/dev/null 2>&1; then
            apt_get install -y rustup && rustup -q default stable
        else
            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -q --profile minimal -c clippy,rustfmt
        fi
    fi
    # Outside the checkout, so that a fresh clone does not build the libraries again.
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/dnsrack/target}"
}

# built PROGRAM: prints the path of PROGRAM of the last release build, or of the dnsrack that DNSRACK names. Fails where it is not built.
built() {
    local program=${CARGO_TARGET_DIR:-target}/release/$1
    # ./demo and ./test build there.
    [ -n "${CARGO_TARGET_DIR:-}" ] || [ -x "$program" ] || program=$HOME/.cache/dnsrack/target/release/$1
    [ "$1" != dnsrack ] || program=${DNSRACK:-$program}
    [ -x "$program" ] || { say "there is no $program: build it with 'cargo build --release --workspace'"; return 1; }
    realpath "$program"
}
