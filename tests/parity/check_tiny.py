#!/usr/bin/env python3
"""Compares forge with the goldens of the tiny model. Standard library only; under a minute.

    python3 tests/parity/check_tiny.py build/bin/forge [--only NAME] [--provider reference] [--keep FOLDER]

Prints every failure, a line per case with how near it came to a limit (--each: a line per check),
and "N passed, N failed"; exits 1 if any failed. Tolerances: README.md.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import cases
import forge_run
from fixtures_path import sample, variants
from tensors import change_error, norm, read_safetensors, squared

GOLDENS = Path(__file__).resolve().parent / "goldens"
LOSS, NORM, RATE, TOGETHER, STILL = 1e-5, 1e-4, 1e-9, 2e-4, 1e-6
# Ways to cut a step that must not change it. 8 is the reference; the examples of a step have
# unequal lengths.
CUTS = {
    "4+4": ({"micro_batch_size": 4}, {}),
    "3+3+2": ({"micro_batch_size": 3}, {}),
    "1x8": ({"micro_batch_size": 1}, {}),
    "packed": ({"micro_batch_size": None, "micro_batch_tokens": 64}, {"packing": True}),
    "packed whole": ({"micro_batch_size": None, "micro_batch_tokens": 4096}, {"packing": True}),
    "recomputed": ({"activation_checkpointing": "full"}, {}),
    "half recomputed": ({"activation_checkpointing": "selective"}, {}),
}


class Checks:
    def __init__(self, each: bool):
        self.each, self.passed, self.failed, self.nearest = each, 0, 0, 0.0

    def limit(self, what: str, value: float, limit: float, note: str = "") -> None:
        self.nearest = max(self.nearest, value / limit)
        self.say(what, value <= limit, f"{value:.1e} (limit {limit:.0e}) {note}")

    def say(self, what: str, ok: bool, detail: str) -> None:
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        if self.each or not ok:
            print(f"{'ok  ' if ok else 'FAIL'} {what}: {detail}", flush=True)


def pick(tensors: dict, group: str) -> dict:
    return {name.removeprefix(group): t.values for name, t in tensors.items() if name.startswith(group)}


def golden_state(case: cases.Case, model: Path) -> tuple[dict, dict]:
    """Returns (start, final), each {name: numbers}, thinned by the case's stride."""
    final = read_safetensors(GOLDENS / f"final-{case.name}.safetensors")
    if case.stride != 1:
        return pick(final, "start."), pick(final, "final.")
    adapter = GOLDENS / f"adapter-init-{case.name}" / "adapter_model.safetensors"
    start = read_safetensors(adapter if case.lora else model / "model.safetensors")
    return {n: start[n].values for n in final}, {n: t.values for n, t in final.items()}


def product(b, a, scale: float) -> list[float]:
    """Returns scale * B A of two Tensors, row by row."""
    (out, rank), inner = b.shape, a.shape[1]
    rows = [a.values[r * inner : (r + 1) * inner] for r in range(rank)]
    return [
        scale * sum(b.values[o * rank + r] * rows[r][i] for r in range(rank)) for o in range(out) for i in range(inner)
    ]


def effective(run: forge_run.Run, case: cases.Case, model: Path) -> dict:
    """Returns base + s B A, thinned.

    If the adapter says pissa or olora, as PEFT stores it, its base is the one that the
    initialisation left.
    """
    config = json.loads((run.folder / "adapter" / "adapter_config.json").read_text())
    base, adapter = read_safetensors(model / "model.safetensors"), run.tensors()
    golden = read_safetensors(GOLDENS / f"final-{case.name}.safetensors")
    residual = str(config.get("init_lora_weights", True)).startswith(("pissa", "olora"))
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
    got = final_state(run, case, model)
    for name in [name for name in final if case.still and name.endswith(case.still)]:
        moved = norm([a - b for a, b in zip(got.pop(name), start.pop(name), strict=True)])
        checks.limit(f"{case.name} {name} stays", moved, STILL)
        del final[name]
    # BART has a bias of its logits, which transformers holds as a buffer of zeros and does not
    # train.
    checks.say(f"{case.name} final_logits_bias", norm(got.pop("final_logits_bias", [0.0])) == 0, "is not 0")
    error = change_error(start, got, final)
    checks.limit(f"{case.name} change, all tensors", error.together, min(TOGETHER, case.worst))
    checks.limit(f"{case.name} change, worst tensor", error.worst, case.worst, error.worst_name)
    check_eval(checks, forge, case, run, golden, root)
    if case.lora and case.init_from:
        check_adapter_config(checks, case, run)


