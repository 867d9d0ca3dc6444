#!/usr/bin/env python3
"""Checks what a run does when things go wrong or settings change, with the real engine on the tiny
model.

    python3 tests/behaviour/behaviour_test.py build/bin/forge [GROUP …] [--only NAME]

A case is a function in GROUP_cases.py whose only parameter is a lab. Standard library only; prints
each case's seconds and "N passed, N failed".
"""
import argparse
import importlib
import inspect
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from lab import Lab

GROUPS = ("training", "resume", "machine", "adapter", "plan", "policy", "judge", "server", "source", "tool", "protocol", "chat", "output")


def cases_of(group: str) -> list:
    module = importlib.import_module(f"{group}_cases")
    return [function for _, function in inspect.getmembers(module, inspect.isfunction)
            if function.__module__ == module.__name__ and list(inspect.signature(function).parameters) == ["lab"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    cases = [case for group in args.groups or GROUPS for case in cases_of(group) if args.only in case.__name__] if set(args.groups) <= set(GROUPS) else []
    if not cases:
        parser.error(f"no case; groups are {', '.join(GROUPS)}")
    passed = failed = 0
    for case in cases:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Lab(os.path.abspath(args.forge), Path(folder)))
                passed += 1
                print(f"ok   {case.__name__}  {time.monotonic() - began:.1f} s", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL {case.__name__}\n{traceback.format_exc(limit=3)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
