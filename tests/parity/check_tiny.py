#!/usr/bin/env python3
"""Compares forge with the goldens of the tiny model. Standard library only; under a minute.

    python3 tests/parity/check_tiny.py build/bin/forge [--only NAME] [--keep FOLDER]

Prints one line per check and "N passed, N failed"; exits 1 if any failed. Tolerances: README.md.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import cases
import forge_run
from fixtures_path import variants
from tensors import change_error, read_safetensors

GOLDENS = Path(__file__).resolve().parent / "goldens"
LOSS, NORM, RATE, TOGETHER, WORST = 1e-5, 1e-4, 1e-9, 2e-4, 1e-3
# Ways to cut a step that must not change it. 8 is the reference; the examples of a step have unequal lengths.
CUTS = {
    "4+4": ({"micro_batch_size": 4}, {}),
    "3+3+2": ({"micro_batch_size": 3}, {}),
    "1x8": ({"micro_batch_size": 1}, {}),
    "packed": ({"micro_batch_size": None, "micro_batch_tokens": 64}, {"packing": True}),
    "packed whole": ({"micro_batch_size": None, "micro_batch_tokens": 4096}, {"packing": True}),
    "recomputed": ({"activation_checkpointing": "full"}, {}),
}


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def limit(self, what: str, value: float, limit: float, note: str = "") -> None:
        self.say(what, value <= limit, f"{value:.1e} (limit {limit:.0e}) {note}")

    def say(self, what: str, ok: bool, detail: str) -> None:
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {detail}", flush=True)


def golden_state(case: cases.Case, model: Path) -> tuple[dict, dict]:
    """(start, final): name -> numbers, thinned by the case's stride."""
    final = read_safetensors(GOLDENS / f"final-{case.name}.safetensors")
    if case.stride != 1:
        pick = lambda group: {n.removeprefix(group): t.values for n, t in final.items() if n.startswith(group)}  # noqa: E731
        return pick("start."), pick("final.")
    start_file = GOLDENS / f"adapter-init-{case.name}" / "adapter_model.safetensors" if case.lora else model / "model.safetensors"
    start = read_safetensors(start_file)
    return {n: start[n].values for n in final}, {n: t.values for n, t in final.items()}


def product(b, a, scale: float) -> list[float]:
    """scale * B A of two Tensors, row by row."""
    (out, rank), inner = b.shape, a.shape[1]
    rows = [a.values[r * inner : (r + 1) * inner] for r in range(rank)]
    return [
        scale * sum(b.values[o * rank + r] * rows[r][i] for r in range(rank)) for o in range(out) for i in range(inner)
    ]


def effective(run: forge_run.Run, case: cases.Case, model: Path) -> dict:
    """Base + s B A, thinned. If the adapter says pissa, as PEFT stores it, its base is what PiSSA left of it."""
    config = json.loads((run.folder / "adapter" / "adapter_config.json").read_text())
    base, adapter = read_safetensors(model / "model.safetensors"), run.tensors()
    golden = read_safetensors(GOLDENS / f"final-{case.name}.safetensors")
    residual = str(config.get("init_lora_weights", True)).startswith("pissa")
    out = {}
    for name in (n.removeprefix("final.") for n in golden if n.startswith("final.")):
        path = "base_model.model." + name.removesuffix(".weight")
        a, b = adapter[path + ".lora_A.weight"], adapter[path + ".lora_B.weight"]
        delta = product(b, a, config["lora_alpha"] / config["r"])[:: case.stride]
        taken = golden["product." + name].values if residual else [0.0] * len(delta)
        thin = base[name].values[:: case.stride]
        out[name] = [w - t + d for w, t, d in zip(thin, taken, delta, strict=True)]
    return out


def final_state(run: forge_run.Run, case: cases.Case, model: Path) -> dict:
    if case.compare_effective:
        return effective(run, case, model)
    return {n: t.values[:: case.stride] for n, t in run.tensors().items()}