# Keys that an adapter's reader acts on. Lists are sets; absent and null mean the default, which is
# falsy.
CONFIG_KEYS = ("peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "target_modules", "target_parameters",
               "exclude_modules", "modules_to_save", "layers_to_transform", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora",
               "fan_in_fan_out", "bias", "trainable_token_indices", "init_lora_weights", "inference_mode", "base_model_name_or_path")


def check_adapter_config(checks: Checks, case: cases.Case, run: forge_run.Run) -> None:
    """Checks that adapter_config.json equals peft's own for the same adapter, apart from the base
    model's place.
    """
    got = json.loads((run.folder / "adapter" / "adapter_config.json").read_text())
    want = json.loads((GOLDENS / f"adapter-init-{case.name}" / "adapter_config.json").read_text())
    # Below twenty modules peft writes "all-linear" as whole paths, from there on as their last
    # names.
    if isinstance(want["target_modules"], list) and all("." in path for path in want["target_modules"]):
        want["target_modules"] = sorted({path.rsplit(".", 1)[-1] for path in want["target_modules"]})
    plain = lambda value: sorted(value) if isinstance(value, list) else value or None  # noqa: E731
    keys = [key for key in CONFIG_KEYS if key != "base_model_name_or_path"]
    faults = [f"{k} {got.get(k)}, peft {want.get(k)}" for k in keys if plain(got.get(k)) != plain(want.get(k))]
    faults += [] if got.get("base_model_name_or_path") else ["base_model_name_or_path is empty"]
    unknown = sorted(set(got) - set(want))
    faults += [f"keys that peft does not know: {unknown}"] if unknown else []
    checks.say(f"{case.name} adapter_config.json", not faults, "; ".join(faults) or "as peft's")
    names = set(read_safetensors(GOLDENS / f"adapter-init-{case.name}" / "adapter_model.safetensors"))
    names = {name for name in names if not name.endswith(".base_layer.weight")}  # copies of the base
    other = sorted(names ^ set(run.tensors()))
    checks.say(f"{case.name} names of tensors", not other, ", ".join(other[:4]) or f"{len(names)} as peft's")


def check_fresh_adapter(checks: Checks, forge: str, golden: dict, root: Path) -> None:
    """Without init_from, A is uniform in ±1/sqrt(in_features) as peft's (kaiming, a = sqrt 5), B
    zero; a seed decides.
    """
    case = next(case for case in cases.CASES if case.name == "lora")
    states = []
    for name, seed in (("fresh", 1), ("fresh-again", 1), ("fresh-other", 2)):
        job = cases.job(case, name, root / "base", GOLDENS, root / "runs", {"max_steps": 1})
        del job["adapter"]["init_from"]
        job |= {"seed": seed, "optimizer": {"type": "sgd", "learning_rate": 1e-12}}
        run = forge_run.run_job(forge, job, root)
        states.append(run.tensors())
        error = forge_run.relative_error(run.losses, golden["losses"][:1])
        checks.limit(f"{name} first loss is the base's", error, LOSS)
    first, again, other = states
    checks.say("fresh: B", all(norm(t.values) < 1e-9 for n, t in first.items() if "lora_B" in n), "zero")
    a = {n: t for n, t in first.items() if "lora_A" in n}
    spread = [max(map(abs, t.values)) * t.shape[1] ** 0.5 for t in a.values()]
    bounded = all(0.9 < s <= 1 + 1e-6 for s in spread)
    checks.say("fresh: A's bound", bounded, f"max·sqrt(in) {min(spread):.3f} … {max(spread):.3f}, in 0.9 … 1")
    count = sum(len(t.values) for t in a.values())
    deviation = (sum(squared(t.values) * t.shape[1] for t in a.values()) / count) ** 0.5
    uniform = abs(deviation - 3**-0.5) < 0.02
    checks.say("fresh: A's deviation", uniform, f"std·sqrt(in) {deviation:.3f}, uniform has 0.577")
    same = all(list(first[n].values) == list(again[n].values) for n in a)
    differs = all(list(first[n].values) != list(other[n].values) for n in a)
    checks.say("fresh: seeds", same and differs, "the same seed gives the same adapter, another gives another")


