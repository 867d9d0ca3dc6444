"""Trains a tiny model on the GPU and compares losses, gradient norms and trained change with the
CPU's.

    python3 tiny.py CASE                                 on the GPU; limits are the emulated engine's (check_emulated.py)
    golden(CASE, forge, folder)                          pack.py: trains it on the CPU and keeps what is compared

For grpo it compares how many completions of the first rollout have the same tokens, and losses if
all have. Standard library only."""
import json
import math
import shutil
import sys
from pathlib import Path

import kit

PARITY = kit.KIT / "tests/parity"
sys.path[:0] = [str(kit.KIT / "tests/emulator/engine"), str(PARITY)]
import check_emulated as emulated  # noqa: E402
import forge_run  # noqa: E402
import preference_cases  # noqa: E402
from fixtures_path import variants  # noqa: E402
from tensors import change_error  # noqa: E402
from wide_model import write_wide  # noqa: E402

ADAPTER = "lora-plus"  # has a B that is not zero
GRPO = {
    "adapter": {"type": "lora", "rank": 4, "alpha": 8}, "objective": {"type": "grpo"},
    "rollout": {"prompts_per_step": 3, "samples_per_prompt": 4, "max_new_tokens": 10},
    "rewards": [{"type": "length", "max": 6, "slack": 30, "unit": "characters"}],
    "train": {"max_steps": 3, "precision": "fp32", "threads": 1}, "optimizer": {"type": "adamw", "learning_rate": 1e-3},
    "schedule": {"type": "constant"},
}


# Losses are compared absolutely (on-policy they are zero up to rounding). Advantages of a group
# cancel in the gradient, so rounding weighs more in it.
GRPO_LIMITS = (1e-6, 1e-4, 1e-3)


def files_of(case: str) -> list[Path]:
    """Returns the files that the case reads, apart from the Python of tests/."""
    root = kit.KIT / "tests"
    paths = [root / "fixtures/tiny-llama", PARITY / "goldens/tiny-batches.jsonl"]
    if case == "dpo":
        paths += [PARITY / "goldens" / preference_cases.CASES[0].rows, PARITY / f"goldens/adapter-init-{ADAPTER}"]
    elif case != "grpo":
        paths += sorted((root / "fixtures/tiny-variants").glob(emulated.CASES[case][0] + ".*"))
    return paths


def job_of(case: str, device: str, folder: Path) -> tuple[dict, Path]:
    """Returns the job and its model."""
    name, model = case.replace(" ", "-"), folder / "model"
    if case in ("dpo", "grpo"):
        variants.write_variant("base", model)
    if case == "dpo":
        job = preference_cases.job(preference_cases.CASES[0], name, model, PARITY / "goldens", folder / "runs")
        return job | {"hardware": {"device": device}}, model
    if case == "grpo":
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"What is {i} and {i * i % 7}?"}) + "\n" for i in range(24)))
        return GRPO | {"version": 1, "name": name, "seed": 1, "output_dir": str(folder / "runs"), "model": {"path": str(model)},
                       "data": {"train": [{"path": str(prompts)}]}, "hardware": {"device": device}}, model
    variant, precision, settings = emulated.CASES[case]
    write_wide(model) if variant == "wide" else variants.write_variant(variant, model)
    settings = {key: value for key, value in settings.items() if key != "hardware"}
    return emulated.job(name, model, precision, settings, folder / "runs", device), model


def rollout_ids(run: Path) -> list:
    first = min((run / "rollouts").glob("rollout-*.jsonl"))
    return [json.loads(line)["ids"] for line in first.read_text().splitlines()]


def golden(case: str, forge: str, folder: Path, scratch: Path) -> None:
    """Writes the numbers of the CPU's run that differences() reads."""
    scratch.mkdir(parents=True)
    job, _ = job_of(case, "cpu", scratch)
    run = forge_run.run_job(forge, job, scratch).folder
    kept = [*run.glob("metrics.jsonl"), *run.glob("rollouts/*.jsonl"), *run.glob("adapter/*.safetensors"), *run.glob("model/*.safetensors"),
            *run.glob("checkpoints/*/model.safetensors")]
    for path in kept:
        (folder / path.relative_to(run)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path.relative_to(run))


def differences(case: str, got: forge_run.Run, want: forge_run.Run, model: Path) -> list[tuple]:
    """Returns [(what, error, limit)]."""
    if case in emulated.CASES:
        return emulated.differences(case, got, want, model)
    losses, norms, change = GRPO_LIMITS if case == "grpo" else emulated.TOLERANCES["fp32"]
    values = lambda run: {name: tensor.values for name, tensor in run.tensors().items()}  # noqa: E731
    nothing = {name: [0.0] * len(tensor) for name, tensor in values(want).items()}
    norms_of = lambda run: [step["grad_norm"] for step in run.steps]  # noqa: E731
    off = max(abs(a - b) for a, b in zip(got.losses, want.losses)) if case == "grpo" else forge_run.relative_error(got.losses, want.losses)
    return [("loss", off, losses), ("gradient norm", forge_run.relative_error(norms_of(got), norms_of(want)), norms),
            ("change", change_error(nothing, values(got), values(want)).together, change)]


def read(folder: Path) -> forge_run.Run:
    """Reads a run; numbers that are missing are NaN, which is within no limit."""
    run = forge_run.read_run(folder)
    for step in run.steps:
        step |= {key: math.nan for key in ("loss", "grad_norm") if step[key] is None}
    return run


def main(case: str) -> None:
    stored = kit.KIT / "goldens" / case.replace(" ", "-")
    if not stored.exists():
        sys.exit(f"the kit was packed without the golden of {case}")
    folder = kit.WORK / "tiny" / case.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job, model = job_of(case, kit.DEVICE, folder)
    if kit.REHEARSAL:  # nothing is computed, so no token of a sample is routed to an expert
        job["train"]["on_nan"] = "skip"
        job |= {} if case == "grpo" else {"eval": {"samples": 0}}
    got, want = read(kit.run_job(job, folder)), read(stored)
    kit.figure(case=case, losses=got.losses, want=want.losses, notices=got.notices)
    if len(got.steps) != len(want.steps):
        sys.exit(f"{len(got.steps)} steps instead of {len(want.steps)}")
    if case == "grpo":
        mine, theirs = rollout_ids(got.folder), rollout_ids(stored)
        other = sum(a != b for a, b in zip(mine, theirs))
        kit.check("completions of the first rollout that differ", other, 0, of=len(theirs))
        if other:
            kit.leave()
    for what, error, limit in differences(case, got, want, model):
        kit.check(what, error, limit)
    kit.leave()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except kit.Failed as failure:
        sys.exit(str(failure))
