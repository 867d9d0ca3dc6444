#!/usr/bin/env python3
"""forge fetch against a hub on this machine that cuts, lies, redirects and refuses; and no other
command opens a connection.

    python3 tests/hub/fetch_test.py build/bin/forge build/tests/hub/record_sockets.so build/tests/hub/old_curl.so [--only NAME]

Standard library only; prints "N passed, N failed".
"""
import argparse
import concurrent.futures
import contextlib
import fcntl
import inspect
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from fake_hub import COMMIT, FakeHub, etag

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"
NAME = "org/tiny"
ROWS = b"".join(json.dumps({"prompt": f"question {i}", "completion": f" answer {i}"}).encode() + b"\n" for i in range(40))


class Lab:
    def __init__(self, forge: str, sockets: str, old_curl: str, folder: Path):
        self.forge, self.sockets, self.old_curl, self.folder = forge, sockets, old_curl, folder
        weights = {path.name: path.read_bytes() for path in sorted(MODEL.iterdir())}
        weights |= {"README.md": b"# tiny", "onnx/model.onnx": b"x" * 5000, "pytorch_model.bin": b"y" * 5000}
        self.hub = FakeHub({f"models/{NAME}": weights, "datasets/org/rows": {"data/train.jsonl": ROWS, "README.md": b"rows"}})
        self.home = folder / "hf"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
        self.environment |= {"HF_HOME": str(self.home), "HF_ENDPOINT": self.hub.endpoint}

    @property
    def model(self) -> Path:
        return self.home / "hub" / "models--org--tiny"

    @property
    def snapshot(self) -> Path:
        return self.model / "snapshots" / COMMIT

    def forged(self, *arguments: str, code: int = 0, typed: str = "", **environment) -> str:
        done = subprocess.run([self.forge, *arguments], input=typed, capture_output=True, text=True, timeout=120, cwd=self.folder,
                              env=self.environment | environment)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{said[-2000:]}"
        return said

    def fetch(self, *arguments: str, code: int = 0, **environment) -> str:
        return self.forged("fetch", *(arguments or (NAME,)), code=code, **environment)

    def whole(self):
        """Checks that everything that forge reads is there, and no partial file."""
        for path in sorted(MODEL.iterdir()):
            assert (self.snapshot / path.name).read_bytes() == path.read_bytes(), path.name
        assert not list(self.model.rglob("*.incomplete")), list(self.model.rglob("*.incomplete"))
        assert (self.model / "refs" / "main").read_text() == COMMIT

    def nothing(self):
        """Checks that the revision has no commit, and no blob lies under a hash other than its own.
        """
        assert not (self.model / "refs").exists()
        blobs = self.model / "blobs"
        for blob in blobs.iterdir() if blobs.exists() else []:
            assert blob.suffix == ".incomplete" or etag(blob.read_bytes()) == blob.name, blob.name

    def job(self, **model) -> Path:
        path = self.folder / "job.json"
        path.write_text(json.dumps({
            "version": 1, "name": "run", "seed": 1, "model": {"repo": NAME} | model,
            "adapter": {"type": "lora", "rank": 2}, "data": {"train": [{"repo": "org/rows", "path": "data/*.jsonl"}], "max_length": 64},
            "train": {"max_steps": 2, "global_batch_size": 2}}))
        return path


def large(path: str) -> bool:
    return "/resolve/" in path and path.endswith("model.safetensors")


def a_model_is_fetched_as_its_cache_holds_it(lab: Lab):
    said = lab.fetch()
    lab.whole()
    assert str(lab.snapshot) in said, said
    assert not (lab.snapshot / "README.md").exists() and not (lab.snapshot / "pytorch_model.bin").exists()
    link = os.readlink(lab.snapshot / "model.safetensors")
    assert link == f"../../blobs/{etag((MODEL / 'model.safetensors').read_bytes())}", link
    before = len(lab.hub.seen)
    again = json.loads(lab.fetch(NAME, "--json"))["repositories"][0]
    assert again["downloaded"] == 0 and again["folder"] == str(lab.snapshot), again
    assert len(lab.hub.seen) == before + 1, "the listing alone is asked again"


def the_libcurl_of_an_older_system_fetches(lab: Lab):
    lab.fetch(NAME, LD_PRELOAD=lab.old_curl)
    lab.whole()