def compare_steps(checks: Checks, name: str, run: forge_run.Run, golden: dict) -> None:
    for key, field, limit in (("losses", "loss", LOSS), ("grad_norms", "grad_norm", NORM),
                              ("learning_rates", "learning_rate", RATE)):
        error = forge_run.relative_error([event[field] for event in run.steps], golden[key])
        checks.limit(f"{name} {field}", error, limit)


def check_eval(checks: Checks, forge: str, case: cases.Case, run, golden: dict, root: Path) -> None:
    """Evaluates the trained model, read back from its files, on the first eight rows."""
    data = root / "first-rows.jsonl"
    lines = (GOLDENS / case.rows).read_text().splitlines()[:8]
    data.write_text("\n".join(lines) + "\n")
    adapter = run.folder / "adapter" if case.lora else None
    model = root / case.variant if case.lora else run.folder / "model"
    rows = forge_run.per_example(forge, model, adapter, data, root / f"{case.name}-examples.jsonl")
    error = forge_run.relative_error([row["loss"] for row in rows], golden["final_example_losses"])
    checks.limit(f"{case.name} eval of what was written", error, LOSS)


def check_variant(checks: Checks, forge: str, name: str, golden: dict, root: Path) -> None:
    """Compares the loss of each sequence of logits-NAME.safetensors by `forge eval`."""
    tensors = read_safetensors(GOLDENS / f"logits-{name}.safetensors")
    data = root / f"{name}.jsonl"
    of = lambda part, length: list(tensors[f"{part}_{length}"].values)  # noqa: E731
    pairs = "answer_5" in tensors  # True for an encoder-decoder
    rows = [{"input_ids": of("ids", n), "labels": of("answer" if pairs else "ids", n)} for n in golden["lengths"]]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    got = forge_run.per_example(forge, root / name, None, data, root / f"{name}-examples.jsonl")
    want = [loss * (len(row["labels"]) - (not pairs)) for loss, row in zip(golden["loss"], rows)]
    checks.limit(f"{name} eval", forge_run.relative_error([row["loss"] for row in got], want), LOSS)


def check_cuts(checks: Checks, forge: str, case: cases.Case, golden: dict, root: Path) -> None:
    for label, (train, data) in CUTS.items():
        if case.recomputed and "recomputed" not in label:
            continue
        name = f"{case.name}-{label}".replace(" ", "-").replace("+", "-")
        job = cases.job(case, name, root / case.variant, GOLDENS, root / "runs", train, data)
        job["train"] = {key: value for key, value in job["train"].items() if value is not None}
        run = forge_run.run_job(forge, job, root)
        compare_steps(checks, f"{case.name} {label}", run, golden)


def guarded(checks: Checks, name: str, check, *arguments) -> None:
    """A case that cannot run counts as one failure and does not hide the others."""
    passed, failed, checks.nearest = checks.passed, checks.failed, 0.0
    try:
        check(checks, *arguments)
    except (forge_run.ForgeFailed, OSError, KeyError, ValueError) as fault:
        checks.say(name, False, f"{type(fault).__name__}: {fault}")
    if checks.failed == failed:
        print(f"ok   {name}: {checks.passed - passed} checks, at most {checks.nearest:.0%} of a limit", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--only", help="one case or variant")
    parser.add_argument("--provider", default="auto", help="provider of the layers")
    parser.add_argument("--each", action="store_true", help="print every check")
    parser.add_argument("--keep", type=Path, help="leave models and runs here (must be empty)")
    args = parser.parse_args()
    cases.PROVIDER = args.provider
    summary = json.loads((GOLDENS / "tiny.json").read_text())
    checks = Checks(args.each)
    wanted = lambda name: args.only == name or (not args.only and sample.in_way(name, args.provider))  # noqa: E731
    with tempfile.TemporaryDirectory() as temporary:
        root = args.keep or Path(temporary)
        for name in variants.names():
            variants.write_variant(name, root / name)
            if wanted(name):
                guarded(checks, name, check_variant, args.forge, name, summary["logits"][name], root)
        for case in filter(lambda case: wanted(case.name), cases.CASES):
            guarded(checks, case.name, check_case, args.forge, case, summary["runs"][case.name], root)
            if case.cuts or case.recomputed:
                guarded(checks, f"{case.name}, cut", check_cuts, args.forge, case, summary["runs"][case.name], root)
        if wanted("fresh"):
            guarded(checks, "fresh", check_fresh_adapter, args.forge, summary["runs"]["lora"], root)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
