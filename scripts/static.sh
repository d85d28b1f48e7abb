#!/usr/bin/env bash
# Builds dnsrack without any library of a distribution, so that one program runs on all of them, for the processors named (x86_64, aarch64;
# without: this machine's). The programs are left in FOLDER: dnsrack for this machine's processor, and dnsrack-PROCESSOR for another one beside
# it, where `experiment run --rack` finds it for machines that have it. Programs that are built together know each other as the same.
# Another processor needs its compiler and OpenSSL from Debian, and so Debian's architecture of that name: this is added to the machine.
# Usage: scripts/static.sh FOLDER [PROCESSOR]...
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
folder=$1
shift
cd "$(dirname "$0")/.."
. scripts/setup.sh
need_to_build
install_missing
rust
here=$(uname -m)
# What is in the working tree, committed or not.
index=$(mktemp)
cp "$(git rev-parse --git-path index)" "$index"
GIT_INDEX_FILE=$index git add --all
DNSRACK_BUILD=$(GIT_INDEX_FILE=$index git write-tree)
rm -f "$index"
export DNSRACK_BUILD OPENSSL_STATIC=1
export CARGO_PROFILE_RELEASE_STRIP=debuginfo
mkdir -p "$folder"
for processor in "${@:-$here}"; do
    target=$processor-unknown-linux-gnu
    name=dnsrack
    variable=${target^^}
    variable=${variable//-/_}
    export "CARGO_TARGET_${variable}_RUSTFLAGS=-C target-feature=+crt-static"
    if [ "$processor" != "$here" ]; then
        name=dnsrack-$processor
        case $processor in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) say "no build for $processor: x86_64 or aarch64"; exit 2 ;; esac
        compiler=$processor-linux-gnu-gcc
        if ! command -v "$compiler" >/dev/null || [ ! -e "/usr/lib/$processor-linux-gnu/libcrypto.a" ]; then
            say "adding Debian's architecture $debian, for its OpenSSL, and the compiler"
            as_root dpkg --add-architecture "$debian"
            apt_get update
            apt_get install -y --no-install-recommends "gcc-${processor/_/-}-linux-gnu" "libc6-dev-$debian-cross" "libssl-dev:$debian"
        fi
        rustup -q target add "$target"
        export "CARGO_TARGET_${variable}_LINKER=$compiler"
        export "${variable}_OPENSSL_LIB_DIR=/usr/lib/$processor-linux-gnu" "${variable}_OPENSSL_INCLUDE_DIR=/usr/include"
    fi
    say "building for $processor"
    cargo build --release -p dnsrack --target "$target"
    cp "$CARGO_TARGET_DIR/$target/release/dnsrack" "$folder/$name.new"
    mv "$folder/$name.new" "$folder/$name"
    ls -l "$folder/$name" >&2
done