def a_job_names_the_hub_and_trains(lab: Lab):
    job = str(lab.job())
    said = lab.forged("plan", job, code=5)
    assert f"forge fetch {job}" in said, said
    lab.fetch(job)
    lab.whole()
    lab.forged("run", job, "--quiet")
    assert (lab.folder / "runs" / "run" / "adapter" / "adapter_model.safetensors").exists()
    assert "forge fetch" in lab.forged("validate", str(lab.job(revision="next"))), "a revision that is not here"


def hashes_are_asked_for_where_the_listing_has_none(lab: Lab):
    lab.hub.blobs = False
    lab.fetch()
    lab.whole()
    assert [one for one in lab.hub.seen if one[1] == "HEAD"]


def listed(lab: Lab, change) -> None:
    """Has the hub list its files as changed."""
    def answer(ask):
        if not ask.path.startswith("/api/"):
            return False
        listing = json.loads(ask.content)
        for one in listing["siblings"]:
            change(one)
        return ask.send(200, {}, json.dumps(listing).encode())

    lab.hub.trouble = answer


def hashes_that_are_no_texts_are_asked_for(lab: Lab):
    for blob, sha in ((7, 7), ([], []), (None, {}), ("0" * 39, "x")):
        listed(lab, lambda one: one.update({"blobId": blob} | ({"lfs": one["lfs"] | {"sha256": sha}} if "lfs" in one else {})))
        lab.hub.seen.clear()
        lab.fetch()
        lab.whole()
        assert [one for one in lab.hub.seen if one[1] == "HEAD"], (blob, sha)
        shutil.rmtree(lab.home)


def sizes_beyond_any_disk_are_refused_before_the_download(lab: Lab):
    for size in (2**62, 2**63 - 1):  # two of them are more than a number holds
        listed(lab, lambda one: one.update({"size": size} | ({"lfs": one["lfs"] | {"size": size}} if "lfs" in one else {})))
        said = lab.fetch(code=5)
        assert "need to be downloaded" in said and "are free" in said, said
        assert not [one for one in lab.hub.seen if "/resolve/" in one[2]], lab.hub.seen
        lab.nothing()


def cut_connections_go_on_where_they_were(lab: Lab):
    def cut(ask):
        if not (ask.cdn and large(ask.path)) or ask.count >= 3:
            return False
        asked = ask.handler.headers.get("Range")
        begin = int(asked[6:-1]) if asked else 0
        rest = ask.content[begin:]
        ask.handler.send_response(206 if asked else 200)
        ask.handler.send_header("Content-Length", str(len(rest)))
        if asked:
            ask.handler.send_header("Content-Range", f"bytes {begin}-{len(ask.content) - 1}/{len(ask.content)}")
        ask.handler.end_headers()
        ask.handler.wfile.write(rest[:1000])
        ask.handler.wfile.flush()
        ask.handler.close_connection = True
        return True

    lab.hub.trouble = cut
    said = lab.fetch()
    lab.whole()
    assert said.count("again in") == 3, said
    ranges = [one[4] for one in lab.hub.asked("model.safetensors") if one[0]]
    assert ranges == [None, "bytes=1000-", "bytes=2000-", "bytes=3000-"], ranges


def a_server_without_ranges_begins_anew(lab: Lab):
    blob = lab.model / "blobs" / (etag((MODEL / "model.safetensors").read_bytes()) + ".incomplete")
    blob.parent.mkdir(parents=True)
    blob.write_bytes((MODEL / "model.safetensors").read_bytes()[:500])
    lab.hub.trouble = lambda ask: ask.cdn and large(ask.path) and ask.send(200, {}, ask.content)
    lab.fetch()
    lab.whole()


def another_beginning_is_noticed(lab: Lab):
    blob = lab.model / "blobs" / (etag((MODEL / "model.safetensors").read_bytes()) + ".incomplete")
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"\0" * 500)
    lab.fetch()
    lab.whole()


def a_wrong_hash_keeps_nothing(lab: Lab):
    def lie(ask):
        return ask.cdn and large(ask.path) and ask.send(200, {}, bytes([ask.content[0] ^ 1]) + ask.content[1:])

    lab.hub.trouble = lie
    said = lab.fetch(code=5)
    assert "does not have the stated hash" in said and "model.safetensors" in said, said
    lab.nothing()
    assert not list(lab.model.rglob("*.incomplete"))
    shutil.rmtree(lab.model)
    small = lambda ask: "/resolve/" in ask.path and ask.path.endswith("/config.json") and ask.send(200, {}, b"[" + ask.content[1:])
    lab.hub.trouble = small
    assert "config.json: the download" in lab.fetch(code=5)
    lab.nothing()


