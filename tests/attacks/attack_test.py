#!/usr/bin/env python3
"""Attacks forge at random: with files of a run changed between two parts of it, and with wrong
servers, hubs and jobs.

    python3 tests/attacks/attack_test.py build/bin/forge [--kind tamper|server|hub|job] [--count N] [--seed S]

After each attack forge must have ended by itself, without a signal and with an exit code other than
70 (a bug). A run that ended with 0 must have the adapter of the undisturbed run if the attack
changed nothing that the run was told to use. This takes long: FORGE_TEST_SAMPLE takes some of each
kind (tests/sample.py). Standard library only; prints each failure with the seed that repeats it,
and "N passed, N failed".
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS), str(TESTS / "kill"), str(TESTS / "behaviour"), str(TESTS / "hub")]

import kill_test  # noqa: E402
import server_cases  # noqa: E402
from completion_server import Server  # noqa: E402
from fake_hub import FakeHub  # noqa: E402
from lab import MODEL, Lab  # noqa: E402
from mutate import bytes_mutated, json_mutated, text_mutated  # noqa: E402
from sample import in_sample  # noqa: E402

COUNTS = {"tamper": 200, "server": 60, "hub": 40, "job": 2000}
COMMITS = {"tamper": 12, "server": 6, "hub": 4, "job": 20}  # one in so many commits runs a case
REFUSALS = {2, 3, 4, 5, 6, 7, 8}  # exit codes that state a fault of the input or the machine
LIMIT_S = 120


def ended(command: list, cwd: Path, environment: dict | None = None) -> tuple:
    """Runs a command; returns (exit code, output)."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=LIMIT_S, env=environment, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, f"not done after {LIMIT_S} s"
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def fault_of(code: int | None, said: str, allowed: set) -> str:
    return "" if code in allowed else f"exit {code}: {said[-600:]}"


class Tamper:
    """Stops a run of 12 steps partway, changes one of its files, then repeats the same command."""
    OBJECTIVES = ("sft", "dpo", "kto", "grpo")

    def __init__(self, forge: str, root: Path):
        self.forge, self.root, self.states = forge, root, {}

    def state(self, objective: str) -> tuple:
        """Returns the folder of the partial run and the adapter of the complete one."""
        if objective not in self.states:
            kill_test.POLICY = objective if objective == "grpo" else None
            work = self.root / objective
            job = kill_test.write_job(work, 12, 4, None if kill_test.POLICY else objective)
            # The trainer keeps every checkpoint, so that going back means removing some.
            settings = json.loads(job.read_text())
            settings["checkpoint"]["keep_last"] = 9
            job.write_text(json.dumps(settings))
            assert not kill_test.complete(self.forge, job, LIMIT_S), (work / "output.log").read_text()[-800:]
            run = work / "runs/small"
            whole = (run / "adapter/adapter_model.safetensors").read_bytes()
            (run / "report.json").unlink()
            shutil.rmtree(run / "adapter")
            for checkpoint in (run / "checkpoints").iterdir():
                if int(checkpoint.name[5:]) > 8:
                    shutil.rmtree(checkpoint)
            shutil.copytree(work / "runs", self.root / f"{objective}-half")
            self.states[objective] = (work, whole)
        return self.states[objective]

    def attack(self, number: int, rng: random.Random) -> str:
        objective = self.OBJECTIVES[number % len(self.OBJECTIVES)]
        work, whole = self.state(objective)
        shutil.rmtree(work / "runs", ignore_errors=True)
        shutil.copytree(self.root / f"{objective}-half", work / "runs")
        files = sorted(path for path in (work / "runs").rglob("*") if path.is_file())
        path = rng.choice(files)
        content = bytes_mutated(path.read_bytes(), rng)
        path.write_bytes(content)
        name = path.relative_to(work)
        code, said = ended([self.forge, "run", str(work / "small.json")], work)
        fault = fault_of(code, said, {0} | REFUSALS)
        if not fault and code == 0 and (work / "runs/small/adapter/adapter_model.safetensors").read_bytes() != whole:
            fault = f"exit 0 with another adapter: {said[-600:]}"
        return f"{objective}, {name}: {fault}" if fault else ""


