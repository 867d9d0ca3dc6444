#!/usr/bin/env python3
"""Measures the gain of rollout.lookup_tokens: sampling rates with and without it, in turns.
Standard library only.

    python3 bench/reinforce/lookup.py build/bin/forge --model SmolLM2-135M-Instruct.gguf [--rounds 3] [--precision fp32 bf16] [--out FILE.json]

There are two tasks: in "copy" the answer is a sentence of the prompt written once more; "plain" has
the questions of examples/. Each is sampled as one group of 4 completions and as 4 groups of 8, of
at most 96 tokens, with 0, 4 and 8 guessed tokens. A run has two steps whose learning rate changes
nothing; a rate is sampled tokens over the sample_seconds of both. Ratios are taken within a round;
the output has the median (min … max). In fp32 the files of the rollouts must be the same bytes.
"""
import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import tiny

ROOT = Path(__file__).resolve().parents[2]
SIZES = [(1, 4), (4, 8)]  # groups, completions per group
GUESSES = [0, 4, 8]
NOUNS = ["harbour", "engine", "orchard", "lantern", "glacier", "violin", "market", "compass"]


def write_tasks(folder: Path) -> None:
    rows = []
    for i, noun in enumerate(NOUNS):
        other = NOUNS[(i + 3) % len(NOUNS)]
        text = (f"The old {noun} near the {other} was painted green in 19{20 + i}, and the people who lived beside the {other} walked past the {noun} "
                f"every morning before the market opened at {5 + i % 4} o'clock.")
        rows.append({"prompt": [{"role": "user", "content": f"Write this text three times, word for word:\n{text}"},
                                {"role": "assistant", "content": text}, {"role": "user", "content": "Now write it three more times."}]})
    tiny.write_rows(folder / "copy.jsonl", rows)
    (folder / "plain.jsonl").write_text((ROOT / "examples" / "plain-questions.jsonl").read_text())


def draw(args, folder: Path, task: str, groups: int, samples: int, guess: int, precision: str) -> tuple:
    """Returns (tokens a second, share of the guesses that were right or None, bytes of the
    rollouts).
    """
    name = f"{task}-{groups}-{guess}-{precision}"
    run = tiny.run(args.forge, folder, name, {
        "seed": 3, "model": {"path": str(Path(args.model).resolve())}, "adapter": {"type": "lora", "rank": 8}, "objective": {"type": "grpo"},
        "hardware": {"device": "cpu"}, "log": {"tensorboard": False}, "data": {"train": str(folder / f"{task}.jsonl"), "max_length": 512, "shuffle": False},
        "rollout": {"prompts_per_step": groups, "samples_per_prompt": samples, "max_new_tokens": 96, "lookup_tokens": guess},
        "rewards": [{"type": "length", "max": 1, "slack": 400, "unit": "characters"}],
        "train": {"max_steps": 2, "precision": precision}, "optimizer": {"learning_rate": 1e-12}, "schedule": {"type": "constant"}})
    rollouts = tiny.events(run, "rollout")
    seconds = sum(e["sample_seconds"] for e in rollouts)
    guessed = sum(e.get("lookup_guessed", 0) for e in rollouts)
    right = sum(e.get("lookup_right", 0) for e in rollouts) / guessed if guessed else None
    drawn = b"".join(path.read_bytes() for path in sorted(run.glob("rollouts/rollout-*.jsonl")))
    return sum(e["sample_tokens_per_second"] * e["sample_seconds"] for e in rollouts) / seconds, right, drawn


def spread(values: list) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} … {max(values):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--out")
    args = parser.parse_args()
    results, differ = [], 0
    print("| task | completions | precision | guessed | right | rate over that without |\n|---|---|---|---|---|---|")
    for precision in args.precision:
        for task in ("copy", "plain"):
            for groups, samples in SIZES:
                ratios, right = {guess: [] for guess in GUESSES[1:]}, {}
                for _ in range(args.rounds):
                    with tempfile.TemporaryDirectory() as temporary:
                        folder = Path(temporary)
                        write_tasks(folder)
                        without, _, plain = draw(args, folder, task, groups, samples, 0, precision)
                        for guess in GUESSES[1:]:
                            rate, right[guess], drawn = draw(args, folder, task, groups, samples, guess, precision)
                            ratios[guess].append(rate / without)
                            differ += precision == "fp32" and drawn != plain
                for guess in GUESSES[1:]:
                    share = "none guessed" if right[guess] is None else f"{right[guess]:.0%}"
                    print(f"| {task} | {groups} × {samples} | {precision} | {guess} | {share} | {spread(ratios[guess])} |", flush=True)
                    results.append({"task": task, "groups": groups, "samples": samples, "precision": precision, "guessed": guess, "right": right[guess],
                                    "ratios": [round(ratio, 3) for ratio in ratios[guess]]})
    if args.out:
        Path(args.out).write_text(json.dumps(results, indent=1) + "\n")
    if differ:
        print(f"{differ} rollouts differ in fp32")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
