#!/usr/bin/env python3
"""Prints the ten slowest files of a build folder, in seconds of their last compilation, and the ten
slowest tests of its last run.

    scripts/slowest.py [BUILD]
"""
import pathlib
import re
import sys

MOST = 10


def files(build):
    """Returns {object: seconds} of Ninja's log, whose later lines replace earlier ones."""
    log = build / ".ninja_log"
    lines = log.read_text().splitlines()[1:] if log.exists() else []
    rows = (line.split("\t") for line in lines)
    times = {row[3].removeprefix(f"{build.resolve()}/"): (int(row[1]) - int(row[0])) / 1000 for row in rows}
    return {name: spent for name, spent in times.items() if name.endswith((".o", ".gch"))}


def tests(build):
    """Returns {test: seconds} of CTest's last run."""
    log = build / "Testing/Temporary/LastTest.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    found = re.findall(r"^\d+/\d+ Test: (\S+)$|^Test time = +([\d.]+) sec$", text, re.MULTILINE)
    names, times = [name for name, _ in found if name], [time for _, time in found if time]
    return {name: float(time) for name, time in zip(names, times)}


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    for title, times in ("files", files(build)), ("tests", tests(build)):
        print(f"slowest {title} of {len(times)}, {sum(times.values()):.0f} s in all:")
        for name, spent in sorted(times.items(), key=lambda item: -item[1])[:MOST]:
            print(f"  {spent:7.1f} s  {re.sub(r'CMakeFiles/[^/]*[.]dir/', '', name)}")


if __name__ == "__main__":
    main()
