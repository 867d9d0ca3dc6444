#!/usr/bin/env python3
"""Kills forge at random moments and expects nothing lost and no litter. Standard library only.

    python3 tests/kill/kill_test.py build/bin/forge [--trials 16] [--signals 6] [--seed 1] [--objective dpo] [--policy [grpo|ppo]]
        [--tools] [--server [--staleness S]] [--keep DIR]

One run of 40 steps with a checkpoint every 3 is left alone. Each trial starts the same job in a new
folder and kills something with SIGKILL at a random moment: the engine, the program or both, in
turn; half of the moments lie between steps. The same command must then complete the run, also at
once while an engine whose program was killed still writes its checkpoint. The adapter's bytes must
equal the undisturbed run's, metrics.jsonl must hold each step once with the same losses, and no
temporary file may be left. Every fourth trial starts the command three times over, each start
killed while the one before may still be at work.

Signals: SIGTERM must end the run with 75 and a checkpoint. A second SIGINT must end it within
seconds. Signals that a queue sends to program and engine alike must end it with 75 or 130 at any
moment. The runs must then complete as before.

--policy: the run samples completions, has a process score them and takes four steps on each
rollout, so that moments lie in sampling, scoring, old log-probabilities and updates; the files of
its rollouts must be equal too. --tools: a process answers its calls. --server: a server samples,
with --staleness rollouts ahead. Prints one line per check and "N passed, N failed".
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TINY = Path(__file__).resolve().parent.parent / "fixtures" / "tiny-llama"
ROWS = Path(__file__).resolve().parent.parent / "parity" / "goldens" / "tiny-batches.jsonl"
ANSWERS = {"dpo": ROWS.parent / "tiny-pairs.jsonl", "kto": ROWS.parent / "tiny-answers.jsonl"}
OBJECTIVE = "sft"  # of every job; --objective sets it
STEPS, EVERY = 40, 3
ENGINE_GONE_S, SECOND_SIGNAL_S, CHECKPOINT_S = 10.0, 2.0, 10.0
LITTER = (".tmp-", ".trash-", ".tmp", ".lock", ".partial", ".discarded", ".damaged")
QUEUE_SIGNALS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGTERM)


POLICY = None  # the objective of jobs that sample completions
TOOLS = False  # completions of several turns
SERVER = None  # samples them
STALENESS = 0  # rollouts that the server samples ahead
JUDGE = """import json, sys, time
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    if "id" not in item:
        continue
    time.sleep(0.002)
    print(json.dumps({"id": item["id"], "score": sum(item["completion"].encode()) % 7 / 7}), flush=True)
"""


TOOL = """import json, sys
json.loads(sys.stdin.readline())
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    if "id" in item:
        print(json.dumps({"id": item["id"], "content": "=%d;" % (sum(item["completion"].encode()) % 97)}), flush=True)
