#!/usr/bin/env python3
"""Times the commands that run before any training: `forge validate` and, with a warm cache, `forge
plan`.

    python3 bench/cpu/validate.py build/bin/forge JOB.yaml [--runs 100] [--write bench/results]

Measures the wall time of the whole process, as a user waits for it. Standard library only. Targets:
validate 15 ms, plan 100 ms. `true` is timed as well, to show what starting any process costs on
this machine. The commands take turns, so that a busy moment affects all. Exits 1 if a median misses
its target.
"""
import argparse
import datetime
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def milliseconds(command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    took = 1000 * (time.perf_counter() - began)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("job")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    commands = {
        "true": (["true"], None),
        "forge validate": ([args.forge, "validate", args.job], 15.0),
        "forge plan": ([args.forge, "plan", args.job], 100.0),
    }
    for command, _ in commands.values():
        milliseconds(command)  # fills the page cache and the token cache
    times = {name: [] for name in commands}
    for _ in range(args.runs):
        for name, (command, _) in commands.items():
            times[name].append(milliseconds(command))
    lines = [f"# Start-up of the program, {datetime.date.today()}", "",
             f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {args.runs} runs each in turn, warm; in ms.",
             "", "| command | median | minimum | 95 % | target |", "|---|---|---|---|---|"]
    missed = False
    for name, (_, target) in commands.items():
        found = sorted(times[name])
        middle = statistics.median(found)
        missed |= target is not None and middle > target
        lines.append(f"| {name} | {middle:.1f} | {found[0]:.1f} | {found[int(0.95 * len(found))]:.1f} | {target or ''} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        (args.write / f"start-up-{datetime.date.today()}.md").write_text(text)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
