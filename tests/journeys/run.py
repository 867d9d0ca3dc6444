#!/usr/bin/env python3
"""Runs journeys: forge as a user sees it.

    tests/journeys/run.py --forge build/bin/forge tests/journeys/*.test

A journey is a block of a .test file, separated by a blank line from the next, and runs in a folder
of its own:

    # A misspelt key is named, placed and corrected.
    file typo.yaml
      version: 1
      trian: {}
    $ forge validate typo.yaml
    exit 3
    typo.yaml:2:1: trian: unknown key (did you mean "train"?)

`file NAME` writes the indented lines below it; `bytes NAME` writes a Python bytes literal; `copy
NAME` copies tests/fixtures/NAME; `set NAME=VALUE` sets a variable. `$ command` is followed by the
exit code and then all of its output, stderr and stdout together. "…" matches any text within a
line, or alone any number of lines.
"""
import argparse
import ast
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 60


class Journey:
    def __init__(self, path, line, title):
        self.path, self.line, self.title = path, line, title
        self.steps = []  # (kind, argument, body, line number)


def read_journeys(path):
    journeys, current = [], None
    lines = path.read_text(encoding="utf-8").split("\n")
    at_start = True
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("#"):
            if at_start:
                current = Journey(path, i + 1, line[1:].strip())
                journeys.append(current)
            at_start = False
        elif not line.strip():
            at_start = True
        elif line.startswith(("file ", "bytes ", "copy ", "set ", "$ ")):
            assert current, f"{path}:{i + 1}: a journey begins with # and its title"
            kind, argument = line.split(" ", 1)
            body, start = [], i + 1
            while i + 1 < len(lines):
                following = lines[i + 1]
                if kind == "$":
                    ends = not following.strip() or re.match(r"(\$|file|bytes|copy|set) ", following)
                else:
                    # A blank line belongs to the file if an indented one follows.
                    rest = next((l for l in lines[i + 1:] if l.strip()), "")
                    ends = not following.startswith("  ") and not (not following.strip() and rest.startswith("  "))
                if ends:
                    break
                body.append(following)
                i += 1
            current.steps.append((kind, argument, body, start))
            at_start = False
        else:
            raise SystemExit(f"{path}:{i + 1}: not understood: {line}")
        i += 1
    return journeys


def matches(expected, actual):
    """True if the lines match, with "…" as a wildcard."""
    if not expected:
        return not actual
    if expected[0] == "…":
        return any(matches(expected[1:], actual[k:]) for k in range(len(actual) + 1))
    if not actual:
        return False
    pattern = ".*".join(re.escape(part) for part in expected[0].split("…"))
    return re.fullmatch(pattern, actual[0]) is not None and matches(expected[1:], actual[1:])


def run_command(command, folder, environment):
    process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\n(no end within {TIMEOUT_S} s)".encode()
    return process.returncode, output.decode("utf-8", "backslashreplace")


def perform(journey, environment, update):
    """Returns the first difference as text, or None. With `update`, the expected output becomes the
    actual one.
    """
    with tempfile.TemporaryDirectory(prefix="forge-journey-") as folder:
        folder = os.path.realpath(folder)
        environment = dict(environment, HOME=folder, XDG_CACHE_HOME=folder + "/.cache", TMPDIR=folder)
        for index, (kind, argument, body, line) in enumerate(journey.steps):
            target = pathlib.Path(folder, argument)
            if kind in ("file", "bytes"):
                target.parent.mkdir(parents=True, exist_ok=True)
                text = "".join(row[2:] + "\n" for row in body)
                target.write_bytes(text.encode() if kind == "file" else ast.literal_eval(text.strip()))
            elif kind == "copy":
                source = HERE.parent / "fixtures" / argument
                (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
            elif kind == "set":
                name, value = argument.split("=", 1)
                environment[name] = value.replace("$HERE", str(HERE)).replace("$PWD", folder)
            else:
                code, output = run_command(argument, folder, environment)
                output = output.replace(folder + "/", "").replace(folder, ".")
                actual = [f"exit {code}"] + [row.rstrip() or "·" for row in output.rstrip("\n").split("\n") if output]
                if update:
                    journey.steps[index] = (kind, argument, actual, line)
                elif not matches(body, actual):
                    return (f"{journey.path}:{line}: {journey.title}\n$ {argument}\n--- expected\n" + "\n".join(body) +
                            "\n+++ actual\n" + "\n".join(actual))
    return None


def write_back(path, journeys):
    text = []
    for journey in journeys:
        text.append(f"# {journey.title}")
        for kind, argument, body, _ in journey.steps:
            text += [f"{kind} {argument}", *body]
        text.append("")
    path.write_text("\n".join(text), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--forge", required=True)
    parser.add_argument("--real-engine", action="store_true", help="use forge's own engine, not the fake one")
    parser.add_argument("--update", action="store_true", help="write the actual output into the files")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    environment = {name: os.environ[name] for name in ("PATH", "FORGE_TORCH_DIR", "FORGE_ENGINE", "LD_LIBRARY_PATH")
                   if name in os.environ}
    # A journey that depends on the processor says so; all others see the same one on every machine.
    environment |= {"FORGE_CPU": "avx2", "PATH": str(pathlib.Path(options.forge).resolve().parent) + ":" + environment.get("PATH", ""),
                    "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory(prefix="forge-torch-") as torch:
        if not options.real_engine:
            library = pathlib.Path(torch, "torch", "lib")
            library.mkdir(parents=True)
            (library / "libtorch_cpu.so").touch()
            (library.parent / "version.py").write_text("__version__ = '2.11.0'\n")
            environment |= {"FORGE_ENGINE": str(HERE / "fake_engine.py"), "FORGE_TORCH_DIR": torch}
        count, failures = 0, []
        for path in options.files:
            journeys = read_journeys(path)
            assert journeys, f"{path} holds no journey"
            for journey in journeys:
                count += 1
                failure = perform(journey, environment, options.update)
                if failure:
                    failures.append(failure)
            if options.update:
                write_back(path, journeys)
    print("\n\n".join(failures))
    print(f"{count} journeys, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
