#!/usr/bin/env bash
# One command: install, build, run all tests. Pass ctest's options behind it, e.g. `scripts/test.sh -L fast`.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${FORGE_BUILD:-$root/build}
began=$SECONDS
"$root/scripts/setup.sh"
echo "== set-up: $((SECONDS - began)) s" >&2
step=$SECONDS
"$root/scripts/build.sh"
echo "== build: $((SECONDS - step)) s" >&2
step=$SECONDS
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure "$@"
echo "== tests: $((SECONDS - step)) s, all together $((SECONDS - began)) s" >&2
