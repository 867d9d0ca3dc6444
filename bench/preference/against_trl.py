"""A step of DPO against TRL's, in turns on the CPU: tokens per second and peak memory, with and
without a kept reference.

    python3 bench/preference/against_trl.py --forge build/bin/forge --python VENV/bin/python --model FOLDER
        [--rounds 3] [--steps 5] [--precision fp32] [--write bench/results/preference-speed-DATE.md]

FOLDER is SmolLM2-135M-Instruct as transformers reads it. --python has torch, transformers, peft,
trl and datasets. Each contestant is a process of its own, measured from outside
(bench/cpu/contestants.py): the rate over the steps after two of warm-up, and the largest resident
set of the process. Contestants take turns, so that other load on the machine affects both. A ratio
is the median over rounds of each round's ratio. Exits 1 if forge has less than twice the rate or
uses more than 0.4 of the memory.
"""
import datetime
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "cpu"))
import contestants  # noqa: E402

RATE, MEMORY = 2.0, 0.4


def write_job(folder: Path, args, cached: bool) -> Path:
    job = {
        "version": 1, "name": "dpo", "seed": 1, "output_dir": str(folder / "runs"), "model": {"path": str(args.model)},
        "adapter": {"type": "lora", "rank": 8, "alpha": 16}, "objective": {"type": "dpo", "reference_cache": cached},
        "data": {"train": str(ROOT / "examples" / "brief-answers.jsonl"), "max_length": 256},
        "train": {"max_steps": args.steps, "global_batch_size": 8, "precision": args.precision, "threads": os.cpu_count()},
        "optimizer": {"learning_rate": 5e-5}, "schedule": {"type": "constant"}, "eval": {"samples": 0},
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def turn(name: str, args, cached: bool) -> contestants.Result:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        job, log = write_job(folder, args, cached), folder / "log"
        if name == "forge":
            return contestants.measure([args.forge, "run", str(job), "--quiet"], folder / "runs" / "dpo" / "metrics.jsonl", log)
        metrics = folder / "metrics.jsonl"
        return contestants.measure([args.python, str(ROOT / "bench" / "preference" / "peer.py"), str(job), str(metrics)], metrics, log)


def main() -> int:
    parser = contestants.arguments(__doc__)
    parser.add_argument("--precision", default="fp32")
    args = parser.parse_args()
    lines = [f"# DPO against TRL 1.16, SmolLM2-135M-Instruct, LoRA rank 8, 8 pairs a step, {args.precision}", "",
             f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores", "",
             "    python3 " + " ".join(["bench/preference/against_trl.py", *sys.argv[1:]]), "",
             "| reference | round | forge tokens/s | TRL tokens/s | ratio | forge peak MB | TRL peak MB | ratio |",
             "|---|---|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(lines[-2:]), flush=True)
    good = True
    for cached in (False, True):
        label, rates, memories = "kept" if cached else "beside each step", [], []
        for number in range(args.rounds):
            results = {name: turn(name, args, cached) for name in (("forge", "trl") if number % 2 == 0 else ("trl", "forge"))}
            own, other = results["forge"], results["trl"]
            rates.append(own.tokens_per_second / other.tokens_per_second)
            memories.append(own.peak_rss_bytes / other.peak_rss_bytes)
            lines.append(f"| {label} | {number + 1} | {own.tokens_per_second:.0f} | {other.tokens_per_second:.0f} | {rates[-1]:.2f} | "
                         f"{own.peak_rss_bytes / 1e6:.0f} | {other.peak_rss_bytes / 1e6:.0f} | {memories[-1]:.2f} |")
            print(lines[-1], flush=True)
        rate, memory = statistics.median(rates), statistics.median(memories)
        lines.append(f"| {label} | median | | | {rate:.2f} | | | {memory:.2f} |")
        print(lines[-1], flush=True)
        good &= rate >= RATE and memory <= MEMORY
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
