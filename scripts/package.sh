#!/usr/bin/env bash
# Makes a package of this checkout: builds what users need, installs it into a tree, and packs that.
#   scripts/package.sh wheel | tarball | container | tree --output DIR [--as-built] [-D…]
# --as-built takes the build folder (build/ or $FORGE_BUILD) as it is. -D… goes to CMake, such as
# -DFORGE_CUDA_TARGETS=90 for kernels of one GPU generation. docs/packaging.md says what each
# package holds. Make packages on Debian 12, so that systems with older C libraries can start them.
. "$(dirname "$0")/common.sh"
usage='scripts/package.sh wheel | tarball | container | tree --output DIR [--as-built] [-D…]'

case ${1-} in
  wheel | tarball | container | tree) kind=$1; shift ;;
  *) die "expected a kind of package, not '${1-}'" "$usage" 2 ;;
esac
output='' as_built='' definitions=()
while [ $# -gt 0 ]; do
  case $1 in
    --output) [ $# -gt 1 ] || die "--output needs a folder" "$usage" 2; output=$2; shift ;;
    --as-built) as_built=yes ;;
    -D*) definitions+=("$1") ;;
    *) die "$1 is no option" "$usage" 2 ;;
  esac
  shift
done
[ -n "$output" ] || die "--output is missing" "$usage" 2

# Packages of the build machine that are compiled in or shipped, with the licences that they state.
licensed=(libcli11-dev libfmt-dev libpcre2-dev libsentencepiece0 libutf8proc-dev libxxhash-dev libyaml-cpp-dev libzstd-dev
  nlohmann-json3-dev zlib1g-dev)
licence() { echo "/usr/share/doc/$1/copyright"; }
for package in "${licensed[@]}"; do
  [ -f "$(licence "$package")" ] || die "the licence of $package is missing" "packages are made on Debian, after scripts/setup.sh"
done

install_licences() {  # tree
  local folder=$1/share/forge/licenses package
  mkdir -p "$folder"
  for package in "${licensed[@]}"; do cp "$(licence "$package")" "$folder/$package.txt"; done
}

# Installs the tree without parts that belong to this machine: no LibTorch, no Arrow.
install_tree() {  # tree
  cmake --install "$build" --prefix "$1" --strip --component Unspecified >/dev/null
  [ -x "$1/libexec/forge-engine" ] || die "no engine was built in $build" "leave out --as-built"
  [ -x "$1/libexec/forge-engine-cuda13" ] || printf 'package: without an engine for GPUs: it was not built (nvcc)\n' >&2
  [ -f "$1/libexec/forge/libforge-http.so" ] || die "libforge-http.so was not built" "leave out --as-built"
  [ -f "$1/libexec/forge/libforge-parquet.so" ] || printf 'package: without Parquet: scripts/setup.sh --parquet brings it\n' >&2
  install_licences "$1"
  python3 "$root/packaging/floors.py" "$1" >&2 || die "the binaries do not fit into a package" "the lines above say why"
}

[ -n "$as_built" ] || "$root/scripts/build.sh" --release "${definitions[@]}" >&2
mkdir -p "$output"
output=$(cd "$output" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
install_tree "$tree"
version=$("$tree/bin/forge" --version | awk '{print $NF}')
name=forge-$version-linux-x86_64
generations=$(sed -n 's/^FORGE_CUDA_TARGETS:STRING=//p' "$build/CMakeCache.txt")
[ ! -x "$tree/libexec/forge-engine-cuda13" ] || printf 'package: kernels for GPU generations %s\n' "${generations//;/, }" >&2
case $kind in
  wheel) python3 "$root/packaging/wheel.py" "$tree" "$version" "$output" ;;
  tarball) python3 "$root/packaging/tarball.py" "$tree" "$name" "$output" ;;
  tree) rm -rf "${output:?}/$name"; mv "$tree" "$output/$name"; echo "$output/$name" ;;
  container)
    rm -rf "$output/forge-container"
    mkdir "$output/forge-container"
    cp "$root/packaging/Containerfile" "$root/scripts/requirements.txt" "$output/forge-container"
    mv "$tree" "$output/forge-container/forge"
    echo "$output/forge-container" ;;
esac
