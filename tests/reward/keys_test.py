#!/usr/bin/env python3
"""Checks that no key of a reward is accepted and ignored: a value other than the default changes
what forge score says.

    python3 tests/reward/keys_test.py build/bin/forge

KEYS lists every key below `rewards` and `reward_mix` of the job schema with another value, and with
the reward under which it has a meaning. Standard library only; prints "N passed, N failed".
"""
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROWS = [
    {"prompt": "p", "answer": "4", "other": "5", "n": 3, "completions": ["it is 4 or\n#### 5", "A b", " x ", "<a>1</a> 4.1"]},
    {"prompt": "q", "answer": "5", "other": "4", "n": 5, "completions": ["the the the the", 'so {"a": 1}', "(5)", "5%"]},
]
JUDGE = """import json, os, resource, sys
json.loads(sys.stdin.readline())
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    if "id" in item:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        info = [os.path.basename(os.getcwd()), "GIVEN" in os.environ, limit]
        print(json.dumps({"id": item["id"], "score": 1, "info": json.dumps(info)}), flush=True)
"""
SLOW = JUDGE.replace("        limit", "        import time; time.sleep(1.5)\n        limit")
WORDS = {"type": "length", "unit": "words", "max": 3}
NUMBER = {"type": "numeric"}
COMMAND = {"type": "command", "command": ["python3", "judge.py"]}
HTTP = {"type": "http", "url": "{server}/one"}


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            time.sleep(1.5)
        score = float(self.headers["X-Score"] or (2 if self.path == "/two" else 1))
        body = json.dumps({"score": score, "other": 3}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


SERVER = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)

# {key: (value, the reward beside it)}
KEYS = {
    "rewards.name": ("other", NUMBER),
    "rewards.type": ("math", {"type": "numeric", "extract": "whole"}),
    "rewards.weight": (0.5, NUMBER),
    "rewards.requires": ("first", WORDS),
    "rewards.on_error": ("unscored", {"type": "numeric", "answer": "missing", "max_unscored": 1}),
    "rewards.max_unscored": (1, {"type": "numeric", "answer": "missing", "on_error": "unscored"}),
    "rewards.answer": ("other", NUMBER),
    "rewards.extract": ("after ####", NUMBER),
    "rewards.strip": (False, {"type": "exact", "answer": "x"}),
    "rewards.casefold": (True, {"type": "contains", "all": ["a B"]}),
    "rewards.tolerance": (0.05, NUMBER),
    "rewards.partial": (0.5, NUMBER),
    "rewards.choices": (["4", "5", "A"], {"type": "choice", "choices": ["4", "5"]}),
    "rewards.all": (["the"], {"type": "contains", "none": ["a"]}),
    "rewards.none": (["the"], {"type": "contains", "all": ["a"]}),
    "rewards.pattern": ("A", {"type": "regex", "pattern": "4"}),
    "rewards.match": ("full", {"type": "regex", "pattern": "A"}),
    "rewards.schema": ("lists.json", {"type": "json_schema", "where": "last", "schema": "objects.json"}),
    "rewards.where": ("last", {"type": "json_schema", "schema": "anything.json"}),
    "rewards.tags": (["b"], {"type": "tags", "tags": ["a"]}),
    "rewards.strict": (True, {"type": "tags", "tags": ["a"]}),
    "rewards.unit": ("characters", {"type": "length", "unit": "words", "max": 3}),
    "rewards.min": (2, WORDS),
    "rewards.max": (1, WORDS),
    "rewards.target": ("n", {"type": "length", "unit": "words"}),
    "rewards.slack": (4, WORDS),
    "rewards.ngram": (1, {"type": "repetition"}),
    "rewards.buffer": (3, {"type": "overlong", "max": 8, "buffer": 6}),
    "rewards.penalty": (2, {"type": "repetition"}),
    "rewards.command": (["python3", "other.py"], COMMAND),
    "rewards.workers": (8, {**COMMAND, "command": ["python3", "slow.py"]}),
    "rewards.timeout": (0.2, {**COMMAND, "command": ["python3", "slow.py"], "on_error": "unscored", "max_unscored": 1}),
    "rewards.memory_limit": ("1GiB", COMMAND),
    "rewards.environment": (["GIVEN"], COMMAND),
    "rewards.directory": ("below", {**COMMAND, "command": ["python3", "{folder}/judge.py"]}),
    "rewards.url": ("{server}/two", HTTP),
    "rewards.field": ("other", HTTP),
    "rewards.headers": ({"X-Score": "7"}, HTTP),
    "rewards.concurrency": (8, {**HTTP, "url": "{server}/slow", "concurrency": 1}),
    "rewards.path": ("missing-too", {"type": "model", "path": "missing"}),
    "reward_mix.normalize_each": (True, NUMBER),
    "reward_mix.clip": (0.5, NUMBER),
}


