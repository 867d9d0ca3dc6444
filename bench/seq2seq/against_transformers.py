"""T5 and BART models learn to summarise and to answer, next to transformers on the same batches.

    PYTHON bench/seq2seq/against_transformers.py --forge build/bin/forge [--models t5 flan-t5 bart t5-small bart-base]
        [--tasks summary question short] [--steps 600] [--seeds 1] [--nudged 0] [--threads 1] [--write bench/results/seq2seq-DATE.md]

Compares losses, ROUGE-L of greedy answers, and seconds. PYTHON has torch, transformers and
tokenizers. Both begin with the same random weights and see the same rows in the same order, 16 a
step. forge tokenises, trains, writes the model, answers and scores by its own commands;
transformers' answers are scored by the same formula (rouge_score's ROUGE-L F).

The first steps' losses agree to rounding. After hundreds of steps rounding has grown into other
weights of the same quality, so that one run's ROUGE-L scatters until the task is learned. --nudged
trains transformers that many more times from weights moved by 1e-7 of themselves, which shows how
much it scatters. Exits 1 if forge's ROUGE-L is more than 0.02 below the least of transformers'.
"""
import argparse
import datetime
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, get_scheduler

import material

HELD_OUT, BATCH, NEW_TOKENS = 200, 16, 48
WARM_UP = 100
RATES = {"t5-small": 1e-3, "bart-base": 2e-4}  # 2e-3 for the others
TASKS = {
    "short": (material.short_rows, lambda row: row["document"], lambda row: row["summary"]),
    "summary": (material.summary_rows, lambda row: row["document"], lambda row: row["summary"]),
    "question": (material.question_rows, lambda row: row["question"] + "\n" + row["context"], lambda row: row["answer"]),
}


def words(text: str) -> list[str]:
    return "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split()


def rouge_l(answer: str, reference: str) -> float:
    a, b = words(answer), words(reference)
    row = [0] * (len(b) + 1)
    for word in a:
        before, row = row, [0]
        for i, other in enumerate(b):
            row.append(before[i] + 1 if word == other else max(before[i + 1], row[-1]))
    common = row[-1]
    return 2 * common / (len(a) + len(b)) if a and b else 0.0


def job(name: str, model: Path, data: Path, folder: Path, args, rate: float) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({
        "version": 1, "name": name, "seed": 1, "output_dir": str(folder / "runs"), "model": {"path": str(model)}, "adapter": "none",
        "data": {"train": [{"path": str(data)}], "shuffle": False, "max_length": 256},
        "train": {"max_steps": args.steps, "global_batch_size": BATCH, "precision": "fp32", "threads": args.threads},
        "optimizer": {"learning_rate": rate, "weight_decay": 0.0}, "schedule": {"type": "linear", "warmup_steps": WARM_UP},
        "eval": {"samples": 0}, "checkpoint": {"every_steps": args.steps}}))
    return path


