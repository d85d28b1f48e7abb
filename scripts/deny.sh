#!/usr/bin/env bash
# cargo deny: licences, bans and sources always; advisories where their database can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="$HOME/.cache/dnsrack/tools"
export PATH="$tools/bin:$PATH"
# In a build folder of its own: ours may be locked by a build beside it.
command -v cargo-deny >/dev/null || env -u CARGO_TARGET_DIR cargo install --quiet --locked cargo-deny --root "$tools"
cargo deny --log-level error check licenses bans sources
if timeout 30 cargo deny --log-level error fetch db >/dev/null 2>&1; then
    cargo deny --log-level error check advisories
else
    echo "SKIPPED: advisories (their database cannot be reached from here)" >&2
fi
