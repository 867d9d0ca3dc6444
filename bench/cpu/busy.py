"""Measures how a job's rate falls when other processes compete for the processors.

    python bench/cpu/busy.py --forge build/bin/forge JOB [--others 2] [--rounds 3] [--seconds 20]

Runs `forge bench` alone and then beside processes that only count, in turns. With as many other
processes as processors a fair share is half. Prints the tokens/s of every turn and the ratio of the
medians, busy over quiet.
"""
import argparse
import json
import multiprocessing
import os
import statistics
import subprocess


def count() -> None:
    number = 0
    while True:
        number += 1


def rate(args) -> float:
    answer = subprocess.run([args.forge, "bench", args.job, "--json", "--quiet", "--seconds", str(args.seconds)], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return json.loads(answer)["points"][0]["tokens_per_second"]


def beside(args) -> float:
    others = [multiprocessing.Process(target=count, daemon=True) for _ in range(args.others)]
    for other in others:
        other.start()
    try:
        return rate(args)
    finally:
        for other in others:
            other.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--forge", required=True)
    parser.add_argument("--others", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20)
    args = parser.parse_args()
    quiet, busy = [], []
    for _ in range(args.rounds):
        quiet.append(rate(args))
        busy.append(beside(args))
        print(f"quiet {quiet[-1]:.0f} tokens/s, beside {args.others} processes {busy[-1]:.0f}", flush=True)
    print(f"beside over quiet: {statistics.median(busy) / statistics.median(quiet):.2f}")


if __name__ == "__main__":
    main()