def more_bytes_than_stated_are_refused(lab: Lab):
    lab.hub.trouble = lambda ask: ask.cdn and large(ask.path) and ask.send(200, {}, ask.content + b"more")
    assert "sends more than" in lab.fetch(code=5)
    lab.nothing()


def a_token_goes_to_the_hub_alone(lab: Lab):
    lab.hub.token = "hf_secret"
    said = lab.fetch(code=5)
    assert "HF_TOKEN" in said and "gated" in said, said
    lab.home.mkdir(exist_ok=True)
    (lab.home / "token").write_text("hf_secret\n")
    lab.fetch()
    lab.whole()
    for cdn, method, path, authorization, _ in lab.hub.seen[1:]:
        assert (authorization is None) == cdn, (cdn, method, path, authorization)
    shutil.rmtree(lab.model)
    said = lab.fetch(code=5, HF_TOKEN="hf_wrong")
    assert "hf_wrong" not in said and "hf_secret" not in said, said
    lab.fetch(code=5, HF_HUB_DISABLE_IMPLICIT_TOKEN="1")


def relative_redirects_keep_the_token(lab: Lab):
    lab.hub.token = "hf_secret"

    def move(ask):
        if "/resolve/" in ask.path and not ask.cdn and "moved" not in ask.path and large(ask.path):
            return ask.send(307, {"Location": ask.handler.path + "?moved"})
        if "moved" in ask.path and ask.handler.headers.get("Authorization") == "Bearer hf_secret":
            lab.hub.send_content(type(ask)(ask.handler, ask.path, ask.cdn, ask.count, (MODEL / "model.safetensors").read_bytes()))
            return True
        return False

    lab.hub.trouble = move
    lab.fetch(HF_TOKEN="hf_secret")
    lab.whole()


def a_loop_of_redirects_ends(lab: Lab):
    lab.hub.trouble = lambda ask: large(ask.path) and ask.send(302, {"Location": ask.handler.path})
    began = time.monotonic()
    lab.fetch(code=5)
    assert time.monotonic() - began < 60
    lab.nothing()


def a_busy_server_is_asked_later(lab: Lab):
    def busy(ask):
        return ask.count < 2 and ask.path.startswith("/api/") and ask.send(429, {"Retry-After": "1"})

    lab.hub.trouble = busy
    began = time.monotonic()
    said = lab.fetch()
    lab.whole()
    assert time.monotonic() - began >= 2 and "again in 1 s" in said, said
    shutil.rmtree(lab.model)
    lab.hub.counts.clear()
    lab.hub.trouble = lambda ask: ask.count < 2 and ask.send(503, {})
    lab.fetch()
    lab.whole()


def a_server_that_never_recovers_is_named(lab: Lab):
    lab.hub.trouble = lambda ask: ask.send(500, {})
    assert "answered 500" in lab.fetch(code=5)
    lab.hub.close()
    said = lab.fetch(code=5)
    assert "again in" in said and "Traceback" not in said, said


def what_is_not_there_is_said(lab: Lab):
    assert "org/none: is not on" in lab.fetch("org/none", code=5)
    assert "has no revision v9" in lab.fetch(NAME, "--revision", "v9", code=5)
    assert "did you mean" in lab.fetch(NAME, "--include", "modle.safetensors", code=5)
    lab.hub.trouble = lambda ask: ask.send(403, {"X-Error-Code": "GatedRepo"})
    assert "is gated" in lab.fetch(code=5)
    assert "HF_TOKEN" in lab.fetch(code=5, HF_TOKEN="hf_x")
    lab.hub.trouble = lambda ask: ask.send(200, {}, b"<html>please log in</html>")
    lab.fetch(code=5)
    lab.hub.trouble = lambda ask: ask.send(200, {}, b'{"sha": "main", "siblings": []}')
    assert "not the answer of a hub" in lab.fetch(code=5)
    lab.nothing()
    for name in ("a/b/c", "../no-such-file", "org/..", "org/-x", "org/a b"):
        assert "neither a job file nor a repository" in lab.fetch(name, code=2), name


