"""Starts one training run as its own process and measures it from outside. Standard library only.

    result = measure(["forge", "run", "job.json"], metrics_path)

Every contestant appends step events to a metrics.jsonl (forge writes its own, peer.py uses the same
keys), so that start-up, rates and memory are measured in the same way for all.
"""
import argparse
import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

WARM_UP_STEPS = 2  # steps not counted: memory is touched first and kernels are chosen


@dataclass
class Result:
    tokens_per_second: float  # real tokens, over the steps after the warm-up
    start_up_seconds: float  # from the start of the process to the start of its first step
    peak_rss_bytes: int  # of the largest process of the run
    wall_seconds: float
    losses: list[float]


class FirstStep(threading.Thread):
    """Records when the first step event appears. Polls, because the file does not exist at the
    start.
    """

    def __init__(self, path: Path):
        super().__init__(daemon=True)
        self.path, self.seen_at, self.over = path, None, False

    def run(self):
        while not self.over and self.seen_at is None:
            if self.path.exists() and '"step"' in self.path.read_text():
                self.seen_at = time.monotonic()
            time.sleep(0.01)


def measure(command: list[str], metrics: Path, log: Path) -> Result:
    """Runs the command to its end; raises RuntimeError with the end of the log if it fails."""
    watch, began = FirstStep(metrics), time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    watch.over = True
    watch.join()
    if status != 0:
        raise RuntimeError(f"{' '.join(command)}: status {status}\n" + "\n".join(log.read_text().splitlines()[-15:]))
    steps = [event for event in map(json.loads, metrics.read_text().splitlines()) if event["event"] == "step"]
    counted = steps[WARM_UP_STEPS:]
    rate = sum(s["tokens"] for s in counted) / sum(s["step_seconds"] for s in counted)
    start_up = (watch.seen_at or time.monotonic()) - began - steps[0]["step_seconds"]
    # wait4 gives the maximum, in KiB, over the process and the children it waited for: forge and
    # its engine.
    return Result(rate, start_up, usage.ru_maxrss * 1024, wall, [s["loss"] for s in steps])


def arguments(description: str) -> argparse.ArgumentParser:
    """Declares the options of every comparison: both programs, the model, the rounds and the
    output.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--write", type=Path)
    return parser
