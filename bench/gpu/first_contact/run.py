#!/usr/bin/env python3
"""First contact with a GPU: everything that only a GPU can say of forge, in calls of at most nine
minutes.

    python3 forge-first-contact.pyz --output DIR                         the first call; --call 2 and --call 3: the rest
    python3 forge-first-contact.pyz --list                               the steps and their limits, nothing run

Results are appended to DIR/results.jsonl as they come; the steps' output goes to DIR/log.txt. A
step that fails, hangs or lacks something is reported, and the next one begins. Steps done in
DIR/results.jsonl, or in another call's file that --done names, are not repeated. Needs Python 3.10
and torch 2.11.0+cu130 (--python names the Python that has it; FORGE_TORCH_DIR names the folder that
holds torch/). Standard library only."""
import argparse
import datetime
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import steps as table

KIT = Path(__file__).resolve().parents[3]
LOG_BYTES = 200_000  # kept of each step
GRACE = 3  # seconds from asking a step to end to killing it


class Results:
    """Appends lines to results.jsonl as soon as they are known."""

    def __init__(self, folder: Path, earlier: list):
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.log_path = folder / "results.jsonl", folder / "log.txt"
        self.done = set()
        for path in [self.path, *earlier]:
            for line in Path(path).read_text().splitlines() if Path(path).exists() else []:
                event = json.loads(line)
                if event.get("event") == "step" and event["status"] == "done":
                    self.done.add(event["step"])

    def write(self, **event) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps(event) + "\n")

    def log(self, text: str) -> None:
        with open(self.log_path, "a") as file:
            file.write(text)


def torch_folder(python: str) -> str:
    """Returns the folder that holds torch/, or "". Does not import torch."""
    if given := os.environ.get("FORGE_TORCH_DIR"):
        return given
    asked = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    try:
        found = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return str(Path(found).parent) if found else ""


