"""Measures the training steps of layers with a gated delta rule, next to transformers' torch path.

    PYTHON bench/delta/against_transformers.py --forge build/bin/forge [--layers 2] [--tokens 512] [--rows 2] [--steps 4] [--rounds 3]
        [--threads 1] [--write bench/results/delta-DATE.md]

PYTHON has torch and transformers. The model has layers of the widths of Qwen3.5-0.8B, drawn weights
and a small vocabulary, so that the layers are nearly all of its work. Both programs train all
weights in fp32 on the same rows, in turns. The first losses must agree to 1e-4. Prints seconds a
step, the least and the median of all rounds: on a machine that does other work, too, the least is
the fairer number.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen3_5TextConfig

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY, WARM_UP = 384, 1


def write_model(folder: Path, layers: int) -> None:
    torch.manual_seed(3)
    config = Qwen3_5TextConfig(
        vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=3584, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=2,
        head_dim=256, linear_num_key_heads=16, linear_num_value_heads=16, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_conv_kernel_dim=4, layer_types=["linear_attention"] * layers, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ROOT / "tests/fixtures/tiny-llama" / name, folder / name)


def write_rows(path: Path, args) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(3, VOCABULARY, (args.rows * (WARM_UP + args.steps), args.tokens), generator=generator).tolist()
    path.write_text("".join(json.dumps({"input_ids": row, "labels": row}) + "\n" for row in rows))
    return rows


def by_forge(folder: Path, name: str, args) -> tuple[list[float], list[float]]:
    """Returns (losses, seconds of each step after the warm-up)."""
    job = folder / f"{name}.json"
    job.write_text(json.dumps({
        "version": 1, "name": name, "seed": 1, "output_dir": str(folder / "runs"), "model": {"path": str(folder / "model")}, "adapter": "none",
        "data": {"train": [{"path": str(folder / "rows.jsonl")}], "shuffle": False, "max_length": args.tokens},
        "train": {"max_steps": WARM_UP + args.steps, "global_batch_size": args.rows, "precision": "fp32", "threads": args.threads},
        "optimizer": {"learning_rate": 1e-5, "weight_decay": 0.0}, "schedule": {"type": "constant"},
        "checkpoint": {"every_steps": WARM_UP + args.steps}}))
    subprocess.run([args.forge, "run", str(job), "--quiet"], check=True)
    events = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    return [step["loss"] for step in steps], [step["step_seconds"] for step in steps[WARM_UP:]]


def by_transformers(folder: Path, rows: list[list[int]], args) -> tuple[list[float], list[float]]:
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0)
    model.train()
    losses, seconds = [], []
    for step in range(WARM_UP + args.steps):
        ids = torch.tensor(rows[step * args.rows : (step + 1) * args.rows])
        began = time.monotonic()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.monotonic() - began)
    return losses, seconds[WARM_UP:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    for name, number in (("layers", 2), ("tokens", 512), ("rows", 2), ("steps", 4), ("rounds", 3), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    own, theirs = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_model(folder / "model", args.layers)
        rows = write_rows(folder / "rows.jsonl", args)
        for number in range(args.rounds):
            losses, seconds = by_forge(folder, f"round-{number}", args)
            other, their_seconds = by_transformers(folder, rows, args)
            assert abs(losses[0] - other[0]) < 1e-4 * other[0], (losses, other)
            own += seconds
            theirs += their_seconds
            print(f"round {number}: forge {min(seconds):.3f} s, transformers {min(their_seconds):.3f} s a step", flush=True)
    least, median = (f(theirs) / f(own) for f in (min, statistics.median))
    lines = ["# Training steps of layers with a gated delta rule, next to transformers", "",
             f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, {args.threads} used. {args.layers} layers, {args.rows} rows of "
             f"{args.tokens} tokens, full fine-tuning in fp32, {args.rounds} rounds in turns.", "",
             "    python " + " ".join(["bench/delta/against_transformers.py", *sys.argv[1:]]), "",
             "| | forge | transformers | ratio |", "|---|---:|---:|---:|",
             f"| least seconds a step | {min(own):.3f} | {min(theirs):.3f} | {least:.2f} |",
             f"| median | {statistics.median(own):.3f} | {statistics.median(theirs):.3f} | {median:.2f} |"]
    print("\n".join(lines))
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
