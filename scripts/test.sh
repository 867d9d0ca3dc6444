#!/usr/bin/env bash
# Installs, builds and runs the tests in one command.
#
#   scripts/test.sh [--all] [CTEST OPTIONS]      e.g. scripts/test.sh -L fast
#
# Runs a sample of the long sets of cases (tests/sample.h), another one for every commit; --all runs
# every case.
. "$(dirname "$0")/common.sh"
began=$SECONDS
if [ "${1:-}" = --all ]; then
  unset FORGE_TEST_SAMPLE
  shift
else
  sample=$(git -C "$root" rev-parse HEAD 2>/dev/null || date +%F)
  export FORGE_TEST_SAMPLE=${FORGE_TEST_SAMPLE:-$sample}
  say "long sets are sampled with FORGE_TEST_SAMPLE=$FORGE_TEST_SAMPLE; --all runs them whole"
fi
"$root/scripts/setup.sh"
say "set-up: $((SECONDS - began)) s"
step=$SECONDS
use_system
"$root/scripts/build.sh" --tests
say "build: $((SECONDS - step)) s"
step=$SECONDS
trap '"$root/scripts/slowest.py" "$build" >&2' EXIT
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure "$@"
say "tests: $((SECONDS - step)) s, all together $((SECONDS - began)) s"