def names_lead_nowhere_else(lab: Lab):
    for path in ("../../../evil.json", "/etc/evil.json", "a/../../evil.json", "x\x1b[2J.json", "a//b.json"):
        lab.hub.repositories[f"models/{NAME}"] = {"config.json": b"{}", "model.safetensors": b"x", path: b"evil"}
        assert "leads out of" in lab.fetch(code=5), path
    assert not list(lab.folder.rglob("evil*"))


def a_gguf_is_asked_for_by_name(lab: Lab):
    lab.hub.repositories[f"models/{NAME}"] = {"a-Q4_K_M.gguf": b"q" * 2000, "a-F16.gguf": b"f" * 2000, "README.md": b""}
    said = lab.fetch(code=5)
    assert "2 GGUF files" in said and "path: a-" in said, said
    lab.fetch(NAME, "--include", "*Q4*")
    assert sorted(p.name for p in lab.snapshot.iterdir()) == ["a-Q4_K_M.gguf"]
    lab.fetch(str(lab.job(path="a-F16.gguf")))
    assert (lab.snapshot / "a-F16.gguf").exists()


def offline_opens_nothing(lab: Lab):
    for option, environment in ((("--offline",), {}), ((), {"HF_HUB_OFFLINE": "1"})):
        assert "no connection may be opened" in lab.fetch(NAME, *option, code=5, **environment)
    assert not lab.hub.seen
    lab.fetch()
    before = len(lab.hub.seen)
    assert lab.fetch(NAME, "--offline").strip() == str(lab.snapshot)
    assert len(lab.hub.seen) == before


def an_endpoint_is_an_address(lab: Lab):
    started = time.monotonic()
    assert 'HF_ENDPOINT is "hub.example"' in lab.fetch(NAME, code=5, HF_ENDPOINT="hub.example")
    assert time.monotonic() - started < 5, "it was tried again"


def a_server_that_trickles_is_given_up(lab: Lab):
    """Each connection brings ten bytes, or alternately ten bytes and the statement that there are
    no more.
    """
    def few(ask):
        if not (ask.cdn and large(ask.path)):
            return False
        if alternating and ask.count % 2:
            return ask.send(416, {})
        asked = ask.handler.headers.get("Range")
        begin = int(asked[6:-1]) if asked else 0
        size = len(ask.content)
        ask.handler.send_response(206 if asked else 200)
        ask.handler.send_header("Content-Length", str(size - begin))
        ask.handler.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        ask.handler.end_headers()
        ask.handler.wfile.write(ask.content[begin:begin + 10])
        ask.handler.close_connection = True
        return True

    lab.hub.trouble = few
    for alternating in (False, True):
        lab.fetch(code=5)
        lab.nothing()
        tried = len([one for one in lab.hub.asked("model.safetensors") if one[0]])
        assert tried <= 20, tried
        lab.hub.seen.clear()
        lab.hub.counts.clear()


