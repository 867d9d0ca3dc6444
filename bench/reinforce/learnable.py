#!/usr/bin/env python3
"""Runs three tasks that a policy must learn, over several seeds, and keeps their curves. Standard
library only.

    python3 bench/reinforce/learnable.py build/bin/forge [--tasks bandit sums short_answers] [--objectives grpo …] [--seeds 1 2 3]
        [--model SmolLM2-135M-Instruct.gguf] [--set KEY=VALUE] [--out bench/results/reinforce-learnable-DATE.json] [--keep DIR]

Each task's file says what is trained and what is wanted. --objectives applies to every task
(default: the task's own). --set changes the policy's job; the value is JSON. Prints a line per run.
Exits 1 if a run misses its mark.
"""
import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import bandit
import short_answers
import sums

TASKS = {"bandit": bandit, "sums": sums, "short_answers": short_answers}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--objectives", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--model", help="the model of short_answers")
    parser.add_argument("--set", action="append", default=[], help="set a key of the policy's job, as KEY=VALUE")
    parser.add_argument("--out")
    parser.add_argument("--keep")
    args = parser.parse_args()
    root = Path(args.keep or tempfile.mkdtemp(prefix="forge-learnable-"))
    short_answers.MODEL = args.model and str(Path(args.model).resolve())
    results = []
    for name in args.tasks:
        task = TASKS[name]
        print(f"{name}: {task.WANTED}", flush=True)
        for objective in args.objectives or task.OBJECTIVES:
            for seed in args.seeds:
                result = task.learn(args.forge, root / f"{name}-{objective.rstrip('+')}-{seed}", objective, seed, args.set)
                results.append({"task": name, "objective": objective, "seed": seed, "settings": args.set, **result})
                print(f"  {objective} seed {seed}: {'reached' if result['reached'] else 'MISSED'}; {result['said']}; {result['seconds']} s", flush=True)
                if args.out:
                    Path(args.out).write_text("[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    missed = sum(not result["reached"] for result in results)
    print(f"{len(results) - missed} of {len(results)} reached their mark")
    if not args.keep:
        shutil.rmtree(root)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
