#!/usr/bin/env python3
"""Compares the planned seconds per step with the measured ones. Standard library only.

    python3 bench/time/run.py --forge build/bin/forge [--gguf SmolLM2-135M-Instruct.gguf] [--steps 8] [--only TEXT]
        [--write bench/results/time-DATE.md]

For each cell `forge bench --kernels` measures this machine, `forge plan` predicts the seconds of a
step, and `forge run` takes the steps, each full of packed rows. Measured is the median step after
two that warm up. Exits 1 if a plan is more than 10 % off.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "memory"))
import models  # noqa: E402

TINY = ROOT / "tests" / "fixtures" / "tiny-llama"
WARM_UP = 2
WITHIN = 0.10
LENGTHS = (128, 256, 384, 256)  # tokens of four rows that fill 1,024


@dataclass
class Cell:
    model: str  # "SmolLM2" or one of models.SIZES
    precision: str
    again: str = "none"  # activation_checkpointing
    adapter: str = "lora"
    length: int = 1  # factor of LENGTHS

    @property
    def name(self) -> str:
        long = f", rows of up to {max(LENGTHS) * self.length}" if self.length > 1 else ""
        return f"{self.model} {self.adapter} {self.precision}, computed again: {self.again}{long}"


CELLS = [Cell("SmolLM2", "fp32"), Cell("SmolLM2", "bf16"), Cell("SmolLM2", "bf16", again="full"),
         Cell("10m", "fp32"), Cell("10m", "bf16"), Cell("10m", "fp32", adapter="none"), Cell("10m", "fp32", length=4),
         Cell("2m", "fp32"), Cell("2m", "fp32", again="selective"), Cell("gemma2", "fp32")]


def write_job(args, cell: Cell, folder: Path) -> Path:
    model = args.gguf if cell.model == "SmolLM2" else models.write_model(folder / cell.model, models.SIZES[cell.model], TINY)
    rows = models.write_rows(folder / "rows.jsonl", [length * cell.length for length in LENGTHS] * 32, vocabulary=384)
    adapter = {"type": "lora", "rank": 16, "alpha": 32} if cell.adapter == "lora" else {"type": "none"}
    content = {"version": 1, "name": "timed", "output_dir": str(folder / "runs"), "model": {"path": str(model)},
               "adapter": adapter, "objective": {"type": "sft", "train_on": "all"},
               "data": {"train": [{"path": str(rows), "format": "tokens"}], "max_length": 1024 * cell.length, "packing": True},
               "train": {"max_steps": args.steps, "global_batch_tokens": 2048 * cell.length, "precision": cell.precision,
                         "activation_checkpointing": cell.again},
               "eval": {"samples": 0}, "log": {"tensorboard": False}, "checkpoint": {"every_steps": args.steps},
               "hardware": {"device": "cpu"}, "provider": "fused"}
    path = folder / "job.json"
    path.write_text(json.dumps(content))
    return path


def measure(args, cell: Cell) -> tuple[float, float]:
    """Returns the seconds per step: (planned, measured)."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        job = write_job(args, cell, folder)

        def forge(*arguments) -> str:
            done = subprocess.run([args.forge, *arguments, str(job)], capture_output=True, text=True)
            return done.stdout if done.returncode == 0 else sys.exit(done.stdout + done.stderr)

        forge("bench", "--kernels", "--quiet")
        planned = json.loads(forge("plan", "--json"))["time"]["step_seconds"]
        forge("run", "--quiet")
        events = [json.loads(line) for line in (folder / "runs" / "timed" / "metrics.jsonl").read_text().splitlines()]
        steps = [event["step_seconds"] for event in events if event["event"] == "step"][WARM_UP:]
        return planned, statistics.median(steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--gguf", type=Path, default=Path.home() / ".cache/forge/models/SmolLM2-135M-Instruct.gguf")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    lines, worst = ["| job | planned, s | measured, s | planned / measured |", "|---|---:|---:|---:|"], 0.0
    for cell in (cell for cell in CELLS if args.only in cell.name):
        planned, measured = measure(args, cell)
        worst = max(worst, abs(planned / measured - 1))
        lines.append(f"| {cell.name} | {planned:.4f} | {measured:.4f} | {planned / measured:.3f} |")
        print(lines[-1], flush=True)
    if args.write:
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
        head = (f"# Seconds a step, planned and measured, {datetime.date.today()}\n\n{cpu}, {len(os.sched_getaffinity(0))} threads, "
                f"`python3 bench/time/run.py {' '.join(sys.argv[1:])}`\n\n")
        args.write.write_text(head + "\n".join(lines) + "\n")
    return int(worst > WITHIN)


if __name__ == "__main__":
    sys.exit(main())