def another_fetch_is_waited_for(lab: Lab):
    blob = etag((MODEL / "model.safetensors").read_bytes())
    lock = lab.home / "hub" / ".locks" / "models--org--tiny" / f"{blob}.lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = subprocess.Popen([lab.forge, "fetch", NAME], env=lab.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        while "waiting for another process" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        assert str(lock) in said, said
        interrupted = subprocess.Popen([lab.forge, "fetch", NAME], env=lab.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert "waiting" in interrupted.stderr.readline()
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(5) == 130
    assert process.wait(60) == 0
    lab.whole()


def a_killed_fetch_goes_on(lab: Lab):
    weights = random.Random(1).randbytes(1 << 20)
    lab.hub.repositories[f"models/{NAME}"]["model.safetensors"] = weights

    def slow(ask):
        if not (ask.cdn and large(ask.path)) or ask.handler.headers.get("Range"):
            return False
        ask.handler.send_response(200)
        ask.handler.send_header("Content-Length", str(len(weights)))
        ask.handler.end_headers()
        ask.handler.wfile.write(weights[:300000])
        ask.handler.wfile.flush()
        time.sleep(20)
        return True

    lab.hub.trouble = slow
    process = subprocess.Popen([lab.forge, "fetch", NAME], env=lab.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    partial = lab.model / "blobs" / (etag(weights) + ".incomplete")
    deadline = time.monotonic() + 30
    while not (partial.exists() and partial.stat().st_size == 300000) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lab.nothing()
    lab.fetch()
    assert (lab.snapshot / "model.safetensors").read_bytes() == weights
    assert [one[4] for one in lab.hub.asked("model.safetensors") if one[0]][-1] == "bytes=300000-"


def commands_that_work(folder: Path) -> list:
    """Returns every command but fetch as (words, stdin), in an order in which each has what it
    needs.
    """
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"question {i}", "answer": "a"}) + "\n" for i in range(4)))
    (folder / "rewarded.jsonl").write_text(json.dumps({"prompt": "p", "completion": "a b", "answer": "a b"}) + "\n")
    drawn = json.loads((folder / "job.json").read_text()) | {
        "name": "drawn", "objective": {"type": "grpo"}, "rewards": [{"type": "exact"}], "data": {"train": "prompts.jsonl", "max_length": 64}, "train": {"max_steps": 2},
        "rollout": {"prompts_per_step": 2, "samples_per_prompt": 2, "max_new_tokens": 4}}
    (folder / "drawn.json").write_text(json.dumps(drawn))
    answer = ["--max-new-tokens", "2"]
    words = [["validate", "job.json"], ["plan", "job.json"], ["data", "job.json", "--show", "1", "--dump", "dump.jsonl"], ["run", "job.json", "--quiet"],
             ["run", "drawn.json", "--quiet"], ["rollouts", "runs/drawn"], ["score", "rewarded.jsonl", "--rewards", "drawn.json"],
             ["eval", "runs/run", "--data", "train.jsonl"], ["eval", "runs/run", "--data", "train.jsonl", "--task", "answers", *answer],
             ["generate", "runs/run", "--prompt", "question 1", *answer], ["merge", "runs/run"], ["export", "runs/run", "--gguf"],
             ["export", "runs/run", "--ollama", "--type", "q8_0"], ["adapter", "check", "runs/run/adapter"], ["profile"], ["list"],
             ["list", "families"], ["family", "show", "phi3"], ["schema", "job"], ["doctor"], ["init", "new.yaml"], ["bench", "job.json"]]
    chat = ["chat", "runs/run", "--template", "chatml", *answer]
    return [(each, "") for each in words] + [(chat, "question 2\n/quit\n")]


def no_other_command_opens_a_connection(lab: Lab):
    lab.fetch(str(lab.job()))
    (lab.folder / "train.jsonl").write_bytes(ROWS)
    log, watched = lab.folder / "sockets.log", lab.folder / "watched.log"
    traced = {"LD_PRELOAD": lab.sockets, "SOCKETS_LOG": str(log), "SOCKETS_WATCHED": str(watched)}
    lab.fetch(NAME, **traced)
    assert log.exists() and log.read_text(), "the fetch itself is recorded"
    log.unlink()
    seen = set()
    for command, typed in commands_that_work(lab.folder):
        lab.forged(*command, typed=typed, **traced)
        assert not log.exists(), f"forge {' '.join(command)}: {log.read_text()}"
        seen.add(command[0])
    there = set(re.findall(r"^  ([a-z]+)  ", lab.forged("--help").split("Usage:")[1].split("Exit codes")[0], re.MULTILINE))
    assert seen == there - {"fetch"}, f"not traced: {there - {'fetch'} - seen}; unknown: {seen - there}"
    assert {"forge", "forge-engine"} <= set(watched.read_text().split()), watched.read_text()


CASES = [function for _, function in inspect.getmembers(sys.modules[__name__], inspect.isfunction)
         if list(inspect.signature(function).parameters) == ["lab"]]


def outcome(case, *files: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(*map(os.path.abspath, files), Path(folder))
        try:
            case(lab)
            print(f"ok   {case.__name__}", flush=True)
            return True
        except Exception:
            print(f"FAIL {case.__name__}\n{traceback.format_exc(limit=3)}", flush=True)
            return False
        finally:
            with contextlib.suppress(OSError):
                lab.hub.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("sockets")
    parser.add_argument("old_curl")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    cases = [case for case in CASES if args.only in case.__name__]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:  # they mostly wait
        outcomes = list(pool.map(lambda case: outcome(case, args.forge, args.sockets, args.old_curl), cases))
    passed, failed = outcomes.count(True), outcomes.count(False)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
