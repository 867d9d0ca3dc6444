#!/usr/bin/env python3
"""Checks that results leave forge whole: merged models, GGUF files, adapters and checkpoints, with
the real engine on the tiny model.

    python3 tests/export/export_test.py build/bin/forge [--only NAME]

Standard library only; prints "N passed, N failed".
"""
import argparse
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import ending_cases
import gguf_cases
import merge_cases
import serving_cases
import tower_cases
from lab import Lab


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    failed = 0
    folder = Path(tempfile.mkdtemp(prefix="forge-export-"))
    try:
        lab = Lab(os.path.abspath(arguments.forge), folder)
        chosen = [case for case in [*merge_cases.CASES, *gguf_cases.CASES, *serving_cases.CASES, *tower_cases.CASES, *ending_cases.CASES] if not arguments.only or arguments.only in case.__name__]
        for case in chosen:
            try:
                case(lab)
                print(f"ok    {case.__name__}")
            except Exception:
                failed += 1
                print(f"FAIL  {case.__name__}\n{traceback.format_exc()}")
        print(f"{len(chosen) - failed} passed, {failed} failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
