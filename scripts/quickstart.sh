#!/usr/bin/env bash
# One command: install, build, fine-tune SmolLM2-135M-Instruct with LoRA on The Devil's Dictionary on the CPU, and show
# held-out loss and generated text before and after. About 6 minutes on 2 cores once forge is built.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${FORGE_CACHE:-$HOME/.cache/forge}
forge=${FORGE_BUILD:-$root/build}/bin/forge
"$root/scripts/setup.sh"
FORGE_TARGETS="forge forge-engine" "$root/scripts/build.sh"
cd "$root"
mkdir -p models data/devils-dictionary
ln -sf "$cache/models/SmolLM2-135M-Instruct.gguf" models/SmolLM2-135M-Instruct.gguf
[ -f data/devils-dictionary/eval.jsonl ] || python3 scripts/devils_dictionary.py data/devils-dictionary

job=examples/sft-lora-smollm2.yaml
run=runs/sft-lora-smollm2
model=models/SmolLM2-135M-Instruct.gguf
ask=("Define: ACCOUNTABILITY" "Define: FRIENDSHIP" "Define: SOFTWARE")
began=$SECONDS
"$forge" run "$job"
echo
echo "held-out loss:"
python3 - "$run/metrics.jsonl" <<'PY'
import json, sys
evals = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "eval"]
print(f"  before {evals[0]['eval_loss']:.3f}   after {evals[-1]['eval_loss']:.3f}")
PY
for question in "${ask[@]}"; do
  echo
  echo "$question"
  echo "  before: $("$forge" generate --model "$model" --prompt "$question" --max-new-tokens 48 --quiet | head -c 300 | tr '\n' ' ')"
  echo "  after:  $("$forge" generate --model "$model" --adapter "$run/adapter" --prompt "$question" --max-new-tokens 48 --quiet | head -c 300 | tr '\n' ' ')"
done
echo
echo "training, evaluation and generation took $((SECONDS - began)) s; the adapter is in $run/adapter"
