"""GRPO against TRL's, in turns on the CPU: the step on the same completions, and sampling against
transformers' generate.

    python3 bench/reinforce/against_trl.py --forge build/bin/forge --python VENV/bin/python --model FOLDER
        [--rounds 3] [--steps 5] [--precision fp32 bf16] [--max-new-tokens 32]
        [--write bench/results/reinforce-speed-DATE.md]

FOLDER is SmolLM2-135M-Instruct as transformers reads it. --python has torch, transformers, peft,
trl and datasets. In each round forge runs a job of 4 × 8 completions; then peer.py takes the same
steps on the completions that forge sampled, and samples as many from the same prompts.

forge's rates come from its own events: tokens over train_seconds, sampled tokens over
sample_seconds. --steps is the number of counted steps, after two of warm-up on each side. Memory is
the largest resident set of the process, for forge with sampling, for TRL without. A ratio is the
median over rounds of each round's ratio. Exits 1 if one misses its mark.
"""
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "cpu"))
import contestants  # noqa: E402

TRAIN, MEMORY, DRAW = 2.0, 0.4, 5.0


def write_job(folder: Path, args, precision: str) -> Path:
    job = {
        "version": 1, "name": "grpo", "seed": 1, "output_dir": str(folder / "runs"), "model": {"path": str(args.model)},
        "adapter": {"type": "lora", "rank": 8, "alpha": 16}, "objective": {"type": "grpo"},
        "data": {"train": str(ROOT / "examples" / "plain-questions.jsonl"), "max_length": 96 + args.max_new_tokens},
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 8, "max_new_tokens": args.max_new_tokens},
        "rewards": [{"type": "length", "max": 1, "slack": 400, "unit": "characters"}],  # hardly two texts have equal lengths
        # About eight completions with their prompts, as in TRL's micro-batches.
        "train": {"max_steps": contestants.WARM_UP_STEPS + args.steps, "micro_batch_tokens": 8 * (40 + args.max_new_tokens), "precision": precision, "threads": os.cpu_count()},
        "optimizer": {"learning_rate": 1e-6}, "schedule": {"type": "constant"},
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


def forge_turn(args, folder: Path, job: Path) -> tuple:
    """Returns (trained tokens a second, sampled tokens a second, peak bytes)."""
    run = folder / "runs" / "grpo"
    result = contestants.measure([args.forge, "run", str(job), "--quiet"], run / "metrics.jsonl", folder / "log")
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    counted = slice(contestants.WARM_UP_STEPS, None)
    rollouts = [e for e in events if e["event"] == "rollout"][counted]
    steps = [e for e in events if e["event"] == "step"][counted]
    trained = sum(e["tokens"] for e in steps) / sum(e["train_seconds"] for e in rollouts)
    drawn = sum(e["sample_tokens_per_second"] * e["sample_seconds"] for e in rollouts) / sum(e["sample_seconds"] for e in rollouts)
    return trained, drawn, result.peak_rss_bytes


def peer_turn(args, what: str, folder: Path, job: Path) -> contestants.Result:
    metrics = folder / f"{what}.jsonl"
    command = [args.python, str(ROOT / "bench" / "reinforce" / "peer.py"), what, str(job), str(folder / "runs" / "grpo"), str(folder / "dump.jsonl"),
               str(metrics)]
    return contestants.measure(command, metrics, folder / "log")


def processor() -> str:
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    flags = Path("/proc/cpuinfo").read_text()
    has = ", ".join(word for word, flag in (("AMX-BF16", "amx_bf16"), ("AVX512-BF16", "avx512_bf16"), ("AVX-512", "avx512f")) if flag in flags)
    return f"{names[0] if names else 'unknown processor'} ({has}), {os.cpu_count()} cores"


def measure(args, precision: str) -> tuple:
    """Returns (lines of a table, True if every ratio reaches its mark)."""
    lines = [f"## {precision}", "",
             "| round | forge trains tokens/s | TRL | ratio | forge draws tokens/s | generate | ratio | forge peak MB | TRL peak MB | ratio |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    ratios = {"train": [], "draw": [], "memory": []}
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            job = write_job(folder, args, precision)
            subprocess.run([args.forge, "data", str(job), "--dump", str(folder / "dump.jsonl")], check=True, capture_output=True)
            trained, drawn, peak = forge_turn(args, folder, job)
            train, generate = peer_turn(args, "train", folder, job), peer_turn(args, "generate", folder, job)
        ratios["train"].append(trained / train.tokens_per_second)
        ratios["draw"].append(drawn / generate.tokens_per_second)
        ratios["memory"].append(peak / train.peak_rss_bytes)
        lines.append(f"| {number + 1} | {trained:.0f} | {train.tokens_per_second:.0f} | {ratios['train'][-1]:.2f} | {drawn:.0f} | "
                     f"{generate.tokens_per_second:.0f} | {ratios['draw'][-1]:.2f} | {peak / 1e6:.0f} | {train.peak_rss_bytes / 1e6:.0f} | "
                     f"{ratios['memory'][-1]:.2f} |")
        print(lines[-1], flush=True)
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    lines += [f"| median | | | {medians['train']:.2f} | | | {medians['draw']:.2f} | | | {medians['memory']:.2f} |", ""]
    print(lines[-2], flush=True)
    return lines, medians["train"] >= TRAIN and medians["draw"] >= DRAW and medians["memory"] <= MEMORY


def main() -> int:
    parser = contestants.arguments(__doc__)
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--max-new-tokens", type=int, default=32)
    args = parser.parse_args()
    if args.steps < 1 or args.rounds < 1:
        parser.error("--steps and --rounds are at least 1")
    lines = [f"# GRPO against TRL 1.16: SmolLM2-135M-Instruct, LoRA rank 8, 4 × 8 completions of at most {args.max_new_tokens} tokens", "",
             f"{datetime.date.today()}, {processor()}", "",
             f"    python3 bench/reinforce/against_trl.py --forge build/bin/forge --python VENV/bin/python --model FOLDER --rounds {args.rounds} "
             f"--steps {args.steps} --precision {' '.join(args.precision)} --max-new-tokens {args.max_new_tokens}", "",
             f"Wanted: training at least {TRAIN:g} times as fast in at most {MEMORY:g} of the memory, drawing at least {DRAW:g} times as fast.", ""]
    print("\n".join(lines), flush=True)
    reached = True
    for precision in args.precision:
        table, good = measure(args, precision)
        lines, reached = lines + table, reached and good
        if args.write:
            args.write.write_text("\n".join(lines))
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())
