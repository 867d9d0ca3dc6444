#!/usr/bin/env python3
"""What a run does when things go wrong or settings change, with the real engine on the tiny model.

    python3 tests/behaviour/behaviour_test.py build/bin/forge [--only NAME]

A case is a function of a lab alone in one of the modules below. Standard library only; prints "N passed, N failed".
"""
import argparse
import inspect
import os
import sys
import tempfile
import traceback
from pathlib import Path

import adapter_cases
import chat_cases
import judge_cases
import machine_cases
import plan_cases
import policy_cases
import protocol_cases
import resume_cases
import server_cases
import source_cases
import tool_cases
import training_cases
from lab import Lab

MODULES = (training_cases, resume_cases, machine_cases, adapter_cases, plan_cases, policy_cases, judge_cases, server_cases, source_cases, tool_cases,
           protocol_cases, chat_cases)
CASES = [function for module in MODULES for _, function in inspect.getmembers(module, inspect.isfunction)
         if function.__module__ == module.__name__ and list(inspect.signature(function).parameters) == ["lab"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    passed = failed = 0
    for case in CASES:
        if args.only not in case.__name__:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Lab(os.path.abspath(args.forge), Path(folder)))
                passed += 1
                print(f"ok   {case.__name__}", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL {case.__name__}\n{traceback.format_exc(limit=3)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
