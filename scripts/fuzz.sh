#!/usr/bin/env bash
# Builds the torch-free half with AddressSanitizer and UBSan in build-fuzz/ (or $FORGE_FUZZ_BUILD)
# and runs every fuzz target for SECONDS of processor time (default 60), as many at once as there
# are cores. With CXX=clang++ the targets use libFuzzer.
#
#   scripts/fuzz.sh [SECONDS [TARGET…]]
#
# Prints one line of counts per target. Exits 1 if one found something; the input is in
# build-fuzz/findings.
. "$(dirname "$0")/common.sh"
build=${FORGE_FUZZ_BUILD:-$root/build-fuzz}
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(answer csv gguf hub job jsonl run safetensors schema template tokenizer)
tests=$root/tests

seeds() {
  case $1 in
    template) ls "$root"/core/lib/text/templates/*.jinja "$tests"/data/goldens/*.jinja ;;
    tokenizer) ls "$tests"/text/goldens/*.tokenizer.json ;;
    safetensors) ls "$tests"/io/goldens/{all_types,empty,metadata}.safetensors ;;
    *) ls "$tests/fuzz/seeds/$1"/* ;;
  esac
}

fuzz() {
  local name=$1 findings=$build/findings files
  mapfile -t files < <(seeds "$1")
  mkdir -p "$findings" "$build/corpus/$name"
  if grep -q 'CMAKE_CXX_COMPILER:.*clang' "$build/CMakeCache.txt"; then
    cp "${files[@]}" "$build/corpus/$name"
    "$build/bin/fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 \
      -max_len=65536 -print_final_stats=1 -artifact_prefix="$findings/$name-" "$build/corpus/$name" \
      >"$build/$name.log" 2>&1
  else
    "$build/bin/fuzz_$name" "$seconds" "$findings" "${files[@]}" >"$build/$name.log" 2>&1
  fi || { cat "$build/$name.log" >&2; return 1; }
  tail -n 1 "$build/$name.log"
}

began=$SECONDS
cmake -S "$root" -B "$build" -G Ninja -DFORGE_ENGINE=OFF -DFORGE_FUZZ=ON >"$build.configure.log" 2>&1 ||
  { cat "$build.configure.log" >&2; exit 5; }
ninja -C "$build" "${targets[@]/#/fuzz_}"
say "sanitizer build: $((SECONDS - began)) s"

failed=0
for name in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || failed=1; done
  fuzz "$name" &
done
while [ -n "$(jobs -p)" ]; do wait -n || { [ $? = 127 ] && break; failed=1; }; done
exit $failed
