#!/usr/bin/env python3
"""Measures how much help `forge validate` gives with the configs of other tools.

    tests/config/measure_hints.py FOLDER [--forge build/bin/forge] [--sample 150] [--seed 1] [--all] [--goal 90]

Reads every .yaml, .yml and .json below FOLDER, classifies each unknown key by its hint, and prints
the shares (per tool, if the files are named TOOL__NAME.yaml) and the keys without help, by number
of files. Hints are counted once per key of a file. --sample prints that many random hints, --all
every key with each of its hints. With --goal the exit status is 1 if the share of keys with a
counterpart or a reason is smaller. Uses no network.
"""

import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys

KINDS = ("counterpart", "reason", "guess", "nothing")


def classify(hint):
    if "did you mean" in hint:
        return "guess"
    if "has no counterpart" in hint:
        return "reason"
    if re.search(r"\bis \S+( or \S+)?( \(.*\))? here\b|^it is |^write it as ", hint):
        return "counterpart"
    return "nothing"


def config_files(folder):
    for parent, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith((".yaml", ".yml", ".json")):
                yield os.path.join(parent, name)


def verdicts(forge, files):
    for i in range(0, len(files), 100):
        command = [forge, "validate", "--json", *files[i : i + 100]]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode not in (0, 3):
            sys.exit(f"{' '.join(command[:3])} …: exit status {result.returncode}\n{result.stderr}")
        yield from json.loads(result.stdout)["files"]


def tool_of(file):
    name = os.path.basename(file)
    return name.split("__")[0] if "__" in name else "all"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--forge", default="build/bin/forge")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--goal", type=float)
    args = parser.parse_args()

    files = list(config_files(args.folder))
    counts = collections.defaultdict(collections.Counter)  # {tool: {kind: keys}}
    helpless = collections.defaultdict(set)  # {(key, kind, hint): files}
    hints, unread = [], []
    for verdict in verdicts(args.forge, files):
        tool = tool_of(verdict["file"])
        unknown = [fault for fault in verdict["faults"] if fault["message"] == "unknown key"]
        if not unknown and not verdict["valid"]:
            unread.append(f"{verdict['file']}: {verdict['faults'][0]['message']}")
        for fault in unknown:
            kind = classify(fault["hint"])
            counts[tool][kind] += 1
            hints.append((kind, fault))
            if kind in ("guess", "nothing"):
                key = re.sub(r"\[\d+\]", "[]", fault["key"])
                helpless[key, kind, fault["hint"] if kind == "guess" else ""].add(verdict["file"])

    total = sum(counts.values(), collections.Counter())
    keys = max(1, sum(total.values()))
    print(f"{len(files)} files, {sum(total.values())} unknown keys")
    for tool, kinds in [*sorted(counts.items()), ("together", total)]:
        here = sum(kinds.values())
        shares = "  ".join(f"{kind} {100 * kinds[kind] / here:5.1f} %" for kind in KINDS if here)
        print(f"  {tool:40} {here:6}  {shares}")
    for problem in unread[:20]:
        print(f"without unknown keys: {problem}")
    print("\nkeys without help or with a guess, by number of files:")
    for (key, kind, hint), where in sorted(helpless.items(), key=lambda item: (-len(item[1]), item[0])):
        print(f"  {len(where):5}  {key}  {hint or kind}")
    if args.all:
        print("\n".join(sorted({re.sub(r"\[\d+\]", "[]", fault["key"]) + ": " + fault["hint"] for _, fault in hints})))
    random.seed(args.seed)
    for kind, fault in random.sample(hints, min(args.sample, len(hints))):
        print(f"{kind}: {fault['file']}:{fault['line']}: {fault['key']}: {fault['hint']}")
    helped = 100 * (total["counterpart"] + total["reason"]) / keys
    return 1 if args.goal is not None and helped < args.goal else 0


if __name__ == "__main__":
    sys.exit(main())