def by_forge(forge: str, path: Path, folder: Path, held_out: Path) -> tuple[list[float], float, float, list[str]]:
    """Returns (losses, ROUGE-L by `forge eval`, seconds of training, answers)."""
    subprocess.run([forge, "run", str(path), "--quiet"], check=True)
    run = folder / "runs" / path.stem
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    answers = folder / f"{path.stem}-answers.jsonl"
    said = subprocess.run([forge, "eval", str(run), "--task", "answers", "--data", str(held_out), "--max-new-tokens", str(NEW_TOKENS), "--json",
                           "--per-example", str(answers)], check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    return [e["loss"] for e in steps], json.loads(said)["rouge_l"], sum(e["step_seconds"] for e in steps), [line["answer"] for line in lines]


def by_transformers(model_folder: Path, rows: list, held_out: list, steps: int, rate: float, nudged: int = 0) -> tuple[list[float], float, float, list[str]]:
    tokenizer, model = AutoTokenizer.from_pretrained(model_folder), AutoModelForSeq2SeqLM.from_pretrained(model_folder, dtype=torch.float32)
    if nudged:
        torch.manual_seed(nudged)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + 1e-7 * torch.randn_like(parameter))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    schedule = get_scheduler("linear", optimizer, WARM_UP, steps)
    model.train()
    losses, began = [], time.monotonic()
    for step in range(steps):
        at = step * BATCH % len(rows)
        batch = rows[at : at + BATCH]
        inputs = tokenizer([source for source, _ in batch], padding=True, return_tensors="pt")
        labels = tokenizer([target for _, target in batch], padding=True, return_tensors="pt")
        labels = labels.input_ids.masked_fill(labels.attention_mask == 0, -100)
        loss = model(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        losses.append(loss.item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    seconds = time.monotonic() - began
    model.eval()
    answers = []
    for at in range(0, len(held_out), 50):
        inputs = tokenizer([source for source, _ in held_out[at : at + 50]], padding=True, return_tensors="pt")
        ids = model.generate(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask, max_new_tokens=NEW_TOKENS, num_beams=1, do_sample=False)
        answers += [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]
    return losses, sum(map(rouge_l, answers, [target for _, target in held_out])) / len(held_out), seconds, answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--models", nargs="+", default=["t5", "flan-t5", "bart"], choices=material.KINDS)
    parser.add_argument("--tasks", nargs="+", default=["summary", "question"], choices=list(TASKS))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=1, help="seeds of the random weights and rows")
    parser.add_argument("--nudged", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lines = ["# Encoder-decoders learn to summarise and to answer, next to transformers", "",
             f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, {args.threads} used. Drawn weights; full fine-tuning in fp32, "
             f"{args.steps} steps of {BATCH} rows, the same in the same order; {HELD_OUT} held-out rows answered greedily.", "",
             "    python " + " ".join(["bench/seq2seq/against_transformers.py", *sys.argv[1:]]), "",
             "| model | weights | task | seed | forge ROUGE-L | transformers ROUGE-L | the same nudged by 1e-7 | equal answers | first loss, both | "
             "largest difference of a loss in the first 20 steps | last loss: forge, transformers | seconds of steps: forge, transformers | ratio |",
             "|---|---:|---|---:|---:|---:|---|---:|---|---:|---|---|---:|"]
    print("\n".join(lines[-2:]), flush=True)
    short = False
    for kind, seed, task in itertools.product(args.models, range(args.seeds), args.tasks):
        with tempfile.TemporaryDirectory() as temporary:
            folder, rate = Path(temporary), RATES.get(kind, 2e-3)
            size = material.write_model(kind, folder / kind, 3 + seed)
            make, source, target = TASKS[task]
            rows, held_out = make(args.steps * BATCH // 2, 5 + 100 * seed), make(HELD_OUT, 6 + 100 * seed)
            data, test = folder / f"{task}.jsonl", folder / f"{task}-test.jsonl"
            data.write_text("".join(json.dumps(row) + "\n" for row in rows))
            test.write_text("".join(json.dumps({"prompt": source(row), "reference": target(row)}) + "\n" for row in held_out))
            pairs = lambda some: [(source(row), target(row)) for row in some]  # noqa: E731
            own, own_rouge, own_seconds, own_answers = by_forge(args.forge, job(f"{kind}-{task}", folder / kind, data, folder, args, rate), folder, test)
            theirs = [by_transformers(folder / kind, pairs(rows), pairs(held_out), args.steps, rate, nudged) for nudged in range(args.nudged + 1)]
            other, other_rouge, seconds, answers = theirs[0]
            again = sum(map(rouge_l, own_answers, [target(row) for row in held_out])) / HELD_OUT
            assert abs(again - own_rouge) < 1e-6, "the two formulas of ROUGE-L differ"
            early = max(abs(a - b) for a, b in zip(own[:20], other[:20]))
            equal = sum(a == b for a, b in zip(own_answers, answers))
            nudges = ", ".join(f"{rouge:.4f}" for _, rouge, _, _ in theirs[1:])
            lines.append(f"| {kind} | {size:,} | {task} | {seed} | {own_rouge:.4f} | {other_rouge:.4f} | {nudges} | {equal} of {HELD_OUT} | {own[0]:.5f}, "
                         f"{other[0]:.5f} | {early:.1e} | {own[-1]:.4f}, {other[-1]:.4f} | {own_seconds:.0f}, {seconds:.0f} | {own_seconds / seconds:.2f} |")
            print(lines[-1], flush=True)
            short |= own_rouge < min(rouge for _, rouge, _, _ in theirs) - 0.02
            if args.write:
                args.write.write_text("\n".join(lines) + "\n")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
