"""Pretraining from random weights against transformers' Trainer, in turns on the CPU.

    python3 bench/pretrain/against_trainer.py --forge build/bin/forge --python VENV/bin/python
        [--texts '/usr/share/doc/*/copyright'] [--rounds 3] [--steps 12] [--write bench/results/pretrain-DATE.md]

Compares losses, tokens per second, peak memory and the perplexity of held-out texts. Trains on this
repository's own docs, or on the files that --texts matches, each text once; every tenth is held
out. Rows have 128 tokens, 16 a step, in fp32; a tenth of the steps is warm-up. --python has torch,
transformers and tokenizers. Each contestant is a process of its own, measured from outside
(bench/cpu/contestants.py).

The table says how many of the first steps have losses within 1e-4. Below it stands the same count
for a Trainer that clips by the exact norm of the gradients, and for that Trainer against itself
from weights moved by 1e-7 of themselves. Exits 1 if forge has fewer than 40 such steps beside the
exact one, or is slower.
"""
import argparse
import datetime
import glob
import json
import math
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

MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"  # has the tokenizer
ARCHITECTURE = {"vocab_size": 8192, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 4,
                "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 1024, "tie_word_embeddings": True}
PEER = str(ROOT / "bench" / "pretrain" / "peer.py")
TOLERANCE = 1e-4


def job(folder: Path, name: str, steps: int, **sections) -> Path:
    whole = {
        "version": 1, "name": name, "seed": 5, "output_dir": str(folder / "runs"), "objective": "pretrain", "adapter": "none",
        "model": {"path": str(MODEL), "init": "random", "architecture": ARCHITECTURE},
        "data": {split: [{"path": str(folder / f"{split}.jsonl"), "format": "text"}] for split in ("train", "eval")}
        | {"max_length": 128, "join_documents": True, "shuffle": False},
        "train": {"max_steps": steps, "global_batch_size": 16, "precision": "fp32", "threads": os.cpu_count()},
        "optimizer": {"learning_rate": 1e-3, "weight_decay": 0.1}, "schedule": {"type": "constant", "warmup_steps": steps // 10}, "eval": {"samples": 0},
    } | sections
    path = folder / f"{name}.json"
    path.write_text(json.dumps(whole))
    return path


def write_texts(folder: Path, pattern: str) -> dict[str, int]:
    """Writes the texts into a folder by split; returns the characters of each."""
    texts = list(dict.fromkeys(Path(path).read_text(errors="replace") for path in sorted(glob.glob(pattern))))
    splits = {"eval": texts[9::10], "train": [text for number, text in enumerate(texts) if number % 10 != 9]}
    for split, chosen in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in chosen))
    return {split: sum(map(len, chosen)) for split, chosen in splits.items()}


def held_out(metrics: Path) -> float:
    return [event for event in map(json.loads, metrics.read_text().splitlines()) if event["event"] == "eval"][-1]["eval_loss"]


def drawn(folder: Path, forge: str) -> Path:
    """Returns a model folder with the weights that both begin with, written by a step too small to
    change them.
    """
    start = job(folder, "start", 1, optimizer={"type": "sgd", "learning_rate": 1e-30, "weight_decay": 0})
    subprocess.run([forge, "run", str(start), "--quiet"], check=True)
    return folder / "runs" / "start" / "model"


def equal_steps(losses: list[float], others: list[float]) -> int:
    """Returns how many of the first steps have losses within the tolerance."""
    return next((step for step, (a, b) in enumerate(zip(losses, others)) if abs(a - b) > TOLERANCE), len(losses))


def turn(who: str, number: int, folder: Path, args, start: Path) -> tuple[contestants.Result, float]:
    """Runs one contestant; returns its measurements and the mean loss of the held-out texts."""
    path, log = job(folder, f"{who}-{number}", args.steps), folder / f"{who}-{number}.log"
    metrics = folder / "runs" / path.stem / "metrics.jsonl" if who == "forge" else folder / f"{who}-{number}.jsonl"
    command = {"forge": [args.forge, "run", str(path), "--quiet"],
               "trainer": [args.python, PEER, str(path), str(start), str(metrics)],
               "exact": [args.python, PEER, str(path), str(start), str(metrics), "--exact-norm"],
               "nudged": [args.python, PEER, str(path), str(start), str(metrics), "--exact-norm", "--nudge", "1e-7"]}[who]
    return contestants.measure(command, metrics, log), held_out(metrics)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--texts", default=str(ROOT / "docs" / "*.md"), help="glob pattern of the texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    told = " ".join(f"'{word}'" if "*" in word else word for word in sys.argv[1:])
    lines = ["# Pretraining from drawn weights against transformers' Trainer, fp32", "",
             f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores. Llama of 6 layers, 256 wide, a vocabulary of 8,192, "
             f"tied; AdamW; 16 rows of 128 tokens a step, {args.steps} steps, a tenth of them warm-up.", "",
             f"    python3 bench/pretrain/against_trainer.py {told}", "",
             "| round | forge tokens/s | Trainer tokens/s | ratio | forge peak MB | Trainer peak MB | first steps within 1e-4 "
             "| forge's held-out perplexity | Trainer's |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    print("\n".join(lines[-2:]), flush=True)
    ratios = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        characters = write_texts(folder, args.texts)
        start = drawn(folder, args.forge)
        for number in range(args.rounds):
            results = {who: turn(who, number, folder, args, start) for who in (("forge", "trainer") if number % 2 == 0 else ("trainer", "forge"))}
            (own, own_loss), (other, other_loss) = results["forge"], results["trainer"]
            assert len(own.losses) == len(other.losses) == args.steps
            ratios.append(own.tokens_per_second / other.tokens_per_second)
            lines.append(f"| {number + 1} | {own.tokens_per_second:.0f} | {other.tokens_per_second:.0f} | {ratios[-1]:.2f} | "
                         f"{own.peak_rss_bytes / 1e6:.0f} | {other.peak_rss_bytes / 1e6:.0f} | {equal_steps(own.losses, other.losses)} of {args.steps} | "
                         f"{math.exp(own_loss):.4f} | {math.exp(other_loss):.4f} |")
            print(lines[-1], flush=True)
        exact, exact_loss = turn("exact", 0, folder, args, start)
        nudged, nudged_loss = turn("nudged", 0, folder, args, start)
    equal = equal_steps(own.losses, exact.losses)
    ratio = statistics.median(ratios)
    lines += [f"| median | | | {ratio:.2f} | | | | | |", "",
              f"Losses of the last run's first and last steps: {own.losses[0]:.4f} and {own.losses[-1]:.4f}. Trained on texts of "
              f"{characters['train']:,} characters, {characters['eval']:,} held out. Beside a Trainer that clips by the exact norm of the gradients: "
              f"{equal} of {args.steps} first steps within 1e-4, and a held-out perplexity of {math.exp(exact_loss):.4f}. That one from weights moved "
              f"by 1e-7 of themselves, beside itself: {equal_steps(nudged.losses, exact.losses)} of {args.steps}, {math.exp(nudged_loss):.4f}."]
    print("\n".join(lines[-3:]), flush=True)
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")
    return int(equal < min(40, args.steps) or ratio < 1)


if __name__ == "__main__":
    sys.exit(main())
