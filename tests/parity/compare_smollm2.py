"""Compares a finished forge run on SmolLM2 with transformers + peft.

    python tests/parity/compare_smollm2.py RUNDIR [--cache ~/.cache/forge/parity] [--per-example EXAMPLES.jsonl]

RUNDIR is runs/smollm2-lora, runs/smollm2-lora-packed or runs/smollm2-full (jobs/*.yaml;
run_smollm2.py runs them all). The cache is make_smollm2_goldens.py's. EXAMPLES.jsonl is the output
of `forge eval --per-example` on the first five rows with the run's result; for an adapter, peft
loads the same files and must give the same losses.
"""
import argparse
import json
import sys
import warnings
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file

import forge_run
import oracle
import smollm2
from check_tiny import Checks
from make_smollm2_goldens import load_base

GOLDENS = Path(__file__).resolve().parent / "goldens"
LOSS, TOGETHER, WORST = 1e-4, 1e-3, 2e-3
GRAD_NORM, EVAL = 1e-3, 1e-5


def final_tensors(run: Path) -> dict[str, torch.Tensor]:
    adapter = run / "adapter" / "adapter_model.safetensors"
    if adapter.exists():
        return load_file(adapter)
    found = {}
    for path in sorted((run / "model").glob("*.safetensors")):
        found |= load_file(path)
    return found


def check_change(checks: Checks, name: str, run: Path, cache: Path) -> None:
    got, want = final_tensors(run), load_file(cache / name / "final.safetensors")
    start_file = "adapter-init/adapter_model.safetensors" if smollm2.RUNS[name]["lora"] else "base/model.safetensors"
    start = load_file(cache / start_file)
    if name == "full":
        got.pop("lm_head.weight", None)  # tied: the embedding
    missing, extra = sorted(set(want) - set(got)), sorted(set(got) - set(want))
    checks.say(f"{name} tensor names", not missing and not extra, f"missing {missing[:3]}, extra {extra[:3]}")
    dtypes = {str(t.dtype) for t in got.values()}
    checks.say(f"{name} dtype", dtypes == {"torch.float32"}, ", ".join(sorted(dtypes)))
    if missing:
        return
    together, worst, tensor = oracle.relative_change_error(start, got, want)
    checks.limit(f"{name} change, all tensors", together, TOGETHER)
    checks.limit(f"{name} change, worst tensor", worst, WORST, tensor)


def load_trained(checks: Checks, name: str, run: Path, cache: Path):
    """Loads the run's result by peft or transformers; a warning of missing or unexpected keys is a
    failure.
    """
    if not smollm2.RUNS[name]["lora"]:
        from transformers import AutoModelForCausalLM

        model, info = AutoModelForCausalLM.from_pretrained(
            run / "model", dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        keys = ("missing_keys", "unexpected_keys", "mismatched_keys")
        wrong = {key: sorted(info[key]) for key in keys if info.get(key)}
        checks.say(f"{name} transformers loads it", not wrong, str(wrong or "no missing or unexpected keys"))
        return model.eval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(load_base(cache), run / "adapter")
    said = [str(w.message) for w in caught if "key" in str(w.message).lower() or "config" in str(w.message).lower()]
    checks.say(f"{name} peft loads it", not said, said[0][:200] if said else "no warning")
    return model.eval()


def check_eval(checks: Checks, name: str, run: Path, cache: Path, examples: Path | None, golden: dict) -> None:
    rows = smollm2.batches(oracle.read_rows(smollm2.ROWS))[0]
    reloaded = oracle.example_losses(load_trained(checks, name, run, cache), rows)
    losses = [row["loss"] for row in reloaded]
    want = [row["loss"] for row in golden["final_example_losses"]]
    checks.limit(f"{name} reloaded, against the oracle's end", forge_run.relative_error(losses, want), LOSS)
    if not examples:
        return
    got = oracle.read_rows(examples)
    for key in ("line", "tokens", "supervised_tokens"):
        same = [row[key] for row in got] == [row[key] for row in reloaded]
        checks.say(f"{name} eval {key}", same, "equal" if same else f"{[row[key] for row in got]}")
    error = forge_run.relative_error([row["loss"] for row in got], losses)
    checks.limit(f"{name} forge eval against the reloaded", error, EVAL)


def run_name(run: Path) -> str:
    name = run.name.removeprefix("smollm2-").split("-")[0]
    if name not in smollm2.RUNS:
        sys.exit(f"{run}: the folder's name must begin with smollm2-lora or smollm2-full")
    return name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--cache", type=Path, default=smollm2.CACHE)
    parser.add_argument("--per-example", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(2)
    name = run_name(args.run)
    golden = json.loads((GOLDENS / "smollm2.json").read_text())[name]
    steps = forge_run.read_run(args.run).steps
    checks = Checks(each=True)
    for key, field, limit in (("losses", "loss", LOSS), ("grad_norms", "grad_norm", GRAD_NORM),
                              ("learning_rates", "learning_rate", 1e-9)):
        checks.limit(f"{name} {field}", forge_run.relative_error([s[field] for s in steps], golden[key]), limit)
    check_change(checks, name, args.run, args.cache)
    check_eval(checks, name, args.run, args.cache, args.per_example, golden)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
