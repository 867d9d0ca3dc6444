#!/usr/bin/env python3
"""Kills forge right before its calls that change files, one after the other, and expects nothing
lost. Standard library only.

    python3 tests/kill/sweep_test.py build/bin/forge build/tests/kill/kill_at_call.so [--sample 14] [--only STAGE] [--keep DIR]

Each stage is a command that is first left alone, which counts its calls (kill_at_call.cpp): a whole
run and the extension of a finished one (checkpoints, retention, exports, reports), an export alone,
`--fresh`, and the program's own part of a first start. Then, for each call, the command is repeated
and killed there, and the plain command must complete the run: the same bits and losses, the same
files and no others. A write is also killed when half of it is done. --errors: the call fails
instead, as disks do; the command must end by itself, with 0 only if nothing is missing, and not
with a bug.

All calls take many minutes. --sample takes that many, of as many different calls and files as there
are. The choice changes with the program's build, and a failure names its call.
"""
import argparse
import collections
import dataclasses
import errno
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kill_test import Checks, compare, complete, write_job

STEPS, EVERY, LIMIT_S = 5, 2, 120


@dataclasses.dataclass
class Stage:
    name: str
    process: str        # its calls count
    before: Path        # the folder's content before the command
    golden: Path        # the folder's content after an undisturbed run
    options: tuple = ()       # settings of the command that is killed
    afterwards: tuple = ()    # settings of the command that must complete it
    exchanges: bool = True    # False: as on a file system that cannot exchange two folders


class Bench:
    """One folder in which everything happens, so that no path differs from trial to trial."""

    def __init__(self, forge: str, library: str, root: Path):
        self.forge, self.library, self.root, self.work = forge, library, root, root / "work"

    def restore(self, state: Path) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(state, self.work)

    def keep(self, name: str) -> Path:
        shutil.copytree(self.work, self.root / name)
        return self.root / name

    def run(self, stage: Stage, at: int = 0, torn: bool = False, log: Path = None, error: int = 0) -> int:
        environment = dict(os.environ, KILL_ERROR=str(error), LD_PRELOAD=self.library, KILL_IN=stage.process, KILL_AT=str(at),
                           KILL_UNDER=str(self.work / "runs"), KILL_TORN="1" if torn else "0",
                           KILL_EXCHANGE="1" if stage.exchanges else "0", KILL_LOG=str(log or ""))
        return subprocess.run([self.forge, "run", str(self.work / "small.json"), *stage.options], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=LIMIT_S).returncode

    def complete(self, options: tuple) -> list:
        return complete(self.forge, self.work / "small.json", LIMIT_S, options=options)

    def calls(self, stage: Stage) -> list:
        """Returns the calls of the undisturbed command, each as "fsync …/state.json"."""
        self.restore(stage.before)
        log = self.root / "calls"
        log.unlink(missing_ok=True)
        code = self.run(stage, log=log)
        assert code == 0, f"{stage.name}: exit {code}"
        return [line.replace(str(self.work) + "/", "") for line in log.read_text().splitlines()]


def names(folder: Path) -> list:
    """Returns every file of the runs, without the time in the TensorBoard file's name."""
    found = [str(path.relative_to(folder)) for path in (folder / "runs").rglob("*")]
    return sorted(re.sub(r"tfevents\..*", "tfevents", name) for name in found)


def stages(bench: Bench, preference: bool) -> list:
    job = write_job(bench.work, STEPS, EVERY, "dpo" if preference else "sft")
    new = bench.keep("new")
    faults = complete(bench.forge, job, LIMIT_S)
    assert not faults, faults
    finished = bench.keep("finished")
    extend = ("--extend", "--set", f"train.max_steps={STEPS + 2}")
    shutil.rmtree(bench.work / "runs/small/adapter")
    stripped = bench.keep("stripped")
    bench.restore(finished)
    faults = complete(bench.forge, job, LIMIT_S, options=extend)
    assert not faults, faults
    extended = bench.keep("extended")
    return [Stage("run", "forge-engine", new, finished), Stage("extend", "forge-engine", finished, extended, extend, extend),
            Stage("extend without exchange", "forge-engine", finished, extended, extend, extend, exchanges=False),
            Stage("export", "forge-engine", stripped, finished), Stage("fresh", "forge", finished, finished, ("--fresh",)),
            Stage("first start", "forge", new, finished)]


