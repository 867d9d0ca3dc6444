#!/usr/bin/env bash
# tests/hollow/run.sh COMMAND…: runs a command over the hollow GPU (tests/hollow/card.h lists its
# settings). Says afterwards, on stderr, which rules of CUDA were broken; the exit code is the
# command's. FORGE_HOLLOW_BUILD: the build folder, if not build/.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
library=${FORGE_HOLLOW_BUILD:-$root/build}/hollow/libforge_hollow.so
[ -f "$library" ] || { echo "run.sh: no $library; build the target forge_hollow" >&2; exit 2; }
report=${FORGE_HOLLOW_REPORT:-$(mktemp)}
FORGE_HOLLOW_REPORT=$report LD_PRELOAD=$library "$@"
code=$?
python3 - "$report" >&2 <<'PY'
import json, sys
for line in open(sys.argv[1]):
    r = json.loads(line)
    launched = sum(n for what, n in r["counts"].items() if what.startswith(("kernel ", "product ")))
    if launched:
        print(f"hollow GPU: {launched} kernels and products one by one, "
              f"{r['counts'].get('replays', 0)} replays of {len(r['graphs'])} graphs, "
              f"peak {max(r['peak_bytes'].values(), default=0) >> 20} MiB, "
              f"{len(r['violations'])} broken rules")
PY
[ -n "${FORGE_HOLLOW_REPORT:-}" ] || rm -f "$report"
exit $code
