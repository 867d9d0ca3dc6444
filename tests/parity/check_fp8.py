#!/usr/bin/env python3
"""Compares a step on a base in fp8 with transformers and peft (make_fp8_goldens.py): loss,
adapter's gradients, and the gate.

    python3 tests/parity/check_fp8.py build/bin/forge

Gradient descent with the rate 1 leaves the gradients in the adapter. The gate before the step is
checked for its figures, and for the runs that it passes and refuses. Standard library only.
"""
import itertools
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fixtures"))
import forge_run  # noqa: E402
from tensors import change_error, read_safetensors, write_safetensors  # noqa: E402
from wide_model import write_wide, write_wide_adapter  # noqa: E402

GOLDENS = HERE / "goldens"
# Limits in fp32, of the loss and of all gradients together. A sum in another order may tip a number
# over to the next code.
LOSS, GRADIENTS = 2e-6, 1e-4
# bf16 rounds the numbers before they are quantised, which tips one code in eight, and others than
# in the golden. The remaining check is that fp8 changes the base's gradients no more than it does
# in fp32, plus bf16's own 2 %.
MORE_IN_BF16 = 0.03
# The limit for the gate's loss in bf16, whose products of the file's weights round as often as
# those of fp8.
GATE_IN_BF16 = 2e-3


def job(root, precision, quantization):
    return {
        "version": 1, "name": f"{quantization}-{precision}", "output_dir": str(root), "model": {"path": str(root / "wide"), "quantization": quantization},
        "adapter": {"type": "lora", "init_from": str(root / "wide-adapter")}, "objective": {"type": "sft", "train_on": "all"},
        "data": {"train": [{"path": str(GOLDENS / "tiny-batches.jsonl"), "format": "tokens", "limit": 8}], "shuffle": False, "packing": False},
        "train": {"max_steps": 1, "global_batch_size": 8, "micro_batch_size": 8, "precision": precision, "max_grad_norm": 0},
        "optimizer": {"type": "sgd", "momentum": 0, "learning_rate": 1, "weight_decay": 0}, "schedule": {"type": "constant"},
        "provider": "fused", "hardware": {"device": "cpu"},
    }


def values(tensors):
    return {name: list(t.values) for name, t in tensors.items()}


def trained(forge, root, precision, quantization):
    """Runs the step; returns its loss and the adapter after it."""
    run = forge_run.run_job(forge, job(root, precision, quantization), root)
    return run.losses[0], values(run.tensors())


def refused(forge, root, *words, settings):
    try:
        forge_run.run_job(forge, settings, root)
    except forge_run.ForgeFailed as failure:
        return all(word in str(failure) for word in words)
    return False


