#!/usr/bin/env bash
# Tries the packages inside an empty root, for packaging/try.sh: /packages has a wheel, a tarball or
# both, /root/model.gguf is a model.
set -euo pipefail

step() {  # name, command…: runs it and prints its seconds
  local name=$1 began=${EPOCHREALTIME/[.,]/} log=/tmp/step.log
  shift
  "$@" >$log 2>&1 || { echo "FAILED: $name: $*"; tail -n 30 $log; exit 1; }
  printf '%8.1f s  %s\n' "$(((${EPOCHREALTIME/[.,]/} - began) / 100000))e-1" "$name"
}
fails_with() {  # text, command…: requires exit 5 and this text
  local text=$1 answer status=0
  shift
  answer=$("$@" 2>&1) || status=$?
  [[ $status = 5 && $answer = *"$text"* ]] || { echo "FAILED: expected exit 5 and '$text' of $*, came $status: $answer"; exit 1; }
}
for tool in cc gcc g++ c++ clang ld nvcc cmake; do
  ! command -v $tool || { echo "FAILED: $tool is in the root"; exit 1; }
done
mkdir -p /root/own && cd /root/own
# Makes data from this root: the purposes of Debian's packages.
python3 - <<'PY'
import json, re
rows = []
for entry in open("/var/lib/dpkg/status").read().split("\n\n"):
    package = re.search("^Package: (.*)$", entry, re.M)
    text = re.search("^Description: (.*)$", entry, re.M)
    if package and text:
        turns = [("user", f"What is the Debian package {package[1]}?"), ("assistant", text[1] + ".")]
        rows.append(json.dumps({"messages": [{"role": role, "content": content} for role, content in turns]}))
open("own.jsonl", "w").write("\n".join(rows))
print(f"{len(rows)} rows of own data")
PY
cat >job.yaml <<'YAML'
version: 1
model: {path: /root/model.gguf}
adapter: {type: lora, rank: 16}
data: {train: own.jsonl, eval_fraction: 0.1, max_length: 256}
train: {max_steps: 20, global_batch_size: 8}
optimizer: {learning_rate: 1e-3}
YAML
first_adapter() {  # program
  rm -rf runs
  step "a first adapter (20 steps of 8)" "$1" run job.yaml
  step "forge adapter check" "$1" adapter check runs/job/adapter
}

try_wheel() {
  echo "-- $1"
  python3 -m venv /venv
  find /venv -name __pycache__ -prune -o -print | sort >/tmp/before
  step "pip install, without torch" /venv/bin/pip install --no-deps "$1"
  step "pip uninstall" /venv/bin/pip uninstall -y forge-finetune
  find /venv -name __pycache__ -prune -o -print | sort | diff /tmp/before - || { echo "FAILED: uninstall leaves files"; exit 1; }
  step "pip install, with torch" /venv/bin/pip install --no-cache-dir "$1"
  echo "            $(du -sm /venv | cut -f1) MB in the environment"
  step "forge --version" /venv/bin/forge --version
  step "forge doctor" /venv/bin/forge doctor
  # The engine starts only if all its libraries are there, on a machine without a driver too.
  [ ! -x /venv/libexec/forge-engine-cuda13 ] ||
    step "forge doctor, the CUDA engine" env FORGE_ENGINE=/venv/libexec/forge-engine-cuda13 /venv/bin/forge doctor
  first_adapter /venv/bin/forge
  fails_with "component that speaks HTTP" env HF_ENDPOINT=http://127.0.0.1:9 /venv/bin/forge fetch some/model
  printf 'PAR1' >own.parquet
  sed 's/own.jsonl/own.parquet/' job.yaml >parquet.yaml
  fails_with "pyarrow==26.0.1" /venv/bin/forge data parquet.yaml
  local writer=/venv
  if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    step "pip install [parquet]" /venv/bin/pip install --no-cache-dir "$1[parquet]"
  else  # docs/install.md, Components
    step "pip install pyarrow, of Python 3.11" /venv/bin/pip install --no-cache-dir --no-deps --only-binary=:all: --python-version 3.11 --ignore-requires-python \
      --target "$(echo /venv/lib/python3*/site-packages)" pyarrow==26.0.1
    writer=/writer
    python3 -m venv $writer
    step "pip install pyarrow, to write Parquet" $writer/bin/pip install --no-cache-dir pyarrow
  fi
  $writer/bin/python -c 'import pyarrow.json, pyarrow.parquet as p; p.write_table(pyarrow.json.read_json("own.jsonl"), "own.parquet")'
  step "forge data of Parquet" /venv/bin/forge data parquet.yaml
  rm -rf /venv /writer own.parquet parquet.yaml
  echo "            left in the home folder: $(find /root -mindepth 1 -newer /tmp/before ! -path '/root/own*' | tr '\n' ' ')"
}

try_tarball() {
  echo "-- $1"
  mkdir -p "/opt/own programs"
  step "tar xf" tar xf "$1" -C "/opt/own programs"
  local tree
  tree=$(echo "/opt/own programs"/forge-*)
  fails_with "--target '$tree/libexec/forge/site-packages'" "$tree/bin/forge" doctor
  python3 -m venv /pip
  step "pip install --target, for a CPU" /pip/bin/pip install --no-cache-dir --no-deps \
    --target "$tree/libexec/forge/site-packages" torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
  echo "            $(du -sm "$tree" | cut -f1) MB in the folder"
  step "forge doctor" "$tree/bin/forge" doctor
  first_adapter "$tree/bin/forge"
  echo "-- the machine's curl"
  apt-get update -qq && apt-get install -y -qq --no-install-recommends libcurl4 libssl3 >/dev/null 2>&1
  fails_with "127.0.0.1" env HF_ENDPOINT=http://127.0.0.1:9 "$tree/bin/forge" fetch some/model
  rm -rf "/opt/own programs" /pip
}

echo "$(python3 --version), $(ldd --version | head -n 1)"
shopt -s nullglob
# Wheels come first: the tarball's try installs curl.
for package in /packages/*.whl; do try_wheel "$package"; done
for package in /packages/*.tar.gz; do try_tarball "$package"; done
