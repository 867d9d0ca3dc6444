#!/usr/bin/env bash
# Configures and builds forge, forge-engine and the tests, or only $FORGE_TARGETS, in build/ (or $FORGE_BUILD). One job per
# 2 GiB of memory.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${FORGE_CACHE:-$HOME/.cache/forge}
export FORGE_SMOLLM2=$cache/models/SmolLM2-135M-Instruct.gguf  # for the tests with label model
build=${FORGE_BUILD:-$root/build}
arrow=$cache/arrow-26.0.1  # where scripts/setup.sh --parquet was run
[ -d "$arrow" ] || arrow=
jobs=$(awk '/MemAvailable/ {m = int($2 / 2097152); print m < 1 ? 1 : m}' /proc/meminfo)
cores=$(nproc)
[ "$jobs" -lt "$cores" ] || jobs=$cores
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFORGE_TORCH_DIR="$cache/torch-2.11.0" \
  -DFORGE_ARROW_DIR="$arrow" "$@" >"$build.configure.log" 2>&1 ||
  { cat "$build.configure.log" >&2; exit 5; }
# shellcheck disable=SC2086
ninja -C "$build" -j "$jobs" ${FORGE_TARGETS:-}
