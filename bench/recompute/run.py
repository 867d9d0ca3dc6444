#!/usr/bin/env python3
"""Measures the gain of choosing recomputation value by value: tokens/s under shrinking memory.
Standard library only.

    python3 bench/recompute/run.py --forge build/bin/forge [--size 10m | --model GGUF] [--limits 8] [--steps 6] [--rounds 3]
        [--tokens 4096] [--precision fp32] [--provider fused] [--write bench/results/recompute-DATE.md]

The memory between no recomputation and all of it, at the profile's micro-batch, is divided into
equal parts. Under each limit a LoRA job runs as the plan chooses (auto) and with each fixed choice,
for which the plan chooses the micro-batch as well; a choice that does not fit is left out. In each
round every contestant runs once, in turn. A ratio is auto's rate over that of the fastest fixed
choice of the same round; the table shows the median (lowest to highest) over rounds. Exits 1 if a
median is below 0.97.
"""
import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "memory"))
import models  # noqa: E402

TINY = ROOT / "tests" / "fixtures" / "tiny-llama"
FIXED = ("none", "selective", "full")
WARM_UP = 2
LOWEST = 0.97


def job(args, folder: Path, model: Path, name: str, choice: str, limit: int | None) -> Path:
    rows = models.write_rows(folder / "rows.jsonl", [96 + 37 * i % 400 for i in range(64)], 384)
    train = {"max_steps": args.steps, "global_batch_tokens": args.tokens, "precision": args.precision}
    if choice != "auto":
        train["activation_checkpointing"] = choice
    content = {"version": 1, "name": name, "output_dir": str(folder / "runs"), "model": {"path": str(model)},
               "adapter": {"type": "lora", "rank": 16, "alpha": 32}, "objective": {"type": "sft", "train_on": "all"},
               "data": {"train": [{"path": str(rows), "format": "tokens"}], "max_length": 1024}, "train": train,
               "log": {"tensorboard": False}, "checkpoint": {"every_steps": args.steps}, "hardware": {"device": "cpu"},
               "provider": args.provider}
    if limit:
        content["hardware"]["memory_limit"] = limit
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    return path


def plan(args, path: Path) -> dict | None:
    done = subprocess.run([args.forge, "plan", "--json", str(path)], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def rate(args, path: Path, folder: Path) -> float:
    subprocess.run([args.forge, "run", "--fresh", "--quiet", str(path)], check=True, capture_output=True)
    lines = [json.loads(line) for line in (folder / "runs" / path.stem / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "tokens_per_second" in line][WARM_UP:]
    return statistics.median(line["tokens_per_second"] for line in steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--size", default="10m", choices=list(models.SIZES))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--limits", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=4096, help="tokens per step")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--provider", default="fused")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    rows = ["| limit | auto computes again | micro-batch | fixed choices that fit, tokens/s | auto, tokens/s | ratio |", "|---|---|---|---|---|---|"]
    worst = 9.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = args.model or models.write_model(folder / args.size, models.SIZES[args.size], TINY)
        unlimited = plan(args, job(args, folder, model, "unlimited", "none", None))
        full = plan(args, job(args, folder, model, "full", "full", None))
        most, least = (p["memory"]["predicted_peak_bytes"] for p in (unlimited, full))
        for part in range(args.limits):
            limit = most - (most - least) * part // (args.limits - 1)
            paths = {choice: job(args, folder, model, f"{choice}-{part}", choice, limit) for choice in ("auto", *FIXED)}
            planned = {choice: plan(args, path) for choice, path in paths.items()}
            fits = [choice for choice in paths if planned[choice]]
            rounds = [{choice: rate(args, paths[choice], folder) for choice in fits} for _ in range(args.rounds)]
            ratios = [one["auto"] / max(rate for choice, rate in one.items() if choice != "auto") for one in rounds]
            median = statistics.median(ratios)
            worst = min(worst, median)
            again = planned["auto"]["memory"]["recompute"]
            text = ", ".join(f"{group} {layers}" for group, layers in again.items()) or "nothing"
            others = ", ".join(f"{c} {statistics.median(r[c] for r in rounds):.0f} (micro-batch {planned[c]['job']['train']['micro_batch_tokens']})"
                               for c in fits if c != "auto")
            own = statistics.median(r["auto"] for r in rounds)
            rows.append(f"| {limit / 1e6:.1f} MB | {text} | {planned['auto']['job']['train']['micro_batch_tokens']} | {others} | {own:.0f} | "
                        f"{median:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
            print(rows[-1], flush=True)
    if args.write:
        machine = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
                       platform.processor())
        head = f"# Recomputation under shrinking memory, {datetime.date.today()}\n\n{machine}, `python3 bench/recompute/run.py {' '.join(sys.argv[1:])}`\n\n"
        args.write.write_text(head + "\n".join(rows) + "\n")
    return worst < LOWEST


if __name__ == "__main__":
    sys.exit(main())
