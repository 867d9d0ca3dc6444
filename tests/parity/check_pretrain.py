#!/usr/bin/env python3
"""Compares training from random weights of a described model with transformers on the same rows
(make_pretrain_goldens.py).

    python3 tests/parity/check_pretrain.py build/bin/forge
"""
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

from forge_run import call, run_job
from pretrain_cases import ARCHITECTURE, CASES, GOLDEN, ROWS, job, start_job, write_texts

TOLERANCE = 1e-4  # of a loss


def eval_losses(folder: Path) -> list[float]:
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [event["eval_loss"] for event in events if event["event"] == "eval"]


def check_losses(what: str, found: list[float], wanted: list[float]) -> None:
    assert len(found) == len(wanted), (what, found)
    worst = max(abs(a - b) for a, b in zip(found, wanted))
    assert worst < TOLERANCE, (what, worst, found, wanted)
    print(f"ok   {what}: {len(found)} losses within {worst:.1e}")


def check_start(forge: str, folder: Path, golden: dict) -> None:
    """Checks the random weights, which a seed decides."""
    first = run_job(forge, start_job(folder), folder).tensors()
    again = run_job(forge, start_job(folder) | {"name": "again"}, folder).tensors()
    other = run_job(forge, start_job(folder) | {"name": "other", "seed": 6}, folder).tensors()
    assert {n: t.values for n, t in first.items()} == {n: t.values for n, t in again.items()}
    name = "model.layers.1.mlp.up_proj.weight"
    assert first[name].values != other[name].values
    assert "lm_head.weight" not in first and "model.layers.2.mlp.up_proj.weight" not in first
    for name, (mean, deviation) in golden.items():
        assert abs(mean) < 0.005 and abs(deviation / ARCHITECTURE["initializer_range"] - 1) < 0.05, (name, mean, deviation)
    print("ok   weights are drawn by the seed, with the standard deviation that was asked for")


def check_case(forge: str, folder: Path, case: str, golden: dict) -> None:
    run = run_job(forge, job(folder, case, case), folder)
    check_losses(case, run.losses, golden["losses"])
    check_losses(f"{case}, evaluations", eval_losses(run.folder), golden["eval_losses"])
    plan = json.loads((run.folder / "plan.json").read_text())
    assert plan["data"]["train"]["examples"] == golden["rows"], (case, plan["data"]["train"]["examples"], golden["rows"])
    # The run stops in the middle of an epoch: steps after a checkpoint are made again.
    whole = {name: tensor.values for name, tensor in run.tensors().items()}
    losses = run.losses
    (run.folder / "report.json").unlink()
    shutil.rmtree(run.folder / "model")
    for step in ("000015", "000020"):
        shutil.rmtree(run.folder / "checkpoints" / f"step-{step}", ignore_errors=True)
    run = run_job(forge, job(folder, case, case), folder)
    assert {name: tensor.values for name, tensor in run.tensors().items()} == whole and run.losses == losses, case
    print(f"ok   {case}: continued in the middle of an epoch with the same bytes")


def check_result(forge: str, folder: Path) -> None:
    """Checks that the result is a model like any other, and says so."""
    config = json.loads((folder / "runs" / "joined" / "model" / "config.json").read_text())
    assert {key: config[key] for key in ARCHITECTURE} == ARCHITECTURE, config
    said = json.loads(call(forge, "eval", folder / "runs" / "joined", "--json"))
    last = eval_losses(folder / "runs" / "joined")[-1]
    assert abs(said["perplexity"] - math.exp(last)) < 1e-3 * said["perplexity"], (said, math.exp(last))
    budget = job(folder, "budget", "joined", train={"max_steps": None, "max_tokens": 48 * ROWS * 3 - 40})
    (folder / "budget.json").write_text(json.dumps(budget))
    plan = json.loads(call(forge, "plan", folder / "budget.json", "--json"))
    assert plan["steps"] == 3, plan["steps"]
    print("ok   the result has its config.json and its perplexity, and a budget of tokens decides the steps")


def main() -> None:
    golden = json.loads(GOLDEN.read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder)
        check_start(sys.argv[1], folder, golden["start"])
        for case in CASES:
            check_case(sys.argv[1], folder, case, golden[case])
        check_result(sys.argv[1], folder)


if __name__ == "__main__":
    main()
