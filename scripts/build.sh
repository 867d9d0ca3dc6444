#!/usr/bin/env bash
# Configures and builds what forge's commands need in build/ (or $FORGE_BUILD): forge, its engines,
# its components. Builds the CUDA engine if its parts are there (scripts/setup.sh --cuda), for the
# cards of this machine, or for all generations if it has no card.
#
#   scripts/build.sh [--tests] [--cpu | --release] [--prefix DIR] [--link] [-DNAME=VALUE…]
#
#   --tests       builds the tests, too
#   --cpu         builds no CUDA engine
#   --release     builds the CUDA engine for all generations of cards
#   --prefix DIR  installs into DIR
#   --link        links forge into ~/.local/bin
#   -DNAME=VALUE  goes to CMake
#
# Builds only $FORGE_TARGETS if that is set. Runs one job per 2 GiB of memory.
. "$(dirname "$0")/common.sh"
export FORGE_SMOLLM2=$model  # for the tests with label model
target=commands cuda=AUTO prefix='' link='' generations=$(cards) settings=()
while [ $# -gt 0 ]; do
  case $1 in
    --tests) target=all ;;
    --cpu) cuda=OFF ;;
    --release) generations=all ;;
    --prefix) [ $# -gt 1 ] || die "--prefix: names no folder"; prefix=$2; shift ;;
    --link) link=1 ;;
    -D?*) settings+=("$1") ;;
    *) die "$1 is no option" "scripts/build.sh --help" ;;
  esac
  shift
done
case $generations in
  '') ;;  # keeps the targets of the last build
  all) settings=(-UFORGE_CUDA_TARGETS "${settings[@]}") ;;
  *) settings=("-DFORGE_CUDA_TARGETS=$generations" "${settings[@]}") ;;
esac
[ -d "$arrow_dir" ] || arrow_dir=  # scripts/setup.sh --parquet was not run
jobs=$(awk '/MemAvailable/ {m = int($2 / 2097152); print m < 1 ? 1 : m}' /proc/meminfo)
cores=$(nproc)
[ "$jobs" -lt "$cores" ] || jobs=$cores

require_cmake
mkdir -p "$(dirname "$build")"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFORGE_TORCH_DIR="$torch_dir" -DFORGE_ARROW_DIR="$arrow_dir" \
  -DFORGE_CUDA=$cuda "${settings[@]}" >"$build.configure.log" 2>&1 || { cat "$build.configure.log" >&2; exit 5; }
sed -n 's/^-- \(CUDA engine.*\)/== \1/p' "$build.configure.log" >&2
# shellcheck disable=SC2086
ninja -C "$build" -j "$jobs" ${FORGE_TARGETS:-$target}

forge=$build/bin/forge
if [ -n "$prefix" ]; then
  cmake --install "$build" --prefix "$prefix" >"$build.install.log" || die "cmake --install failed" "see $build.install.log"
  forge=$(cd "$prefix" && pwd)/bin/forge
fi
[ -x "$forge" ] || exit 0  # not among $FORGE_TARGETS
bin=$(dirname "$forge")
if [ -n "$link" ]; then
  bin=$HOME/.local/bin
  mkdir -p "$bin"
  ln -sfn "$forge" "$bin/forge"
fi
case :$PATH: in
  *":$bin:"*) say "forge is $bin/forge" ;;
  *) say "forge is $bin/forge, which is not on PATH: export PATH=\"$bin:\$PATH\"${link:+ (a new login may do it)}" ;;
esac