"""


def draw_otherwise(job: dict, folder: Path) -> None:
    if TOOLS:
        (folder / "tool.py").write_text(TOOL)
        job["rollout"] |= {"stop": ["e", "a", "t", "o"], "max_new_tokens": 30,
                           "tools": {"command": [sys.executable, str(folder / "tool.py")], "max_turns": 3}}
    if SERVER:
        job["rollout"] |= {"provider": "http", "server": {"url": SERVER.url, "max_staleness": STALENESS}}


def draw_completions(job: dict, folder: Path) -> None:
    (folder / "judge.py").write_text(JUDGE)
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"Question {i}: what is {7 * i} and {i % 5}?"}) + "\n" for i in range(30)))
    job["adapter"]["dropout"] = 0
    job["objective"] = {"type": POLICY, "updates_per_rollout": 2, "epochs_per_rollout": 2, "kl": 0.05}
    if POLICY == "ppo":
        job["objective"] |= {"value": {"pretrain_steps": 6}, "success_nll": 0.1}
    job["data"] = {"train": [{"path": str(folder / "prompts.jsonl")}], "eval_fraction": 0.1, "max_length": 96}
    job["rollout"] = {"prompts_per_step": 4, "samples_per_prompt": 4, "max_new_tokens": 12}
    draw_otherwise(job, folder)
    job["rewards"] = [{"name": "judge", "type": "command", "command": [sys.executable, str(folder / "judge.py")]},
                      {"type": "length", "max": 6, "slack": 8, "weight": 0.5}]
    del job["train"]["global_batch_size"]


def write_job(folder: Path, steps: int = STEPS, every: int = EVERY, objective: str | None = None) -> Path:
    """Writes a job. Objectives dpo and kto compare answers with a reference whose log-probabilities
    the run folder keeps.
    """
    objective = objective or OBJECTIVE
    job = {
        "version": 1, "name": "small", "seed": 5, "output_dir": str(folder / "runs"),
        "model": {"path": str(TINY)},
        "adapter": {"type": "lora", "rank": 4, "alpha": 8, "dropout": 0.1},
        "objective": {"type": "sft", "train_on": "all"},
        "data": {"train": [{"path": str(ROWS), "format": "tokens"}], "shuffle": True, "packing": True},
        "train": {"max_steps": steps, "global_batch_size": 8, "precision": "fp32", "threads": 1},
        "optimizer": {"type": "adamw", "learning_rate": 5e-3, "weight_decay": 0.01},
        "schedule": {"type": "cosine", "warmup_steps": 3},
        "checkpoint": {"every_steps": every, "keep_last": 2},
        "eval": {"every_steps": 10},
        "hardware": {"device": "cpu"},
    }
    job["data"]["eval_fraction"] = 0.1
    if objective in ANSWERS:
        job["objective"] = {"type": objective, "reference_cache": True}
        job["data"]["train"] = [{"path": str(ANSWERS[objective])}]
    folder.mkdir(parents=True)
    if POLICY:
        draw_completions(job, folder)
    path = folder / "small.json"
    path.write_text(json.dumps(job, indent=1))
    return path


def start(forge: str, job: Path, options: tuple = ()) -> subprocess.Popen:
    """Starts a command. Output goes to files: a pipe whose reader is gone would be a second
    disturbance.
    """
    log = (job.parent / "output.log").open("ab")
    return subprocess.Popen([forge, "run", str(job), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                            start_new_session=True)


def children(pid: int) -> list[int]:
    """Returns all descendants of a process, from /proc; the engine is among them."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in direct:
            found += [child, *children(child)]
    return found


def alive(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pids: list[int], limit_s: float) -> list[int]:
    """Returns the processes that are still alive after the limit."""
    end = time.monotonic() + limit_s
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return [pid for pid in pids if alive(pid)]


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def steps_of(folder: Path) -> list[dict]:
    """Returns the step events so far. A torn last line (of a run that was killed) is not an event
    yet.
    """
    events = []
    path = folder / "runs" / "small" / "metrics.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return [event for event in events if event.get("event") == "step"]


