#!/usr/bin/env python3
"""Compares training with model.quantization fp8 with training without.

    python3 bench/fp8/gate.py --model ~/.cache/forge/models/SmolLM2-135M-Instruct.gguf --data data/devils-dictionary --write results.md

Trains one job twice, with the base as it is and with the base in fp8, and fails unless they agree.
The gate that a run has before its first step lets everything through here.

With a bf16 base, adapters are part of the base's products where possible (on a GPU, and in forge's
own tiles on a CPU). With an fp8 base they are separate products, whose sum rounds to bf16 and so
loses what is less than half a unit of y. To compare the bases alone, keep both separate: pass --set
adapter.dropout=1e-9 on a GPU, FORGE_CPU=avx512_bf16 on a CPU.

Compares the mean training loss over windows of steps, and every held-out loss: each must be within
--limit of the unquantised base's. --data holds train.jsonl and eval.jsonl
(scripts/devils_dictionary.py). --set adds keys to both jobs. Standard library only.
"""
import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))
import forge_run  # noqa: E402


@dataclass
class Compared:
    what: str
    base: float
    fp8: float

    @property
    def error(self):
        return abs(self.fp8 - self.base) / self.base


def job(name, quantization, options):
    return {
        "version": 1, "name": name, "seed": options.seed, "output_dir": str(options.folder),
        "model": {"path": str(options.model), "quantization": quantization} | ({"fp8_tolerance": 1} if quantization == "fp8" else {}),
        "adapter": {"type": "lora", "rank": 16, "alpha": 32},
        "objective": {"type": "sft"},
        "data": {"train": [{"path": str(options.data / "train.jsonl")}],
                 "eval": [{"path": str(options.data / "eval.jsonl"), "limit": options.eval_rows}], "max_length": options.max_length},
        "train": {"max_steps": options.steps, "global_batch_size": options.rows, "precision": "bf16"},
        "optimizer": {"type": "adamw", "learning_rate": 2e-4}, "schedule": {"type": "cosine", "warmup_ratio": 0.03},
        "eval": {"every_steps": max(1, options.steps // 4), "at_start": True},
        "hardware": {"device": options.device}, "provider": "fused",
    }


def trained(quantization, options):
    """Trains the job; returns the training loss of each step and {step: held-out loss}."""
    path = options.folder / f"gate-{quantization}.json"
    path.write_text(json.dumps(job(path.stem, quantization, options), indent=1))
    forge_run.call(options.forge, "run", path, *(word for value in options.set for word in ("--set", value)))
    events = [json.loads(line) for line in (options.folder / path.stem / "metrics.jsonl").read_text().splitlines()]
    return [e["loss"] for e in events if e["event"] == "step"], {e["step"]: e["eval_loss"] for e in events if e["event"] == "eval"}


def windows(losses, width):
    return [(i, sum(losses[i : i + width]) / width) for i in range(0, len(losses) - width + 1, width)]


def compare(options):
    losses, held_out = trained("none", options)
    losses_fp8, held_out_fp8 = trained("fp8", options)
    if len(losses) != options.steps or len(losses_fp8) != options.steps or held_out.keys() != held_out_fp8.keys() or len(held_out) < 2:
        sys.exit(f"the runs have {len(losses)} and {len(losses_fp8)} steps, and held-out losses at {list(held_out)} and {list(held_out_fp8)}")
    rows = [Compared(f"steps {at + 1} to {at + options.window}", base, fp8)
            for (at, base), (_, fp8) in zip(windows(losses, options.window), windows(losses_fp8, options.window))]
    return rows + [Compared(f"held out, after {step} steps", held_out[step], held_out_fp8[step]) for step in sorted(held_out)]


def table(rows):
    lines = ["| loss | base | fp8 | differs by |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {r.what} | {r.base:.5f} | {r.fp8:.5f} | {100 * r.error:.3f} % |" for r in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", default=str(ROOT / "build/bin/forge"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rows", type=int, default=8, help="rows per step")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--eval-rows", type=int, default=64)
    parser.add_argument("--window", type=int, default=50, help="steps whose losses are averaged")
    parser.add_argument("--limit", type=float, default=0.005, help="the largest relative difference that passes")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--folder", type=Path, help="folder that keeps the runs")
    parser.add_argument("--write", type=Path, help="file for the table, as Markdown")
    options = parser.parse_args()
    options.window = min(options.window, options.steps)
    options.model, options.data = options.model.expanduser().resolve(), options.data.expanduser().resolve()
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = (options.folder or Path(temporary)).resolve()
        options.folder.mkdir(parents=True, exist_ok=True)
        try:
            rows = compare(options)
        except forge_run.ForgeFailed as failure:
            sys.exit(str(failure))
    text = table(rows)
    print(text)
    if options.write:
        options.write.write_text(text + "\n")
    worst = max(rows, key=lambda r: r.error)
    passed = worst.error <= options.limit
    print(f"{'passed' if passed else 'FAILED'}: the worst, {worst.what}, differs by {100 * worst.error:.3f} % of at most {100 * options.limit:g} %")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