def seen(forge: str, folder: Path, reward: dict, mix: dict) -> dict:
    """Returns exit code and output of forge score, and whether it took more than 6 s, as a slow
    process does.
    """
    model = str(Path(__file__).resolve().parents[1] / "fixtures" / "tiny-llama")
    reward = json.loads(json.dumps(reward).replace("{folder}", str(folder)).replace("{server}", f"http://127.0.0.1:{SERVER.server_address[1]}"))
    job = {"model": model, "rewards": [{"name": "first", "type": "regex", "pattern": "4"}, {"name": "tried", **reward}], "reward_mix": mix}
    (folder / "job.json").write_text(json.dumps(job))
    begin = time.monotonic()
    done = subprocess.run([forge, "score", "--rewards", "job.json", "rows.jsonl", "--json"], cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "GIVEN": "1"})
    slow = time.monotonic() - begin > 6
    return {"exit": done.returncode, "said": done.stdout, "error": done.stderr, "slow": slow}


def check(forge: str, folder: Path, key: str) -> str:
    value, reward = KEYS[key]
    section, name = key.split(".")
    other = {**reward, name: value} if section == "rewards" else reward
    if key == "rewards.target":  # length needs one of both
        reward = {**reward, "max": 3}
    first = seen(forge, folder, reward, {})
    second = seen(forge, folder, other, {name: value} if section == "reward_mix" else {})
    for run in (first, second):
        if run["exit"] not in (0, 6, 5) or (run["exit"] and "missing" not in json.dumps(reward)):
            return f"ends with {run['exit']}: {run['error'][-500:]}"
    return "" if first != second else "makes no difference"


def main() -> int:
    forge = os.path.abspath(sys.argv[1])
    threading.Thread(target=SERVER.serve_forever, daemon=True).start()
    schema = json.loads(subprocess.run([forge, "schema", "job"], capture_output=True, text=True, check=True).stdout)["properties"]
    items = next(form for form in schema["rewards"]["anyOf"] if "properties" in form)
    known = ["rewards." + key for key in items["properties"]]
    known += ["reward_mix." + key for key in schema["reward_mix"]["properties"]]
    faults = {key: "stands in no test" for key in known if key not in KEYS}
    faults |= {key: "is no key of a reward" for key in KEYS if key not in known}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.jsonl").write_text("".join(json.dumps({**row, "x": "x"}) + "\n" for row in ROWS))
        (folder / "judge.py").write_text(JUDGE)
        (folder / "other.py").write_text(JUDGE.replace('"score": 1', '"score": 2'))
        (folder / "slow.py").write_text(SLOW)
        (folder / "objects.json").write_text('{"type": "object"}')
        (folder / "lists.json").write_text('{"type": "array"}')
        (folder / "anything.json").write_text("{}")
        (folder / "below").mkdir()
        for key in KEYS:
            if key in known and (fault := check(forge, folder, key)):
                faults[key] = fault
    for key, fault in faults.items():
        print(f"FAIL {key}: {fault}")
    print(f"{len(KEYS) - len(faults)} passed, {len(faults)} failed")
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