def events(root, name, kind):
    lines = (root / name / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def gate_errors(event, wanted):
    """Returns the relative errors of the two losses together, and of the standard error."""
    return max(abs(event[key] - wanted[key]) / wanted[key] for key in ("loss", "fp8_loss")), abs(event["standard_error"] / wanted["standard_error"] - 1)


def taken(root, name):
    """Returns the share of the planned memory that a run took, and the plan's last line."""
    memory = json.loads((root / name / "report.json").read_text())["memory"]
    return memory["measured_peak_bytes"] / memory["predicted_peak_bytes"], memory["lines"][-1]["name"]


def gate_sizes(forge, root):
    """Checks how many tokens the gate looks at, and its memory."""
    rows = [json.loads(line) for line in (GOLDENS / "tiny-batches.jsonl").read_text().splitlines()]
    tokens, trained = [len(row["input_ids"]) for row in rows], [sum(label >= 0 for label in row["labels"][1:]) for row in rows]
    many = job(root, "fp32", "fp8") | {"name": "many"}
    many["data"]["train"][0].pop("limit")
    many["train"] |= {"micro_batch_size": 1, "max_steps": 20}
    forge_run.run_job(forge, many, root)
    event, (share, line) = events(root, "many", "fp8_gate")[0], taken(root, "many")
    yield event["tokens"] == sum(tokens) and event["supervised_tokens"] == sum(trained), f"it looks at all rows of few: {event['tokens']} of {sum(tokens)} tokens, {event['supervised_tokens']} of {sum(trained)}"
    yield "fp8 gate" in line and 0.9 < share <= 1, f"its memory, where the file's pass takes the most, was planned: {share:.3f} of it was taken"

    (root / "more.jsonl").write_text((GOLDENS / "tiny-batches.jsonl").read_text() * 6)
    many |= {"name": "more", "train": many["train"] | {"max_steps": 1}}
    many["data"]["train"][0]["path"] = str(root / "more.jsonl")
    forge_run.run_job(forge, many, root)
    room = max(tokens[:8]), max(trained[:8])  # the room that one step is planned with
    fitting = [n for n, t in zip(tokens, trained) if n <= room[0] and t <= room[1]] * 6
    wanted = next(total for total in itertools.accumulate(fitting) if total >= 16384)
    seen = events(root, "more", "fp8_gate")[0]["tokens"]
    yield len(fitting) < 6 * len(rows) and seen == wanted, f"of many at the first {seen} tokens, in batches that memory was planned for"

    large = job(root, "fp32", "fp8") | {"name": "large", "adapter": {"type": "lora", "modules_to_save": ["embed_tokens", "lm_head"]}}
    large["model"] = large["model"] | {"path": str(write_wide(root / "large-model", vocabulary=8000))}
    forge_run.run_job(forge, large, root)
    share, line = taken(root, "large")
    yield "fp8 gate" not in line and 0.9 < share <= 1, f"and where weights are trained whole a step's is enough: {share:.3f}"


def gate_checks(forge, root, wanted):
    """Checks the gate; must come after the runs of `checks`."""
    event = events(root, "fp8-fp32", "fp8_gate")[0]
    loss, scatter = gate_errors(event, wanted)
    same = event["supervised_tokens"] == wanted["supervised_tokens"] and event["split"] == "train"
    yield same and loss <= LOSS and scatter <= 0.01, f"the gate in fp32: losses {loss:.1e} (limit {LOSS:.0e}), their scatter {scatter:.1e}"
    loss, _ = gate_errors(events(root, "fp8-bf16", "fp8_gate")[0], wanted)
    yield loss <= GATE_IN_BF16, f"the gate in bf16: losses {loss:.1e} (limit {GATE_IN_BF16:.0e})"
    report = json.loads((root / "fp8-fp32/report.json").read_text())
    yield report["fp8_gate"] == event and "fp8" in (root / "fp8-fp32/report.html").read_text(), "the report tells of it"
    yield not events(root, "none-fp32", "fp8_gate"), "a base in fp32 has none"

    yield from gate_sizes(forge, root)

    # These tokens leave 0.21 % possible.
    settings = job(root, "fp32", "fp8") | {"name": "gated"}
    settings["model"] = settings["model"] | {"fp8_tolerance": 0.002}
    settings["data"] = settings["data"] | {"eval": [{"path": str(GOLDENS / "tiny-batches.jsonl"), "format": "tokens", "limit": 8}]}
    words = ("exit 8", "6.25165 with the file's weights and 6.25130 in fp8", "147 tokens of data.eval", "at most 0.2 %", "fp8_tolerance: 0.0021")
    ended = refused(forge, root, *words, settings=settings)
    yield ended and not events(root, "gated", "step"), "a gate refuses, with its figures, before the first step"
    settings["model"]["fp8_tolerance"] = 0.0021
    forge_run.run_job(forge, settings, root)
    yield len(events(root, "gated", "fp8_gate")) == 1 and len(events(root, "gated", "step")) == 1, "the same folder goes on with what the message allows"
    settings["model"]["fp8_tolerance"], settings["train"] = 0.0, settings["train"] | {"max_steps": 2}
    (root / "gated.json").write_text(json.dumps(settings))
    forge_run.call(forge, "run", root / "gated.json", "--extend")
    yield len(events(root, "gated", "fp8_gate")) == 1 and len(events(root, "gated", "step")) == 2, "a run that is continued has passed"
    settings |= {"name": "whole", "adapter": {"type": "lora", "target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]}}
    settings["model"]["fp8_tolerance"] = 0.0021
    forge_run.run_job(forge, settings, root)
    loss, _ = gate_errors(events(root, "whole", "fp8_gate")[0], wanted)
    yield loss <= LOSS, f"nor do weights that are trained whole change it: {loss:.1e}"


def vanishing(root):
    """Gives the model rows with one number that dwarfs the others."""
    tensors = read_safetensors(root / "wide/model.safetensors")
    weight = tensors["model.layers.1.mlp.up_proj.weight"]
    for row in range(4):
        weight.values[row * weight.shape[1]] = 1e6
    write_safetensors(root / "wide/model.safetensors", tensors)


def checks(forge, root):
    """Yields (True if the check holds, its description) for each check."""
    write_wide(root / "wide"), write_wide_adapter(root / "wide-adapter")
    golden, start = values(read_safetensors(GOLDENS / "fp8.safetensors")), values(read_safetensors(root / "wide-adapter/adapter_model.safetensors"))
    said = json.loads((GOLDENS / "fp8.json").read_text())
    behind = lambda prefix: {name: [a - g for a, g in zip(start[name], golden[prefix + name])] for name in start}  # noqa: E731
    error = lambda got, want: change_error(start, got, want).together  # noqa: E731
    loss, adapter = trained(forge, root, "fp32", "fp8")
    off, gradients = abs(loss - said["loss"]) / said["loss"], error(adapter, behind(""))
    yield off <= LOSS and gradients <= GRADIENTS, f"fp8 in fp32: loss {off:.1e} (limit {LOSS:.0e}), gradients {gradients:.1e} (limit {GRADIENTS:.0e})"
    _, plain = trained(forge, root, "fp32", "none")
    yield error(plain, behind("base.")) <= GRADIENTS < error(plain, behind("")) / 100, "the base itself is another one"
    allowed = said["gradients differ from the base's by"] + MORE_IN_BF16
    changed = error(trained(forge, root, "bf16", "fp8")[1], behind("base."))
    yield changed <= allowed, f"fp8 in bf16 changes the base's gradients by {changed:.4f} (limit {allowed:.4f})"
    yield from gate_checks(forge, root, said["gate"])
    vanishing(root)
    settings = job(root, "fp32", "fp8") | {"name": "refused"}
    yield refused(forge, root, "layers.1.mlp.up_proj.weight: ", "of its weights would be zero in fp8", settings=settings), "rows with one number that dwarfs the others are refused by name"


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for ok, seen in checks(str(Path(sys.argv[1]).resolve()), Path(temporary)):
            print("ok  " if ok else "FAIL", seen)
            failed += not ok
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
