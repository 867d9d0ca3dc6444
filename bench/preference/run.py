"""Checks that preferences are learned: examples/dpo-smollm2.yaml over several seeds. Standard
library only.

    python3 bench/preference/run.py --forge build/bin/forge [--seeds 1 2 3] [--gguf MODEL] [--write bench/results/preference-DATE.md]

Prints and writes each evaluation's accuracy, margin and changes of both answers' log-probabilities,
on pairs that were not trained on. Exits 1 if a seed's last accuracy is not above 0.9.
"""
import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("eval_loss", "eval_reward_accuracy", "eval_reward_margin", "eval_logp_chosen_change", "eval_logp_rejected_change")


def run(forge: str, gguf: Path, seed: int, folder: Path, settings: list) -> tuple:
    """Runs the job with one seed; returns (evaluations, steps, seconds)."""
    began = time.monotonic()
    own = [f"seed={seed}", f"model.path={gguf}", f"output_dir={folder}", f"name=seed-{seed}", *settings]
    arguments = [part for setting in own for part in ("--set", setting)]
    subprocess.run([forge, "run", str(ROOT / "examples" / "dpo-smollm2.yaml"), "--fresh", "--quiet", *arguments], check=True)
    events = [json.loads(line) for line in (folder / f"seed-{seed}" / "metrics.jsonl").read_text().splitlines()]
    by_kind = {kind: [e for e in events if e["event"] == kind] for kind in ("eval", "step")}
    return by_kind["eval"], by_kind["step"], time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--gguf", type=Path, default=Path.home() / ".cache/forge/models/SmolLM2-135M-Instruct.gguf")
    parser.add_argument("--set", action="append", default=[], help="set a key of the job, as KEY=VALUE")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    lines = ["# Preference: brief against wordy answers, SmolLM2-135M-Instruct, DPO", "",
             f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores", "",
             "    python3 " + " ".join(["bench/preference/run.py", *sys.argv[1:]]), "",
             "| seed | step | " + " | ".join(name.removeprefix("eval_") for name in COLUMNS) + " | seconds |",
             "|---|---|" + "---:|" * (len(COLUMNS) + 1)]
    accuracies = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in args.seeds:
            evaluations, _, seconds = run(args.forge, args.gguf, seed, Path(folder), args.set)
            for event in evaluations:
                numbers = " | ".join(f"{event[name]:.4g}" for name in COLUMNS)
                lines.append(f"| {seed} | {event['step']} | {numbers} | {seconds if event is evaluations[-1] else 0:.0f} |")
                print(lines[-1], flush=True)
            accuracies.append(evaluations[-1]["eval_reward_accuracy"])
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")
    return int(min(accuracies) <= 0.9)


if __name__ == "__main__":
    sys.exit(main())