def kind(call: str) -> str:
    """Returns a key that groups calls that do the same to the same kind of file."""
    return re.sub(r"\d{3,}", "N", re.sub(r"[0-9a-f]{32}", "HASH", call))


def points_of(stage: Stage, calls: list) -> list:
    """Returns [(stage, number of the call, call, half done)].

    It has every call, but only the first and the last of successive writes to one file."""
    points = []
    for index, call in enumerate(calls):
        is_write = call.startswith("write ")
        if is_write and 0 < index < len(calls) - 1 and calls[index - 1] == call == calls[index + 1]:
            continue
        points += [(stage, index + 1, call, torn) for torn in (False, True)[: 1 + is_write]]
    return points


def kill(bench: Bench, checks: Checks, stage: Stage, number: int, call: str, torn: bool) -> None:
    bench.restore(stage.before)
    code = bench.run(stage, at=number, torn=torn)
    faults = [f"exit {code}: it was not killed"] if code == 0 else []
    faults += bench.complete(stage.afterwards) or compare(bench.work, stage.golden)
    if not faults and names(bench.work) != names(stage.golden):
        faults = [f"files differ: {sorted(set(names(bench.work)) ^ set(names(stage.golden)))}"]
    checks.say(f"{stage.name}, call {number}{' half done' if torn else ''}: {call}", faults)


def fail(bench: Bench, checks: Checks, stage: Stage, number: int, call: str, torn: bool) -> None:
    error = (errno.EIO, errno.ENOSPC)[number % 2]
    bench.restore(stage.before)
    code = bench.run(stage, at=number, torn=torn, error=error)
    faults = [] if code in (0, 5) else [f"exit {code}, expected 0 or 5"]
    # A run continues after a checkpoint that could not be written, or removed, and says so.
    outlived = [fault for fault in compare(bench.work, stage.golden) if not fault.startswith(("checkpoints ", "litter: "))]
    faults += outlived if code == 0 else bench.complete(stage.afterwards) or compare(bench.work, stage.golden)
    checks.say(f"{stage.name}, call {number}{' half done' if torn else ''} fails with {errno.errorcode[error]}, exit {code}: {call}", faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("library", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--errors", action="store_true", help="calls fail; nothing is killed")
    parser.add_argument("--seed", default="", help="seed of another sample")
    parser.add_argument("--preference", action="store_true", help="train on pairs, with a kept reference")
    parser.add_argument("--keep", type=Path, help="work here (new folder)")
    args = parser.parse_args()
    checks = Checks()
    rng = random.Random(args.seed + hashlib.sha256(Path(args.forge).read_bytes()).hexdigest())
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(args.forge, args.library, (args.keep or Path(temporary)).resolve())
        points, kinds = [], collections.defaultdict(list)
        for stage in stages(bench, args.preference):
            if args.only not in stage.name:
                continue
            points += points_of(stage, bench.calls(stage))
        for point in points:
            kinds[point[0].name, kind(point[2]), point[3]].append(point)
        print(f"{len(points)} points to kill at, of {len(kinds)} kinds", flush=True)
        if args.sample:
            chosen = rng.sample(sorted(kinds), min(args.sample, len(kinds)))
            more = max(0, args.sample - len(chosen))
            points = [rng.choice(kinds[one]) for one in chosen] + rng.sample(points, min(more, len(points)))
        for point in points:
            (fail if args.errors else kill)(bench, checks, *point)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