class Served:
    """A server whose every completion may be wrong."""

    def __init__(self, forge: str, root: Path):
        self.forge, self.root = forge, root

    def attack(self, number: int, rng: random.Random) -> str:
        folder = self.root / f"served-{number}"
        folder.mkdir()
        lab = Lab(self.forge, folder)
        with Server(MODEL) as server:
            rate = rng.choice((0.02, 0.2, 1))
            plain = server.send

            def send(handler, status, body, **more):
                if rng.random() < rate:
                    body = text_mutated(json.loads(body), rng) if body.startswith(b"{") else bytes_mutated(body, rng)
                    status = rng.choice((status, status, status, 204, 302, 400, 500))
                return plain(handler, status, body, **more)

            server.send = send
            sections = server_cases.served(lab, server, timeout=3)
            job = lab.job | {"name": "run"}
            for section, values in sections.items():
                job[section] = job.get(section, {}) | values if isinstance(values, dict) else values
            (folder / "run.json").write_text(json.dumps(job))
            code, said = ended([self.forge, "run", str(folder / "run.json")], folder)
        shutil.rmtree(folder)
        return fault_of(code, said, {0, 5, 7})


class Hub:
    """A hub whose listing, heads or bytes are wrong."""

    def __init__(self, forge: str, root: Path):
        self.forge, self.root = forge, root
        self.files = {path.name: path.read_bytes() for path in sorted(MODEL.iterdir())}

    def attack(self, number: int, rng: random.Random) -> str:
        home = self.root / f"hub-{number}"
        hub = FakeHub({"models/org/tiny": self.files})

        def trouble(ask) -> bool:
            if ask.path.startswith("/api/"):
                return ask.send(200, {}, text_mutated(json.loads(ask.content), rng))
            if rng.random() < 0.2:
                return ask.send(rng.choice((200, 206, 302, 416)), {"Location": "/" * rng.randrange(9), "Content-Range": "bytes 1-0/x",
                                                                   "X-Linked-Size": "-1", "ETag": '"\x7f"'}, bytes_mutated(ask.content, rng))
            return False

        hub.trouble = trouble
        try:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
            code, said = ended([self.forge, "fetch", "org/tiny"], self.root, environment | {"HF_HOME": str(home), "HF_ENDPOINT": hub.endpoint})
        finally:
            hub.close()
        outside = [path for path in self.root.iterdir() if path != home]
        shutil.rmtree(home, ignore_errors=True)
        return fault_of(code, said, {0, 5}) or (f"written outside its cache: {outside}" if outside else "")


class Jobs:
    """Plans a good job with some of its values made wrong."""

    def __init__(self, forge: str, root: Path):
        self.forge, self.root = forge, root
        lab = Lab(forge, root)
        schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}
        (root / "schema.json").write_text(json.dumps(schema))
        (root / "rows.jsonl").write_text("".join(json.dumps({"prompt": f"What is {i}?", "answer": str(i), "chosen": f"{i}.", "rejected": "No."}) + "\n"
                                                 for i in range(20)))
        plain = lab.job | {"schedule": {"type": "cosine", "warmup_ratio": 0.1}, "eval": {"every_steps": 4}}
        plain["data"] = plain["data"] | {"eval_fraction": 0.2, "max_length": 128}
        rows = {"train": [{"path": str(root / "rows.jsonl")}], "max_length": 64}
        drawn = plain | {"objective": {"type": "grpo", "kl": 0.1}, "data": rows, "rollout": {"max_new_tokens": 8, "samples_per_prompt": 2},
                         "train": {"max_steps": 3}, "rewards": [{"type": "exact"}, {"type": "json_schema", "schema": str(root / "schema.json"), "weight": 0.1}]}
        self.jobs = [plain, plain | {"objective": {"type": "dpo", "beta": 0.1}, "data": rows}, drawn]

    def attack(self, number: int, rng: random.Random) -> str:
        job = rng.choice(self.jobs)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            job = json_mutated(job, rng)
        text = json.dumps(job).encode()
        path = self.root / ("job.yaml" if rng.random() < 0.5 else "job.json")
        path.write_bytes(bytes_mutated(text, rng) if rng.random() < 0.15 else text)
        code, said = ended([self.forge, rng.choice(("validate", "validate", "plan")), str(path)], self.root)
        return fault_of(code, said, {0} | REFUSALS)


KINDS = {"tamper": Tamper, "server": Served, "hub": Hub, "job": Jobs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--count", type=int, help="attacks of each kind (default: %s)" % COUNTS)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    passed = failed = 0
    for kind in args.kind or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            attacker = KINDS[kind](args.forge, Path(folder))
            for number in range(args.count or COUNTS[kind]):
                name = f"{kind} {args.seed} {number}"
                if not in_sample(name, COMMITS[kind]):
                    continue
                try:
                    fault = attacker.attack(number, random.Random(name))
                except KeyboardInterrupt:
                    print(f"{kind}: stopped before {number}: {passed} passed, {failed} failed", flush=True)
                    return 1
                passed, failed = passed + (not fault), failed + bool(fault)
                if fault:
                    print(f"FAIL {name}: {fault}", flush=True)
        print(f"{kind}: {passed} passed, {failed} failed so far", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