def check_case(checks: Checks, forge: str, case: cases.Case, golden: dict, root: Path) -> None:
    model = root / case.variant
    run = forge_run.run_job(forge, cases.job(case, case.name, model, GOLDENS, root / "runs"), root)
    compare_steps(checks, case.name, run, golden)
    start, final = golden_state(case, model)
    error = change_error(start, final_state(run, case, model), final)
    checks.limit(f"{case.name} change, all tensors", error.together, TOGETHER)
    checks.limit(f"{case.name} change, worst tensor", error.worst, WORST, error.worst_name)
    check_eval(checks, forge, case, run, golden, root)


def compare_steps(checks: Checks, name: str, run: forge_run.Run, golden: dict) -> None:
    for key, field, limit in (("losses", "loss", LOSS), ("grad_norms", "grad_norm", NORM),
                              ("learning_rates", "learning_rate", RATE)):
        error = forge_run.relative_error([event[field] for event in run.steps], golden[key])
        checks.limit(f"{name} {field}", error, limit)


def check_eval(checks: Checks, forge: str, case: cases.Case, run, golden: dict, root: Path) -> None:
    """The trained model, read back from its files, on the first eight rows."""
    data = root / "first-rows.jsonl"
    lines = (GOLDENS / "tiny-batches.jsonl").read_text().splitlines()[:8]
    data.write_text("\n".join(lines) + "\n")
    adapter = run.folder / "adapter" if case.lora else None
    model = root / case.variant if case.lora else run.folder / "model"
    rows = forge_run.per_example(forge, model, adapter, data, root / f"{case.name}-examples.jsonl")
    error = forge_run.relative_error([row["loss"] for row in rows], golden["final_example_losses"])
    checks.limit(f"{case.name} eval of what was written", error, LOSS)


def check_variant(checks: Checks, forge: str, name: str, golden: dict, root: Path) -> None:
    """The loss of each sequence of logits-NAME.safetensors by `forge eval`."""
    tensors = read_safetensors(GOLDENS / f"logits-{name}.safetensors")
    data = root / f"{name}.jsonl"
    rows = [list(tensors[f"ids_{length}"].values) for length in golden["lengths"]]
    data.write_text("".join(json.dumps({"input_ids": ids, "labels": ids}) + "\n" for ids in rows))
    got = forge_run.per_example(forge, root / name, None, data, root / f"{name}-examples.jsonl")
    want = [loss * (length - 1) for loss, length in zip(golden["loss"], golden["lengths"])]
    checks.limit(f"{name} eval", forge_run.relative_error([row["loss"] for row in got], want), LOSS)


def check_cuts(checks: Checks, forge: str, case: cases.Case, golden: dict, root: Path) -> None:
    for label, (train, data) in CUTS.items():
        name = f"{case.name}-{label}".replace(" ", "-").replace("+", "-")
        job = cases.job(case, name, root / case.variant, GOLDENS, root / "runs", train, data)
        job["train"] = {key: value for key, value in job["train"].items() if value is not None}
        run = forge_run.run_job(forge, job, root)
        compare_steps(checks, f"{case.name} {label}", run, golden)


def guarded(checks: Checks, name: str, check, *arguments) -> None:
    """A case that cannot run is one failure and does not hide the others."""
    try:
        check(checks, *arguments)
    except (forge_run.ForgeFailed, OSError, KeyError, ValueError) as fault:
        checks.say(name, False, f"{type(fault).__name__}: {fault}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--only", help="one case or variant")
    parser.add_argument("--keep", type=Path, help="leave models and runs here (must be empty)")
    args = parser.parse_args()
    summary = json.loads((GOLDENS / "tiny.json").read_text())
    checks = Checks()
    wanted = lambda name: args.only in (None, name)  # noqa: E731
    with tempfile.TemporaryDirectory() as temporary:
        root = args.keep or Path(temporary)
        for name in variants.names():
            variants.write_variant(name, root / name)
            if wanted(name):
                guarded(checks, name, check_variant, args.forge, name, summary["logits"][name], root)
        for case in filter(lambda case: wanted(case.name), cases.CASES):
            guarded(checks, case.name, check_case, args.forge, case, summary["runs"][case.name], root)
            if case.name in ("full", "lora"):
                guarded(checks, case.name, check_cuts, args.forge, case, summary["runs"][case.name], root)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
