"""A reward process that misbehaves as its first argument says. Standard library only.

    python3 hostile.py MODE [FILE]

Scores are the lengths of completions. FILE counts calls across restarts.
"""
import json
import os
import signal
import subprocess
import sys
import time

mode = sys.argv[1]
counter = sys.argv[2] if len(sys.argv) > 2 else None


def count() -> int:
    """Returns how often this was called in all processes of the test, before this time."""
    with open(counter, "a+") as file:
        file.seek(0)
        before = len(file.read())
        file.write("x")
    return before


def say(value) -> None:
    print(value if isinstance(value, str) else json.dumps(value), flush=True)


if mode == "dies-at-start":
    sys.exit("ImportError: no module named judge")
if mode == "silent-start":
    time.sleep(1000)
if mode == "blank-start":
    while True:
        sys.stdout.write("\n" * 65536)
hello = json.loads(sys.stdin.readline())
if mode == "no-greeting":
    say("Loading model …")
say({"ready": 1, "name": mode, "batch": mode in ("batch", "batch-killer", "backwards")})
held = []
for line in sys.stdin:
    item = json.loads(line)
    if "end" in item:
        for one in reversed(held):
            say({"id": one["id"], "score": len(one["completion"])})
        held = []
        continue
    text, number = item["completion"], item["id"]
    bad = "bad" in text
    good = {"id": number, "score": len(text), "info": "length"}
    if mode in ("batch", "backwards"):
        held.append(item)
        continue
    if mode == "slow-first" and number % 2 == 0:
        time.sleep(0.05)
    if mode == "hang" and bad:
        time.sleep(1000)
    if mode == "blank" and bad:
        while True:
            sys.stdout.write("\n" * 65536)
    if mode == "newlines":
        sys.stdout.write("\n" * 1_000_000)
    if mode == "hang-once" and bad and count() == 0:
        time.sleep(1000)
    if mode in ("crash", "batch-killer") and bad:
        print("Traceback: cannot judge", file=sys.stderr, flush=True)
        os._exit(3)
    if mode == "crash-once" and bad and count() == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "nan" and bad:
        good["score"] = float("nan")
    if mode == "infinite" and bad:
        say('{"id": %d, "score": 1e999}' % number)
        continue
    if mode == "text-score" and bad:
        good["score"] = "1"
    if mode == "no-score" and bad:
        del good["score"]
    if mode == "null" and bad:
        good = {"id": number, "score": None, "info": "cannot judge"}
    if mode == "error" and bad:
        good = {"id": number, "error": "no such test"}
    if mode == "unknown-id" and bad:
        good["id"] = 999
    if mode == "garbage" and bad:
        say("hello from a library")
    if mode == "list" and bad:
        say([1, 2])
        continue
    if mode == "binary" and bad:
        sys.stdout.buffer.write(b"\xff\xfe\x00\n")
    if mode == "long-line" and bad:
        sys.stdout.write("x" * (3 << 20))
        sys.stdout.flush()
        time.sleep(1000)
    if mode == "deep" and bad:
        say("[" * 100000)
        continue
    if mode == "closes-input" and bad:
        os.close(0)
        time.sleep(1000)
    if mode == "closes-output" and bad:
        os.close(1)
        time.sleep(1000)
    if mode == "parts":
        good["parts"] = {"passed": 3}
    if mode == "bad-parts":
        good["parts"] = {"passed": "three"}
    if mode == "forks":
        # The child is in the same group and holds the pipes.
        good["info"] = str(subprocess.Popen(["sleep", "1000"]).pid)
    if mode == "forks-and-dies" and bad:
        child = subprocess.Popen(["sleep", "1000"])
        print(child.pid, file=sys.stderr, flush=True)
        os._exit(4)
    if mode == "noisy":
        sys.stderr.write("noise " * 100000)
    if mode == "directory":
        good["info"] = os.getcwd()
    if mode == "memory" and bad:
        bytearray(1 << 30)
    if mode == "remarks":
        good |= {"info": "r" * 900_000, "unread": "u" * 100_000}
    if mode == "one-shot":
        say(good)
        sys.exit(0)
    if mode == "echo":
        good["info"] = json.dumps(item, sort_keys=True)
    if mode == "hello":
        good["info"] = json.dumps(hello, sort_keys=True)
    say(good)
    if mode == "twice" and bad:
        say(good)
if mode == "stays":
    while True:
        time.sleep(1000)