def environment(options, work: Path) -> dict:
    env = dict(os.environ, FORGE_KIT_WORK=str(work), PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    env.pop("FORGE_ENGINE", None)
    if folder := torch_folder(options.python):
        env["FORGE_TORCH_DIR"] = folder
        libraries = [f"{folder}/torch/lib", *map(str, sorted(Path(folder).glob("nvidia/*/lib"))), str(KIT / "lib")]
        env["LD_LIBRARY_PATH"] = ":".join([*libraries, *filter(None, [env.get("LD_LIBRARY_PATH")])])
    if options.rehearse:
        env["FORGE_KIT_REHEARSAL"] = str(Path(options.rehearse).resolve())
    return env


def lacks(step, command: list, env: dict, python: str) -> str:
    """Returns the reason why the step cannot begin, or ""."""
    if not shutil.which(command[0]) and not Path(command[0]).exists():
        return f"{command[0]} is not here"
    for module in step.needs:
        found = subprocess.run([python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"], env=env)
        if found.returncode:
            return f"{python} has no module {module}"
    return ""


def end(process) -> None:
    """Ends the step's whole process group: asks first, then kills."""
    for order, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 30)):
        try:
            os.killpg(process.pid, order)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
    try:
        os.killpg(process.pid, signal.SIGKILL)  # processes that their leader did not end
    except ProcessLookupError:
        pass


def run_step(step, command: list, env: dict, limit: float, results: Results, rehearsal: bool) -> dict:
    begin = time.monotonic()
    own = dict(step.env)
    if rehearsal and Path(command[0]).parent == KIT / "bin":
        own["LD_PRELOAD"] = env["FORGE_KIT_REHEARSAL"]
    process = subprocess.Popen(command, cwd=KIT, env=env | own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    says, room, figures = [], LOG_BYTES, 0

    def read() -> None:
        nonlocal room, figures
        for line in process.stdout:
            if line.startswith("{"):
                try:
                    results.write(event="figure", step=step.name, **json.loads(line))
                    figures += 1
                    continue
                except (json.JSONDecodeError, TypeError):
                    pass
            says.append(line)
            del says[:-30]
            if room > 0:
                results.log(line)
            room -= len(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    late = False
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        end(process)
    reader.join(10)
    outcome = {"status": "done", "seconds": round(time.monotonic() - begin, 1), "figures": figures}
    code = process.returncode
    if late:
        outcome |= {"status": "too long", "limit": round(limit)}
    elif code == 1 and step.values and rehearsal:
        outcome |= {"values": "not judged"}
    elif code:
        outcome |= {"status": "failed", "code": code}
    if late or code:
        outcome["says"] = "".join(says)[-3000:]
    return outcome


def planted() -> list:
    """Returns steps that fail and hang, to test the runner."""
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('hangs', flush=True); time.sleep(600)"
    return [table.Step("planted failure", 1, 10, ["{tool}", "-c", "import sys; print('begins'); sys.exit('planted: a step that fails')"]),
            table.Step("planted hang", 1, 3, ["{tool}", "-c", stubborn]),
            table.Step("planted lack", 1, 10, ["no-such-program"])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.environ.get("OUT", "first-contact"), help="folder for results (default: $OUT, or first-contact)")
    parser.add_argument("--call", type=int, choices=(1, 2, 3), default=1)
    parser.add_argument("--budget", type=float, default=540, help="seconds of this call (default 540)")
    parser.add_argument("--work", help="folder for models and runs, on a disk with 40 GB (default: among the system's temporary files)")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, and with transformers and peft for the comparison")
    parser.add_argument("--done", action="append", default=[], metavar="FILE", help="results of another call, whose steps are skipped")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="run only steps whose name matches, as in --only 'tiny *'")
    parser.add_argument("--rehearse", metavar="LIBRARY", help="on a machine without a GPU: a library to preload that stands in for one. "
                        "Models are small and values are not judged; everything else is real")
    parser.add_argument("--plant", action="store_true", help="begin with steps that fail, hang and lack something")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [s for s in table.of_call(options.call) if not options.only or any(fnmatch.fnmatch(s.name, pattern) for pattern in options.only)]
    chosen = planted() * options.plant + chosen
    if options.list:
        print("\n".join(f"{step.limit:4} s  {step.name}" for step in chosen))
        return 0
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the running step on the way out
    results = Results(Path(options.output), options.done)
    work = Path(options.work or Path(tempfile.gettempdir()) / "forge-first-contact-work").resolve()
    work.mkdir(parents=True, exist_ok=True)
    env = environment(options, work)
    kit = json.loads((KIT / "kit.json").read_text())
    results.write(event="call", call=options.call, rehearsal=bool(options.rehearse), date=datetime.datetime.now().isoformat(timespec="seconds"),
                  torch=env.get("FORGE_TORCH_DIR", ""), disk_free=shutil.disk_usage(work).free, **kit)
    counts: dict = {}
    for step in chosen:
        left = options.budget - (time.monotonic() - began)
        words = {"bin": KIT / "bin", "python": options.python, "tool": sys.executable, "work": work}
        command = [word.format(**words) if word.startswith("{") else word for word in map(str, step.command)]
        if step.name in results.done and not (step.makes and not (work / "models" / step.makes / "whole").exists()):
            outcome = {"status": "done before"}
        elif left < min(step.limit, 20):
            outcome = {"status": "left", "says": f"{left:.0f} s of the call's {options.budget:.0f} are left; run the same command again"}
        elif reason := lacks(step, command, env, options.python):
            outcome = {"status": "missing", "says": reason}
        else:
            results.log(f"\n== {step.name}: {' '.join(command)}\n")
            outcome = run_step(step, command, env, min(step.limit, left), results, bool(options.rehearse))
        if outcome["status"] != "done before":
            results.write(event="step", step=step.name, **outcome)
        counts[outcome["status"]] = counts.get(outcome["status"], 0) + 1
        print(f"{outcome['status']:12} {outcome.get('seconds', ''):>6}  {step.name}"
              + (" (values not judged)" if "values" in outcome else ""), flush=True)
        if outcome["status"] in ("failed", "too long", "missing", "left"):
            print("".join(f"                     {line}\n" for line in outcome.get("says", "").strip().splitlines()[-4:]), end="", flush=True)
    seconds = round(time.monotonic() - began)
    results.write(event="end", call=options.call, seconds=seconds, **{"counts": counts})
    print(f"{seconds} s: " + ", ".join(f"{count} {status}" for status, count in counts.items()) + f"; {results.path}")
    return 0 if not counts.keys() - {"done", "done before"} else 1


if __name__ == "__main__":
    sys.exit(main())
