#!/usr/bin/env python3
"""Compares forge's preference objectives with the goldens of TRL on the tiny model. Standard
library only.

    python3 tests/parity/check_preference.py build/bin/forge [--only NAME] [--provider reference]

Checks for every case the losses and gradient norms of five steps, the gradient of the first step
tensor by tensor, and that no way of cutting a step changes it. Then checks that a run starts at its
reference (check_start), and that a reward model made by PEFT gives transformers' scores. Prints one
line per check and "N passed, N failed"; exits 1 if any failed.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import forge_run
import preference_cases
from fixtures_path import sample
from tensors import read_safetensors, squared

HERE = Path(__file__).resolve().parent
GOLDENS, TINY = HERE / "goldens", HERE.parent / "fixtures" / "tiny-llama"
FIRST_LOSS, GRADIENT, STEPS, CUT = 1e-6, 1e-5, 1e-4, 1e-6
# Ways to cut a step of eight pairs; the examples have unequal lengths. `packed` counts tokens.
CUTS = {
    "4+4": ({"micro_batch_size": 4}, {}),
    "3+3+2": ({"micro_batch_size": 3}, {}),
    "5+3": ({"micro_batch_size": 5}, {}),
    "1x8": ({"micro_batch_size": 1}, {}),
    "packed": ({"micro_batch_size": None, "micro_batch_tokens": 150}, {"packing": True}),
    "packed whole": ({"micro_batch_size": None, "micro_batch_tokens": 4096}, {"packing": True}),
    "recomputed": ({"activation_checkpointing": "full"}, {}),
}


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def limit(self, what: str, value: float, limit: float, note: str = "") -> None:
        ok = value <= limit
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {value:.1e} (limit {limit:.0e}) {note}", flush=True)


def start_of(case) -> dict:
    return read_safetensors(GOLDENS / f"adapter-init-{case.adapter}" / "adapter_model.safetensors")


def gradient_of(run: forge_run.Run, case) -> dict[str, list[float]]:
    """Returns the first step's gradient: with rate 1 and no decay it is what the step subtracted.
    """
    start = start_of(case)
    return {name: [a - b for a, b in zip(start[name].values, tensor.values, strict=True)] for name, tensor in run.tensors().items()}


def distance(got: dict, want: dict) -> float:
    """Returns the relative distance, all tensors together."""
    if set(got) != set(want):
        return math.inf
    off = sum(squared([a - b for a, b in zip(got[n], want[n], strict=True)]) for n in want)
    return math.sqrt(off / sum(squared(want[n]) for n in want))


def peft_name(name: str) -> str:
    return name.replace(".modules_to_save", "")


def check_case(checks: Checks, forge: str, case, golden: dict, tensors: dict, stride: int, root: Path) -> None:
    runs = root / "runs"
    run = forge_run.run_job(forge, preference_cases.job(case, case.name, TINY, GOLDENS, runs), root)
    checks.limit(f"{case.name} tokens", float([s["tokens"] for s in run.steps] != golden["tokens"]), 0)
    errors = [abs(a - b) / max(abs(b), 1e-30) for a, b in zip(run.losses, golden["losses"], strict=True)]
    checks.limit(f"{case.name} first loss", errors[0], FIRST_LOSS)
    checks.limit(f"{case.name} five losses", max(errors), STEPS)
    norms = [step["grad_norm"] for step in run.steps]
    checks.limit(f"{case.name} gradient norms", forge_run.relative_error(norms, golden["grad_norms"]), STEPS)
    whole = preference_cases.job(case, f"{case.name}-gradient", TINY, GOLDENS, runs, gradient=True)
    gradient = gradient_of(forge_run.run_job(forge, whole, root), case)
    want = {peft_name(n.removeprefix(case.name + "/")): t.values for n, t in tensors.items() if n.startswith(case.name + "/")}
    checks.limit(f"{case.name} gradient", distance({n: v[::stride] for n, v in gradient.items()}, want), GRADIENT)
    check_cuts(checks, forge, case, gradient, root)


def check_cuts(checks: Checks, forge: str, case, gradient: dict, root: Path) -> None:
    for index, (name, (train, data)) in enumerate(CUTS.items()):
        cached = {"reference_cache": index % 2 == 0} if case.objective.get("reference") == "base" else {}
        job = preference_cases.job(case, f"{case.name}-cut-{index}", TINY, GOLDENS, root / "runs", True, train, data, cached)
        cut = gradient_of(forge_run.run_job(forge, job, root), case)
        checks.limit(f"{case.name} cut {name}", distance(cut, gradient), CUT)


# Ways in which a run may start: nothing is learned yet, so answers are exactly as likely as under
# the reference.
LORA = {"type": "lora", "rank": 4, "alpha": 8}
STARTS = {"lora": LORA, "gaussian": LORA | {"init": "gaussian"}, "pissa": LORA | {"init": "pissa"}, "dora": LORA | {"use_dora": True},
          "modules_to_save": LORA | {"modules_to_save": ["lm_head", "embed_tokens", "norm"]},
          "init_from": {"type": "lora", "init_from": str(GOLDENS / "adapter-init-lora-plus")}, "full": {"type": "none"}}
AT_START = {"dpo": math.log(2), "kto": 0.5, "reward": math.log(2)}  # losses


def check_start(checks: Checks, forge: str, root: Path) -> None:
    for objective, expected in AT_START.items():
        for name, adapter in STARTS.items():
            moves = name in ("pissa", "dora", "init_from", "full")
            for cached in (True,) if moves or objective == "reward" else (True, False):
                if objective == "reward" and name == "init_from":
                    continue
                case = next(c for c in preference_cases.CASES if c.objective["type"] == objective)
                own = {"type": objective} | ({} if objective == "reward" else {"reference_cache": cached})
                if objective == "reward" and "modules_to_save" in adapter:  # a reward model has no vocabulary's head
                    adapter = adapter | {"modules_to_save": [m for m in adapter["modules_to_save"] if m != "lm_head"]}
                label = f"start-{objective}-{name}-{'kept' if cached else 'computed'}"
                job = preference_cases.job(case, label, TINY, GOLDENS, root / "runs") | {"adapter": adapter, "objective": own}
                step = forge_run.run_job(forge, job, root).steps[0]
                checks.limit(f"{label} loss", abs(step["loss"] - expected), 0)
                rewards = max(abs(step[key]) for key in ("reward_chosen", "reward_rejected"))
                checks.limit(f"{label} rewards", max(rewards, step.get("reference_gap_step0", 0.0)), 0)


def check_scores(checks: Checks, forge: str, golden: list[float]) -> None:
    """Checks the scores of the first pairs; forge score reads the PEFT folder of transformers'
    model.
    """
    done = subprocess.run([forge, "score", str(GOLDENS / "tiny-pairs.jsonl"), "--model", str(TINY), "--adapter",
                           str(GOLDENS / "adapter-init-score"), "--limit", str(preference_cases.PAIRS), "--threads", "1", "--json"],
                          check=True, capture_output=True, text=True)
    scores = [row["score"] for row in json.loads(done.stdout)["scores"]]
    checks.limit("scores of a PEFT reward model", max(abs(a - b) for a, b in zip(scores, golden, strict=True)), 1e-5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forge")
    parser.add_argument("--only")
    parser.add_argument("--provider", default="auto")
    args = parser.parse_args()
    preference_cases.PROVIDER = args.provider
    goldens = json.loads((GOLDENS / "preference.json").read_text())
    tensors = read_safetensors(GOLDENS / "preference.safetensors")
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        for case in preference_cases.CASES:
            if args.only == case.name or (not args.only and sample.in_way(case.name, args.provider)):
                check_case(checks, args.forge, case, goldens["runs"][case.name], tensors, goldens["stride"], Path(folder))
        if args.only in (None, "start"):
            check_start(checks, args.forge, Path(folder))
        if args.only in (None, "scores"):
            check_scores(checks, args.forge, goldens["scores"])
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
