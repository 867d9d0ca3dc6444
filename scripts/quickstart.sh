#!/usr/bin/env bash
# Fetches what is missing, builds forge, fine-tunes SmolLM2-135M-Instruct with LoRA on The Devil's
# Dictionary, and shows held-out loss and generated text before and after, in one command. It takes
# about 80 seconds on 2 cores once forge is built. On a machine with a card for the CUDA engine it
# also fetches NVIDIA's libraries and builds that engine.
#
#   scripts/quickstart.sh [--cpu] [--prefix DIR] [--link]
#
#   --cpu         builds and runs for the CPU, even if there is a card
#   --prefix DIR  installs forge into DIR
#   --link        links forge into ~/.local/bin
. "$(dirname "$0")/common.sh"
build_options=() setup_options=() run_device=() text_device=()
while [ $# -gt 0 ]; do
  case $1 in
    --cpu) run_device=(--set hardware.device=cpu) text_device=(--device cpu) ;;
    --prefix) [ $# -gt 1 ] || die "--prefix: names no folder"; build_options+=(--prefix "$2"); shift ;;
    --link) build_options+=(--link) ;;
    *) die "$1 is no option" "scripts/quickstart.sh --help" ;;
  esac
  shift
done
if [ ${#run_device[@]} -gt 0 ] || [ -z "$(cards)" ]; then
  build_options+=(--cpu)
else
  setup_options=(--cuda)
  say "for this machine's card: 2.1 GB are downloaded and the CUDA engine is built; --cpu does without"
fi
"$root/scripts/setup.sh" "${setup_options[@]}"
use_system
FORGE_TARGETS='' "$root/scripts/build.sh" "${build_options[@]}"

forge=$build/bin/forge
dictionary=/usr/share/dictd
[ -d "$dictionary" ] || dictionary=$system/usr/share/dictd
cd "$root"
mkdir -p models data/devils-dictionary
ln -sf "$model" models/SmolLM2-135M-Instruct.gguf
[ -f data/devils-dictionary/eval.jsonl ] || python3 scripts/devils_dictionary.py data/devils-dictionary "$dictionary"

run=runs/sft-lora-smollm2
began=$SECONDS
"$forge" run examples/sft-lora-smollm2.yaml "${run_device[@]}"
echo
echo "held-out loss:"
python3 - "$run/metrics.jsonl" <<'PY'
import json, sys
evals = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "eval"]
print(f"  before {evals[0]['eval_loss']:.3f}   after {evals[-1]['eval_loss']:.3f}")
PY
answer() {  # answers $question, on one line
  "$forge" generate --model "$model" "$@" "${text_device[@]}" --prompt "$question" --max-new-tokens 48 --quiet |
    head -c 300 | tr '\n' ' '
}
for question in "Define: ACCOUNTABILITY" "Define: FRIENDSHIP" "Define: SOFTWARE"; do
  echo
  echo "$question"
  echo "  before: $(answer)"
  echo "  after:  $(answer --adapter "$run/adapter")"
done
echo
echo "training, evaluation and generation took $((SECONDS - began)) s; the adapter is in $run/adapter"
