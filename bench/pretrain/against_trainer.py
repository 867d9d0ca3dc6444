"""Pretraining from drawn weights against transformers' Trainer, in turns on the CPU: equal losses, tokens per second, peak memory.

    python3 bench/pretrain/against_trainer.py --forge build/bin/forge --python VENV/bin/python
        [--rounds 3] [--steps 12] [--write bench/results/pretrain-DATE.md]

Trains on this repository's own docs, rows of 128 tokens, 16 a step, in fp32. --python has torch, transformers and tokenizers. Each
contestant is a process of its own, measured from outside (bench/cpu/contestants.py). Exits 1 where a loss differs by more than 1e-4
or forge is slower.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "cpu"))
import contestants  # noqa: E402

MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"  # its tokenizer
ARCHITECTURE = {"vocab_size": 8192, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 1024, "tie_word_embeddings": True}
TOLERANCE = 1e-4


def job(folder: Path, name: str, steps: int, **sections) -> Path:
    whole = {
        "version": 1, "name": name, "seed": 5, "output_dir": str(folder / "runs"), "objective": "pretrain", "adapter": "none",
        "model": {"path": str(MODEL), "init": "random", "architecture": ARCHITECTURE},
        "data": {"train": [{"path": str(folder / "train.jsonl"), "format": "text"}], "max_length": 128, "join_documents": True,
                 "shuffle": False},
        "train": {"max_steps": steps, "global_batch_size": 16, "precision": "fp32", "threads": os.cpu_count()},
        "optimizer": {"learning_rate": 1e-3, "weight_decay": 0.1}, "schedule": {"type": "constant"}, "eval": {"samples": 0},
    } | sections
    path = folder / f"{name}.json"
    path.write_text(json.dumps(whole))
    return path


def write_texts(folder: Path) -> None:
    texts = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
    (folder / "train.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def drawn(folder: Path, forge: str) -> Path:
    """The weights that both begin with: a step too small to change them."""
    start = job(folder, "start", 1, optimizer={"type": "sgd", "learning_rate": 1e-30, "weight_decay": 0})
    subprocess.run([forge, "run", str(start), "--quiet"], check=True)
    return folder / "runs" / "start" / "model"


def turn(who: str, number: int, folder: Path, args, start: Path) -> contestants.Result:
    path, log = job(folder, f"{who}-{number}", args.steps), folder / f"{who}-{number}.log"
    if who == "forge":
        return contestants.measure([args.forge, "run", str(path), "--quiet"], folder / "runs" / path.stem / "metrics.jsonl", log)
    metrics = folder / f"{who}-{number}.jsonl"
    return contestants.measure([args.python, str(ROOT / "bench" / "pretrain" / "peer.py"), str(path), str(start), str(metrics)], metrics, log)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    lines = ["# Pretraining from drawn weights against transformers' Trainer, fp32", "",
             f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores. Llama of 6 layers, 256 wide, a vocabulary of 8,192, "
             f"tied; AdamW; 16 rows of 128 tokens a step, {args.steps} steps.", "",
             "    python3 " + " ".join(["bench/pretrain/against_trainer.py", *sys.argv[1:]]), "",
             "| round | forge tokens/s | Trainer tokens/s | ratio | forge peak MB | Trainer peak MB | largest difference of a loss |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(lines[-2:]), flush=True)
    ratios, worst = [], 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_texts(folder)
        start = drawn(folder, args.forge)
        for number in range(args.rounds):
            results = {who: turn(who, number, folder, args, start) for who in (("forge", "trainer") if number % 2 == 0 else ("trainer", "forge"))}
            own, other = results["forge"], results["trainer"]
            assert len(own.losses) == len(other.losses) == args.steps
            difference = max(abs(a - b) for a, b in zip(own.losses, other.losses))
            worst = max(worst, difference)
            ratios.append(own.tokens_per_second / other.tokens_per_second)
            lines.append(f"| {number + 1} | {own.tokens_per_second:.0f} | {other.tokens_per_second:.0f} | {ratios[-1]:.2f} | "
                         f"{own.peak_rss_bytes / 1e6:.0f} | {other.peak_rss_bytes / 1e6:.0f} | {difference:.1e} |")
            print(lines[-1], flush=True)
    ratio = statistics.median(ratios)
    lines.append(f"| median | | | {ratio:.2f} | | | |")
    print(lines[-1], flush=True)
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")
    return int(worst > TOLERANCE or ratio < 1)


if __name__ == "__main__":
    sys.exit(main())