def wait_for_step(process: subprocess.Popen, folder: Path, step: int, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < end:
        done = steps_of(folder)
        if done and done[-1]["step"] >= step:
            return True
        time.sleep(0.005)
    return False


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def say(self, what: str, faults: list[str]) -> None:
        self.passed, self.failed = self.passed + (not faults), self.failed + bool(faults)
        print(f"{'FAIL' if faults else 'ok  '} {what}" + "".join(f"\n       {fault}" for fault in faults), flush=True)


def complete(forge: str, job: Path, limit_s: float, attempts: int = 3, options: tuple = ()) -> list[str]:
    """Repeats the command until it exits 0. Nothing disturbs it any more, so the first repetition
    must succeed.
    """
    for attempt in range(attempts):
        process = start(forge, job, options)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            send([process.pid, *children(process.pid)], signal.SIGKILL)
            return [f"rerun {attempt + 1} was not done after {limit_s:.0f} s"]
        if code == 0:
            return [] if attempt == 0 else [f"needed {attempt + 1} reruns"]
    tail = (job.parent / "output.log").read_text(errors="replace").splitlines()[-6:]
    return [f"exit {code} after {attempts} reruns", *tail]


def litter(folder: Path) -> list[str]:
    names = [str(path.relative_to(folder)) for path in (folder / "runs").rglob("*")]
    left = [n for n in names if any(m in Path(n).name for m in LITTER)]
    return [f"litter: {name}" for name in sorted(left)]


def kept_checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs" / "small" / "checkpoints").glob("*"))


def compare(folder: Path, golden: Path) -> list[str]:
    """Returns the faults of a finished run, compared with the undisturbed one."""
    run, want = folder / "runs" / "small", golden / "runs" / "small"
    faults = litter(folder)
    for name in ("adapter/adapter_model.safetensors", "adapter/adapter_config.json"):
        if not (run / name).exists():
            faults.append(f"{name} is missing")
        elif (run / name).read_bytes() != (want / name).read_bytes():
            faults.append(f"{name} differs from the undisturbed run's")
    rollouts = {path.name: path.read_bytes() for path in (want / "rollouts").glob("*.jsonl")}
    if {path.name: path.read_bytes() for path in (run / "rollouts").glob("*.jsonl")} != rollouts:
        faults.append("rollouts differ from the undisturbed run's")
    got, expected = steps_of(folder), steps_of(golden)
    if [e["step"] for e in got] != list(range(1, len(expected) + 1)):
        faults.append(f"metrics.jsonl has the steps {[e['step'] for e in got]}")
    elif [e["loss"] for e in got] != [e["loss"] for e in expected]:
        faults.append("metrics.jsonl has other losses than the undisturbed run's")
    if kept_checkpoints(folder) != kept_checkpoints(golden):
        faults.append(f"checkpoints {kept_checkpoints(folder)}, undisturbed {kept_checkpoints(golden)}")
    return faults


def victims(process: subprocess.Popen, kind: str) -> list[int]:
    """Returns the processes that a trial kills; if there is no engine (yet, or any more), the
    program.
    """
    engine = children(process.pid)
    return {"engine": engine or [process.pid], "program": [process.pid], "group": [process.pid, *engine]}[kind]


def random_moment(process: subprocess.Popen, folder: Path, seconds: float, rng, at_step: bool) -> None:
    """Sleeps until a moment in the whole run, or (a start can take longer than all steps) after a
    random step.
    """
    if at_step:
        wait_for_step(process, folder, rng.randrange(1, STEPS), 30 + 5 * seconds)
        time.sleep(rng.uniform(0, 0.02))
    else:
        time.sleep(rng.uniform(0.02, seconds))


def complete_at_once(forge: str, job: Path, orphans: list[int], limit_s: float) -> list[str]:
    """Repeats the command while an orphaned engine may still write: it may wait or refuse, but not
    interfere.
    """
    while any(map(alive, orphans)):
        process = start(forge, job)
        try:
            if process.wait(limit_s) == 0:
                return []
        except subprocess.TimeoutExpired:
            send([process.pid, *children(process.pid)], signal.SIGKILL)
            process.wait()
            return [f"started beside what was left: not done after {limit_s:.0f} s"]
        time.sleep(0.2)
    return complete(forge, job, limit_s)


def bury(process: subprocess.Popen, everyone: list[int]) -> list[str]:
    """Waits until program and engine are gone; returns a fault for each that stays."""
    left = wait_gone([pid for pid in everyone if pid != process.pid], ENGINE_GONE_S)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        left.append(process.pid)
    send(left, signal.SIGKILL)
    process.wait()
    return [f"still running {ENGINE_GONE_S:.0f} s later: {left}"] if left else []


def kill_trial(checks: Checks, forge: str, root: Path, golden: Path, number: int, seconds: float, rng) -> None:
    folder = root / f"trial-{number}"
    job, kind = write_job(folder), ("engine", "program", "group")[number % 3]
    process, began = start(forge, job), time.monotonic()
    random_moment(process, folder, seconds, rng, at_step=number % 2 == 1)
    moment, everyone = time.monotonic() - began, [process.pid, *children(process.pid)]
    send(victims(process, kind), signal.SIGKILL)
    reached = (steps_of(folder) or [{"step": 0}])[-1]["step"]
    limit_s = 30 + 10 * seconds
    if kind == "program":
        process.wait()
        faults = complete_at_once(forge, job, everyone[1:], limit_s) + bury(process, everyone)
    else:
        faults = bury(process, everyone) + complete(forge, job, limit_s)
    faults += [] if faults else compare(folder, golden)
    checks.say(f"trial {number}: kill -9 {kind} after {moment:.2f} s, step {reached}", faults)
    if not faults:
        shutil.rmtree(folder)


def double_start_trial(checks: Checks, forge: str, root: Path, golden: Path, number: int, seconds: float, rng) -> None:
    """Starts one run three times; no start waits for processes that the previous kill left running.
    """
    folder = root / f"trial-{number}"
    job, starts, moments = write_job(folder), [], []
    for _ in range(3):
        starts.append(start(forge, job))
        moments.append(rng.uniform(0.02, seconds))
        time.sleep(moments[-1])
        send(victims(starts[-1], rng.choice(("engine", "program", "program"))), signal.SIGKILL)
    orphans = [pid for process in starts for pid in [process.pid, *children(process.pid)]]
    everyone = orphans + engines_of(folder)
    limit_s = 30 + 10 * seconds
    faults = complete_at_once(forge, job, everyone, limit_s)
    for process in starts:
        faults += bury(process, everyone)
    faults += [] if faults else compare(folder, golden)
    checks.say(f"trial {number}: three starts, killed after {', '.join(f'{m:.2f}' for m in moments)} s", faults)
    if not faults:
        shutil.rmtree(folder)


def engines_of(folder: Path) -> list[int]:
    """Finds engines by the run folder that they have open: those whose program was killed are no
    longer our descendants.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lock = os.readlink(process / "fd" / "3")
        except OSError:
            continue
        if lock == str(folder / "runs" / "small") and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def queue_trial(checks: Checks, forge: str, root: Path, golden: Path, number: int, seconds: float, rng) -> None:
    """Signals program and engine, and then both again, as Slurm and similar queues do."""
    folder, signum = root / f"queue-{number}", QUEUE_SIGNALS[number % len(QUEUE_SIGNALS)]
    job = write_job(folder)
    process, began = start(forge, job), time.monotonic()
    random_moment(process, folder, seconds, rng, at_step=number % 2 == 1)
    everyone, moment = [process.pid, *children(process.pid)], time.monotonic() - began
    for _ in range(1 if signum == signal.SIGTERM else 2):
        send(everyone, signum)
        time.sleep(0.01)
    faults = []
    try:
        code = process.wait(CHECKPOINT_S + seconds)
        if code not in (0, 75, 130):
            faults.append(f"exit {code}, expected 75 or 130, or 0 when the run was done before")
        if code == 75 and not kept_checkpoints(folder):
            faults.append("exit 75 without a checkpoint")
    except subprocess.TimeoutExpired:
        faults.append(f"not gone {CHECKPOINT_S + seconds:.0f} s later")
    faults += bury(process, everyone) or complete(forge, job, 30 + 10 * seconds) or compare(folder, golden)
    checks.say(f"{signal.Signals(signum).name} to program and engine after {moment:.2f} s: exit {process.returncode}, "
               "rerun completes", faults)
    if not faults:
        shutil.rmtree(folder)


def term_trial(checks: Checks, forge: str, root: Path, golden: Path, seconds: float) -> None:
    folder = root / "sigterm"
    job = write_job(folder)
    process = start(forge, job)
    reached = wait_for_step(process, folder, 5, 30 + 5 * seconds)
    began = time.monotonic()
    send([process.pid], signal.SIGTERM)
    faults = [] if reached else ["the run ended before step 5 was seen"]
    try:
        code = process.wait(CHECKPOINT_S)
        if reached and code != 75:
            faults.append(f"exit {code}, expected 75")
    except subprocess.TimeoutExpired:
        faults.append(f"not gone {CHECKPOINT_S:.0f} s after SIGTERM")
        send([process.pid, *children(process.pid)], signal.SIGKILL)
        process.wait()
    took = time.monotonic() - began
    before = len(steps_of(folder))
    process = start(forge, job)
    process.wait()
    faults += [] if process.returncode == 0 else [f"rerun: exit {process.returncode}"]
    faults += compare(folder, golden)
    checks.say(f"SIGTERM at step {before}: gone in {took:.2f} s, rerun completes", faults)


def double_interrupt_trial(checks: Checks, forge: str, root: Path, golden: Path, seconds: float) -> None:
    folder = root / "sigint"
    job = write_job(folder)
    process = start(forge, job)
    wait_for_step(process, folder, 2, 30 + 5 * seconds)
    everyone = [process.pid, *children(process.pid)]
    send([process.pid], signal.SIGINT)
    time.sleep(0.05)
    send([process.pid], signal.SIGINT)
    faults = []
    try:
        code = process.wait(SECOND_SIGNAL_S + 1)  # one extra second for a loaded machine
        if code not in (75, 130):
            faults.append(f"exit {code}, expected 130, or 75 when the checkpoint was already whole")
    except subprocess.TimeoutExpired:
        faults.append(f"not gone {SECOND_SIGNAL_S:.0f} s after the second SIGINT")
    if left := wait_gone(everyone, 1):
        faults.append(f"still running: {left}")
        send(left, signal.SIGKILL)
    process.wait()
    faults += complete(forge, job, 30 + 10 * seconds) or compare(folder, golden)
    checks.say("SIGINT twice: gone at once, rerun completes", faults)


def finished_trial(checks: Checks, forge: str, golden: Path) -> None:
    """Repeats the command on a finished run: it exits 0 and writes nothing."""
    def listing():
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in (golden / "runs").rglob("*") if p.is_file()}

    before = listing()
    faults = complete(forge, golden / "small.json", 60)
    faults += sorted(f"changed: {name}" for name in set(before.items()) ^ set(listing().items()))[:5]
    checks.say("the command on a finished run changes nothing", faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--signals", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--objective", choices=("sft", *ANSWERS), default="sft")
    parser.add_argument("--keep", type=Path, help="work here (new folder) and keep what failed")
    parser.add_argument("--policy", nargs="?", const="grpo", choices=["grpo", "ppo"], help="draw completions and train on their rewards")
    parser.add_argument("--tools", action="store_true", help="with --policy: a process answers the model's calls")
    parser.add_argument("--server", action="store_true", help="with --policy: a server samples the completions")
    parser.add_argument("--staleness", type=int, default=0, help="with --server: rollouts that the server samples ahead")
    args = parser.parse_args()
    global OBJECTIVE, POLICY, TOOLS, SERVER, STALENESS
    OBJECTIVE, POLICY, TOOLS, STALENESS = args.objective, args.policy, args.tools, args.staleness
    if args.server:
        sys.path.insert(0, str(TINY.parents[1] / "behaviour"))
        from completion_server import Server
        SERVER = Server(TINY, most_adapters=10 ** 6).__enter__()  # a killed client unloads nothing
    checks, rng = Checks(), random.Random(args.seed)
    with tempfile.TemporaryDirectory() as temporary:
        root = args.keep.resolve() if args.keep else Path(temporary)
        golden = root / "undisturbed"
        job, began = write_job(golden), time.monotonic()
        faults = complete(args.forge, job, 600)
        seconds = time.monotonic() - began
        checks.say(f"undisturbed run, {seconds:.2f} s", faults or compare(golden, golden))
        if not faults:
            for number in range(args.trials):
                trial = double_start_trial if number % 4 == 3 else kill_trial
                trial(checks, args.forge, root, golden, number, seconds, rng)
            for number in range(args.signals):
                queue_trial(checks, args.forge, root, golden, number, seconds, rng)
            term_trial(checks, args.forge, root, golden, seconds)
            double_interrupt_trial(checks, args.forge, root, golden, seconds)
            finished_trial(checks, args.forge, golden)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
