# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: defines paths, --help and error messages.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${FORGE_CACHE:-$HOME/.cache/forge}
build=${FORGE_BUILD:-$root/build}
system=$cache/system  # Debian packages that scripts/packages.sh unpacked without root
torch_dir=$cache/torch-2.11.0
arrow_dir=$cache/arrow-26.0.1
model=$cache/models/SmolLM2-135M-Instruct.gguf

say() { printf '== %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0" .sh)" "$1" >&2; [ -z "${2-}" ] || printf '  hint: %s\n' "$2" >&2; exit "${3:-5}"; }

for argument; do
  case $argument in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done

# Uses the compiler and libraries that scripts/packages.sh unpacked, if it did.
use_system() {
  # shellcheck disable=SC1091
  [ ! -f "$system/environment" ] || . "$system/environment"
}
use_system

# Ends if CMake is missing, or older than CMakeLists.txt asks for.
require_cmake() {
  local wanted found
  command -v cmake >/dev/null || die "cmake not found" "scripts/setup.sh installs what a build needs, or lists it"
  wanted=$(sed -n 's/^cmake_minimum_required(VERSION \(.*\))$/\1/p' "$root/CMakeLists.txt")
  found=$(cmake --version | sed -n 's/^cmake version //p')
  [ -z "$found" ] || printf '%s\n' "$wanted" "$found" | sort -VC || die "CMake here is $found, a build needs $wanted or newer" \
    "Debian 12 and Ubuntu 24.04 have one; an older system takes the wheel, the tarball or the container (docs/install.md)"
}

# Prints the generations of this machine's cards that the CUDA engine runs on, as 75;89: compute
# capability 7.5 or later under a driver for CUDA 13 (580 or later).
cards() {
  command -v nvidia-smi >/dev/null || return 0
  { nvidia-smi --query-gpu=compute_cap,driver_version --format=csv,noheader || true; } 2>/dev/null |
    awk -F'[., ]+' '/^[0-9]+\.[0-9]+, [0-9]+\./ && 10 * $1 + $2 >= 75 && $3 >= 580 {print 10 * $1 + $2}' |
    sort -nu | paste -sd ';'
}
